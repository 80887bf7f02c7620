#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Functions return at the first failure, or jump to a label that releases what
# they hold: none is a ladder of conditions on success.
. "${T_SRCDIR:-.}/t/tap.sh"

# Functions under the given folders with three or more conditions that begin
# with success, as "FILE:LINE: FUNCTION: COUNT".  A function begins at the line
# of its name, which starts at the margin, and ends at a brace there.
ladders()
{
    find "$@" -name '*.[ch]' | LC_ALL=C sort | xargs awk '
        FNR == 1 { count = 0 }
        /^[A-Za-z_].*\(/ {
            line = FNR
            name = $0
            sub(/__attribute__\(\([a-z]*\)\) /, "", name)
            sub(/\(.*/, "", name)
            sub(/.*[^A-Za-z0-9_]/, "", name)
        }
        /if \(status == SYMMCOLL_OK/ { count++ }
        /^}/ {
            if (count >= 3)
                print FILENAME ":" line ": " name ": " count
            count = 0
        }'
}

mkdir "$scratch/module"
cat >"$scratch/module/bad.c" <<'END'
int taken(void);

static symmcoll_status_t
open_all(struct all *all)
{
    symmcoll_status_t status = open_one(all);

    if (status == SYMMCOLL_OK)
        status = open_two(all);
    if (status == SYMMCOLL_OK && all->wide)
        status = open_three(all);
    if (status == SYMMCOLL_OK)
        status = open_four(all);
    return status;
}

static symmcoll_status_t open_pair(struct all *all)
{
    symmcoll_status_t status = open_one(all);

    if (status == SYMMCOLL_OK)
        status = open_two(all);
    else if (status == SYMMCOLL_OK)
        close_one(all);
    return status;
}
END

plan 2
is "$(ladders "$scratch/module")" "$scratch/module/bad.c:4: open_all: 3" \
    'a ladder is found, by the name and line of its function'
cd "$srcdir" || exit 1
none "$(ladders lib bin)" 'no function of lib/ and bin/ is a ladder'
done_testing
