/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory without a name: sealed memfds.  Memory is reserved before use,
 * so that a machine without free memory causes an error in a call and not a
 * SIGBUS later.
 */
#ifndef SYMC_SEGMENT_MEMORY_H
#define SYMC_SEGMENT_MEMORY_H

#include "base/base.h"

/* memfd_create() with MFD_CLOEXEC, MFD_ALLOW_SEALING and the flags in `more`,
 * and with MFD_NOEXEC_SEAL if the kernel has it: with vm.memfd_noexec=2 the
 * kernel makes no others.  Returns a descriptor, or -1 with errno set. */
int symc_memory_memfd(const char *name, unsigned more);

/*
 * Makes nbytes of address space whose size is sealed.  None of it is backed by
 * memory until symc_memory_reserve().
 *
 * what  names the caller in messages
 *
 * Errors: NO_MEMORY (the message has the size needed and the size
 * available), SYSTEM.
 */
symmcoll_status_t symc_memory_create(
    const char *name, size_t nbytes, const char *what, int *fd);

/* Checks that a descriptor is a sealed memfd of nbytes bytes.  Errors: INVALID
 * (the rank it came from, expected and found). */
symmcoll_status_t symc_memory_check(
    int fd, size_t nbytes, const char *what, int rank);

/* Maps the first nbytes bytes.  A forked child does not inherit the mapping,
 * and mlockall() backs none of it before it is touched.  Errors: NO_MEMORY. */
symmcoll_status_t symc_memory_map(
    int fd, size_t nbytes, const char *what, void **at);

/* As symc_memory_map(), from an offset on, which is a multiple of the page
 * size. */
symmcoll_status_t symc_memory_map_part(
    int fd, uint64_t offset, size_t nbytes, const char *what, void **at);

/* Backs a part with memory; `what` names its purpose in messages.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_memory_reserve(
    int fd, size_t offset, size_t nbytes, const char *what);

/* As symc_memory_reserve(), for a memfd that may be backed in part and is at
 * least offset + nbytes long.  Only the bytes not yet backed need to be
 * available. */
symmcoll_status_t symc_memory_complete(
    int fd, uint64_t offset, size_t nbytes, const char *what);

/* Checks that a file of nbytes bytes is within RLIMIT_FSIZE: a longer one would
 * raise SIGXFSZ.  Errors: NO_MEMORY. */
symmcoll_status_t symc_memory_check_limit(const char *what, size_t nbytes);

/* Returns the bytes of a huge page of the kernel's default size, or 0 if it has
 * none. free_pages (out, may be NULL): how many are free. */
size_t symc_memory_huge_page(size_t *free_pages);

/* Returns the page size of a memfd, which may be made of huge pages. */
size_t symc_memory_page(int fd);

/* Returns how much memory is available to this process, or SIZE_MAX if unknown.
 * group (out): whether a limit of its control group determines the amount. */
size_t symc_memory_available(bool *group);

/* Locks the control group that limits symc_memory_available(), so that no other
 * rank allocates the remaining memory before this one has.  Returns a
 * descriptor of the group's folder, to be closed; -1 if there is no limit, or
 * if the lock is not acquired within ten seconds. */
int symc_memory_lock(void);

/* Populates this process's page tables for a part that begins on a page.  Best
 * effort. */
void symc_memory_populate(void *part, size_t nbytes);

#endif
