# SPDX-License-Identifier: BSD-3-Clause
# Completion of the symmcoll tools for bash.  Options come from the tool's --help, so
# that they are those of the version that is installed.

# Prints the long options of a tool, one a line.
_symmcoll_options()
{
    "$1" --help 2>/dev/null |
        sed -n 's/^ \{2,\}\(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' | sort -u
}

# Returns whether the words before the one to complete have the program that
# symmcoll-run is to start.  What follows these options is their value.
_symmcoll_has_program()
{
    local i word
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        -n | --ranks | --bind | --grace | --max-restarts | --output) i=$((i + 1)) ;;
        -*) ;;
        *) return 0 ;;
        esac
    done
    return 1
}

_symmcoll()
{
    local tool=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]}
    local name=${tool##*/} before=${COMP_WORDS[COMP_CWORD - 1]} words=

    COMPREPLY=()
    if [ "$name" = symmcoll-run ] && _symmcoll_has_program; then
        return
    fi
    case $name:$before:$word in
    *:*:-*) words=$(_symmcoll_options "$tool") ;;
    symmcoll-conf:get:*) words=$("$tool" list 2>/dev/null | cut -f 1) ;;
    symmcoll-conf:"$tool":*) words='list get check' ;;
    symmcoll-run:--bind:*) words='core none' ;;
    symmcoll-run:-*) ;;
    symmcoll-run:*)
        mapfile -t COMPREPLY < <(compgen -c -- "$word")
        return
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _symmcoll symmcoll-conf symmcoll-info symmcoll-perf \
    symmcoll-run symmcoll-store
