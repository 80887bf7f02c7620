#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-perf: its command line, its results under both providers, its output.
. "${T_SRCDIR:-.}/t/tap.sh"

perf=$builddir/bin/symmcoll-perf
run=$builddir/bin/symmcoll-run
sanitizer=${T_SANITIZER:-no}
unset RANK WORLD_SIZE LOCAL_RANK OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK \
    SLURM_PROCID

# ---- the command line ----

# refuses SENTENCE PATTERN ARGUMENT...: status 2, one message, nothing printed.
refuses()
{
    sentence=$1
    pattern=$2
    shift 2
    "$perf" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    if [ $status -eq 2 ] && [ ! -s "$scratch/out" ] &&
        grep -q -e "$pattern" "$scratch/err"; then
        ok 0 "$sentence"
    else
        diag "status $status, wanted in the message: $pattern"
        diag <"$scratch/err"
        ok 1 "$sentence"
    fi
}

refuses 'an unknown option is refused' 'bogus' --bogus
refuses 'an argument is refused' 'found "all_reduce"' all_reduce
refuses 'an unknown operation names the nearest' \
    'found "al_reduce"; the nearest is "all_reduce"' --op al_reduce
refuses 'an empty operation is refused' 'found ""' --op all_reduce,
refuses 'an unknown element type names the nearest' \
    'found "flot32"; the nearest is "float32"' --dtype flot32
refuses 'an unknown reduction names the nearest' \
    'found "avgg"; the nearest is "avg"' --reduce avgg
refuses 'a size of no known unit is refused' 'found "3X"' --min 3X
refuses 'a size of zero is refused' 'found "0"' --max 0
refuses 'a size beyond all memory is refused' 'found "99999999999G"' \
    --max 99999999999G
refuses 'a smallest size above the largest is refused' \
    'at most --max, 64, found 128' --min 128 --max 64
refuses 'no threads are refused' 'from 1 to 4096, found "0"' --threads 0
refuses 'a step of one, which never ends, is refused' 'found "1"' --step 1
refuses 'a time that is no number is refused' 'found "nan"' --seconds nan
refuses 'a peer whose name would break a row is refused' '--peer' \
    --peer "$(printf 'a\tb')"
refuses 'only bucket_avg can be asynchronous' 'all_reduce cannot' \
    --op all_reduce --async
refuses 'a broadcast is not done in place' 'broadcast cannot' \
    --op broadcast --in-place
refuses 'rewritten inputs below 4 KiB are refused' 'at least 4096' \
    --op all_reduce --dirty --max 512
(
    RANK=0 WORLD_SIZE=1
    export RANK WORLD_SIZE
    "$perf" --threads 2 >"$scratch/out" 2>&1
    [ $? -eq 2 ]
)
ok $? 'threads are refused where a launcher started a rank'

try '--help is printed' "$perf" --help
for option in op dtype reduce min max step threads in-place dirty async \
    symmetric seconds check-only tsv peer fused shape plot device share thresholds; do
    "$perf" --help | grep -q -e "--$option" || echo "$option"
done >"$scratch/missing"
none "$(cat "$scratch/missing")" '--help has every option'
"$perf" --version | grep -q '^symmcoll-perf [0-9]'
ok $? '--version is printed'
is "$("$perf" -V)" "$("$perf" --version)" '-V is the same'

# ---- results ----

moving='all_gather,broadcast,gather,scatter,all_to_all,all_to_all_v,barrier'
reducing='all_reduce,reduce,reduce_scatter'
in_place='all_reduce_in_place,reduce_in_place,reduce_scatter_in_place'
in_place=$in_place,all_gather_in_place
coalesced=coalesced,separate,region,coalesced_in_place
all=$moving,$coalesced,$reducing,$in_place

try 'a rank alone gives right results without a launcher' \
    "$perf" --check-only --max 32K --op "$all"
for n in 2 3; do
    try "$n threads give right results" \
        "$perf" --threads $n --check-only --max 2M --step 8 --op "$all"
    try "$n processes give right results" \
        "$run" -n $n "$perf" --check-only --max 2M --step 8 --op "$all"
done
for dtype in int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 \
    bfloat16 float64 complex64 complex128 bool; do
    "$perf" --threads 3 --check-only --max 32K --step 64 --dtype $dtype \
        --op "$all" >"$scratch/out" 2>&1 || {
        echo "$dtype"
        diag <"$scratch/out"
    }
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" 'sums of every element type are right'
for reduce in avg product min max premul_sum; do
    for dtype in float16 bfloat16 float32 float64; do
        "$perf" --threads 3 --check-only --max 32K --step 64 --dtype $dtype \
            --reduce $reduce --op $reducing >"$scratch/out" 2>&1 || {
            echo "$reduce $dtype"
            diag <"$scratch/out"
        }
    done
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" 'every reduction of floats is right'
for reduce in avg product min max band bor bxor; do
    for dtype in int8 uint16 int32 uint64; do
        "$perf" --threads 3 --check-only --max 32K --step 64 --dtype $dtype \
            --reduce $reduce --op $reducing >"$scratch/out" 2>&1 || {
            echo "$reduce $dtype"
            diag <"$scratch/out"
        }
    done
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" 'every reduction of integers is right'
try 'eight-bit floats are moved' "$run" -n 2 "$perf" --check-only --max 32K \
    --dtype float8_e4m3fn --op "$moving"
"$perf" --threads 2 --check-only --dtype float8_e4m3fn --op all_reduce \
    --max 64 >"$scratch/out" 2>"$scratch/err"
[ $? -eq 1 ] && grep -q 'all_reduce: UNSUPPORTED' "$scratch/err"
ok $? 'a reduction that the type lacks is an error where it was named'
try 'fused products are right' "$run" -n 3 "$perf" --check-only \
    --fused all_gather_matmul,matmul_reduce_scatter --shape 7,5,3 \
    --shape 1200,40,20
try 'and those of 16-bit floats' "$perf" --threads 2 --check-only \
    --fused matmul_reduce_scatter,all_gather_matmul --shape 32,16,8 \
    --dtype bfloat16
"$run" -n 2 --no-prefix "$perf" --seconds 0.001 --tsv --shape 32,16,8 \
    --fused all_gather_matmul,matmul_reduce_scatter >"$scratch/out" 2>&1 &&
    awk -F '\t' 'NF != 9 || $9 <= 0 { bad = 1 }
        END { exit bad || NR != 8 }' "$scratch/out"
ok $? 'each way has a line with its time' || diag <"$scratch/out"
"$perf" --fused all_reduce >"$scratch/out" 2>&1
[ $? -eq 2 ] && grep -q 'expected all_gather_matmul, matmul_reduce' "$scratch/out"
ok $? 'another product is refused' || diag <"$scratch/out"
"$perf" --fused all_gather_matmul --shape 1,2 >"$scratch/out" 2>&1
[ $? -eq 2 ] && grep -q 'expected M,K,N' "$scratch/out"
ok $? 'and so is half a shape' || diag <"$scratch/out"
try 'objects are gathered' "$run" -n 3 "$perf" --check-only --max 64K \
    --op object
try 'groups are made and released' "$run" -n 3 "$perf" --seconds 0.01 \
    --op group_create
try 'operations run in several groups in turn' "$perf" --threads 3 \
    --seconds 0.01 --max 64K --groups 3 --op all_reduce,barrier
try 'signals of symmetric memory go to and fro' "$run" -n 2 "$perf" \
    --seconds 0.01 --op put_signal,symm_barrier
try 'and barriers of it are of any number of ranks' "$perf" --threads 3 \
    --seconds 0.01 --op symm_barrier
pair=sendrecv,send_recv_both
try 'two threads send to each other, there and back and at once' "$perf" \
    --threads 2 --check-only --max 1M --op $pair,sendrecv_dirty
try 'so do two processes' "$run" -n 2 "$perf" --check-only --max 1M --op $pair
for ranks in 2 3; do
    try "symmetric buffers are right on $ranks processes" \
        "$run" -n $ranks "$perf" --symmetric --check-only --max 1M --step 8 \
        --op "$moving,$reducing,$in_place,all_to_all_v"
done
is "$("$perf" --threads 2 --symmetric --tsv --seconds 0.01 --min 64K --max 64K \
    --groups 2 --op all_reduce_dirty | cut -f 1-2)" \
    "symmcoll_symmetric	all_reduce_dirty" 'their rows name themselves'
"$perf" --threads 2 --symmetric --seconds 0.01 --max 8 --op barrier |
    grep -q '^symmcoll-perf .*, symmetric buffers$'
ok $? 'and so does the heading'
"$perf" --threads 3 --check-only --op $pair >"$scratch/out" 2>"$scratch/err"
is "$?:$(grep -c 'left out: expected 2 ranks, found 3' "$scratch/err"):$(grep \
    -c recv "$scratch/out")" 0:2:0 'with three both are left out, with a line each'
"$perf" --threads 2 --tsv --seconds 0.01 --max 64 --op $pair >"$scratch/out"
is "$(cut -f 2,4 "$scratch/out" | tr '\t\n' ' ;')" \
    'sendrecv 8;sendrecv 64;send_recv_both 8;send_recv_both 64;' \
    'their size is that of the message'
try 'threads set and read keys of their store' "$perf" --threads 3 \
    --check-only --max 16M --op store
"$run" -n 2 "$perf" --check-only --op store >"$scratch/out" 2>&1
[ $? -eq 1 ] && grep -q 'store: expected a store of the world' "$scratch/out"
ok $? 'processes without a store are told how they have one'
if env SYMMCOLL_STORE_SERVE=on "$run" -n 2 "$perf" --check-only --max 64K \
    --op store >"$scratch/out" 2>&1 || grep -q 'built without' "$scratch/out"
then
    ok 0 'and set and read keys of the one that rank 0 serves'
else
    diag <"$scratch/out"
    ok 1 'and set and read keys of the one that rank 0 serves'
fi
if [ "$sanitizer" = no ]; then
    try 'buckets are averaged, blocking and not' "$perf" --threads 2 \
        --check-only --op bucket_avg_blocking,bucket_avg_nonblocking
else
    skip 1 "400 MiB of buckets under a sanitizer"
fi

# ---- wrong results ----

# A library between, which spoils element 5 of sums of floats on rank 1.
cat >"$scratch/spoil.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <symmcoll.h>

symmcoll_status_t symmcoll_all_reduce(struct symmcoll_group *group, void *out,
    const void *in, size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    symmcoll_status_t (*real)(struct symmcoll_group *, void *, const void *,
        size_t, enum symmcoll_dtype, symmcoll_op_t,
        const struct symmcoll_call *, struct symmcoll_work **) =
        dlsym(RTLD_NEXT, "symmcoll_all_reduce");
    /* Looked up as well: a shell that loads this has no such function. */
    int (*rank_of)(const struct symmcoll_group *) =
        dlsym(RTLD_NEXT, "symmcoll_group_rank");
    symmcoll_status_t status =
        real(group, out, in, count, dtype, op, call, work);

    if (dtype == SYMMCOLL_FLOAT32 && count > 5 && rank_of(group) == 1)
        ((float *)out)[5] += 1;
    return status;
}
END
if [ "$sanitizer" != no ]; then
    skip 2 'a library cannot be put before the sanitizer'
elif ! ${T_CC:-cc} -shared -fPIC -I"$srcdir/lib" -o "$scratch/spoil.so" \
    "$scratch/spoil.c" -ldl 2>"$scratch/err"; then
    diag <"$scratch/err"
    skip 2 'no shared library could be built'
else
    LD_PRELOAD=$scratch/spoil.so "$perf" --threads 3 --check-only \
        --op all_reduce --max 64 >"$scratch/out" 2>"$scratch/err"
    is $? 1 'a wrong result gives status 1'
    # Elements of rank r are (r + 1) * (i % 61 + 1): 6 * 6 here.
    grep -q 'rank 1 of 3: all_reduce, .*element 5: got 37, want 36' \
        "$scratch/err"
    ok $? 'it names the rank, the element, and both values' ||
        diag <"$scratch/err"
fi

# ---- output ----

tab=$(printf '\t')
"$run" -n 2 --no-prefix "$perf" --tsv --seconds 0.001 --max 4K --op \
    "$moving,$reducing,all_reduce_dirty,all_reduce_in_place" \
    >"$scratch/tsv" 2>"$scratch/err"
ok $? '--tsv measures under the launcher' || diag <"$scratch/err"
none "$(awk -F "$tab" 'NF != 10 || $1 != "symmcoll" || $3 != 2 {
        print; next }
    { for (i = 3; i <= 10; i++) if ($i !~ /^[0-9]+(\.[0-9]+)?$/) print }
    $5 < 1 || $6 > $7 || $7 <= 0 { print }' "$scratch/tsv")" \
    'every row has ten columns, and numbers where they belong'
is "$(awk -F "$tab" '{ rows[$2] = rows[$2] " " $4 }
    END { print rows["all_reduce"] "|" rows["all_gather"] "|" \
        rows["barrier"] "|" rows["all_reduce_dirty"] "|" \
        rows["all_reduce_in_place"] }' "$scratch/tsv")" \
    ' 8 64 512 4096| 8 64 512 4096| 0| 4096| 8 64 512 4096' \
    'sizes go by eights, rewritten inputs begin at 4 KiB'
is "$("$perf" --tsv --peer other --seconds 0.001 --min 100 --max 1000 \
    --step 3 --op broadcast --dtype int8 | cut -f 1,2,3,4 | tr '\t\n' ' ;')" \
    'other broadcast 1 100;other broadcast 1 300;other broadcast 1 900;other broadcast 1 1000;' \
    '--peer, --min, --step and --max are followed, and the largest is there'
is "$("$perf" --threads 3 --tsv --seconds 0.001 --max 8 \
    --op all_gather,reduce_scatter | cut -f 4 | tr '\n' ' ')" '12 12 ' \
    'a size is at least one element for each rank'
"$perf" --threads 2 --seconds 0.001 --max 8 --op all_reduce >"$scratch/out"
grep -q '^symmcoll-perf .*: 2 ranks (threads), float32, sum, ' \
    "$scratch/out" && grep -q '^barrier [0-9.]* us: ' "$scratch/out" &&
    grep -q '^operation  *bytes  *count ' "$scratch/out" &&
    grep -q '^all_reduce  *8 B  *2 ' "$scratch/out"
ok $? 'the table has a head that says who measured what' ||
    diag <"$scratch/out"
if [ -w /dev/full ]; then
    "$perf" --max 8 --seconds 0.001 --op barrier >/dev/full 2>"$scratch/err"
    is "$? $(cat "$scratch/err")" \
        '1 symmcoll-perf: standard output: No space left on device' \
        'an output that cannot be written is an error, with its reason'
    "$perf" --threads 2 --max 64 --seconds 0.001 --op all_reduce \
        >/dev/full 2>"$scratch/err"
    is "$? $(cat "$scratch/err")" \
        '1 symmcoll-perf: standard output: No space left on device' \
        'for threads as well'
    "$perf" --help >/dev/full 2>"$scratch/err"
    is "$? $(cat "$scratch/err")" \
        '1 symmcoll-perf: standard output: No space left on device' \
        'and for --help'
else
    skip 3 'no /dev/full'
fi

# ---- pictures ----

# row PEER OP RANKS BYTES MEDIAN: as --tsv prints it
row()
{
    printf '%s\t%s\t%d\t%s\t9\t0.5\t%s\t1\t1\t0.1\n' "$@"
}

# plots_not SENTENCE PATTERN ARGUMENT...: refused, with the pattern in one message
plots_not()
{
    sentence=$1
    pattern=$2
    shift 2
    "$perf" --plot "$scratch/no.svg" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    [ $status -ne 0 ] && [ ! -s "$scratch/out" ] &&
        [ ! -e "$scratch/no.svg" ] &&
        [ "$(wc -l <"$scratch/err")" -eq 1 ] &&
        grep -q -e "$pattern" "$scratch/err"
    ok $? "$sentence" || diag <"$scratch/err"
}

{
    row ours all_reduce 2 64 10
    row ours all_reduce 2 8 1
    row ours all_reduce 2 8 3
    row ours all_reduce 2 8 0.7
    row '<a&b>' all_reduce 2 8 2
    row '<a&b>' all_reduce 2 64 4
    row ours barrier 2 0 0.1
} >"$scratch/rows.tsv"
try 'rows of --tsv are drawn' "$perf" --plot "$scratch/a.svg" \
    "$scratch/rows.tsv"
# 8 and 64 bytes are half a power of two from the ends of four; 1 us is at the
# bottom of one decade from it to 10 us.
is "$(grep -c '<polyline' "$scratch/a.svg"):$(grep '<polyline' \
    "$scratch/a.svg" | sed -n '1s/.*points="\(.*\)".*/\1/p')" \
    '4:120.8,386.0 413.2,66.0' \
    'each series has its time over size, with the median of several rows'
grep -q '&lt;a&amp;b&gt;' "$scratch/a.svg" &&
    grep -q '>all_reduce, 2 ranks<' "$scratch/a.svg" &&
    grep -q 'microseconds' "$scratch/a.svg" && grep -q 'GB/s' "$scratch/a.svg"
ok $? 'the title has what series share, the legend what they do not, both units'
grep -q 'prefers-color-scheme:dark' "$scratch/a.svg"
ok $? 'there are colours for dark viewers'
if command -v xmllint >/dev/null 2>&1; then
    try 'it is XML' xmllint --noout "$scratch/a.svg"
elif command -v python3 >/dev/null 2>&1; then
    try 'it is XML' python3 -c 'import sys, xml.dom.minidom
xml.dom.minidom.parse(sys.argv[1])' "$scratch/a.svg"
else
    skip 1 'no parser of XML'
fi
# Numbers of sizes, as "X TEXT": a letter of 12 pixels is 7 wide at most.
for most in 64 4096 131072 2097152 67108864 8589934592; do
    { row ours all_reduce 2 8 1; row ours all_reduce 2 $most 9; } >"$scratch/wide.tsv"
    "$perf" --plot "$scratch/wide.svg" "$scratch/wide.tsv"
    grep -o '<text x="[0-9.]*" y="404" text-anchor="middle" font-size="12">[^<]*' \
        "$scratch/wide.svg" | sed 's/<text x="\([0-9.]*\)".*>/\1 /' |
        awk -v most=$most '{
            half = 3.5 * (length($2) + 1 + length($3))
            if (NR > 1 && $1 > before && $1 - half < end + 4)
                print "to " most ": " $2 " " $3 " touches the one before"
            before = $1
            end = $1 + half }
            END { if (NR < 4) print "to " most ": found " NR " numbers" }'
done >"$scratch/touching"
none "$(cat "$scratch/touching")" 'numbers at the axis of sizes do not touch'
"$perf" --plot "$scratch/b.svg" "$scratch/rows.tsv"
try 'the same rows give the same bytes' cmp "$scratch/a.svg" "$scratch/b.svg"

"$perf" --plot "$scratch/own.svg" "$scratch/tsv" &&
    "$perf" --plot "$scratch/one.svg" --op all_gather "$scratch/tsv"
# Operations without a size, such as barriers, have no line.
series=$(awk '$4 > 0 { print $2 }' "$scratch/tsv" | sort -u | wc -l)
is "$?:$(grep -c '<polyline' "$scratch/own.svg"):$(grep -c '<polyline' \
    "$scratch/one.svg")" "0:$((2 * series)):2" \
    'what --tsv printed is drawn, or what --op chooses of it'
cp "$scratch/rows.tsv" "$scratch/newer.tsv"
"$perf" --plot "$scratch/two.svg" "$scratch/rows.tsv" "$scratch/newer.tsv"
grep -q '>ours, rows<' "$scratch/two.svg" &&
    grep -q '>ours, newer<' "$scratch/two.svg"
ok $? 'the same series of two files are told apart by the names of the files'

plots_not 'a picture of nothing is refused' 'found none'
plots_not 'no picture is drawn of what is not there' 'absent.tsv: No such' \
    "$scratch/absent.tsv"
plots_not 'nothing is measured for a picture' 'found --tsv' --tsv \
    "$scratch/rows.tsv"
{
    cat "$scratch/rows.tsv"
    row ours all_reduce 2 64 soon
} >"$scratch/bad.tsv"
plots_not 'a row that is none is named with its line' \
    'bad.tsv:8: expected a time in microseconds, found "soon"' \
    "$scratch/bad.tsv"
echo 'ours all_reduce' >"$scratch/bad.tsv"
plots_not 'so is one of too few columns' 'bad.tsv:1: expected 10 columns' \
    "$scratch/bad.tsv"
row ours barrier 2 0 0.1 >"$scratch/bad.tsv"
plots_not 'points without a size are none' 'points of a size' \
    "$scratch/bad.tsv"
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
    row "peer$n" all_reduce 2 8 1
done >"$scratch/bad.tsv"
plots_not 'more series than can be told apart are refused' \
    'at most 18 series.*--op' "$scratch/bad.tsv"
if [ -w /dev/full ]; then
    "$perf" --plot /dev/full "$scratch/rows.tsv" 2>"$scratch/err"
    is "$? $(cat "$scratch/err")" \
        '1 symmcoll-perf: /dev/full: No space left on device' \
        'a picture that cannot be written is an error'
else
    skip 1 'no /dev/full'
fi

done_testing
