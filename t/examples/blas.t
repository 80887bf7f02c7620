#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# train_charlm multiplies by the fastest BLAS that is installed, whatever a library
# reports about the CPU, and prints its name and the cost of the reference BLAS; the
# packages that the build requires include a fast one.
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

# Prints the packages that the build still needs when the reference BLAS is installed,
# and all others that it names except those that match a pattern.
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
    skip 18 'examples/train_charlm was not built (no CBLAS)'
    done_testing
fi
"$train" --blas >"$scratch/out" 2>"$scratch/err"
library=$(sed -n '1s/.*(\(.*\))$/\1/p' "$scratch/out")
# shellcheck disable=SC2086
[ -e "$library" ] && ${T_NM:-nm} -D "$library" | grep -q ' T cblas_sgemm$'
ok $? '--blas names the library that has cblas_sgemm' || diag <"$scratch/out"

# A BLAS.  NAME: a function by which it reports a name; REPEAT: how often it computes
# each product; FACTOR: of results, so that they tell which library computed them.
cat >"$scratch/sgemm.c" <<'END'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(OPENBLAS)
const char *openblas_get_config(void)
{
    return "OpenBLAS 9.9 NO_LAPACKE";
}

/* The kernels that it takes by itself are old. */
const char *openblas_get_corename(void)
{
    static char core[32] = "Prescott";
    const char *wanted = getenv("OPENBLAS_CORETYPE");
    static int asked;

    if (!asked && wanted != NULL && *wanted != '\0')
        strncpy(core, wanted, sizeof(core) - 1);
    asked = 1;
    return core;
}

__attribute__((constructor)) static void read_core(void)
{
    openblas_get_corename();
}
#elif defined(BLIS)
const char *bli_info_get_version_str(void)
{
    return "9.9";
}
#endif

static int repeats(void)
{
#if defined(OPENBLAS)
    const char *fast = getenv("FAST_KERNELS");

    return fast != NULL && strcmp(fast, openblas_get_corename()) == 0 ? 1 : 20;
#elif defined(BLIS)
    return getenv("FAST_KERNELS") != NULL ? 20 : 1;
#else
    return 1;
#endif
}

static void multiply(const float *a, int a_row, int a_col, const float *b,
    int b_row, int b_col, int m, int n, int k, float *c, int ldc)
{
    for (int i = 0; i < m; i++) {
        float *row = c + i * ldc;

        memset(row, 0, n * sizeof(*row));
        for (int p = 0; p < k; p++) {
            float factor = FACTOR * a[i * a_row + p * a_col];

            if (b_col == 1)
                for (int j = 0; j < n; j++)
                    row[j] += factor * b[p * b_row + j];
            else
                for (int j = 0; j < n; j++)
                    row[j] += factor * b[p * b_row + j * b_col];
        }
    }
}

static void (*volatile multiply_now)(const float *, int, int, const float *,
    int, int, int, int, int, float *, int) = multiply;

/* Of row-major matrices and a beta of 0 only. */
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
    const float *a, int lda, const float *b, int ldb, float beta, float *c,
    int ldc)
{
#if defined(CRASHES)
    raise(SIGILL);
#elif defined(LOOPS)
    for (volatile int i = 1; i != 0;)
        continue;
#elif defined(SLEEPS)
    for (;;)
        pause();
#endif
    for (int i = 0; i < repeats(); i++)
        multiply_now(a, ta == 112 ? 1 : lda, ta == 112 ? lda : 1, b,
            tb == 112 ? 1 : ldb, tb == 112 ? ldb : 1, m, n, k, c, ldc);
}
END

# Build such a library; what the file is called, and definitions.
build()
{
    file=$1
    shift
    ${T_CC:-cc} -O3 -shared -fPIC -DFACTOR=1.0f "$@" -o "$file" \
        "$scratch/sgemm.c" 2>>"$scratch/err"
}

reference=$scratch/libblas.so.3
fakes=$scratch/fakes
mkdir "$fakes"
: >"$scratch/err"
if ! { build "$reference" &&
    build "$fakes/libopenblas.so.0" -DOPENBLAS -UFACTOR -DFACTOR=1.25f &&
    build "$fakes/libblis.so.4" -DBLIS && build "$fakes/libblas.so.3" -DCRASHES &&
    build "$fakes/libmkl_rt.so.2" -DLOOPS &&
    build "$fakes/libcblas.so.3" -DSLEEPS; }; then
    diag <"$scratch/err"
    skip 17 'no shared library could be built'
    done_testing
fi

# Run a command where these are the libraries that are installed.
among_fakes()
{
    LD_LIBRARY_PATH="$fakes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@" \
        >"$scratch/out" 2>"$scratch/err"
}

among_fakes "$train" --blas
head -n 1 "$scratch/out" | grep -q "^BLIS 9\.9, [0-9.]* GF/s ($fakes/libblis"
ok $? 'the fastest is taken, whatever the first one thinks of the CPU' ||
    cat "$scratch/out" "$scratch/err" | diag
grep -q '^rejected: OpenBLAS 9\.9, kernels for Prescott ([0-9.]*); ' "$scratch/out"
ok $? 'a slower one is named with its rate' || diag <"$scratch/out"
grep -q 'libblas.so.3 (it ended its process by signal 4 (.*))' "$scratch/out"
ok $? 'one that crashes is rejected' || diag <"$scratch/out"
grep -q 'libmkl_rt.so.2 (it did not return)' "$scratch/out"
ok $? 'one that computes for ever is rejected' || diag <"$scratch/out"
grep -q 'libcblas.so.3 (it did not return)' "$scratch/out"
ok $? 'one that sleeps for ever is rejected' || diag <"$scratch/out"

is "$(sed -n 's/^again: --use-blas //p' "$scratch/out")" libblis.so.4 \
    'how to take it again is said'
among_fakes "$train" --blas --use-blas libopenblas.so.0:Nehalem
is "$(cat "$scratch/out")" \
    "OpenBLAS 9.9, kernels for Nehalem ($fakes/libopenblas.so.0)" \
    'a library and its kernels may be named by hand'
among_fakes "$train" --blas --use-blas libabsent.so
is "$?:$(cat "$scratch/err")" \
    '1:train_charlm: expected CBLAS in libabsent.so, found none' \
    'one that is not there is an error'
OPENBLAS_CORETYPE=Nehalem among_fakes "$train" --blas
is "$(head -n 1 "$scratch/out")" \
    "OpenBLAS 9.9, kernels for Nehalem ($fakes/libopenblas.so.0)" \
    'the kernels that the user has set are taken, unmeasured'

# The kernels that are tried are those that the CPU can run.
if ! grep -q '^flags.* fma .* avx2 ' /proc/cpuinfo; then
    skip 1 'the CPU has no AVX2'
else
    FAST_KERNELS=Haswell among_fakes "$train" --blas
    grep -q '^OpenBLAS 9\.9, kernels for Haswell, [0-9.]* GF/s (' "$scratch/out"
    ok $? 'kernels that a library would not take itself are' ||
        diag <"$scratch/out"
fi

# Rank 1 alone would take another library than rank 0.
printf '%0999d the quick brown fox' 0 >"$scratch/text"
cat >"$scratch/rank" <<'END'
#!/bin/sh
[ "$RANK" = 0 ] || { FAST_KERNELS=Prescott; export FAST_KERNELS; }
exec "$@"
END
chmod +x "$scratch/rank"
among_fakes timeout 600 "$run" -n 2 "$scratch/rank" "$train" --steps 1 \
    --batch 8 --text "$scratch/text"
grep -q 'parameters identical on all ranks: yes' "$scratch/out"
ok $? 'all ranks take the choice of rank 0' || cat "$scratch/out" "$scratch/err" | diag
grep -q '^\[0\] blas  *BLIS 9\.9, [0-9.]* GF/s$' "$scratch/out" &&
    grep -q '^\[0\]  *rejected: OpenBLAS 9\.9' "$scratch/out"
ok $? 'the summary names it, and what was rejected' || diag <"$scratch/out"

if [ "${T_SANITIZER:-no}" != no ]; then
    skip 5 'a library cannot be put before the sanitizer'
    done_testing
fi
LD_PRELOAD=$reference "$train" --blas >"$scratch/out" 2>"$scratch/err"
is "$?:$(cat "$scratch/out")" "0:the reference BLAS ($reference)" \
    'a BLAS of the program is taken, and the reference one recognised'
grep -q '15 times slower' "$scratch/err" && grep -q 'libopenblas0' "$scratch/err"
ok $? 'its cost is said, and what to install' || diag <"$scratch/err"

LD_PRELOAD=$reference timeout 600 "$run" -n 2 "$train" --steps 1 \
    --batch 8 --text "$scratch/text" >"$scratch/out" 2>"$scratch/err"
is "$?" 0 'a training with it works' || diag <"$scratch/err"
is "$(cat "$scratch/out" "$scratch/err" | grep -c '15 times slower')" 1 \
    'the ranks of a training warn once'
grep -q '^\[0\] blas  *the reference BLAS$' "$scratch/out"
ok $? 'and the summary names it' || diag <"$scratch/out"
done_testing
