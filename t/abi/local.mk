# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/abi/members.t t/abi/structs.t t/abi/timeouts.t
