#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One subject a file: no source file and no script is longer than 500 lines.
. "${T_SRCDIR:-.}/t/tap.sh"

# Files of a folder that are longer: "LINES FILE".  Programs of tests end in .t
# as scripts do.
find_long()
{
    (cd "$1" && {
        find . -name scratch -prune -o -name '*.[ch]' -print
        find . -name scratch -prune -o -name '*.t' \
            -exec grep -lIm1 '^#!' {} +
    } | xargs wc -l | awk '$2 != "total" && $1 > 500 { print $1, $2 }')
}

plan 3
for folder in lib bin t examples bench; do
    find_long "$srcdir/$folder" | sed "s: \./: $folder/:"
done >"$scratch/long"
none "$(cat "$scratch/long")" 'no file is longer than 500 lines'

# The test itself must be able to fail.
mkdir "$scratch/tree"
yes '/* line */' | head -n 501 >"$scratch/tree/a.c"
{ echo '#!/bin/sh' && yes : | head -n 500; } >"$scratch/tree/b.t"
head -n 500 "$scratch/tree/a.c" >"$scratch/tree/c.h"
is "$(find_long "$scratch/tree" | sort | tr '\n' ' ')" '501 ./a.c 501 ./b.t ' \
    'a file of 501 lines is found'
printf '\0' >>"$scratch/tree/b.t"
is "$(find_long "$scratch/tree")" '501 ./a.c' 'a program is no script'
done_testing
