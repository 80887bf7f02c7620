/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common facilities of all modules: clocks, checked allocation, logging, and
 * with error.h errors.  Element types are in dtype.h, reductions in reduce.h.
 */
#ifndef SYMC_BASE_BASE_H
#define SYMC_BASE_BASE_H

#include "base/error.h"

#include <symmcoll/error.h>
#include <symmcoll/types.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- clock.c ---- */

#define SYMC_NS_PER_S INT64_C(1000000000)
#define SYMC_NEVER INT64_MAX /* a deadline that never passes */

int64_t symc_now_ns(void);  /* monotonic */
int64_t symc_wall_ns(void); /* wall time since 1970 */

/* Converts seconds to nanoseconds: 0 for values not above 0 and for NaN, at
 * least 1 for those above, SYMC_NEVER for INFINITY and out-of-range values. */
int64_t symc_seconds_ns(double seconds);

/*
 * Converts the timeout argument of a public function: a negative value selects
 * the setting, 0 does not block, INFINITY means no timeout (SYMC_NEVER).
 * `where` names the function in messages.  Errors: INVALID (NaN).
 */
symmcoll_status_t symc_timeout_read(
    const char *where, double seconds, int64_t setting_ns, int64_t *ns);

/* Returns the deadline of a wait that begins at now_ns; SYMC_NEVER stays
 * SYMC_NEVER. */
static inline int64_t symc_deadline_ns(int64_t now_ns, int64_t timeout_ns)
{
    return timeout_ns > SYMC_NEVER - now_ns ? SYMC_NEVER : now_ns + timeout_ns;
}

/*
 * Reads the cheapest clock of the processor, in its own ticks, for records that
 * are read later.  symc_tick_rate_measure() relates ticks to wall time.
 */
static inline uint64_t symc_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)symc_now_ns();
#endif
}

/* The wall time of a tick count is wall_ns + (ticks - ticks0) * ns_per_tick. */
struct symc_tick_rate {
    uint64_t ticks0;
    int64_t wall_ns;
    double ns_per_tick;
};
/* Measures the rate; takes about a millisecond the first time in a process. */
void symc_tick_rate_measure(struct symc_tick_rate *rate);
/* Returns the wall time of a tick count, or 0 if it is out of range. */
int64_t symc_tick_wall_ns(const struct symc_tick_rate *rate, uint64_t ticks);

/* ---- alloc.c ---- */

/* Compute product and sum; return false on overflow. */
static inline bool symc_multiply(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

static inline bool symc_add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

/* Returns whether two ranges of bytes overlap. */
static inline bool symc_overlap(
    const void *a, size_t a_nbytes, const void *b, size_t b_nbytes)
{
    return a_nbytes > 0 && b_nbytes > 0 &&
           (uintptr_t)a < (uintptr_t)b + b_nbytes &&
           (uintptr_t)b < (uintptr_t)a + a_nbytes;
}

/* Returns count * size zeroed bytes, or NULL on overflow or without memory,
 * with the detail of a NO_MEMORY set.  Release with free(). */
void *symc_alloc(size_t count, size_t size);

/* Returns a copy of text, allocated as by symc_alloc(). */
char *symc_strdup(const char *text);

/* ---- sized.c ---- */

/* A public struct that begins with its size, in the version of this library. */
struct symc_sized {
    const char *name;     /* the argument's name: "args" */
    const char *macro;    /* the macro that initialises it */
    const void *defaults; /* a complete struct of default values */
    size_t nbytes;
    size_t least; /* size in the oldest header that is accepted */
};

/*
 * Copies a caller's struct, of any accepted size, into one of this library's
 * size; NULL selects the defaults.  `where` names the call in messages.
 *
 * Errors: INVALID (the size is not valid, or a member that this library does
 * not know is set; expected and found).
 */
symmcoll_status_t symc_sized_read(const struct symc_sized *kind,
    const char *where, const void *given, void *copy);

/*
 * Copies one struct of a caller's array.  The size of the array's first struct
 * is the distance between elements, and every element has to have that size.
 * Elements are read in order, so the first one's size has been checked.
 *
 * Errors: INVALID (the size differs from the first one's, or as
 * symc_sized_read()).
 */
symmcoll_status_t symc_sized_read_at(const struct symc_sized *kind,
    const char *where, const void *array, size_t index, void *copy);

/* Writes a value to a caller's struct, as much as its size has room for.  The
 * size member is not changed.  Errors: as symc_sized_read(). */
symmcoll_status_t symc_sized_write(const struct symc_sized *kind,
    const char *where, const void *value, void *given);

/* ---- log.c ---- */

enum symc_log_level {
    SYMC_LOG_OFF,
    SYMC_LOG_ERROR,
    SYMC_LOG_WARN,
    SYMC_LOG_INFO,
    SYMC_LOG_DEBUG
};

/* The log settings of a rank. */
struct symc_log {
    enum symc_log_level level;
    int rank; /* -1 before the rank is known */
};

/* Writes one line to standard error in one write(): "symmcoll [rank 2]:
 * warning: ...". */
void symc_logf(const struct symc_log *log, enum symc_log_level level,
    const char *format, ...) SYMC_PRINTF(3, 4);

/* ---- variable.c ---- */

/* Returns whether the process has rights that its caller lacks: a setuid or
 * setgid program, or one with file capabilities; see secure_getenv(3). */
bool symc_process_is_privileged(void);

/* Returns an environment variable, borrowed, or NULL if it is not set;
 * always NULL in a privileged process.  No other code in lib/ reads the
 * environment. */
const char *symc_variable_get(const char *name);

/* Returns the environment as environ(7) has it; NULL in a privileged
 * process. */
char *const *symc_variables_get(void);

/* ---- folder.c ---- */

/*
 * Opens the folder of a file that is to be written, component by component.
 *
 * fd    out: the folder (O_PATH), for openat() and the like; to be closed
 * name  out: the file's name in the folder, a part of path
 *
 * No other user may redirect the path: a component in a folder that all users
 * can write to must belong to root, to this process's user or to the folder's
 * owner.  In a privileged process every folder must belong to root or to its
 * user and, unless it is sticky, not be writable by a group or others.
 *
 * Errors: INVALID (a component of another user, expected and found), SYSTEM.
 */
symmcoll_status_t symc_folder_open(
    const char *path, int *fd, const char **name);

/* ---- text.c ---- */

/* Formats bytes with the largest unit that divides them, "256 KiB", into a
 * buffer of 32. */
const char *symc_format_bytes(size_t nbytes, char *buffer);

/* Formats ranks as "1, 3-5 and 9"; ends in "..." if the buffer is too small. */
const char *symc_format_ranks(
    const bool *listed, int size, char *buffer, size_t nbytes);

/* Formats ranks with a noun: "rank 2" or "ranks 1, 3-5 and 9". */
const char *symc_format_named_ranks(
    const bool *listed, int size, char *buffer, size_t nbytes);

/* Formats "pid 12", or "in another PID namespace" for a process whose number
 * the kernel does not show. */
#define SYMC_PID_TEXT 32
const char *symc_format_pid(pid_t pid, char buffer[SYMC_PID_TEXT]);

/* Parses a text that is one decimal integer from least to most.  Returns false
 * for any other text. */
bool symc_parse_number(const char *text, long least, long most, long *number);

/* Returns the length of the UTF-8 sequence at text, 1 to 4, or 0 if it is
 * invalid. */
size_t symc_measure_sequence(const unsigned char *text);

/* Replaces, in place, characters that would break a line or a JSON string. */
void symc_make_printable(char *text);

#endif
