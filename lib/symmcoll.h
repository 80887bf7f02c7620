/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libsymmcoll: collective communication for programs that train and serve
 * models.  This header includes all the others; each of them compiles alone.
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
