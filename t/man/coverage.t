#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every function, tool and settings file has its page, and a page that many
# share names each of them.
. "${T_SRCDIR:-.}/t/tap.sh"

cd "$srcdir" || exit 1

# The page a name leads to, through its alias.
page_of()
{
    [ -e "$1" ] || return
    alias=$(sed -n '1s/^\.so //p' "$1")
    if [ -n "$alias" ]; then
        echo "man/${alias#man[0-9]/}"
    else
        echo "$1"
    fi
}

functions=$(sed -n 's/^ *\(symmcoll_[a-z0-9_]*\);.*/\1/p' lib/libsymmcoll.map)
[ -n "$functions" ] || exit 1

missing=
unnamed=
undeclared=
for function in $functions; do
    page=$(page_of "man/$function.3")
    if [ -z "$page" ] || [ ! -e "$page" ]; then
        missing="$missing $function"
        continue
    fi
    grep -qE "^\.Nm $function( ,)?\$" "$page" || unnamed="$unnamed $function"
    grep -qE "^\.(Fn|Fo) $function( |\$)" "$page" ||
        undeclared="$undeclared $function"
done

dangling=
for page in man/*.[1-9]; do
    target=$(page_of "$page")
    [ -e "$target" ] || dangling="$dangling $page"
    case $(sed -n '1s/^\.so //p' "$target") in
    ?*) dangling="$dangling $page" ;;
    esac
done

# As man -M pages reads them: from the folder above, by the section.
unread=
for page in man/*.[1-9]; do
    target=$(sed -n '1s/^\.so //p' "$page")
    [ -e "$builddir/pages/${target:-man${page##*.}/${page#man/}}" ] ||
        unread="$unread $page"
done

stale=
for page in man/symmcoll_*.3; do
    name=$(basename "$page" .3)
    echo "$functions" | grep -qx "$name" ||
        grep -q "^struct $name {" lib/symmcoll/*.h || stale="$stale $name"
done

toolless=
for tool in bin/symmcoll-*.c; do
    name=$(basename "$tool" .c)
    [ -e "man/$name.1" ] || toolless="$toolless $name"
done

installed=$(cd "$builddir" && MAKEFLAGS='' ${T_MAKE:-make} -s -f - value <<'END'
include Makefile
value:
	@printf '%s\n' $(foreach section,1 3 5 7,$(dist_man$(section)_MANS))
END
)
unlisted=
for page in man/*.[1-9]; do
    echo "$installed" | grep -qxF "$page" || unlisted="$unlisted $page"
done

plan 9
none "$missing" 'every exported function has a page'
none "$unnamed" 'its page has it under NAME'
none "$undeclared" 'its page has it under SYNOPSIS'
none "$dangling" 'every alias leads to a page that exists'
none "$unread" 'man -M pages finds every page and every alias in the tree'
none "$stale" 'every page of section 3 is about an exported function or a struct'
none "$toolless" 'every tool has a page'
[ -e man/symmcoll.conf.5 ] && [ -e man/symmcoll.7 ]
ok $? 'the settings file and the library itself have a page'
none "$unlisted" 'make installs every page'
done_testing
