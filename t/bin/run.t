#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-run with programs that know nothing of the library: statuses, output,
# environment, input, signals, and that nothing is left behind.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
ok=$scratch/ok

# waits until a file is there, at most 60 s
await()
{
    await_left=600
    while [ ! -e "$1" ] && [ $await_left -gt 0 ]; do
        sleep 0.1
        await_left=$((await_left - 1))
    done
    [ -e "$1" ]
}

# says PATTERN: waits until the launcher has said that, at most 60 s
says()
{
    says_left=600
    while ! grep -q -e "$1" "$scratch/err" && [ $says_left -gt 0 ]; do
        sleep 0.1
        says_left=$((says_left - 1))
    done
    grep -q -e "$1" "$scratch/err"
}

# gone PID...: whether none of them runs; waits for that, at most 60 s
gone()
{
    gone_left=600
    for gone_pid in "$@"; do
        while kill -0 "$gone_pid" 2>/dev/null && [ $gone_left -gt 0 ]; do
            # A process that is still to be reaped no longer runs.
            case $(cat "/proc/$gone_pid/stat" 2>/dev/null) in
            *") Z "* | "") break ;;
            esac
            sleep 0.1
            gone_left=$((gone_left - 1))
        done
    done
    [ $gone_left -gt 0 ]
}

# status COMMAND...: its exit status; output goes to $scratch/out and err
status()
{
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    echo $?
}

err()
{
    sed 's/(pid [0-9]*)/(pid P)/' "$scratch/err"
}

cd "$scratch" || exit 1
plan 117
unset OMP_NUM_THREADS OPENBLAS_NUM_THREADS BLIS_NUM_THREADS

# ---- how it ends ----

is "$(status "$run" -n 3 true)" 0 "all ranks succeed: 0"
is "$(cat out err)" "" "and nothing is printed"
is "$(status "$run" -n 3 sh -c 'exit $((RANK == 1 ? 3 : 0))')" 3 \
    "the status of the rank that failed"
is "$(err)" "symmcoll-run: rank 1 (pid P) exited with status 3" "which is named"
is "$(status "$run" -n 2 --grace 0 sh -c 'kill -9 $$')" 137 \
    "128 and the signal's number"
is "$(err | sed 's/rank [01]/rank R/')" \
    "symmcoll-run: rank R (pid P) killed by SIGKILL" "and its name"
is "$(status "$run" -n 2 sh -c 'kill -USR1 $$')" 138 "any signal does"
is "$(status "$run" -n 3 --grace 0.2 sh -c \
    '[ $RANK = 2 ] && exit 7; trap "" TERM; sleep 100')" 7 \
    "ranks that ignore SIGTERM are killed and not blamed"
is "$(err)" "symmcoll-run: rank 2 (pid P) exited with status 7" \
    "but the rank that failed"

# ---- what cannot be run ----

is "$(status "$run" -n 2 symmcoll-no-such-program)" 127 "not found: 127"
is "$(cat err)" \
    "symmcoll-run: cannot run symmcoll-no-such-program: not found in PATH" \
    "and one line"
is "$(status "$run" -n 2 ./no/such)" 127 "a path that is not there: 127"
is "$(cat err)" "symmcoll-run: cannot run ./no/such: No such file or directory" \
    "and one line"
echo x >plain
is "$(status "$run" -n 2 ./plain)" 126 "not executable: 126"
is "$(cat err)" "symmcoll-run: cannot run ./plain: Permission denied" \
    "and one line"
printf '#!/no/such/interpreter\n' >script
chmod +x script
is "$(status "$run" -n 1 ./script)" 127 "a script without its interpreter: 127"
is "$(cat err)" \
    "symmcoll-run: cannot run ./script: the interpreter that it names is missing" \
    "and what is missing"

# ---- the command line ----

for words in "" "-n" "-n 0 true" "-n x true" "-n 2x true" "-n 1025 true" \
    "true" "-n 2" "-n 2 --no-such true" "-n 2 --bind some true" \
    "-n 2 --output= true" "-n 2 --grace -1 true" "-n 2 --grace x true" "-n 2 --max-restarts -1 true"
do
    # shellcheck disable=SC2086
    [ "$(status "$run" $words)" = 2 ] && grep -q "Try 'symmcoll-run" err &&
        [ ! -s out ]
    ok $? "usage error: symmcoll-run $words"
done
is "$(status "$run" -np 2 true; head -n 1 err)" "2
symmcoll-run: expected -n and the number of ranks, found -np" "-np 2 hints at -n"
is "$(status "$run" --np 2 true; head -n 1 err)" "2
symmcoll-run: expected -n and the number of ranks, found --np" "so does --np 2"
is "$(status "$run" --help)" 0 "--help"
grep -q "^Usage: symmcoll-run -n N" out
ok $? "prints the usage"
"$run" --version | grep -q '^symmcoll-run [0-9]'
ok $? "--version prints the version"
for tool in conf info perf store; do
    for option in -h --version; do
        "$run" -n 3 --no-prefix "$builddir/bin/symmcoll-$tool" $option >out
        "$builddir/bin/symmcoll-$tool" $option | cmp -s - out
        ok $? "symmcoll-$tool $option as ranks: rank 0 alone prints it"
    done
done
is "$(status "$run" -n 2 ''; head -n 1 err)" \
    '2
symmcoll-run: expected a program to run, found ""' "a program without a name"
is "$(status "$run" -n 1 sh -c 'exit 4' -n 9 --help)" 4 \
    "the program's options are its own"

# ---- what ranks find ----

# shellcheck disable=SC2016
"$run" -n 3 --no-prefix sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK \
    $LOCAL_WORLD_SIZE $MASTER_ADDR $SYMMCOLL_ATTEMPT' | sort >out
is "$(cat out)" "0 3 0 3 localhost 0
1 3 1 3 localhost 0
2 3 2 3 localhost 0" "rank, size and master are in the environment"
# shellcheck disable=SC2016
is "$("$run" -n 3 --no-prefix sh -c \
    'echo $MASTER_PORT $SYMMCOLL_HUB $SYMMCOLL_JOB' | sort -u | wc -l)" 1 \
    "port, server and job are the same for all"
# shellcheck disable=SC2016
is "$(for i in 1 2; do "$run" -n 1 --no-prefix sh -c \
    'echo $SYMMCOLL_HUB $SYMMCOLL_JOB'; done | sort -u | wc -l)" 2 \
    "but not of two jobs"
# shellcheck disable=SC2016
is "$(OMP_NUM_THREADS=7 "$run" -n "$(nproc)" --no-prefix sh -c \
    'echo $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $BLIS_NUM_THREADS' |
    sort -u)" "7 1 1" "threads per rank, where the user has not said"
# shellcheck disable=SC2016
is "$("$run" -n 1 --no-prefix sh -c 'echo $OMP_NUM_THREADS')" "$(nproc)" \
    "a rank alone has a thread for each processor"
is "$(printf 'a\nb\n' | "$run" -n 3 cat)" "[0] a
[0] b" "rank 0 has the input, the others none"

# ---- where they run ----

# where OPTION...: the processors of each rank, one on a line
where()
{
    "$run" "$@" --no-prefix sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' \
        /proc/self/status
}

ours=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
is "$(where -n "$(nproc)" --bind core | sort -u | grep -c '^[0-9]*$')" \
    "$(nproc)" "--bind core gives each rank a processor of its own"
is "$(where -n "$(nproc)" | sort)" "$(where -n "$(nproc)" --bind core | sort)" \
    "which is the default where there are enough"
is "$(where -n 2 --bind none | sort -u)" "$ours" "--bind none leaves it open"
is "$(where -n $(($(nproc) + 1)) | sort -u)" "$ours" \
    "which is the default where there are too few"
is "$(where -n $(($(nproc) + 1)) --bind core | sort | uniq -d | wc -l)" 1 \
    "--bind core goes round where there are too few"
"$run" -v -n 1 true 2>err
is "$(sed 's/pid [0-9]*/pid P/; s/processors .*/processors C/' err)" \
    "symmcoll-run: rank 0 is pid P on processors C
symmcoll-run: rank 0 (pid P) exited with status 0" "-v says who is where"

# ---- output ----

# shellcheck disable=SC2016
"$run" -n 2 sh -c 'echo "out $RANK"; echo "err $RANK" >&2' >out 2>err
is "$(sort out)" "[0] out 0
[1] out 1" "lines of standard output get their rank"
is "$(sort err)" "[0] err 0
[1] err 1" "so do those of standard error, apart"
# shellcheck disable=SC2016
"$run" -n 4 sh -c 'i=0; while [ $i -lt 2000 ]; do
    printf "%s " $RANK; printf "%s end\n" $i; i=$((i + 1)); done' >out
is "$(awk '!/^\[([0-3])\] [0-3] [0-9]+ end$/ ||
    substr($1, 2, 1) != $2' out | wc -l; wc -l <out)" "0
8000" "lines are never mixed and never lost"
is "$("$run" -n 1 printf 'no end')" "[0] no end" "a line without end gets one"
is "$("$run" -n 1 sh -c 'head -c 200000 /dev/zero | tr "\0" x' |
    tr -d '[0] \n' | wc -c)" 200000 "a very long line comes in pieces"
is "$("$run" -n 2 sh -c "printf '\\0\\377\\n'" | od -An -tx1 | tr -d ' \n' |
    sed 's/5b315d/5b305d/')" "5b305d2000ff0a5b305d2000ff0a" \
    "bytes are passed on as they are"
is "$("$run" -n 1 --no-prefix printf 'as\n\nis' | od -An -c | tr -d ' ')" \
    'as\n\nis' "a single rank without prefix prints for itself"
# shellcheck disable=SC2016
"$run" -n 2 --output logs sh -c 'echo o$RANK; echo e$RANK >&2' >out 2>err
is "$(cat out err; cat logs/0.out logs/0.err logs/1.out logs/1.err)" "o0
e0
o1
e1" "--output puts each stream into a file"
is "$(status "$run" -n 2 --output plain true)" 1 "--output wants a folder"
timeout 60 "$run" -n 2 yes 2>/dev/null | head -n 3 >out
is "$(wc -l <out)" 3 "ranks end when nobody reads their output"

# ---- output that is lost ----

if [ -c /dev/full ]; then
    "$run" -n 2 echo hi 2>err >/dev/full
    is "$? $(cat err)" \
        "1 symmcoll-run: standard output: No space left on device" \
        "output that cannot be written fails the job, with one line"
    "$run" -n 2 sh -c 'echo hi >&2' >out 2>/dev/full
    is $? 1 "so does what ranks write to standard error"
    "$run" -n 2 --max-restarts 9 sh -c 'echo hi; exit 3' 2>err >/dev/full
    is "$? $(cat err)" \
        "1 symmcoll-run: standard output: No space left on device" \
        "and the job is not started again"
    for option in --help --version; do
        "$run" $option 2>err >/dev/full
        is "$? $(cat err)" \
            "1 symmcoll-run: standard output: No space left on device" \
            "$option that cannot be written fails"
    done
    mkdir devices
    ln -s /dev/full devices/1.out
    "$run" -n 2 --output devices sh -c 'echo hi; exit 0' >out 2>err
    is "$? $(cat err)" \
        "1 symmcoll-run: devices/1.out: No space left on device" \
        "a file of --output that cannot be written fails the job"
else
    skip 6 'no /dev/full'
fi
"$run" -n 2 echo hi 2>err >&-
is "$? $(cat err)" "1 symmcoll-run: standard output: Bad file descriptor" \
    "a standard output that is closed loses what ranks print: an error"
"$run" -n 2 sh -c 'echo hi >&2' >out 2>&-
is $? 1 "so does a standard error that is closed"
"$run" -n 2 true <&- >&- 2>&-
is $? 0 \
    "closed streams that nothing is written to are no error"
(ulimit -f 8 && exec timeout 60 "$run" -n 2 yes) >limited 2>err
is "$? $(cat err)" "1 symmcoll-run: standard output: File too large" \
    "a file that is full in the middle is named, and no rank"

rm -rf logs
(ulimit -f 8 && exec timeout 60 "$run" -n 2 --output logs yes) 2>err
is "$? $(sed 's/[01]\.out/R.out/' err)" \
    "1 symmcoll-run: logs/R.out: File too large" \
    "so is a file of --output"

# ---- progress on a terminal ----

# shellcheck disable=SC2016
is "$(SYMMCOLL_RUN_TTY=1 "$run" -n 1 sh -c \
    'echo ${SYMMCOLL_RUN_TTY-none}; printf "1\r2\r\n"' |
    od -An -c | tr -d ' \n')" '[0]none\n[0]1\r2\r\n' \
    "in a pipe ranks are not told of a terminal, and lines stay as they are"
no_terminal=$(no_terminal)
if [ -z "$no_terminal" ]; then
    # tty COMMAND [TERM]: what it prints on a terminal, with E for the escape to clear
    # a line and R for a carriage return; the terminal's own is not shown
    tty()
    {
        TERM=${2-xterm} script -qec "$1" /dev/null </dev/null |
            sed "s/$(printf '\033\[K')/E/g; s/\r\$//; s/\r/R/g"
    }
    # tty_is COMMAND EXPECTED SENTENCE [TERM]: of a rank that writes one thing after
    # another; again where a busy machine read them at once
    tty_is()
    {
        for _ in 1 2 3 4 5; do
            tty_found=$(tty "$1" "${4-xterm}")
            [ "$tty_found" = "$2" ] && break
        done
        is "$tty_found" "$2" "$3"
    }
    # shellcheck disable=SC2016
    is "$(tty "'$run' -n 1 sh -c 'echo \$SYMMCOLL_RUN_TTY'")" "[0] 1" \
        "ranks are told of a terminal"
    is "$(tty "'$run' -n 2 --output logs sh -c 'echo \${SYMMCOLL_RUN_TTY-none}'
        cat logs/0.out")" "none" "but not where they do not write to it"
    is "$(tty "'$run' -n 1 printf 'a\ra2\rb'")" "[0] aER[0] a2ERE[0] b" \
        "a line that ends in a carriage return is rewritten by the next"
    tty_is "'$run' -n 1 sh -c 'printf \"a\\r\"; sleep 1; echo'" "[0] aER" \
        "and stays when it gets an end"
    is "$(tty "'$run' -n 1 printf 'a\r'; echo b")" "[0] aER
b" "or when its rank ends"
    tty_is "'$run' -n 1 sh -c 'printf \"a\\r\"; sleep 0.3; echo b >&2; sleep 1'" \
        "[0] aERE[0] b" "another line takes its place"
    is "$(tty "'$run' -n 1 printf 'a\r\nb\r\n'")" "[0] aR
[0] bR" "one that ends in both is a line as others"
    is "$(tty "stty cols 12; '$run' -n 1 printf '0123456789\\r'")" \
        "[0] 0123456ER" "a progress line is cut to the terminal's width"
    is "$(tty "stty cols 12; '$run' -n 1 printf '\\303\\244\\344\\270\\200\\t9999\\r'" |
        od -An -tx1 | tr -d ' \n')" "5b305d20c3a4e4b8800939393945520a" \
        "in columns, which characters take more or less of than bytes"
    is "$(tty "stty cols 12; '$run' -n 1 printf '\\033[31m123456789\\033[m\\r'" |
        tr '\033' e)" "[0] e[31m1234567e[mER" "what ends a colour is kept"
    is "$(tty "stty cols 12; '$run' -n 1 echo 0123456789")" "[0] 0123456789" \
        "other lines are not cut"
    for term in dumb ''; do
        tty_is "'$run' -n 1 sh -c 'printf \"abc\\rd\\r\"
            sleep 0.3; echo e >&2; sleep 1'" "[0] abcR[0] d  R     R[0] e" \
            "a terminal with TERM=$term gets no escapes" "$term"
    done
else
    skip 13 "$no_terminal"
fi

# ---- limits ----

(ulimit -n 40 && "$run" -n 8 true) >out 2>err
is "$? $(cat err)" \
    "1 symmcoll-run: 8 ranks need 72 open files, allowed are 40 (RLIMIT_NOFILE)" \
    "too few open files: needed and allowed"
is "$( (ulimit -S -n 40 && "$run" -n 8 --no-prefix sh -c 'ulimit -n') |
    sort -u)" 40 "a soft limit is raised, but not for the ranks"

# ---- restarts ----

# shellcheck disable=SC2016
"$run" -n 1 --max-restarts 2 sh -c \
    'echo $SYMMCOLL_ATTEMPT; [ $SYMMCOLL_ATTEMPT = 1 ]' >out 2>err
is "$? $(cat out)" "0 [0] 0
[0] 1" "a failed job is started again"
is "$(err)" \
    "symmcoll-run: rank 0 (pid P) exited with status 1; starting again (1 of 2)" \
    "and says so"

# ---- signals, and what is left ----

# start COMMAND...: symmcoll-run in the background; ranks leave files rank.N
start()
{
    rm -f rank.* got.*
    # A command in the background of a script ignores SIGINT; ours must not.
    env "$@" >out 2>err &
    launcher=$!
}

# In the foreground, because a script's background commands ignore these: a rank
# sends them, when all are ready.
for signal in INT QUIT; do
    rm -f got.* ready.*
    # shellcheck disable=SC2016
    "$run" -n 2 sh -c 'trap "echo >got.$RANK; exit 6" '$signal'
        echo >ready.$RANK
        [ $RANK = 0 ] && { while [ ! -e ready.1 ]; do sleep 0.1; done
            kill -'$signal' $PPID; }
        while :; do sleep 0.1; done' >out 2>err
    is "$? $(ls got.*)" "6 got.0
got.1" "SIG$signal reaches every rank"
    is "$(tail -n 1 err)" "symmcoll-run: interrupted by SIG$signal" \
        "which is no failure of a rank"
done
for signal in TERM HUP USR1 USR2; do
    # shellcheck disable=SC2016
    start "$run" -n 2 sh -c 'trap "echo > got.$RANK; exit 5" '$signal'
        echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK
        while :; do sleep 0.1; done'
    await rank.0 && await rank.1 && kill -$signal $launcher
    wait $launcher
    is "$? $(ls got.*)" "5 got.0
got.1" "SIG$signal reaches every rank"
done

# stopped PID...: whether all are, which may take 60 s
stopped()
{
    stopped_left=600
    for stopped_pid in "$@"; do
        while ! grep -q ') T ' "/proc/$stopped_pid/stat" &&
            [ $stopped_left -gt 0 ]; do
            sleep 0.1
            stopped_left=$((stopped_left - 1))
        done
    done
    [ $stopped_left -gt 0 ]
}

# A shell that waits for a child to start cannot be stopped: no rank starts one then.
# shellcheck disable=SC2016
start "$run" -n 2 sh -c 'trap "kill $!; exit 5" USR1
    trap "echo >got.$RANK" CONT
    sleep 1000 &
    echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK; while :; do wait; done'
await rank.0 && await rank.1 && kill -TSTP $launcher
# shellcheck disable=SC2046
stopped $launcher $(cat rank.0 rank.1)
ok $? "SIGTSTP stops every rank and symmcoll-run"
kill -CONT $launcher
await got.0 && await got.1
ok $? "SIGCONT makes them go on"
kill -USR1 $launcher
wait $launcher
is $? 5 "to their end"

# shellcheck disable=SC2016
start "$run" -n 2 --grace 100 sh -c 'trap "" TERM
    echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK; while :; do sleep 0.1; done'
await rank.0 && await rank.1 && kill -TERM $launcher && sleep 0.3
kill -TERM $launcher
wait $launcher
is $? 137 "who is asked twice and does not end is killed"

# shellcheck disable=SC2016
start "$run" -n 2 --grace 100 sh -c 'echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK
    kill -STOP $$'
# shellcheck disable=SC2046
await rank.0 && await rank.1 && stopped $(cat rank.0 rank.1)
kill -TERM $launcher
gone $launcher || kill -KILL $launcher
wait $launcher
is $? 143 "SIGTERM ends ranks that are stopped"

# shellcheck disable=SC2016
start "$run" -n 2 --grace 1 sh -c 'trap "" TERM
    echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK; while :; do kill -STOP $$; done'
# shellcheck disable=SC2046
await rank.0 && await rank.1 && stopped $(cat rank.0 rank.1)
kill -TERM $launcher
gone $launcher || kill -KILL $launcher
wait $launcher
is "$? $(cat err)" "137 symmcoll-run: interrupted by SIGTERM" \
    "who does not follow it is killed after the grace"

# shellcheck disable=SC2016
start "$run" -n 2 sh -c 'ulimit -c 0; trap "kill -SEGV $$" TERM
    [ $RANK = 0 ] && trap - TERM
    echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK; while :; do sleep 0.1; done'
await rank.0 && await rank.1 && kill -TERM $launcher
wait $launcher
is "$(err | tail -n 1)" \
    "symmcoll-run: interrupted by SIGTERM; rank 1 (pid P) killed by SIGSEGV" \
    "a rank that crashes on its way out is named"

# shellcheck disable=SC2016
start "$run" -n 2 --verbose --grace 100 sh -c '[ $RANK = 1 ] && exit 3
    echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK; while :; do sleep 0.1; done'
# Long before the others would be ended.
await rank.0 && says 'exited with status 3' && kill -TERM $launcher
wait $launcher
is "$? $(err | tail -n 1)" \
    "3 symmcoll-run: rank 1 (pid P) exited with status 3" \
    "so is one that had failed before"

# shellcheck disable=SC2016
start "$run" -n 2 sh -c 'sleep 1000 & echo $! >child.$RANK
    echo $$ >tmp.$RANK; mv tmp.$RANK rank.$RANK; wait'
await rank.0 && await rank.1 && kill -KILL $launcher
wait $launcher
# shellcheck disable=SC2046
gone $(cat rank.0 rank.1)
ok $? "ranks do not outlive a killed launcher"
# shellcheck disable=SC2046
kill $(cat child.0 child.1) 2>/dev/null

# shellcheck disable=SC2016
"$run" -n 2 sh -c 'setsid sleep 1000 & echo $! >child.$RANK'
# shellcheck disable=SC2046
gone $(cat child.0 child.1)
ok $? "what ranks leave in the background is ended with them"

# A shell that executes symmcoll-run leaves it children, and they theirs: one
# here that outlives its parent while the ranks run.
# shellcheck disable=SC2016
sh -c 'sleep 1000 & echo $! >before
    (sleep 1000 & echo $! >orphan; while [ ! -e adopt ]; do sleep 0.1; done) &
    exec "$0" -n 2 sh -c "
        [ \$RANK = 0 ] && { echo >adopt; sleep 0.5; }
        setsid sleep 1000 & echo \$! >child.\$RANK
        sleep 1000 & echo \$! >child.1\$RANK"' "$run" >out 2>err
kill "$(cat before)" && kill "$(cat orphan)"
ok $? "processes that ranks did not start go on"
# shellcheck disable=SC2046
gone $(cat child.0 child.1 child.10 child.11)
ok $? "also then what ranks leave is ended"
done_testing
