/* SPDX-License-Identifier: BSD-3-Clause */
/* A module that exports no backend, which the loader must refuse. */
#include <symmcoll/types.h>

SYMMCOLL_API
extern const int symmcoll_no_backend;
const int symmcoll_no_backend = 1;
