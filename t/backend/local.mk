# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/backend/given_up.t t/backend/kept.t t/backend/later.t \
    t/backend/later_faults.t t/backend/memory.t \
    t/backend/memory_faults.t t/backend/module.t t/backend/needs.t t/backend/reasons.t \
    t/backend/running.t t/backend/running_faults.t
t_libt_a_SOURCES += t/backend/await_all.h t/backend/modules.h t/backend/running.h
EXTRA_DIST += t/backend/empty_module.c t/backend/old_module.c

# The backend that the loader's test loads.
check_LTLIBRARIES += t/backend/symmcoll_fake_module.la
t_backend_symmcoll_fake_module_la_SOURCES = t/backend/fake_module.c \
    t/backend/fake_module.h t/backend/fake_open.c t/backend/fake_state.h
t_backend_symmcoll_fake_module_la_LDFLAGS = $(fake_module_ldflags)

# A backend of host memory, with the other one in a folder of its own: it would
# precede that of the library.
check_LTLIBRARIES += t/backend/later/symmcoll_fake_host.la \
    t/backend/later/symmcoll_fake_module.la
t_backend_later_symmcoll_fake_host_la_SOURCES = t/backend/later/fake_host.c
t_backend_later_symmcoll_fake_host_la_LDFLAGS = $(fake_module_ldflags)
t_backend_later_symmcoll_fake_module_la_SOURCES = \
    $(t_backend_symmcoll_fake_module_la_SOURCES)
t_backend_later_symmcoll_fake_module_la_LDFLAGS = $(fake_module_ldflags)
t_libt_a_SOURCES += t/backend/later.h
