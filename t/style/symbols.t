#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests that the library exports exactly the functions that its headers declare and its
# map lists, and that all others have the internal prefix, to avoid clashes in static
# links.
. "${T_SRCDIR:-.}/t/tap.sh"

nm=${T_NM:-nm}
library=$builddir/.libs/libsymmcoll.so
archive=$builddir/.libs/libsymc.a
[ -e "$library" ] || skip_all 'no shared library was built'

# shellcheck disable=SC2086
$nm -D --defined-only "$library" |
    awk '$2 ~ /[TDBRVW]/ { sub(/@.*/, "", $3); print $3 }' |
    grep -v '^SYMMCOLL_[0-9_]*$' | LC_ALL=C sort -u >"$scratch/exported"
sed -n 's/^ *\(symmcoll_[a-z0-9_]*\);.*/\1/p' "$srcdir/lib/libsymmcoll.map" |
    LC_ALL=C sort >"$scratch/mapped"
awk '/^SYMMCOLL_(API|CHECKED)( |$)/ { text = "" ; on = 1 }
     on { text = text " " $0 }
     on && /[;(]/ && match(text, /symmcoll_[a-z0-9_]+\(/) {
         print substr(text, RSTART, RLENGTH - 1); on = 0 }' \
    "$srcdir"/lib/symmcoll/*.h | LC_ALL=C sort >"$scratch/declared"

# only A B: lines of A that B lacks
only()
{
    LC_ALL=C comm -23 "$scratch/$1" "$scratch/$2"
}

plan 7
none "$(grep -v '^symmcoll_' "$scratch/exported")" \
    'every exported symbol begins with symmcoll_'
none "$(only declared mapped)" 'the map lists every declared function'
none "$(only mapped declared)" 'the headers declare every function of the map'
none "$(only mapped exported)" 'the library has every function of the map'
none "$(only exported mapped)" 'the library exports nothing else'

# Symbols of the instrumentation are not ours.
# shellcheck disable=SC2086
internal=$($nm --defined-only --extern-only "$archive" 2>/dev/null |
    awk 'NF == 3 && $2 ~ /[TDBRCV]/ { print $3 }' |
    grep -vE '^(symmcoll_|symc_|_*(asan|tsan|ubsan|odr_asan)|DW\.ref)')
none "$internal" 'every internal symbol begins with symc_'

symbols=$srcdir/debian/libsymmcoll0.symbols
if [ -e "$symbols" ]; then
    sed -n 's/^ \(symmcoll_[a-z0-9_]*\)@.*/\1/p' "$symbols" |
        LC_ALL=C sort >"$scratch/packaged"
    none "$(LC_ALL=C comm -3 "$scratch/mapped" "$scratch/packaged")" \
        'the Debian symbols file lists the same functions'
else
    skip 1 'this source tree has no debian folder'
fi
done_testing
