#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tensor_parallel: a feed-forward block that several ranks compute has the result
# of one rank.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
example=$builddir/examples/tensor_parallel
small='--tokens 48 --width 20 --hidden 24 --steps 2'

plan 7
# shellcheck disable=SC2086
timeout 600 "$run" -n 3 "$example" $small --plot "$scratch/times.svg" \
    >"$scratch/processes" 2>&1
ok $? 'the example ends well on three processes' || diag <"$scratch/processes"
is "$(grep -c 'is equal to that of a single rank' "$scratch/processes")" 3 \
    'each has its part of the result of one rank'
grep -q '3 ranks .* times as fast' "$scratch/processes"
ok $? 'both times are told'
grep -q '<polyline' "$scratch/times.svg" && grep -q '</svg>' "$scratch/times.svg"
ok $? 'and drawn'
# shellcheck disable=SC2086
timeout 600 "$example" $small --threads 4 >"$scratch/threads" 2>&1 &&
    [ "$(grep -c 'is equal to that' "$scratch/threads")" = 4 ]
ok $? 'four threads have the same result' || diag <"$scratch/threads"
timeout 600 "$run" -n 3 "$example" --tokens 16 >"$scratch/odd" 2>&1
[ $? -ne 0 ] && grep -q 'to be multiples of 3 ranks, found 16' "$scratch/odd"
ok $? 'lengths that cannot be divided are refused' || diag <"$scratch/odd"
# shellcheck disable=SC2086
timeout 600 "$example" $small --threads 2 --plot "$scratch/none/times.svg" \
    >"$scratch/unwritten" 2>&1
[ $? -ne 0 ] && grep -q 'cannot write .*/none/times.svg' "$scratch/unwritten"
ok $? 'a picture that cannot be written is a failure' ||
    diag <"$scratch/unwritten"
done_testing
