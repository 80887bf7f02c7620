#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests an assumption of the tests: a machine without terminals is distinguished from
# one with them.
. "${T_SRCDIR:-.}/t/tap.sh"

mkdir "$scratch/bin" "$scratch/none"
cat >"$scratch/bin/script" <<'END'
#!/bin/sh
echo 'script: failed to create pseudo-terminal: No such file or directory' >&2
exit 1
END
chmod +x "$scratch/bin/script"

is "$(PATH=$scratch/bin:$PATH no_terminal)" 'no terminal: script: failed to create pseudo-terminal: No such file or directory ' \
    'where no terminal can be made the reason is given'
is "$(PATH=$scratch/none no_terminal)" 'no script(1)' \
    'and where there is no script(1)'
printf '#!/bin/sh\nexit 0\n' >"$scratch/bin/script"
is "$(PATH=$scratch/bin:$PATH no_terminal)" '' \
    'where one can be made there is nothing to say'
done_testing
