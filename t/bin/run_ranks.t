#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-run with ranks of the library that fail: the errors of the
# others, the final line, the record of the dead rank, and that no resource remains.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
victim=$builddir/t/bin/run_victim
here=$(cd "$builddir" && pwd -P)
export SYMMCOLL_TRACE_DUMP_FILE="$scratch/dump_"

# await FILE: waits until it is there, at most 60 s
await()
{
    await_left=600
    while [ ! -e "$1" ] && [ $await_left -gt 0 ]; do
        sleep 0.1
        await_left=$((await_left - 1))
    done
    [ -e "$1" ]
}

# await_victim: until a rank offers itself, and waits in the operation: it says
# so just before that
await_victim()
{
    await victim || return 1
    await_asleep=0
    await_left=1200
    while [ $await_asleep -lt 3 ] && [ $await_left -gt 0 ]; do
        sleep 0.05
        await_left=$((await_left - 1))
        case $(sed 's/.*) //' "/proc/$(cat victim)/stat") in
        S*) await_asleep=$((await_asleep + 1)) ;;
        *) await_asleep=0 ;;
        esac
    done
    [ $await_asleep -ge 3 ]
}

# start OPTIONS...: symmcoll-run with them in the background
start()
{
    rm -f victim killed dump_* out err
    "$run" "$@" >out 2>err &
    launcher=$!
}

# kill_victim SECONDS: kills the rank that offers itself and waits for the end
# of the job, at most SECONDS; its status is in $status
kill_victim()
{
    await_victim || diag "no rank offered itself"
    pid=$(cat victim)
    kill -KILL "$pid"
    : >killed
    kill_left=$(($1 * 20))
    while kill -0 $launcher 2>/dev/null && [ $kill_left -gt 0 ]; do
        sleep 0.05
        kill_left=$((kill_left - 1))
    done
    wait $launcher
    status=$?
    [ $kill_left -gt 0 ]
}

# left: ranks of this build that there still are; their memory has no other name and is
# gone with the last of them
left()
{
    for process in /proc/[0-9]*; do
        case $(readlink "$process/exe" 2>/dev/null) in
        "$here"/*run_victim*) echo "${process#/proc/} still runs" ;;
        esac
    done
}

told()
{
    grep -c "^\[[0-9]*\] $1" err
}

cd "$scratch" || exit 1
plan 33

is "$("$run" -n 4 "$victim" good 0 2>&1; echo $?)" 0 \
    "ranks that end well leave nothing to say"
is "$(ls dump_* 2>/dev/null)" "" "and no record"

start -n 4 "$victim" wait 2
kill_victim 60
ok $? "after a rank is killed the job ends by itself"
is $status 137 "with 128 and the signal's number"
is "$(tail -n 1 err)" "symmcoll-run: rank 2 (pid $pid) killed by SIGKILL \
in all_reduce seq 11 of group 0" "the final line says who, how and where"
is "$(told "all_reduce: PEER: .*rank 2 (pid $pid) killed by SIGKILL")" 3 \
    "every other rank has been told rank, pid and signal"
is "$(grep -vc "flight recorder" err)" 4 "and has said so in one line"
is "$(sed -n 's/.*: flight recorder of rank \([0-9]\): \(.*\)/\1 \2/p' err |
    sort -u)" "$(for rank in 0 1 2 3; do echo "$rank $PWD/dump_$rank"; done)" \
    "where each record is has been said, that of the dead rank too"
grep -q '"reason": "rank 2 (pid '"$pid"') killed by SIGKILL"' dump_2
ok $? "the record of the dead rank is written"
grep -q '"collective_seq_id": 11,.*"state": "started"' dump_2
ok $? "with the operation that it was in"
none "$(left)" "nothing is left behind"

start -n 2 "$victim" wait 1 1024
kill_victim 60
is "$? $status" "0 137" "a rank with 1 GiB that is killed"
is "$(tail -n 1 err)" "symmcoll-run: rank 1 (pid $pid) killed by SIGKILL \
in all_reduce seq 11 of group 0" "is the one to be blamed"
is "$(told "all_reduce: PEER: .*rank 1 (pid $pid) killed by SIGKILL")" 1 \
    "and its signal is known before its memory is gone"

"$run" -n 4 "$victim" exit 2 >out 2>err
is $? 3 "a rank that exits without finalize gives its status"
is "$(tail -n 1 err | sed 's/pid [0-9]*/pid P/')" \
    "symmcoll-run: rank 2 (pid P) exited with status 3 after all_reduce seq 10 \
of group 0" "and is blamed"
is "$(told "all_reduce: PEER: .*rank 2 (pid [0-9]*) exited with status 3")" 3 \
    "the others know its status"
[ -s dump_2 ]
ok $? "its record is written"

"$run" -n 4 "$victim" leave 2 >out 2>err
is $? 1 "a rank that leaves politely in the middle is a failure"
is "$(tail -n 1 err | sed 's/pid [0-9]*/pid P/')" \
    "symmcoll-run: rank 2 (pid P) has ended without symmcoll_finalize, and \
all_reduce seq 11 of group 0 needs it" "and is blamed"

"$run" -n 4 "$victim" init 2 >out 2>err
is $? 137 "a rank that is killed before all have joined"
is "$(tail -n 1 err | sed 's/pid [0-9]*/pid P/')" \
    "symmcoll-run: rank 2 (pid P) killed by SIGKILL" "is blamed"
is "$(told "init: PEER: .*rank 2 (pid [0-9]*) killed by SIGKILL")" 3 \
    "and the others do not wait for it"

# All others have to come in time, on a busy machine in a longer one.
for seconds in 1 5 25; do
    SYMMCOLL_TIMEOUTS_INIT=${seconds}s "$run" -n 3 "$victim" late 1 >out 2>err
    found="$? $(tail -n 1 err)"
    case $found in *" 2 of 3 ranks "*) break ;; esac
    diag "with $seconds s" && diag <err
done
is "$found" "1 symmcoll-run: init: 2 of 3 ranks joined, missing: rank 1" \
    "where one did not come to init in time, the last line names it"

SYMMCOLL_TRACE_DUMP_FILE=/no/such/folder/dump_ "$run" -n 2 "$victim" exit 1 \
    >out 2>err
is $? 3 "where a record cannot be written the status is the same"
grep -q "^symmcoll-run: .*/no/such/folder/dump_1.*No such file" err
ok $? "and it is said why"

mkdir home
(
    unset SYMMCOLL_TRACE_DUMP_FILE XDG_CACHE_HOME
    HOME=$PWD/home "$run" -n 2 "$victim" exit 1
    HOME=$PWD/home "$run" -n 2 --max-restarts 1 "$victim" exit 1
    HOME=$PWD/missing "$run" -n 2 "$victim" exit 1
) >out 2>err
# names RANK: of the files, with the job as JOB, once for each job
names()
{
    for file in home/.cache/symmcoll/trace_*_rank_"$1"; do
        [ -s "$file" ] && basename "$file"
    done | sort | uniq | sed 's/run-[0-9]*-[0-9a-f]*_/JOB_/' | sort | tr '\n' ' '
}
is "$(names 0)$(names 1)" "trace_JOB_0_rank_0 trace_JOB_0_rank_0 \
trace_JOB_1_rank_0 trace_JOB_0_rank_1 trace_JOB_0_rank_1 trace_JOB_1_rank_1 " \
    "without a path records go below the home folder, by job and attempt"
grep -q "^symmcoll-run: .*home folder $PWD/missing: No such file" err &&
    [ ! -e missing ]
ok $? "which is not made where it is missing"

# kill_launcher: and waits until no rank is left, at most 60 s
kill_launcher()
{
    kill -KILL $launcher
    wait $launcher 2>/dev/null
    tries=600
    while [ -n "$(left)" ] && [ $tries -gt 0 ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
}

start -n 4 "$victim" wait 2
await_victim
is "$(left | wc -l)" 4 "while a job runs its ranks are seen"
kill_launcher
none "$(left)" "a killed launcher takes its ranks with it"

# The command after the program keeps the shell from replacing itself with it.
# shellcheck disable=SC2016
start -n 4 --output logs sh -c '"$0" "$@"; echo over' "$victim" wait 2
await_victim
pids=$(left | sed 's/ .*//')
kill_launcher
none "$(left)" "also those that run within a shell"
is "$(cat logs/*.err | sort)" "$(for pid in $pids; do
    rank=$(grep -l "process $pid " logs/*.err | sed 's/[^0-9]//g')
    echo "symmcoll [rank $rank]: error: the launcher has died:" \
        "process $pid ends, as all its ranks do"
done | sort)" "and each says why it ends, in one line"
for pid in $pids; do
    kill -KILL "$pid" 2>/dev/null
done

is "$(SYMMCOLL_LOG_LEVEL=nonsense "$run" -n 2 "$victim" good 0 2>&1 |
    grep -c '^symmcoll-run: .*nonsense')" 1 \
    "a bad setting is reported once, before a rank is started"
done_testing
