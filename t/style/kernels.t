#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The table of kernels/README has each kernel with the file it is in, and the text
# below it says which of them nothing in lib/ starts.
. "${T_SRCDIR:-.}/t/tap.sh"

# "KERNEL FILE" of a folder's sources; types are left out of names.
kernels_of()
{
    grep -oE '^ *KERNEL\(symc_[a-z0-9_]+' "$1"/*.h /dev/null |
        sed 's|^.*/\([^/:]*\):.*KERNEL(|\1 |; s/_$//' |
        awk '{ print $2, $1 }' | LC_ALL=C sort -u
}

# Prints the kernels of a table, in which _T and _F stand for types.
table_of()
{
    awk '$1 ~ /^symc_/ && $2 ~ /\.h$/ {
        gsub(/_[TF]/, "", $1)
        print $1, $2
    }' "$1" | LC_ALL=C sort -u
}

# Prints the kernels that the sentence with this beginning says are not launched.
idle_of()
{
    awk '/^Nothing in lib\/ starts/, /\./' "$1" | tr '\n' ' ' |
        sed 's/yet\..*//' | grep -oE 'symc_[a-z0-9_]+' | LC_ALL=C sort
}

# Prints the kernels of a table with a name that a source lacks, also with a type.
without_start()
{
    table_of "$1" | while read -r kernel _; do
        grep -qE "\"$kernel(_[a-z0-9_]+)?\"" "$2" || echo "$kernel"
    done | LC_ALL=C sort
}

readme=$srcdir/kernels/README
starting=$srcdir/lib/cuda/launch.c

plan 5
[ "$(kernels_of "$srcdir/kernels" | wc -l)" -gt 20 ]
ok $? 'the sources have kernels'
is "$(table_of "$readme")" "$(kernels_of "$srcdir/kernels")" \
    'the table has each, with its file'
is "$(idle_of "$readme")" "$(without_start "$readme" "$starting")" \
    'and it is said which are not started'

# Both must be able to fail.
printf 'KERNEL(symc_a, int, a)\n    KERNEL(symc_b_##name, int, b)\n' \
    >"$scratch/a.h"
is "$(kernels_of "$scratch")" 'symc_a a.h
symc_b a.h' 'kernels are found'
printf '%s\n' 'symc_a a.h any' 'symc_b_F_F a.h' '' \
    'Nothing in lib/ starts symc_c and' 'symc_d yet.  symc_e.' >"$scratch/README"
echo '"symc_b_f32"' >"$scratch/launch.c"
is "$(table_of "$scratch/README"; idle_of "$scratch/README"
    without_start "$scratch/README" "$scratch/launch.c")" 'symc_a a.h
symc_b a.h
symc_c
symc_d
symc_a' 'so are the rows of a table, and what is not started'
done_testing
