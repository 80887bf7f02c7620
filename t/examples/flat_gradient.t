#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# flat_gradient: slices of one array of gradients travel while backward runs; it
# learns, and all ranks hold the same parameters in the end.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
train=$builddir/examples/flat_gradient

# learns FILE: whether the last loss there is a tenth of the first or less.
learns()
{
    awk '/: loss / { if (!n++) first = $NF; last = $NF }
        END { exit !(n > 2 && last < first / 10) }' "$1"
}

plan 5
for n in 1 3; do
    timeout 600 "$run" -n $n "$train" >"$scratch/$n" 2>&1
    ok $? "the example ends well on $n ranks" || diag <"$scratch/$n"
    learns "$scratch/$n"
    ok $? "it learns on $n ranks" || diag <"$scratch/$n"
done
grep -q 'the ranks hold equal parameters' "$scratch/3"
ok $? "its ranks hold the same bits" || diag <"$scratch/3"
done_testing
