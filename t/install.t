#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests that make install is complete: the README's program is compiled through
# pkg-config against the installed files only, and runs under the installed symmcoll-run.
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

# Each line of examples/README that compiles, with the compiler that was
# configured; warnings are errors.  In a copy of what was installed.
build_examples()
{
    cp -r "$examples" "$scratch/examples" && cd "$scratch/examples" || return
    sed -n 's/^    cc //p' README >lines
    [ -s lines ] || return
    while read -r line; do
        line=$(printf '%s\n' "$line" | sed "s|\$(pkg-config --cflags --libs symmcoll)|$(query --cflags --libs)|")
        eval "${T_CC:-cc} -Wall -Wextra -Werror ${T_CFLAGS:-} $line" || return
    done <lines
}

# Programs among the examples that no such line names.
unnamed_examples()
{
    grep -l '^int main(' "$examples"/*.c | while read -r program; do
        name=$(basename "$program" .c)
        grep -q "^    cc .*-o $name $name\.c " "$examples/README" ||
            echo "$name"
    done
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

plan 10
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

confdir=$(find "$root" -type d -name symmcoll.conf.d)
[ -d "$confdir" ] && [ -e "$(dirname "$confdir")/symmcoll.conf" ]
ok $? 'the folder for further settings is beside the settings file'
examples=$(dirname "$(find "$root" -name train_charlm.c)")
none "$(unnamed_examples)" 'examples/README has a line to build each program'
if [ -z "${T_CBLAS_LIBS:-}" ] || [ "$pkg_config" = false ]; then
    skip 2 'no CBLAS or no pkg-config'
elif try 'its lines build the installed examples without a warning' \
    build_examples; then
    try 'what they build runs' env LD_LIBRARY_PATH="$root$libdir" \
        timeout 120 "$scratch/examples/train_charlm" --steps 1 --batch 8 \
        --text "$srcdir/README"
else
    skip 1 'they do not compile'
fi
done_testing
