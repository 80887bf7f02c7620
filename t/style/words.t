#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Words of our own for what the field has a term for do not come back.
. "${T_SRCDIR:-.}/t/tap.sh"

# The retired word, as an extended regular expression between two characters
# that are no letters, the term, and where the word remains right.  SYMMCOLL_HUB
# keeps its name for programs.
retired='
bells?|symc_bell_[a-z]+	doorbell, wake
life ?words?|goodbyes?|last words?|bury	liveness word, shutdown, exit status
hubs?|symc_hub_[a-z_]+|SYMC_HUB_[A-Z]+	bootstrap server
meetings?|symc_meet|symc_part	rendezvous, join, leave
flying|owes|says? thanks	in flight, unacknowledged, acknowledge
symc_host_meet[a-z_]*	synchronise
symc_lane_?[a-z]*	operation queue, ticket
patience|crowded|SYMC_APART	wait budget, oversubscribed, false sharing
floors?|ground floor	layer
past the cache	non-temporal store
built in is	default
behind	after	((leaves?|left)( nothing)?|furthest) behind
gives|gave	returns	(gives|gave)[ _]up
blamed?|to blame	has failed first
'
tab=$(printf '\t')

# Where a folder of the tree has such a word: "WORD -> TERM: FILE:LINE: TEXT".
find_retired()
{
    echo "$retired" | while IFS=$tab read -r word term right; do
        [ -n "$word" ] || continue
        found="(^|[^A-Za-z])($word)([^A-Za-z(]|\$)"
        (cd "$1" && find . -name '*.[ch]' -o -name '*.[1357]' -o -name README |
            LC_ALL=C sort | xargs grep -nE "$found" /dev/null) |
            sed -E "s/${right:-\$^}/.../g" | grep -E "$found" |
            sed "s/^/$term: /"
    done
}

plan 5
found=$(for folder in lib bin kernels man t examples bench; do
    find_retired "$srcdir/$folder"
done)
none "$found" 'no retired word is in the sources, the pages or the tests'

# The test itself must be able to fail.
mkdir "$scratch/tree"
echo 'static int ring_all(struct symc_bell *bell); /* a lane of a hub */' \
    >"$scratch/tree/a.c"
is "$(find_retired "$scratch/tree" | wc -l)" 2 'retired words would be found'
echo 'getenv("SYMMCOLL_HUB"), doorbell, turn, hubris, floor(1.5)' \
    >"$scratch/tree/a.c"
none "$(find_retired "$scratch/tree")" 'parts of other words are no such words'
echo '/* gives up; leaves nothing behind; gave_up */' >"$scratch/tree/a.c"
none "$(find_retired "$scratch/tree")" 'a retired word remains where it is right'
echo '/* gives up and gives it behind what is left behind */' \
    >"$scratch/tree/a.c"
is "$(find_retired "$scratch/tree" | wc -l)" 2 'and is found beside such a place'
done_testing
