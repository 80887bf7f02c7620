# SPDX-License-Identifier: BSD-3-Clause
#
# Waiting for near cores, for the scripts of this folder.  A virtual machine's
# processors may be moved apart and together; see README.  The caller sets
#
#   perf     symmcoll-perf, by which a barrier of two threads is timed
#   near     the time in microseconds up to which cores are near; 0: do not wait
#   wait     seconds to wait for that, at most
#   log      file for what the commands say

# The time of a barrier between two threads, in microseconds.
probe()
{
    "$perf" --threads 2 --op barrier --seconds 0.002 --tsv 2>>"$log" |
        cut -f 10
}

wait_for_near()
{
    [ "$near" = 0 ] && return
    until=$(($(date +%s) + wait))
    while :; do
        now=$(probe)
        awk -v t="${now:-0}" -v most="$near" \
            'BEGIN { exit !(t > 0 && t <= most) }' && return
        [ "$(date +%s)" -ge "$until" ] && return
        sleep 0.05
    done
}
