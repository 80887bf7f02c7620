#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checks the compiled kernels, in the files that make kept: the report of each
# kernel's registers and stack, PTX, and the image itself.
. "${T_SRCDIR:-.}/t/tap.sh"

[ -z "${T_CUDA_MISSING:-}" ] ||
    skip_all "built without CUDA: $T_CUDA_MISSING"
report=$builddir/kernels/all.report
ptx=$builddir/kernels/all.ptx
image=$builddir/kernels/all.fatbin
archs=${T_CUDA_ARCHS:-80 90 100}

# A block of 512 threads uses at most three quarters of the 65536 registers of a
# multiprocessor: the rest is for kernels of the program.
registers_max=96

# Kernels that have no data to move in parts of 16 bytes: they wait, write words, or
# send packets of 8; one that only loads such parts, and one that only stores them.
narrow='^symc_(barrier|packets_.*|plan|(put|wait)_signal|signal_barrier|(write|wait)32)$'
loading='^symc_nan_scan$'
storing='^symc_fill32$'

# "ARCH KERNEL STACK SPILLED REGISTERS" for each kernel.
kernels()
{
    awk '
        /Compiling entry function/ {
            split($0, quoted, "\047")
            name = quoted[2]
            arch = quoted[4]
            sub(/^sm_/, "", arch)
            own = 0
        }
        # A function that was not inlined has its own entry.
        /Function properties for/ { own = $NF == name; other = $NF }
        / bytes stack frame/ {
            if (own) {
                stack = $1
                spilled = $5 + $9
            } else {
                print arch, name ":" other, $1, $5 + $9, 0
            }
        }
        /: Used [0-9]+ registers/ {
            match($0, /Used [0-9]+/)
            print arch, name, stack, spilled, substr($0, RSTART + 5, RLENGTH - 5)
        }' "$1"
}

# Lines of the report that are no part of it: warnings, notes.
warnings()
{
    sed '/^ptxas info /d; /^    [0-9]* bytes stack frame, /d; /^$/d' "$1"
}

# "KIND ARCH" of each part of the image: elf is code, ptx is compiled for what is
# newer.  A header of 16 bytes, then for each part a header that begins with its
# kind (2 bytes), has its own size at 4, what follows at 8, the architecture at 28.
parts()
{
    od -An -v -tu1 -w1 "$1" | awk '
        function number(at, bytes,    value) {
            while (bytes-- > 0)
                value = value * 256 + byte[at + bytes]
            return value
        }
        { byte[NR - 1] = $1 }
        END {
            for (at = 16; at < NR; at += number(at + 4, 4) + number(at + 8, 8))
                print number(at, 2) == 1 ? "ptx" : "elf", number(at + 28, 4)
        }'
}

# "KERNEL LOADS STORES" of 16 bytes, in PTX.
vectors_of_ptx()
{
    awk '
        /\.entry / {
            match($0, /symc_[a-z0-9_]+/)
            name = substr($0, RSTART, RLENGTH)
            loads[name] += 0
        }
        /^[ \t]*(@!?%p[0-9]+ )?[ \t]*ld\.[a-z.]*v4\.[bufs]32/ { loads[name]++ }
        /^[ \t]*(@!?%p[0-9]+ )?[ \t]*st\.[a-z.]*v4\.[bufs]32/ { stores[name]++ }
        END {
            for (name in loads)
                print name, loads[name], stores[name] + 0
        }' "$1" | LC_ALL=C sort
}

# Checks the code for one architecture.
vectors_of_code()
{
    cuobjdump -sass -arch "sm_$1" "$2" | awk '
        /Function :/ { name = $NF; loads[name] += 0 }
        / LDG?\.E(\.[A-Z0-9]+)*\.128/ { loads[name]++ }
        / STG?\.E(\.[A-Z0-9]+)*\.128/ { stores[name]++ }
        END {
            for (name in loads)
                print name, loads[name], stores[name] + 0
        }' | LC_ALL=C sort
}

# Kernels that move data in smaller parts than they could.
scalar()
{
    awk -v narrow="$narrow" -v loading="$loading" -v storing="$storing" '
        $1 ~ narrow { next }
        ($2 == 0 && $1 !~ storing) || ($3 == 0 && $1 !~ loading) {
            print $1 ": " $2 " loads and " $3 " stores of 16 bytes"
        }' "$1"
}

kernels "$report" >"$scratch/kernels"
for arch in $archs; do
    awk -v arch="$arch" '$1 == arch { print $2 }' "$scratch/kernels" |
        LC_ALL=C sort >"$scratch/names.$arch"
done
last=$arch
count=$(wc -l <"$scratch/names.$last")
[ "$count" -gt 20 ]
ok $? "the report has the kernels ($count)"
for arch in $archs; do
    cmp -s "$scratch/names.$arch" "$scratch/names.$last" ||
        diff "$scratch/names.$arch" "$scratch/names.$last" |
            sed -n "s/^[<>]/only one of $arch and $last has/p"
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" "each is compiled for $archs"
is "$(parts "$image" | LC_ALL=C sort | tr '\n' ' ')" \
    "$({ printf 'elf %s\n' $archs; echo "ptx $last"; } | LC_ALL=C sort |
        tr '\n' ' ')" "the image has code for each, and PTX for $last"
none "$(warnings "$report")" 'the compiler warns of nothing'
none "$(awk '$4 > 0 { print $2 " on " $1 ": " $4 " bytes" }' \
    "$scratch/kernels")" 'no kernel spills registers'
none "$(awk '$3 > 0 { print $2 " on " $1 ": " $3 " bytes" }' \
    "$scratch/kernels")" 'no kernel has a stack frame'
none "$(awk -v max=$registers_max '$5 > max { print $2 " on " $1 ": " $5 }' \
    "$scratch/kernels")" "no kernel uses more than $registers_max registers"

vectors_of_ptx "$ptx" >"$scratch/vectors"
is "$(cut -d ' ' -f 1 "$scratch/vectors")" "$(cat "$scratch/names.$last")" \
    'the PTX has the same kernels'
none "$(scalar "$scratch/vectors")" \
    'data are loaded and stored 16 bytes at a time'
if ! command -v cuobjdump >/dev/null 2>&1; then
    skip 1 'no cuobjdump'
else
    for arch in $archs; do
        vectors_of_code "$arch" "$image" >"$scratch/code"
        cut -d ' ' -f 1 "$scratch/code" | cmp -s - "$scratch/names.$arch" ||
            echo "$arch: other kernels"
        scalar "$scratch/code" | sed "s/^/$arch: /"
    done >"$scratch/wrong"
    none "$(cat "$scratch/wrong")" 'so they are in the code for each device'
fi

# Each of these must be able to fail.
cat >"$scratch/bad" <<'END'
kernels/bad.h(7): warning #177-D: variable "x" was declared but never referenced

ptxas info    : Compiling entry function 'symc_bad' for 'sm_90'
ptxas info    : Function properties for symc_bad
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 72 registers, used 1 barriers, 16 bytes cumulative stack size
ptxas info    : Function properties for symc_called
    24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
END
is "$(kernels "$scratch/bad")" '90 symc_bad 16 20 72
90 symc_bad:symc_called 24 0 0' 'spills, stack and registers are found'
is "$(warnings "$scratch/bad" | wc -l)" 1 'a warning is found'
printf '%s\n' '.visible .entry symc_slow(' 'ld.global.u32 %r1, [%rd24];' \
    'ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd24];' >"$scratch/bad"
is "$(vectors_of_ptx "$scratch/bad"; vectors_of_ptx "$scratch/bad" |
    scalar /dev/stdin)" 'symc_slow 1 0
symc_slow: 1 loads and 0 stores of 16 bytes' 'scalar stores are found'
done_testing
