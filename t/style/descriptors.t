#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No descriptor of the library is a standard stream: each call that opens one is the
# argument of symc_descriptor_raise(), which makes it 3 or above.
. "${T_SRCDIR:-.}/t/tap.sh"

cd "$srcdir" || exit 1

# lib/fused/blas_choice.c, which examples compile without the library's headers, opens one
# in a child process, in place of its standard streams.
# Statements of C under the given folders that open a descriptor and do not raise it.
# Calls that store several are followed by a call that raises all of them.
openers()
{
    find "$@" -name '*.[ch]' ! -path lib/base/descriptor.c \
        ! -path lib/fused/blas_choice.c | LC_ALL=C sort |
        xargs -n 1 awk '
        function without_comments(text,    from, end, left)
        {
            while ((from = index(text, "/*")) > 0) {
                left = left substr(text, 1, from - 1) " "
                text = substr(text, from + 2)
                end = index(text, "*/")
                text = end > 0 ? substr(text, end + 2) : ""
            }
            return left text
        }
        function calls(text, names)
        {
            return text ~ ("(^|[^A-Za-z0-9_.>])" names " *[(]")
        }
        { gsub(/"[^"]*"/, "\"\""); all = all $0 " " }
        END {
            n = split(without_comments(all), statements, /[;{}]/)
            for (i = 1; i <= n; i++) {
                at = statements[i]
                raised = raised || index(at, "symc_descriptor_raise_all(") > 0
                gsub(/symc_descriptor_raise\( *(\(int\))?[a-z0-9_]+\((SYS_[a-z0-9_]+)?/, "", at)
                gsub(/[(][*][a-z]+[)]->/, "->", at)
                if (calls(at, "(open|openat|open64|creat|socket|accept|accept4|memfd_create|eventfd)") ||
                    calls(at, "(epoll_create1?|timerfd_create|signalfd|inotify_init1?|pidfd_open)") ||
                    calls(at, "(shm_open|mkstemp|mkostemp|userfaultfd|perf_event_open)") ||
                    calls(at, "(fopen|fopen64|freopen|opendir|tmpfile|popen|dup)") ||
                    at ~ /SYS_(open|socket|accept|memfd|pidfd_open|pidfd_getfd|epoll_create|eventfd|dup)/ ||
                    at ~ /F_DUPFD(_CLOEXEC)? *, *[^S ]/)
                    print FILENAME ":" at
                if (calls(at, "(socketpair|pipe2?|recvm?msg)"))
                    several = several FILENAME ":" at "\n"
            }
            if (!raised)
                printf "%s", several
        }'
}

mkdir "$scratch/module"
cat >"$scratch/module/bad.c" <<'END'
int fd = open(path, O_RDONLY);
*fd = socket(
    AF_UNIX, SOCK_STREAM, 0);
int fd = (int)syscall(SYS_pidfd_open, pid, 0);
if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    return errno;
FILE *file = fopen(path, "re");
int copy = dup(fd), other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
END
cat >"$scratch/module/good.c" <<'END'
/* open(path) is in a comment */
int fd = symc_descriptor_raise(open(path, O_RDONLY));
*fd = symc_descriptor_raise(
    (int)syscall(SYS_pidfd_open, pid, 0));
int copy = fcntl(fd, F_DUPFD_CLOEXEC, SYMC_DESCRIPTOR_LEAST);
if (pipe2(ends, O_CLOEXEC) != 0 || symc_descriptor_raise_all(ends, 2) != 0)
    status = backend->open(&request, group->ops.socket(1), (*ops)->dup(2), symc_open(3));
END

plan 3
is "$(openers "$scratch/module/bad.c" | wc -l)" 6 'calls that raise no descriptor are found'
none "$(openers "$scratch/module/good.c")" 'calls that do are not'
none "$(openers lib)" 'every descriptor of lib/ is raised above the standard streams'
done_testing
