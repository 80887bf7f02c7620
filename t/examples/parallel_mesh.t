#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# parallel_mesh: a step on a mesh of 2 x 2 ranks leaves each with the weights of a
# step on one.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
mesh=$builddir/examples/parallel_mesh

plan 5
timeout 600 "$run" -n 4 "$mesh" >"$scratch/processes" 2>&1
ok $? 'the example ends well on four processes' || diag <"$scratch/processes"
is "$(grep -c 'are equal to those of a single rank' "$scratch/processes")" 4 \
    'each has the weights of a step on one rank'
timeout 600 "$mesh" --threads >"$scratch/threads" 2>&1
ok $? 'and on four threads' || diag <"$scratch/threads"
is "$(grep -c 'are equal to those of a single rank' "$scratch/threads")" 4 \
    'which have these weights, too'
timeout 600 "$run" -n 3 "$mesh" >"$scratch/three" 2>&1
[ $? -ne 0 ] && grep -q 'expected 4 ranks, found 3' "$scratch/three"
ok $? 'another number of ranks is refused' || diag <"$scratch/three"
done_testing
