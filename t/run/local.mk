# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/run/issued.t t/run/left.t t/run/lists.t t/run/notify.t \
    t/run/outlive.t t/run/progress.t t/run/visible.t t/run/work.t
