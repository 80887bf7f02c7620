#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests that the README is true: the calls in its table, its commands, its address.
. "${T_SRCDIR:-.}/t/tap.sh"

cd "$srcdir" || exit 1
# The part that is visible without scrolling.
head -n 48 README >"$scratch/first"

# Functions that a header declares.
declared()
{
    awk '/^SYMMCOLL_(API|CHECKED)( |$)/ { on = 1 }
         on && match($0, /symmcoll_[a-z0-9_]+\(/) {
             print substr($0, RSTART, RLENGTH - 1); on = 0 }' "$1"
}

# Each has a row; a form of one, a row with the other forms: "  ..._list"; of a
# pair, "begin, _end".
missing=$(for call in $(declared lib/symmcoll/collectives.h); do
    form=$(echo "$call" | grep -oE '_(v|list|coalesced)$')
    grep -qE "^    (${call%"$form"}|${call%_end}_begin),? " "$scratch/first" &&
        { [ -z "$form" ] || grep -q "^    \.\.\.$form" "$scratch/first"; } ||
        echo "$call"
done)
[ "$(declared lib/symmcoll/collectives.h | wc -l)" -ge 7 ]
ok $? 'the header of collectives declares them'
none "$missing" 'the first screen has every collective'
unknown=$(grep -o 'symmcoll_[a-z0-9_]*' README | sort -u |
    while read -r word; do
        cat lib/libsymmcoll.map lib/symmcoll/*.h | grep -qw "$word" ||
            echo "$word"
    done)
none "$unknown" 'every call that it names is there'
grep -q 'Not in this release' "$scratch/first"
ok $? 'the first screen says what is missing'

address=$(sed -n 's/^AC_INIT(.*\[\([^]]*@[^]]*\)\].*/\1/p' configure.ac)
[ -n "$address" ] && grep -qF "defect to $address" "$scratch/first"
ok $? 'and where to report a defect'
if [ -e debian/control ]; then
    grep -q "^Maintainer: .*<$address>" debian/control
    ok $? 'the package names the same address'
else
    skip 1 'this source tree has no debian folder'
fi
absent=$(grep -oE '(man|bin|bench|examples|debian)/[a-zA-Z_./-]*[a-zA-Z0-9]' README |
    sort -u | while read -r path; do
    [ -e "$path" ] || [ -e "$path.c" ] || echo "$path"
done)
none "$absent" 'every file that it names is there'

# The commands of the part on measuring, with short times.
sed -n '/^Measuring$/,/^Further reading$/p' README |
    sed -n '/^    \$ /,/[^\\]$/p' | sed 's/^    \$ //' >"$scratch/commands"
sed -i 's/--tsv/--tsv --seconds 0.001 --max 4K/' "$scratch/commands"
sed -i "s|bin/symmcoll|$builddir/&|g" "$scratch/commands"
(cd "$scratch" && sh -e ./commands) >"$scratch/out" 2>&1 &&
    grep -q '>threads<' "$scratch/all_reduce.svg"
ok $? 'its commands measure and draw' || diag <"$scratch/out"

# Compares the output of symmcoll-info in the README with that of its command.
parts()
{
    awk '/^ *part  *available/ { on = 1; next } NF == 0 { on = 0 } on { print $1 }'
}

shown=$(parts <README)
command=$(sed -n 's/^    \$ \(.*symmcoll-info .*\)/\1/p' README)
(cd "$builddir" && sh -c "$command") >"$scratch/out" 2>&1
is "$(parts <"$scratch/out")" "$shown" 'symmcoll-info lists the parts that it shows'
if [ -z "${T_CUDA_MISSING:-}" ]; then
    grep -q '^ *module  *yes ' "$scratch/out"
    ok $? 'and finds the module of the build'
else
    skip 1 "built without CUDA: $T_CUDA_MISSING"
fi
done_testing
