#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# t/SEMANTICS says in one line what each id means that t/COVERAGE and comments
# cite, so that the tree is sufficient to read them.
. "${T_SRCDIR:-.}/t/tap.sh"

list=$srcdir/t/SEMANTICS
tab=$(printf '\t')
one='[CDFGHLMORSTWX][0-9][0-9]*'

# Ids in the third column of t/COVERAGE, and in brackets in comments: "(C6)",
# "(R35-R40)", "see t/SEMANTICS T1 to T8".
cited=$({
    awk -F '\t' '$2 != "open" { print $3 }' "$srcdir/t/COVERAGE" |
        grep -oE "^($one(-$one)? )+"
    find "$srcdir/lib" "$srcdir/t" -name '*.[ch]' -exec \
        grep -hoE "\($one(-$one)?\)|t/SEMANTICS,? $one.*" {} +
} | grep -oE "$one" | sort -u)
unknown=
for id in $cited; do
    grep -q "^$id$tab" "$list" || unknown="$unknown $id"
done
malformed=$(awk -F '\t' 'NF != 2 || $1 !~ /^[A-Z][0-9]+$/ || $2 == "" ||
    seen[$1]++ { print NR }' "$list")
outside=$(find "$srcdir/lib" "$srcdir/bin" "$srcdir/t" -name '*.[ch]' -exec \
    grep -nE '[sS]emantics [0-9]|(architecture|style|foundations)\.md' {} +)

plan 3
[ -z "$malformed" ]
ok $? "each line of t/SEMANTICS has an id of its own and its meaning" ||
    diag "line $malformed"
[ -n "$cited" ] && [ -z "$unknown" ]
ok $? "each id that is cited is there" || diag "not there:$unknown"
[ -z "$outside" ]
ok $? "no comment refers to a document that is not in the tree" ||
    diag "$outside"
done_testing
