# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/fake/absent.t
