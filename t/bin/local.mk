# SPDX-License-Identifier: BSD-3-Clause

# Programs that a script runs as ranks.
check_PROGRAMS += t/bin/run_failing t/bin/run_flood t/bin/run_victim
output_tests += t/bin/completion.t t/bin/info.t t/bin/perf.t t/bin/perf_device.t
other_scripts += t/bin/run.t t/bin/run_causes.t t/bin/run_flood.t t/bin/run_ranks.t \
    t/bin/store.t
EXTRA_DIST += t/bin/json.awk
