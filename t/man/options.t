#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The list of settings in symmcoll.conf(5) is what the table of settings says.
. "${T_SRCDIR:-.}/t/tap.sh"

conf=$builddir/bin/symmcoll-conf
page=$srcdir/man/symmcoll.conf.5
[ -x "$conf" ] || skip_all 'symmcoll-conf was not built'

plan 3
"$conf" --mdoc >"$scratch/table" 2>"$scratch/errors"
none "$(cat "$scratch/errors")" 'symmcoll-conf --mdoc has nothing to complain of'
[ "$(wc -l <"$scratch/table")" -gt 20 ]
ok $? 'it prints the settings'

# Every line of the table, in one piece and in order, is in the page.
awk 'NR == FNR { want[++n] = $0; next }
     { have[++m] = $0 }
     END {
         for (start = 1; start <= m - n + 1; start++) {
             for (i = 1; i <= n && have[start + i - 1] == want[i]; i++)
                 ;
             if (i > n) exit 0
             if (i > best) { best = i; at = start + i - 1 }
         }
         print "the page says:  " have[at]
         print "the table says: " want[best]
         exit 1
     }' "$scratch/table" "$page" >"$scratch/diff"
status=$?
diag <"$scratch/diff"
ok $status 'symmcoll.conf.5 holds exactly that'
done_testing
