#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Which BLAS multiplies train_charlm's matrices is said, and what the reference
# one costs; the packages that the build asks for bring a fast one.
. "${T_SRCDIR:-.}/t/tap.sh"

train=$builddir/examples/train_charlm
run=$builddir/bin/symmcoll-run

# ---- what the build asks for ----

# One package, as the list of installed ones has it.
installed()
{
    printf '%s\n' "Package: $1" 'Status: install ok installed' \
        "Architecture: $(dpkg --print-architecture)" 'Version: 99' \
        'Maintainer: nobody <nobody@localhost>' 'Description: none'
    [ "$1" != debhelper ] || echo 'Provides: debhelper-compat (= 13)'
    echo
}

# What the build still wants where the reference BLAS is installed, and all that
# it names but what matches a pattern.
unmet_without()
{
    mkdir -p "$scratch/admin/updates" "$scratch/admin/info"
    : >"$scratch/admin/available"
    for name in build-essential libblas-dev $(awk '
        /^Build-Depends:/ { on = 1; sub(/^[^:]*:/, "") }
        on && /^[A-Z]/ { exit }
        on { gsub(/[(<][^,|]*|-compat|[ \t]/, ""); gsub(/[,|]/, " "); print }
        ' "$srcdir/debian/control" | tr ' ' '\n' | grep -vE "$1"); do
        installed "$name"
    done >"$scratch/admin/status"
    dpkg-checkbuilddeps --admindir="$scratch/admin" \
        "$srcdir/debian/control" 2>&1
}

if [ ! -e "$srcdir/debian/control" ] ||
    ! command -v dpkg-checkbuilddeps >/dev/null 2>&1; then
    skip 2 'no dpkg-checkbuilddeps, or no debian folder'
else
    is "$(unmet_without '^$')" '' 'all that debian/control asks for suffices'
    unmet_without '^lib(openblas|blis)-dev$' | grep -q 'libopenblas-dev'
    ok $? 'the reference BLAS does not satisfy debian/control' ||
        unmet_without '^lib(openblas|blis)-dev$' | diag
fi

# ---- what runs ----

if [ ! -x "$train" ] || [ ! -x "$run" ]; then
    skip 6 'examples/train_charlm was not built (no CBLAS)'
    done_testing
fi
"$train" --blas >"$scratch/out" 2>"$scratch/err"
library=$(sed -n 's/.*(\(.*\))$/\1/p' "$scratch/out")
# shellcheck disable=SC2086
[ -e "$library" ] && ${T_NM:-nm} -D "$library" | grep -q ' T cblas_sgemm$'
ok $? '--blas names the library that has cblas_sgemm' || diag <"$scratch/out"

cat >"$scratch/sgemm.c" <<'END'
#include <stddef.h>

static float at(const float *x, int transposed, int stride, int row, int column)
{
    return transposed ? x[column * stride + row] : x[row * stride + column];
}

/* Of row-major matrices only. */
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
    const float *a, int lda, const float *b, int ldb, float beta, float *c,
    int ldc)
{
    (void)order;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;

            for (int p = 0; p < k; p++)
                sum += at(a, ta == 112, lda, i, p) * at(b, tb == 112, ldb, p, j);
            c[i * ldc + j] =
                alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
        }
}
END
reference=$scratch/libblas.so.3
if [ "${T_SANITIZER:-no}" != no ]; then
    skip 5 'a library cannot be put before the sanitizer'
elif ! ${T_CC:-cc} -O1 -shared -fPIC -o "$reference" "$scratch/sgemm.c" \
    2>"$scratch/err"; then
    diag <"$scratch/err"
    skip 5 'no shared library could be built'
else
    LD_PRELOAD=$reference "$train" --blas >"$scratch/out" 2>"$scratch/err"
    is "$?:$(cat "$scratch/out")" "0:the reference BLAS ($reference)" \
        'the reference BLAS is recognised'
    grep -q '15 times slower' "$scratch/err" &&
        grep -q 'libopenblas-dev' "$scratch/err" &&
        grep -q 'update-alternatives' "$scratch/err"
    ok $? 'its cost is said, and what to install' || diag <"$scratch/err"

    printf '%0999d the quick brown fox' 0 >"$scratch/text"
    LD_PRELOAD=$reference timeout 600 "$run" -n 2 "$train" --steps 1 \
        --batch 8 --text "$scratch/text" >"$scratch/out" 2>"$scratch/err"
    is "$?" 0 'a training with it works' || diag <"$scratch/err"
    is "$(cat "$scratch/out" "$scratch/err" | grep -c '15 times slower')" 1 \
        'the ranks of a training warn once'
    grep -q '^\[0\] blas  *the reference BLAS$' "$scratch/out"
    ok $? 'and the summary names it' || diag <"$scratch/out"
fi
done_testing
