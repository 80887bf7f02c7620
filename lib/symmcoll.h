/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libsymmcoll: collective communication for programs that train and serve
 * models.  This header includes all the others; each of them compiles alone.
 *
 * The calls of a first program, in their order:
 *
 *   symmcoll_init()         join the other ranks               world.h
 *   symmcoll_world_rank()   the number of this rank
 *   symmcoll_world_size()   the number of ranks
 *   symmcoll_world_group()  the group of all ranks
 *   symmcoll_broadcast()    copy a buffer to every rank        collectives.h
 *   symmcoll_all_reduce()   sum a buffer over all ranks
 *   symmcoll_work_wait()    wait for a non-blocking operation  work.h
 *   symmcoll_work_free()    release its handle
 *   symmcoll_last_error()   the detail of a failed call        error.h
 *   symmcoll_finalize()     leave the other ranks              world.h
 *
 * The rest:
 *
 *   types.h          status codes, element types, operations, options of a call
 *   collectives.h    all collectives on buffers
 *   group.h          groups of some ranks, streams, timeouts, abort
 *   pair.h           send, receive
 *   object.h         collectives on byte strings of any length
 *   work.h           callbacks on operations
 *   ddp.h            reducer: averages gradients during backward
 *   tensor.h         buffers with a shape
 *   functional.h     out-of-place collectives on tensors, with gradients
 *   fused.h          matrix products fused with a collective
 *   symm_mem.h       symmetric memory: allocation, signals
 *   symm_ops.h       one-sided access and reductions in symmetric memory
 *   symm_exchange.h  data movement in symmetric memory
 *   store.h          key-value stores
 *   rendezvous.h     a program's own init_method
 *   threads.h        ranks that are threads
 *   fake.h           one rank without its peers, for tests
 *   config.h, connectivity.h, trace.h   settings, topology, flight recorder
 *
 * Manual: symmcoll(7).
 */
#ifndef SYMMCOLL_H
#define SYMMCOLL_H

#include <symmcoll/collectives.h>
#include <symmcoll/config.h>
#include <symmcoll/connectivity.h>
#include <symmcoll/ddp.h>
#include <symmcoll/error.h>
#include <symmcoll/fake.h>
#include <symmcoll/functional.h>
#include <symmcoll/fused.h>
#include <symmcoll/group.h>
#include <symmcoll/object.h>
#include <symmcoll/pair.h>
#include <symmcoll/rendezvous.h>
#include <symmcoll/store.h>
#include <symmcoll/symm_exchange.h>
#include <symmcoll/symm_mem.h>
#include <symmcoll/symm_ops.h>
#include <symmcoll/tensor.h>
#include <symmcoll/threads.h>
#include <symmcoll/trace.h>
#include <symmcoll/types.h>
#include <symmcoll/work.h>
#include <symmcoll/world.h>

#endif
