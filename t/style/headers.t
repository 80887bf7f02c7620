#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each public header compiles alone, for every user's language and compiler.
. "${T_SRCDIR:-.}/t/tap.sh"

warnings='-Wall -Wextra -pedantic -Werror'
# shellcheck disable=SC2086
set -- ${T_CC:-cc}
cc=$*
command -v "$1" >/dev/null 2>&1 || skip_all "no compiler: $cc"
cxx=
for name in "$(echo "$1" | sed 's/gcc/g++/; s/clang/clang++/')" c++ g++; do
    if [ "$name" != "$1" ] && command -v "$name" >/dev/null 2>&1; then
        cxx=$name
        break
    fi
done

# compile COMPILER LANGUAGE STANDARD HEADER
compile()
{
    extension=c
    [ "$2" = c++ ] && extension=cc
    # Twice: the second time its guard has to hold.
    printf '#include <%s>\n#include <%s>\n' "$4" "$4" >"$scratch/one.$extension"
    # shellcheck disable=SC2086
    $1 -x "$2" "-std=$3" $warnings -I"$srcdir/lib" -fsyntax-only \
        "$scratch/one.$extension"
}

cd "$srcdir/lib" || exit 1
for header in symmcoll.h symmcoll/*.h; do
    try "$header compiles alone as C11" compile "$cc" c c11 "$header"
    if [ -n "$cxx" ]; then
        try "$header compiles alone as C++11" compile "$cxx" c++ c++11 "$header"
    else
        skip 1 'no C++ compiler'
    fi
done

missing=$(for header in symmcoll/*.h; do
    grep -q "<$header>" symmcoll.h || echo "$header"
done)
none "$missing" 'symmcoll.h includes every public header'
done_testing
