#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# t/COVERAGE names test points that exist.  A point's words stand in its
# program's folder; what is in brackets behind them may be put together there.
. "${T_SRCDIR:-.}/t/tap.sh"

tab=$(printf '\t')
list=$srcdir/t/COVERAGE

malformed=$(awk -F '\t' 'NF != 3 || $2 !~ /^t\/[a-z_\/-]+:./ { print NR }' \
    "$list")
missing=
unsaid=
count=0
while IFS=$tab read -r _ point _; do
    program=${point%%:*}
    words=${point#*:}
    words=${words%% (*}
    words=${words##*: }
    count=$((count + 1))
    if [ ! -e "$srcdir/$program.c" ] && [ ! -e "$srcdir/$program.t" ]; then
        missing="$missing $program"
        continue
    fi
    # A long sentence is cut into pieces in C: its first words must do.
    start=$(echo "$words" | cut -c 1-24)
    grep -qrF -- "$start" "$srcdir/${program%/*}" ||
        unsaid="$unsaid $program: $words;"
done <"$list"

plan 4
[ "$count" -gt 0 ]
ok $? "t/COVERAGE has lines"
[ -z "$malformed" ]
ok $? "each has a reference test, a point and its meaning" || diag "line $malformed"
[ -z "$missing" ]
ok $? "each names a program that exists" || diag "$missing"
[ -z "$unsaid" ]
ok $? "each names a point that stands there" || diag "$unsaid"
done_testing
