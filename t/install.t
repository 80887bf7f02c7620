#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What make install leaves is complete: the README's program is compiled through
# pkg-config against it alone, and runs under the installed symmcoll-run.
. "${T_SRCDIR:-.}/t/tap.sh"

# A make that runs beside the one that called this test, not under it.
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES DESTDIR
root=$scratch/root
pkg_config=${T_PKG_CONFIG:-pkg-config}

# The first C block of the README.
readme_program()
{
    awk '/^```c$/ { on = 1; next } on && /^```/ { exit } on' "$srcdir/README"
}

install_tree()
{
    ${T_MAKE:-make} -C "$builddir" install DESTDIR="$root"
}


query()
{
    PKG_CONFIG_LIBDIR=$root$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
        PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
        "$pkg_config" "$@" symmcoll
}

compile()
{
    # shellcheck disable=SC2046,SC2086
    ${T_CC:-cc} -Wall -Wextra -Werror ${T_CFLAGS:-} -o "$scratch/program" \
        "$scratch/program.c" $(query --cflags --libs)
}

run_program()
{
    (cd "$scratch" && LD_LIBRARY_PATH=$root$libdir timeout 120 \
        "$root$bindir/symmcoll-run" -n 2 ./program)
}

prefix=$(sed -n 's/^prefix=//p' "$builddir/symmcoll.pc")
exec_prefix=$(sed -n 's/^exec_prefix=//p' "$builddir/symmcoll.pc" |
    sed "s|\${prefix}|$prefix|")
libdir=$(sed -n 's/^libdir=//p' "$builddir/symmcoll.pc" |
    sed "s|\${exec_prefix}|$exec_prefix|; s|\${prefix}|$prefix|")
bindir=$exec_prefix/bin

plan 6
try 'make install DESTDIR=... succeeds' install_tree
[ -e "$root$libdir/libsymmcoll.so.0" ] && [ -x "$root$bindir/symmcoll-run" ]
ok $? 'the library and the tools are there'
missing=$(find "$srcdir/lib/symmcoll" -name '*.h' | while read -r header; do
    find "$root" -path "*/symmcoll/$(basename "$header")" | grep -q . ||
        basename "$header"
done)
none "$missing" 'every public header is there'

readme_program >"$scratch/program.c"
lines=$(wc -l <"$scratch/program.c")
[ "$lines" -gt 5 ] && [ "$lines" -le 25 ]
ok $? "the README has a program of some 20 lines ($lines)"
if ! command -v "$pkg_config" >/dev/null 2>&1 || [ "$pkg_config" = false ]; then
    skip 2 'no pkg-config'
elif try 'the README program compiles by pkg-config' compile; then
    try 'it runs on two ranks' run_program
else
    skip 1 'it does not compile'
fi
done_testing
