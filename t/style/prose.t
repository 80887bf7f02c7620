#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How plain the English of comments and pages is.  Engineers of the field seldom write
# a person where a thing acts ("whose", "is asked"), a clause in place of a noun, or a
# comment that begins with "What" or "Of".  Each of these is counted for 10,000 words;
# the limits are twice the highest rates in the comments of UCC, NCCL, UCP, hwloc and
# libfabric.
. "${T_SRCDIR:-.}/t/tap.sh"

# "PART FILE:LINE: TEXT", one comment or one line of a page on each line.
passages()
{
    find "$@" -name '*.[ch]' | LC_ALL=C sort | xargs awk '
        FNR == 1 { inside = 0 }
        {
            line = $0
            while (line != "") {
                if (!inside) {
                    at = index(line, "/*")
                    if (at == 0) break
                    line = substr(line, at + 2)
                    inside = 1
                    text = ""
                    began = FNR
                }
                end = index(line, "*/")
                part = end > 0 ? substr(line, 1, end - 1) : line
                sub(/^[ \t]*\**[ \t]*/, "", part)
                text = text " " part
                if (end == 0) break
                inside = 0
                line = substr(line, end + 2)
                gsub(/[ \t]+/, " ", text)
                sub(/^ /, "", text)
                if (text != "" && text !~ /SPDX/)
                    print FILENAME ":" began ": " text
            }
        }'
}

lines_of_pages()
{
    awk '/^[^.'\''\\]/ { print FILENAME ":" FNR ": " $0 }' "$@"
}

# The rates of the passages on standard input that are above their limits.
rates()
{
    awk '
        function count(pattern, in_text) { return gsub(pattern, "&", in_text) }
        BEGIN {
            name[1] = "who, whose, whom, everybody"; most[1] = 14.4
            name[2] = "nobody, in vain, meanwhile"; most[2] = 1.2
            name[3] = "tell, told, ask, asked"; most[3] = 2.6
            name[4] = "so many, so long, so far"; most[4] = 1.8
            name[5] = "begins with What, Where, Of, How"; most[5] = 3.6
            name[6] = "the same of, as of, than that of"; most[6] = 0.6
        }
        {
            sub(/^[^ ]* /, "")
            words += NF
            text = " " tolower($0) " "
            gsub(/[^a-z]+/, "  ", text)
            found[1] += count(" (who|whose|whom|whoever|everybody) ", text)
            found[2] += count(" (nobody|in  vain|meanwhile) ", text)
            found[3] += count(" (tell|tells|told|ask|asks|asked) ", text)
            found[4] += count(" so  (many|long|far) ", text)
            found[5] += count("^(What|Where|Of|How)[^A-Za-z]", $0)
            found[5] += count("[.;] +(What|Where|Of which|Of what)[^A-Za-z]", $0)
            found[6] += count(" (the  same  of|as  of  (it|that|those)|" \
                "than  that  of|that  of  that) ", text)
        }
        END {
            for (i = 1; i <= 6; i++)
                if (found[i] * 10000 > most[i] * words)
                    printf "%s: expected at most %.1f in 10,000 words, found %.1f\n",
                        name[i], most[i], found[i] * 10000 / words
        }'
}

cd "$srcdir" || exit 1
plan 8
passages lib | grep -v '^lib/symmcoll' >"$scratch/lib"
[ "$(wc -l <"$scratch/lib")" -gt 5000 ]
ok $? 'the comments of the library are found'
none "$(rates <"$scratch/lib")" 'those of lib are in plain English'
none "$(passages lib/symmcoll lib/symmcoll.h | rates)" 'so are public headers'
none "$(passages bin examples | rates)" 'so are tools and examples'
none "$(passages t bench | rates)" 'so are tests and benchmarks'
# shellcheck disable=SC2046
none "$(lines_of_pages README NEWS $(find man -name '*.[1-8]' ! -exec grep -q '^\.so ' {} \; -print) | rates)" \
    'so are pages, README and NEWS'

# The test itself must be able to fail.
[ -n "$(printf 'x.c:1: %s\n' 'Whose turn it is.' 'What that was told.' | rates)" ]
ok $? 'a comment of persons would be noticed'
[ -z "$(printf 'x.c:1: %s\n' 'Returns the next rank, so that each has one.' | rates)" ]
ok $? 'and a plain one is none'
done_testing
