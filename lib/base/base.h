/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every module uses: error details, clocks, checked allocation, logging.
 * Element types are in dtype.h, reductions in reduce.h.
 */
#ifndef SYMC_BASE_BASE_H
#define SYMC_BASE_BASE_H

#include <symmcoll/error.h>
#include <symmcoll/types.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SYMC_DETAIL_MAX 512 /* bytes of an error detail, its zero included */

#define SYMC_RANKS_MAX 4096 /* of one world */

#define SYMC_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* ---- error.c ---- */

/* Keep the detail for symmcoll_last_error() and return the status. */
symmcoll_status_t symc_fail(symmcoll_status_t status, const char *format, ...)
    SYMC_PRINTF(2, 3);

/* The same, followed by ": strerror(error)". */
symmcoll_status_t symc_fail_errno(symmcoll_status_t status, int error,
    const char *format, ...) SYMC_PRINTF(3, 4);

/* Report that a descriptor could not be opened, with the limit on their number
 * where that is the reason.  Returns SYSTEM. */
symmcoll_status_t symc_fail_descriptor(int error, const char *where);

/* ---- clock.c ---- */

#define SYMC_NS_PER_S INT64_C(1000000000)
#define SYMC_NEVER INT64_MAX /* a deadline that never passes */

int64_t symc_now_ns(void);  /* monotonic */
int64_t symc_wall_ns(void); /* since 1970 */

/* Seconds as nanoseconds: 0 for what is not more than 0, at least 1 for what
 * is, SYMC_NEVER for INFINITY and what no clock reaches. */
int64_t symc_seconds_ns(double seconds);

/*
 * Convert a timeout of a public function, by one rule for all: negative is the
 * setting, 0 does not block, INFINITY is for ever (SYMC_NEVER).  where is the
 * function, for messages.  Errors: INVALID (NaN).
 */
symmcoll_status_t symc_timeout_read(
    const char *where, double seconds, int64_t setting_ns, int64_t *ns);

/* The deadline of a wait that begins now; SYMC_NEVER stays so. */
static inline int64_t symc_deadline_ns(int64_t now_ns, int64_t timeout_ns)
{
    return timeout_ns > SYMC_NEVER - now_ns ? SYMC_NEVER : now_ns + timeout_ns;
}

/*
 * The cheapest clock of the processor, in ticks of its own; for records that
 * are read later.  symc_tick_rate() measures once per call how ticks relate to
 * wall time.
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

/* Wall time of a tick count: wall_ns + (ticks - ticks0) * ns_per_tick. */
struct symc_tick_rate {
    uint64_t ticks0;
    int64_t wall_ns;
    double ns_per_tick;
};
/* Measure; takes about a millisecond the first time in a process. */
void symc_tick_rate_measure(struct symc_tick_rate *rate);
/* 0 where the result is out of range. */
int64_t symc_tick_wall_ns(const struct symc_tick_rate *rate, uint64_t ticks);

/* ---- alloc.c ---- */

/* Product and sum, false where they overflow. */
static inline bool symc_multiply(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

static inline bool symc_add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

/* Whether two ranges of bytes have one in common. */
static inline bool symc_overlap(
    const void *a, size_t a_nbytes, const void *b, size_t b_nbytes)
{
    return a_nbytes > 0 && b_nbytes > 0 &&
           (uintptr_t)a < (uintptr_t)b + b_nbytes &&
           (uintptr_t)b < (uintptr_t)a + a_nbytes;
}

/* count * size zeroed bytes; NULL on overflow or without memory, with the
 * detail of a NO_MEMORY set.  Release with free(). */
void *symc_alloc(size_t count, size_t size);

/* A copy of text; as symc_alloc(). */
char *symc_strdup(const char *text);

/* ---- sized.c ---- */

/* A public struct that begins with its size, as it is in this library. */
struct symc_sized {
    const char *name;     /* of the argument: "args" */
    const char *macro;    /* which initialises it */
    const void *defaults; /* a whole one */
    size_t nbytes;
    size_t least; /* of the oldest header's that is accepted */
};

/*
 * Copy a caller's struct, of whatever size, into one of this library's; NULL
 * stands for the defaults.  where is the call, for messages.
 *
 * Errors: INVALID (no such size; a member that this library does not know is
 * set), with what was expected and found.
 */
symmcoll_status_t symc_sized_read(const struct symc_sized *kind,
    const char *where, const void *given, void *copy);

/*
 * Copy one struct of a caller's array, whose elements are as many bytes apart as
 * the size of the first one; those before it have been read.
 *
 * Errors: INVALID (another size than the first one's; as symc_sized_read()).
 */
symmcoll_status_t symc_sized_read_at(const struct symc_sized *kind,
    const char *where, const void *array, size_t index, void *copy);

/* The other way: fill in what the caller's struct has room for.  Its size
 * remains the caller's.  Errors: as symc_sized_read(). */
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

/* The rank that logs, and its level. */
struct symc_log {
    enum symc_log_level level;
    int rank; /* -1 before it is known */
};

/* One line on standard error, in one write: "symmcoll [rank 2]: warning: ...".
 */
void symc_logf(const struct symc_log *log, enum symc_log_level level,
    const char *format, ...) SYMC_PRINTF(3, 4);

/* ---- variable.c ---- */

/* Whether the process has rights that its caller lacks: a setuid or setgid
 * program, or one with capabilities of its own; see secure_getenv(3). */
bool symc_process_is_privileged(void);

/* A variable of the environment, borrowed; NULL where it is not set, and always
 * in a privileged process.  Nothing else in lib/ reads the environment. */
const char *symc_variable_get(const char *name);

/* The environment as a list, as environ is; NULL in a privileged process. */
char *const *symc_variables_get(void);

/* ---- folder.c ---- */

/*
 * Open the folder of a file that is to be written, component by component.
 *
 * fd    out: the folder (O_PATH), for openat() and the like; to be closed
 * name  out: the file's name in it, within path
 *
 * No other user may redirect the path: a component in a folder that all users
 * can write to must belong to root, to this process's user or to the folder's
 * owner.  In a privileged process every folder must belong to root or to its
 * user and not be writable by a group or others, unless it is sticky.
 *
 * Errors: INVALID (another user's, expected and found), SYSTEM.
 */
symmcoll_status_t symc_folder_open(
    const char *path, int *fd, const char **name);

/* ---- text.c ---- */

/* Bytes with a unit, "256 KiB"; exact counts stay exact.  Into a buffer of 32.
 */
const char *symc_format_bytes(size_t nbytes, char *buffer);

/* Ranks as text, "1, 3-5 and 9"; truncated with "..." where it does not fit. */
const char *symc_format_ranks(
    const bool *listed, int size, char *buffer, size_t nbytes);

/* The same with what they are, "rank 2" or "ranks 1, 3-5 and 9". */
const char *symc_format_named_ranks(
    const bool *listed, int size, char *buffer, size_t nbytes);

/* "pid 12", or a text without a number for a process of another PID namespace,
 * whose number the kernel does not show. */
#define SYMC_PID_TEXT 32
const char *symc_format_pid(pid_t pid, char buffer[SYMC_PID_TEXT]);

/* Convert a text that is a decimal whole number and nothing else; false if it
 * is not, or not from least to most. */
bool symc_parse_number(const char *text, long least, long most, long *number);

/* The bytes of the UTF-8 sequence at text, 1 to 4; 0 where there is none. */
size_t symc_measure_sequence(const unsigned char *text);

/* Replace characters that would break a line or a JSON string; in place. */
void symc_make_printable(char *text);

#endif
