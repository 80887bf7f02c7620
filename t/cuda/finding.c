/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/finding.h"
#include "cuda/find.h"

#include <link.h>
#include <stdatomic.h>

typedef int (*visit_fn)(struct dl_phdr_info *info, size_t nbytes, void *data);

/* Replace the loader's functions, by --wrap. */
int __wrap_dl_iterate_phdr(visit_fn visit, void *data);
void *__wrap_dlopen(const char *name, int flags);
extern int __real_dl_iterate_phdr(visit_fn visit, void *data);
extern void *__real_dlopen(const char *name, int flags);

static _Atomic int counted, searched;

int __wrap_dl_iterate_phdr(visit_fn visit, void *data)
{
    atomic_fetch_add(&counted, 1);
    return __real_dl_iterate_phdr(visit, data);
}

void *__wrap_dlopen(const char *name, int flags)
{
    atomic_fetch_add(&searched, 1);
    return __real_dlopen(name, flags);
}

static int get_counted(void)
{
    return atomic_load(&counted);
}

static int get_searched(void)
{
    return atomic_load(&searched);
}

extern const struct finding finding;
__attribute__((visibility("default"))) const struct finding finding = {
    symc_cuda_find, symc_cuda_find_whole, get_counted, get_searched};
