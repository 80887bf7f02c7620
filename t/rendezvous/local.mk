# SPDX-License-Identifier: BSD-3-Clause
program_tests += t/rendezvous/agreement.t t/rendezvous/handler.t \
    t/rendezvous/progress.t t/rendezvous/rendezvous.t
if HAVE_LIBEVENT
program_tests += t/rendezvous/tcp.t
endif
