/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory without a name: sealed memfds, backed by memory before they are
 * used, so that a full machine is an error of a call and not a SIGBUS later.
 */
#ifndef SYMC_SEGMENT_MEMORY_H
#define SYMC_SEGMENT_MEMORY_H

#include "base/base.h"

/* memfd_create() with MFD_CLOEXEC and MFD_ALLOW_SEALING, and with MFD_NOEXEC_SEAL
 * where the kernel has that: with vm.memfd_noexec=2 it makes no others.  more: further
 * flags.  Returns a descriptor, or -1 with errno set. */
int symc_memory_memfd(const char *name, unsigned more);

/*
 * Make so many bytes of address space that nobody can shorten or grow; what
 * there is of it in memory is what symc_memory_reserve() has reserved.
 *
 * what  for messages: who asks
 *
 * Errors: NO_MEMORY (what was asked, what there was), SYSTEM.
 */
symmcoll_status_t symc_memory_create(
    const char *name, size_t nbytes, const char *what, int *fd);

/* Whether a descriptor is such memory of a size.  Errors: INVALID (expected and
 * found, and the rank it is of). */
symmcoll_status_t symc_memory_check(
    int fd, size_t nbytes, const char *what, int rank);

/* Map the first bytes.  A forked child does not have the mapping, and a program
 * that locks all its memory has no more of it there than it touches.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_memory_map(
    int fd, size_t nbytes, const char *what, void **at);

/* The same of a part that begins on a page. */
symmcoll_status_t symc_memory_map_part(
    int fd, uint64_t offset, size_t nbytes, const char *what, void **at);

/* Back a part with memory now; what says for what.  Errors: NO_MEMORY. */
symmcoll_status_t symc_memory_reserve(
    int fd, size_t offset, size_t nbytes, const char *what);

/* The same of a memfd that others may have backed in part; so many bytes from an
 * offset on are within it.  What is there already is not asked of the machine. */
symmcoll_status_t symc_memory_complete(
    int fd, uint64_t offset, size_t nbytes, const char *what);

/* Whether a file of so many bytes is within RLIMIT_FSIZE: one that is not would
 * raise SIGXFSZ.  Errors: NO_MEMORY. */
symmcoll_status_t symc_memory_check_limit(const char *what, size_t nbytes);

/* Bytes of a huge page of the kernel's default size, 0: it has none;
 * free_pages (out, or NULL): how many are free. */
size_t symc_memory_huge_page(size_t *free_pages);

/* Bytes of a page of a memfd: of a huge one, where it is made of those. */
size_t symc_memory_page(int fd);

/* How much memory there is for this process, SIZE_MAX where it is unknown; group
 * (out): the limit of its control group is what leaves so much. */
size_t symc_memory_available(bool *group);

/* Locks the limit that symc_memory_available() has found for this process's control
 * group, so that no other rank takes what is left before this one has: a lock of the
 * group's folder, to be closed; -1: there is no limit, or the lock was not to be had
 * within some seconds. */
int symc_memory_lock(void);

/* Let this process touch a part, which begins on a page, without page faults;
 * best effort. */
void symc_memory_populate(void *part, size_t nbytes);

#endif
