# SPDX-License-Identifier: BSD-3-Clause
output_tests += t/examples/blas.t t/examples/charlm.t t/examples/flat_gradient.t \
    t/examples/parallel_mesh.t t/examples/tensor_parallel.t

# Tests of the example's own parts.
if HAVE_CBLAS
program_tests += t/examples/charlm_gradient.t
t_examples_charlm_gradient_t_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/lib/fused
t_examples_charlm_gradient_t_LDADD = examples/libcharlm.a $(LDADD)
endif
