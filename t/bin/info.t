#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-info: its command line, its tables, and that its JSON is JSON.
. "${T_SRCDIR:-.}/t/tap.sh"

info=$builddir/bin/symmcoll-info
tab=$(printf '\t')
# A folder of modules with a name that JSON has to escape, and a file that is no
# module.
odd=$(printf '%s/mod"ules \\ %s\377' "$scratch" "$tab")
mkdir "$odd" || exit 1
echo 'not a library' >"$odd/symmcoll_broken.so"
echo 'not a module' >"$odd/other.txt"

# is_json FILE
is_json()
{
    LC_ALL=C awk -f "$srcdir/t/bin/json.awk" "$1"
}

# The parser itself must be able to fail.
for bad in '{"a": 1,}' '{"a" 1}' '[1 2]' '"a' '{} x' '[01]' '"\x"' '{a: 1}' ''; do
    printf '%s' "$bad" >"$scratch/bad"
    is_json "$scratch/bad" >/dev/null && echo "taken for JSON: $bad"
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" 'what is no JSON is recognised'

"$info" >"$scratch/out" 2>"$scratch/err"
ok $? 'everything is printed' || diag <"$scratch/err"
for table in library backends modules topology l3_caches connectivity \
    gpu_support gpus gpu_links system kernel_features limits memory algorithms \
    device_settings device_algorithms; do
    grep -q "^$table\$" "$scratch/out" || echo "$table"
done >"$scratch/missing"
none "$(cat "$scratch/missing")" 'every table is there'
is "$("$info" -V)" "$("$info" --version)" '-V is --version'
version=$("$info" --version | sed 's/.* //')
is "$(awk '$1 == "version" { print $2 }' "$scratch/out")" "$version" \
    'the version is that of --version'
is "$(awk '$1 == "processors_online" { print $2 }' "$scratch/out")" \
    "$(getconf _NPROCESSORS_ONLN)" 'the processors online are counted'
if command -v taskset >/dev/null 2>&1; then
    first=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
    is "$(taskset -c "$first" "$info" |
        awk '$1 == "processors_allowed" { print $2 }')" 1 \
        'processors allowed are those of the mask'
else
    skip 1 'no taskset'
fi
is "$(awk '$1 == "processors" && NF == 2 && $2 ~ /^[0-9]+$/ { n = $2 }
    $1 == "cores" { c = $2 } $1 == "packages" { p = $2 }
    END { print (p >= 1 && c >= p && n >= c) }' "$scratch/out")" 1 \
    'there are packages, not more of them than cores, nor of those than threads'
is "$(awk '$1 == "memfd_seals" || $1 == "robust_futex" { printf "%s ", $2 }' \
    "$scratch/out")" 'yes yes ' 'what the library needs of the kernel works'
is "$( (ulimit -n 77 && "$info") | awk '$1 == "RLIMIT_NOFILE" { print $2 }')" \
    77 'a limit is the one in effect'
grep -q '^  huge_pages  *[0-9].*not used: symm_mem.huge_pages is off' \
    "$scratch/out"
ok $? 'huge pages are not used where the setting is off'
SYMMCOLL_SYMM_MEM_HUGE_PAGES=on "$info" >"$scratch/huge" 2>"$scratch/err"
is "$(awk '$1 == "huge_pages" && !/is off/ &&
    ($2 == 0) == /not used: (the kernel has none|none is free)/ { print "yes" }' \
    "$scratch/huge")" yes 'or are free, or the reason why not is told'
grep -q '^  host  *built-in  *yes ' "$scratch/out"
ok $? 'the host backend is there'

"$info" --json >"$scratch/json" 2>"$scratch/err"
ok $? 'everything is printed as JSON' || diag <"$scratch/err"
try 'it is JSON' is_json "$scratch/json"
SYMMCOLL_MODULE_DIR=$odd "$info" --json >"$scratch/json" 2>"$scratch/err"
try 'it is JSON whatever the names of files are' is_json "$scratch/json"
SYMMCOLL_MODULE_DIR=$odd "$info" >"$scratch/out" 2>"$scratch/err"
LC_ALL=C grep -q '^  broken  *module  *no .*symmcoll_broken.so' "$scratch/out" &&
    ! grep -q '^  other ' "$scratch/out"
ok $? 'a module that cannot be loaded has a reason' || diag <"$scratch/out"
mkdir "$scratch/empty"
is "$(SYMMCOLL_MODULE_DIR=$scratch/empty "$info" | awk '$2 == "module" &&
    $3 == "no" { print $1 }')" cuda 'no module is listed that is not part of this release'
is "$(SYMMCOLL_MODULE_DIR=$scratch/empty "$info" |
    sed -n 's/^  cuda  *module  *no *//p')" 'not installed; optional' \
    'a module that is not there is no fault'
cp "$odd/symmcoll_broken.so" "$scratch/empty/symmcoll_cuda.so"
SYMMCOLL_MODULE_DIR=$scratch/empty "$info" | grep -q \
    "^  cuda  *module  *no .*$scratch/empty/symmcoll_cuda.so"
ok $? 'one that is there and cannot be loaded has a reason'
"$info" | grep -q '^  cblas  *[a-z]*  (products of matrices'
ok $? 'optional libraries have their use'

"$info" --algorithms >"$scratch/out"
is "$(head -n 1 "$scratch/out"):$(grep -c '^[a-z]' "$scratch/out")" \
    'algorithms:3' '--algorithms prints that table, and those of devices'
for operation in barrier all_reduce reduce reduce_scatter all_gather gather \
    broadcast scatter all_to_all all_to_all_v all_to_all_list \
    all_gather_list reduce_scatter_list; do
    for ranks in processes threads; do
        awk -v op=$operation -v ranks=$ranks '
            # Ranges begin at the least size, follow each other, and end open.
            $1 == op && $2 == ranks && $3 == "private" {
                if (!seen++)
                    wrong = $4 > 1
                else if ($4 != last + 1)
                    wrong = 1
                last = $5
            }
            END { exit !(seen && !wrong && last == "-") }' "$scratch/out" ||
            echo "$operation $ranks"
    done
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" \
    'every operation has an algorithm for every size, with both providers'
is "$(SYMMCOLL_HOST_SMALL_MAX=1KiB "$info" --algorithms | awk '
    $1 == "all_reduce" && $2 == "processes" { print $5; exit }')" 1024 \
    'the table follows the settings'
is "$(awk '$3 == "symmetric" && $6 != "in_place"' "$scratch/out"):$(
    awk '$3 == "symmetric" { print $1 }' "$scratch/out" | sort -u | tr '\n' ' ')" \
    ':all_gather all_reduce all_to_all broadcast gather reduce reduce_scatter scatter ' \
    'symmetric buffers have rows of their own'
is "$(SYMMCOLL_HOST_SYMMETRIC=off "$info" --algorithms |
    grep -c ' symmetric  ')" 0 \
    'without host.symmetric they have not'
"$info" --algorithms --json >"$scratch/json"
try '--algorithms --json is JSON' is_json "$scratch/json"


# ---- on device memory ----

is "$(SYMMCOLL_MODULE_DIR=$scratch/none "$info" --algorithms |
    sed -n 's/^  missing  *//p')" 'cuda module not installed' \
    'without the module for CUDA that is said'
SYMMCOLL_MODULE_DIR=$scratch/empty "$info" --algorithms |
    grep -q "^  missing  *.*$scratch/empty/symmcoll_cuda.so"
ok $? 'and why one cannot be loaded'
is "$(SYMMCOLL_MODULE_DIR=$scratch/empty SYMMCOLL_CUDA_STAGING=64KiB \
    SYMMCOLL_CUDA_BLOCKS=7 "$info" --algorithms |
    awk '$1 ~ /^cuda.(staging|blocks)/ { printf "%s ", $2 }')" '65536 7 ' \
    'the settings are those in force all the same'
# device_rows: "RANKS FROM TO KERNEL, " of each row of all_reduce on devices.
device_rows()
{
    "$info" --algorithms | awk '/^device_algorithms/ { on = 1 }
        on && $1 == "all_reduce" { printf "%s %s %s %s, ", $2, $3, $4, $5 }'
}
if [ -e "$builddir/symmcoll_cuda.la" ] && [ -z "${T_CUDA_MISSING:-}" ]; then
    is "$(SYMMCOLL_CUDA_PACKETS_MAX=1KiB SYMMCOLL_CUDA_ONE_SHOT_MAX=2KiB \
        SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO=3KiB device_rows)" \
        '2 1 1024 packets, 2 1025 3072 one_shot, 2 3073 - two_shot, others 1 1024 packets, others 1025 2048 one_shot, others 2049 - two_shot, ' \
        'kernels change where the settings say'
    is "$(SYMMCOLL_CUDA_PACKETS_MAX=16KiB SYMMCOLL_CUDA_BLOCKS=1 device_rows |
        sed 's/,.*//')" '2 1 2048 packets' \
        'few blocks have fewer packets'
    is "$(SYMMCOLL_CUDA_PACKETS_MAX=0 SYMMCOLL_CUDA_ONE_SHOT_MAX=0 \
        SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO=0 device_rows)" 'any 1 - two_shot, ' \
        'what is the same for all numbers of ranks has one row'
else
    skip 3 "${T_CUDA_MISSING:-built without CUDA}"
fi

"$info" --bogus >"$scratch/out" 2>"$scratch/err"
is "$?:$(cat "$scratch/out")" '2:' 'an unknown option is refused'
"$info" extra >"$scratch/out" 2>"$scratch/err"
is "$?:$(grep -c 'found "extra"' "$scratch/err")" '2:1' 'an argument is refused'
SYMMCOLL_HOST_SMALL_MAX=lots "$info" >"$scratch/out" 2>"$scratch/err"
is "$?:$(grep -c 'host.small_max' "$scratch/err")" \
    '1:1' 'a wrong setting is an error that names it'
grep -q '^  settings_error  .*host.small_max.*(the built-in settings' \
    "$scratch/out" && grep -q '^algorithms$' "$scratch/out"
ok $? 'everything is shown all the same' || diag <"$scratch/out"
echo 'host = {' >"$scratch/broken.conf"
SYMMCOLL_CONF=$scratch/broken.conf "$info" --json >"$scratch/json" \
    2>"$scratch/err"
status=$?
if "$info" | grep -q '^  libconfig  *no'; then
    skip 2 'settings files are not read: built without libconfig'
else
    is "$status:$(grep -c 'broken.conf' "$scratch/err"):$(grep -c \
        '"settings_error": ".*broken.conf' "$scratch/json")" '1:1:1' \
        'so it is with a settings file that is broken'
    try 'and that is JSON' is_json "$scratch/json"
fi
is "$("$info" | awk '$1 == "settings_error" { print $2 }')" - \
    'settings that are right have no error'
if [ -w /dev/full ]; then
    "$info" >/dev/full 2>"$scratch/err"
    [ $? -eq 1 ] && grep -q 'standard output' "$scratch/err"
    ok $? 'an output that cannot be written is an error'
else
    skip 1 'no /dev/full'
fi

done_testing
