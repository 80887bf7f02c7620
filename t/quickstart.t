#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests the output of ./quickstart when a stage fails, in a tree with a stand-in for
# make.
. "${T_SRCDIR:-.}/t/tap.sh"

tree=$scratch/tree
mkdir -p "$tree/t" "$scratch/bin"
cp "$srcdir/quickstart" "$srcdir/configure.ac" "$srcdir/Makefile.am" \
    "$srcdir/bootstrap" "$tree" && cp "$srcdir/t/failures" "$tree/t" || exit 1
: >"$tree/Makefile.in"
: >"$tree/configure"
sleep 0.01
: >"$tree/Makefile"
: >"$tree/config.status"
: >"$tree/libtool"
mkdir -p "$tree/pages/man7"
for tool in cc dpkg-checkbuilddeps; do
    printf '#!/bin/sh\nexit 0\n' >"$scratch/bin/$tool"
done
cat >"$scratch/bin/make" <<'END'
#!/bin/sh
case "$* $SUITE" in
*check*fails)
    cat >test-suite.log <<'LOG'
==================================
   libsymmcoll: ./test-suite.log
==================================

# TOTAL: 300

.. contents:: :depth: 2

ERROR: t/module/good
==================

# expected: 64
# found:    63
ok 1 - the first sentence
PASS: t/module/good.t 1 - the first sentence
not ok 2 - the second sentence
FAIL: t/module/good.t 2 - the second sentence
ok 3 # SKIP a reason
SKIP: t/module/good.t 3 # SKIP a reason
1..3
ERROR: t/module/good.t - exited with status 1

SKIP: t/module/absent
===================

# the skipped said this
1..0 # SKIP no device
SKIP: t/module/absent.t - no device

ERROR: t/module/crashed
=====================

==7==ERROR: AddressSanitizer: heap-use-after-free
ok 1 - still well
PASS: t/module/crashed.t 1 - still well
ERROR: t/module/crashed.t - exited with status 139
LOG
    for line in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        printf 'PASS: t/module/a%s.t\nPASS: t/module/b%s.t\n' $line $line
    done
    exit 2
    ;;
*check*broken)
    echo 'module.c:1: error: expected an expression'
    exit 2
    ;;
esac
END
chmod +x "$scratch/bin/"*

# quick SUITE: ./quickstart check where the suite ends so.
quick()
{
    SUITE=$1 PATH=$scratch/bin:$PATH "$tree/quickstart" check \
        >"$scratch/out" 2>"$scratch/err"
}

quick passes
is "$?:$(cat "$scratch/err")" '0:' 'a suite that passes leaves nothing to say' ||
    diag <"$scratch/out"

quick fails
is "$?" 2 'a suite that fails has the status of make'
is "$(sed '$d' "$scratch/err")" 't/module/good
    # expected: 64
    # found:    63
    not ok 2 - the second sentence
    ERROR: t/module/good.t - exited with status 1

t/module/crashed
    ==7==ERROR: AddressSanitizer: heap-use-after-free
    ERROR: t/module/crashed.t - exited with status 139' \
    'it prints the points that failed and what was said about them, no others'
is "$(tail -n 1 "$scratch/err")" "The whole of it: $tree/test-suite.log" \
    'and where the rest is'

quick broken
is "$?" 2 'a suite that does not compile has the status of make'
grep -q 'module.c:1: error' "$scratch/err" &&
    ! grep -q 'second sentence' "$scratch/err"
ok $? 'it prints what the compiler said, and no points of an earlier run' ||
    diag <"$scratch/err"

printf '#!/bin/sh\necho again >>configured\n: >libtool\n' >"$tree/configure"
chmod +x "$tree/configure"
sleep 0.01
: >"$tree/Makefile"
quick passes
is "$(cat "$tree/configured")" again \
    'a configure that was interrupted before it made libtool runs again'

reason=$(no_terminal)
if [ -n "$reason" ]; then
    skip 2 "$reason"
else
    # Ends when the line has both.
    cat >"$scratch/bin/make" <<'END'
#!/bin/sh
case $* in
*count-tests*) echo 7 && exit ;;
*check) printf 'PASS: t/a/b.t 1 - c\nPASS: t/a/b.t 2 - d\nPASS: t/a/c.t 1 - e\n' ;;
esac
shown='of 2 files built'
[ "${*%check}" = "$*" ] || shown='2 of 7 programs run'
left=600
while ! grep -q "$shown" "$SHOWN" && [ $left -gt 0 ]; do
    sleep 0.1
    left=$((left - 1))
done
END
    mkdir -p "$tree/lib/.deps"
    echo '# dummy' >"$tree/lib/.deps/a.Plo"
    echo 'lib/a.lo: a.c' >"$tree/lib/.deps/b.Plo"
    : >"$scratch/out"
    SHOWN=$scratch/out PATH=$scratch/bin:$PATH script -qefc "'$tree/quickstart' check" \
        /dev/null </dev/null >"$scratch/out" 2>"$scratch/err"
    grep -q '1 of 2 files built' "$scratch/out"
    ok $? 'on a terminal the build shows how many files of all are built' ||
        diag <"$scratch/out"
    grep -q '2 of 7 programs run' "$scratch/out"
    ok $? 'and the check how many programs of all have run' || diag <"$scratch/out"
fi

mkdir "$scratch/a b:c"
cp "$srcdir/quickstart" "$scratch/a b:c"
PATH=$scratch/bin:$PATH "$scratch/a b:c/quickstart" >"$scratch/out" 2>"$scratch/err"
is "$?:$(cat "$scratch/err")" "1:quickstart: expected a path that has no space and \
none of :;,()*?<>| (libtool cannot build there), found '$scratch/a b:c'" \
    'a clone in a folder with a space is refused before anything is installed'
is "$(cat "$scratch/out")" '' 'and no stage begins'
done_testing
