#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every source file names its licence in one of its first two lines.
. "${T_SRCDIR:-.}/t/tap.sh"

# The source files of the folders that lack the line.  Programs of tests, which a
# build leaves beside their sources, are binary.
find_unlicensed()
{
    find "$@" -name scratch -prune -o -type f \( -name '*.[chS]' -o -name '*.cu' \
        -o -name '*.mk' -o -name '*.sh' -o -name '*.t' \) -exec grep -lI '' {} + |
        LC_ALL=C sort | xargs awk '
            FNR == 1 { named = 0 }
            /SPDX-License-Identifier: BSD-3-Clause/ { named = 1 }
            FNR == 2 { if (!named) print FILENAME; nextfile }'
}

plan 2
(cd "$srcdir" && find_unlicensed bench bin examples kernels lib t) >"$scratch/found"
none "$(cat "$scratch/found")" 'every source file names its licence'

# The test itself must be able to fail.
mkdir "$scratch/tree"
printf '/* Text. */\nint a;\n' >"$scratch/tree/a.c"
printf '#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\n' >"$scratch/tree/b.sh"
is "$(find_unlicensed "$scratch/tree" | wc -l)" 1 'a file without that is found'
done_testing
