#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No file has the marks that git leaves where two changes do not fit together.
. "${T_SRCDIR:-.}/t/tap.sh"

# "FILE:LINE:TEXT" of each in a folder.
find_marks()
{
    (cd "$1" && find . -name scratch -prune -o -type f -exec \
        grep -InE '^(<{7}|[|]{7}|>{7})( |$)' /dev/null {} +)
}

plan 3
for folder in bench bin debian etc examples kernels lib man t; do
    [ ! -d "$srcdir/$folder" ] || find_marks "$srcdir/$folder"
done >"$scratch/marks"
none "$(cat "$scratch/marks")" 'no file has marks of a conflict'

# The test itself must be able to fail.
mkdir "$scratch/tree"
printf '%s\n' 'int a;' '<<<<<<< HEAD' 'int b;' '=======' 'int c;' \
    '>>>>>>> 1234567 (later)' >"$scratch/tree/a.c"
is "$(find_marks "$scratch/tree" | wc -l)" 2 'marks are found'
printf '%s\n' 'a <<<<<<< b' '>>>>>>>>' '=======' >"$scratch/tree/a.c"
none "$(find_marks "$scratch/tree")" 'what only looks like them is not'
done_testing
