#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every page is clean to mandoc, has its sections in the usual order, and
# no line that is too long.
. "${T_SRCDIR:-.}/t/tap.sh"

command -v mandoc >/dev/null 2>&1 || skip_all 'mandoc is not installed'
cd "$srcdir/man" || exit 1

# The sections of a page that are not in this order, or not known.
misplaced()
{
    awk -v page="$1" '
        BEGIN {
            n = split("NAME,LIBRARY,SYNOPSIS,DESCRIPTION,RETURN VALUES," \
                "ENVIRONMENT,FILES,EXIT STATUS,EXAMPLES,DIAGNOSTICS,ERRORS," \
                "SEE ALSO,STANDARDS,HISTORY,AUTHORS,CAVEATS,BUGS", name, ",")
            for (i = 1; i <= n; i++) order[name[i]] = i
        }
        /^\.Sh / {
            title = substr($0, 5)
            gsub(/"/, "", title)
            if (!(title in order)) next
            if (order[title] < last)
                print page ": " title " comes too late"
            last = order[title]
        }' "$1"
}

for page in *.[1-9]; do
    grep -q '^\.so ' "$page" && continue
    try "$page has no warning" mandoc -Tlint -W warning "$page"
    none "$(misplaced "$page")" "$page has its sections in order"
done
none "$(for page in *.[1-9]; do grep -q '^\.so ' "$page" ||
    grep -q '^\.\\" SPDX-License-Identifier: BSD-3-Clause' "$page" ||
    echo "$page"; done)" 'every page names its licence'
done_testing
