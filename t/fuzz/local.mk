# SPDX-License-Identifier: BSD-3-Clause

# Fuzz targets over their seeds; "make fuzz" gives them new input.
fuzz_targets = settings store record bootstrap
program_tests += t/fuzz/bootstrap.t t/fuzz/record.t t/fuzz/settings.t t/fuzz/store.t
t_fuzz_bootstrap_t_SOURCES = t/fuzz/bootstrap.c t/fuzz/replay.c
t_fuzz_record_t_SOURCES = t/fuzz/record.c t/fuzz/replay.c
t_fuzz_settings_t_SOURCES = t/fuzz/settings.c t/fuzz/replay.c
t_fuzz_store_t_SOURCES = t/fuzz/store.c t/fuzz/replay.c
if HAVE_LIBEVENT
fuzz_targets += protocol
program_tests += t/fuzz/protocol.t
t_fuzz_protocol_t_SOURCES = t/fuzz/protocol.c t/fuzz/replay.c
endif
t_libt_a_SOURCES += t/fuzz/fuzz.h
EXTRA_DIST += t/fuzz/run t/fuzz/seeds

FUZZ_SECONDS = 60
CLANG = clang
fuzz: $(BUILT_SOURCES)
	@COMPILE='$(CLANG) -std=gnu11 -g -O1 -pthread $(DEFS) -D_GNU_SOURCE \
	    -I$(builddir)/lib -I$(srcdir)/lib -I$(srcdir) -DSYMC_MODULE_DIR=\"$(pkglibdir)\" \
	    -DSYMC_SYSCONFDIR=\"$(sysconfdir)\" $(CPPFLAGS) \
	    $(LIBCONFIG_CFLAGS) $(HIREDIS_CFLAGS) $(OPENSSL_CFLAGS) $(LIBEVENT_CFLAGS)' \
	    LINK='$(LIBCONFIG_LIBS) $(HIREDIS_LIBS) \
	    $(LIBEVENT_LIBS) $(OPENSSL_LIBS) $(LIBS)' \
	    SOURCES='$(libsymc_la_SOURCES)' SRCDIR='$(srcdir)' \
	    $(srcdir)/t/fuzz/run $(FUZZ_SECONDS) $(fuzz_targets)
.PHONY: fuzz
