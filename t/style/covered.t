#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# t/COVERAGE is true: each line names a test point that has run in this build and
# passed, by its exact words, as the log of its program says (the Makefile runs
# those programs first).  A point that had to be skipped is counted and said.
# Points that need CUDA count as skipped without it.
# A reference test that nothing here shows has a line that says "open" and why.
. "${T_SRCDIR:-.}/t/tap.sh"

list=$srcdir/t/COVERAGE
logs=${T_BUILDDIR:-.}

malformed=$(awk -F '\t' 'NF != 3 || $1 == "" || $3 == "" ||
    ($2 != "open" && $2 !~ /^t\/[a-z_\/-]+:./) { print NR }' "$list")

# verdicts: "missing", "failed" or "skipped", and what of.
verdicts=$(awk -F '\t' -v logs="$logs" -v built=" ${T_PROGRAMS:-} " \
    -v without_cuda="${T_CUDA_MISSING:-}" '
function read_log(program,    line, point, file) {
    file = logs "/" program ".log"
    while ((getline line < file) > 0) {
        if (line ~ /^1\.\.0 /)
            whole[program] = "skipped"
        if (line !~ /^(not )?ok [0-9]+ - /)
            continue
        point = line
        sub(/^(not )?ok [0-9]+ - /, "", point)
        skipped = sub(/ # SKIP.*/, "", point)
        end[program, point] = line ~ /^not/ ? "failed" : \
            skipped ? "skipped" : "passed"
    }
    close(file)
    was_read[program] = 1
}
$2 == "open" { next }
{
    program = $2
    sub(/:.*/, "", program)
    point = substr($2, length(program) + 2)
    if (!(program in was_read))
        read_log(program)
    if (without_cuda != "" && index(built, " " program ".t ") == 0)
        verdict = "skipped"
    else if (program in whole)
        verdict = whole[program]
    else if ((program, point) in end)
        verdict = end[program, point]
    else
        verdict = "missing"
    if (verdict != "passed")
        print verdict "\t" program ": " point
}' "$list")
covered=$(awk -F '\t' '$2 != "open"' "$list" | wc -l)
open=$(awk -F '\t' '$2 == "open"' "$list" | wc -l)

of()
{
    echo "$verdicts" | sed -n "s/^$1	//p"
}

plan 4
[ "$covered" -gt 0 ] && [ -z "$malformed" ]
ok $? "each line of t/COVERAGE has a reference test, a point or \"open\", and why" ||
    diag "line $malformed"
[ -z "$(of missing)" ]
ok $? "each point that it names has run, under these words" ||
    diag "$(of missing)"
[ -z "$(of failed)" ]
ok $? "and has passed" || diag "$(of failed)"
both=$(awk -F '\t' '{ key = $1 ($2 == "open"); n[key]++ }
    $2 == "open" && n[key] > 1 { print $1 }' "$list")
[ -z "$both" ]
ok $? "no reference test is open twice" || diag "$both"
skips=$(of skipped | grep -c .)
echo "# $covered points, $skips of them skipped here, $open reference tests open"
done_testing
