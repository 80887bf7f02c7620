#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Every status code is returned, and every setting has an effect: t/config/EFFECTS
# has a line for each, with a test point that sees it, and that point has run in
# this build and passed, as the log of its program says (the Makefile runs those
# programs first).
. "${T_SRCDIR:-.}/t/tap.sh"

list=$srcdir/t/config/EFFECTS
conf=$builddir/bin/symmcoll-conf
[ -x "$conf" ] || skip_all 'symmcoll-conf was not built'

# Whether a program is one of a feature that this build was configured without.
left_out()
{
    case " ${T_PROGRAMS-$1.t} " in
    *" $1.t "*) return 1 ;;
    esac
    [ -e "$srcdir/$1.c" ]
}

# judge LIST: prints the lines with a point that has not passed, according to the log of
# its program.  A
# point that was skipped may not be there; the log says why.
judge()
{
    grep -v '^#' "$1" | while IFS='	' read -r setting point; do
        left_out "${point%%:*}" && continue
        log=$builddir/${point%%:*}.log
        sed -n 's/^ok [0-9]* - //p' "$log" 2>/dev/null |
            grep -qxF -e "${point#*:}" || grep -q '^ok .*# SKIP' "$log" ||
            echo "$setting: no such point has passed: $point"
    done
}

plan 7
"$conf" list 2>/dev/null | cut -f 1 | LC_ALL=C sort >"$scratch/settings"
sed -n 's/^\([a-z][a-z0-9_.]*\)	t\/[a-z_/-]*:..*/\1/p' "$list" |
    LC_ALL=C sort -u >"$scratch/listed"
[ "$(wc -l <"$scratch/settings")" -gt 20 ]
ok $? 'the settings are listed'
none "$(LC_ALL=C comm -23 "$scratch/settings" "$scratch/listed")" \
    'each has a line in t/config/EFFECTS'
none "$(LC_ALL=C comm -13 "$scratch/settings" "$scratch/listed")" \
    'and each line a setting'
none "$(judge "$list")" 'each point that is named there has run and passed'

# codes FILES: the status codes of the headers that no file of these returns.
codes()
{
    sed -n 's/^ *\(SYMMCOLL_[A-Z_]*\) = -*[0-9]*,* *\/\*.*/\1/p' \
        "$srcdir/lib/symmcoll/types.h" | sed -n '/_IN_PROGRESS$/p;/_ERR_/p' |
        while read -r code; do
            grep -qw "$code" "$@" || echo "$code is returned nowhere"
        done
}

# shellcheck disable=SC2046
none "$(codes $(find "$srcdir/lib" -name '*.c' ! -name error.c))" \
    'each status code is returned somewhere'

# The test itself must be able to fail.
printf 'no.such\tt/config/effects:log.level: no such point\n' >"$scratch/bad"
[ -n "$(judge "$scratch/bad")" ]
ok $? 'a point that has not run would be noticed'
[ "$(codes "$srcdir/lib/base/alloc.c" | wc -l)" -gt 5 ]
ok $? 'and a status code that nobody returns'
done_testing
