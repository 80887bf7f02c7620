#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The example of every page of section 3, and of the tour, is a whole program: it compiles against
# the library that was built, without a warning, and runs on two ranks.  That for devices compiles
# with the headers of CUDA.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
[ -x "$run" ] || skip_all 'symmcoll-run was not built'

# example_of PAGE PATTERN: the literal block that matches, from EXAMPLES, as C text: roff's \e
# is a backslash, and a leading \& is nothing.
example_of()
{
    awk -v wanted="$2" '
        /^\.Sh / { examples = /EXAMPLES/ }
        examples && /^\.Bd -literal/ { on = 1; text = ""; next }
        on && /^\.Ed/ {
            if (text ~ wanted) { printf "%s", text; exit }
            on = 0
        }
        on { gsub(/\\e/, "\\"); sub(/^\\&/, ""); gsub(/\\(\(aq|\[aq\])/, "\047")
             gsub(/\\-/, "-"); text = text $0 "\n" }' "$1"
}

# compile NAME
compile()
{
    # shellcheck disable=SC2086
    "$T_SHELL" "$builddir/libtool" --quiet --tag=CC --mode=link \
        ${T_CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -g \
        ${T_CFLAGS:-} -I"$srcdir/lib" -no-install -o "$scratch/$1" \
        "$scratch/$1.c" "$builddir/libsymmcoll.la" -lm
}

T_SHELL=${T_SHELL:-sh}
cd "$srcdir/man" || exit 1
for page in *.3 symmcoll.7; do
    grep -q '^\.so ' "$page" && continue
    name=${page%.[0-9]}
    example_of "$page" 'int main[(]' >"$scratch/$name.c"
    if [ ! -s "$scratch/$name.c" ]; then
        ok 1 "$page has an example that is a whole program"
        continue
    fi
    # In the scratch folder, where an example may leave a file.
    if try "the example of $page compiles" compile "$name"; then
        cd "$scratch" || exit 1
        try "the example of $page runs on two ranks" \
            timeout 120 "$run" -n 2 "./$name"
        cd "$srcdir/man" || exit 1
    else
        skip 1 'it does not compile'
    fi
done

# compile_cuda SOURCE
compile_cuda()
{
    # shellcheck disable=SC2086
    ${T_CC:-cc} -std=c11 -Wall -Wextra -Werror -I"$srcdir/lib" ${T_CUDA_CPPFLAGS:-} \
        -c -o "$scratch/cuda.o" "$1"
}

echo '#include <cuda_runtime_api.h>' >"$scratch/header.c"
example_of symmcoll-cuda.7 'int main[(]' >"$scratch/cuda.c"
if ! grep -q symmcoll_all_reduce "$scratch/cuda.c"; then
    ok 1 'symmcoll-cuda.7 has an example'
elif compile_cuda "$scratch/header.c" 2>/dev/null; then
    try 'the example of symmcoll-cuda.7 compiles' compile_cuda "$scratch/cuda.c"
else
    skip 1 'the headers of CUDA are not installed'
fi
done_testing
