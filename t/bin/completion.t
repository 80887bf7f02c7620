#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Completion for bash and zsh knows the tools and the options of their --help.
. "${T_SRCDIR:-.}/t/tap.sh"

bash=$srcdir/etc/completion/symmcoll.bash
zsh=$srcdir/etc/completion/_symmcoll
tools='symmcoll-conf symmcoll-info symmcoll-perf symmcoll-run symmcoll-store'

command -v bash >/dev/null 2>&1 || skip_all 'no bash'

# complete_words WORD...: what bash offers for the last of a command's words.
complete_words()
{
    # shellcheck disable=SC2016
    PATH=$builddir/bin:$PATH bash -c '
        . "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _symmcoll
        [ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' "$bash" "$@"
}

# The options in the text of --help, wherever they stand in a line.
options_of()
{
    "$builddir/bin/$1" --help | grep -oE '(^|[^a-z-])--[a-z][a-z-]*' |
        sed 's/^[^-]//' | LC_ALL=C sort -u
}

for tool in $tools; do
    complete_words "$tool" -- | LC_ALL=C sort >"$scratch/offered"
    options_of "$tool" >"$scratch/options"
    [ -s "$scratch/options" ] && diff "$scratch/options" "$scratch/offered" >&2
    ok $? "the options of $tool are offered"
done
is "$(complete_words symmcoll-conf get host.chu)" host.chunk \
    'symmcoll-conf get: the keys of settings'
is "$(complete_words symmcoll-conf '' | LC_ALL=C sort | tr '\n' ' ')" \
    'check get list ' 'symmcoll-conf: its commands'
is "$(complete_words symmcoll-run -n 4 --bind n)" none \
    'symmcoll-run --bind: its values'
complete_words symmcoll-run -n 4 symmcoll-pe | grep -qx symmcoll-perf
ok $? 'symmcoll-run: the program'
is "$(complete_words symmcoll-run -n 4 symmcoll-perf --)" '' \
    'what follows the program is not of symmcoll-run'
is "$(bash -c '. "$0"; complete -p | sed "s/.* //"' "$bash" | LC_ALL=C sort |
    tr '\n' ' ')" "$tools " 'bash completes every tool'
is "$(sed -n '1s/^#compdef //p' "$zsh")" "$tools" 'so does zsh'
is "$(cd "$builddir/bin" && ls symmcoll-* | grep -vE '\.(c|o)$' | tr '\n' ' ')" \
    "$tools " 'which are all that there are'
if command -v zsh >/dev/null 2>&1; then
    try 'zsh takes its file' zsh -n "$zsh"
else
    skip 1 'no zsh'
fi
done_testing
