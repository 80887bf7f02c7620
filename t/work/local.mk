# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/work/issued.t t/work/left.t t/work/lists.t t/work/notify.t \
    t/work/outlive.t t/work/progress.t t/work/visible.t t/work/work.t
