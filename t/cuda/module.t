#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The module for CUDA needs the C library and nothing else, so that it loads on a
# machine without a driver and can say so; and it exports its table alone.
. "${T_SRCDIR:-.}/t/tap.sh"

[ -z "${T_CUDA_MISSING:-}" ] ||
    skip_all "built without CUDA: $T_CUDA_MISSING"
module=$builddir/.libs/symmcoll_cuda.so
[ -e "$module" ] || skip_all 'no module was built'
nm=${T_NM:-nm}

# Libraries that it wants, less those of a sanitizer.
needed()
{
    objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' |
        grep -vE '^lib(asan|ubsan|tsan|gcc_s)\.so'
}

# Symbols that it takes from elsewhere, of CUDA or of this library.
# shellcheck disable=SC2086
taken()
{
    $nm -D --undefined-only "$1" | awk '{ print $2 }' |
        grep -E '^(cu[A-Z]|cuda|nccl|nvml|symc_|symmcoll_)'
}

# shellcheck disable=SC2086
exported()
{
    $nm -D --defined-only "$1" | awk '{ print $3 }' | grep -vE '^_(init|fini)$'
}

# A sanitizer brings libm along.
allowed='^(libc\.so|ld-linux)'
[ "${T_SANITIZER:-no}" = no ] || allowed='^(lib[cm]\.so|ld-linux)'
none "$(needed "$module" | grep -vE "$allowed")" \
    'it needs the C library alone'
none "$(taken "$module")" 'it takes no symbol of CUDA, nor of this library'
is "$(exported "$module")" symmcoll_backend 'it exports its table alone'
# shellcheck disable=SC2086
[ "$($nm "$module" 2>/dev/null | grep -c ' r symc_image$')" -eq 1 ]
ok $? 'the code for devices is in it'
SYMMCOLL_MODULE_DIR=$builddir/.libs "$builddir/bin/symmcoll-info" \
    >"$scratch/out" 2>&1
is "$(sed -n 's/^  cuda  *module  *//p' "$scratch/out")" 'yes        -' \
    'it loads where there is no driver'

# A program that takes and needs more is found out.
cat >"$scratch/bad.c" <<'END'
int cuInit(unsigned flags);
double cos(double x);
int symmcoll_other(double x)
{
    return cuInit(0) + (int)cos(x);
}
END
if ${T_CC:-cc} -shared -fPIC -Wl,--no-as-needed -o "$scratch/bad.so" \
    "$scratch/bad.c" -lm 2>"$scratch/err"; then
    is "$(needed "$scratch/bad.so" | grep -c '^libm'):$(taken "$scratch/bad.so"
    ):$(exported "$scratch/bad.so")" '1:cuInit:symmcoll_other' \
        'a module that needs more would be noticed'
else
    diag <"$scratch/err"
    ok 1 'a module that needs more would be noticed'
fi
done_testing
