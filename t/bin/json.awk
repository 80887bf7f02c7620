# SPDX-License-Identifier: BSD-3-Clause
# A strict parser of one JSON value in standard input; says where it is not.
function blank()
{
    while (substr(text, at, 1) ~ /[ \t\n\r]/ && at <= length(text))
        at++
}
function fail(wanted)
{
    if (!failed)
        printf "byte %d: expected %s, found '%s'\n", at, wanted,
            substr(text, at, 20)
    failed = 1
}
function take(word)
{
    if (substr(text, at, length(word)) != word) {
        fail(word)
        return 0
    }
    at += length(word)
    return 1
}
function string(    c)
{
    take("\"")
    while (!failed) {
        c = substr(text, at, 1)
        if (c == "\"") {
            at++
            return
        }
        if (c == "" || c < " ")
            fail("a character")
        else if (c != "\\")
            at++
        else if (match(substr(text, at, 6), /^\\u[0-9a-f][0-9a-f][0-9a-f][0-9a-f]/))
            at += 6
        else if (substr(text, at + 1, 1) ~ /["\\\/bfnrt]/)
            at += 2
        else
            fail("an escape")
    }
}
function members(end, named)
{
    at++
    blank()
    if (substr(text, at, 1) == end) {
        at++
        return
    }
    while (!failed) {
        blank()
        if (named) {
            string()
            blank()
            take(":")
        }
        value()
        blank()
        if (substr(text, at, 1) == end) {
            at++
            return
        }
        take(",")
    }
}
function value(    c)
{
    blank()
    c = substr(text, at, 1)
    if (failed)
        return
    if (c == "{")
        members("}", 1)
    else if (c == "[")
        members("]", 0)
    else if (c == "\"")
        string()
    else if (c == "t")
        take("true")
    else if (c == "f")
        take("false")
    else if (c == "n")
        take("null")
    else if (match(substr(text, at, 40), /^-?(0|[1-9][0-9]*)(\.[0-9]+)?/))
        at += RLENGTH
    else
        fail("a value")
}
{ text = text $0 "\n" }
END {
    at = 1
    value()
    blank()
    if (!failed && at <= length(text))
        fail("the end")
    exit failed
}
