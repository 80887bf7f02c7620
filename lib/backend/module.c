/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and loads modules. */
#include "backend/module.h"
#include "backend/interface.h"
#include "base/descriptor.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *symc_module_folder(void)
{
    const char *folder = symc_variable_get("SYMMCOLL_MODULE_DIR");

    return folder != NULL && folder[0] != '\0' ? folder : SYMC_MODULE_DIR;
}

/* Checks that a name can be part of a path: lower-case letters, digits and
 * underscores only. */
static bool is_name(const char *name)
{
    return name[0] != '\0' &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

bool symc_module_name(const char *file, char *name, size_t nbytes)
{
    size_t length = strlen(file), prefix = strlen("symmcoll_");

    if (strncmp(file, "symmcoll_", prefix) != 0 || length <= prefix + 3 ||
        strcmp(file + length - 3, ".so") != 0)
        return false;
    snprintf(name, nbytes, "%.*s", (int)(length - prefix - 3), file + prefix);
    return true;
}

/* Returns whether a path exists and is no regular file: opening a FIFO would
 * wait for a writer. */
static bool is_other(const char *path)
{
    struct stat found;

    return stat(path, &found) == 0 && !S_ISREG(found.st_mode);
}

/*
 * Returns whether a shared object is shorter than its headers say: the loader
 * maps it by its headers, and access beyond the end of a file is a SIGBUS.
 * Files that are no shared objects are left for the loader to refuse.
 */
static bool is_cut_off(const char *path)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    struct stat info;
    int fd = symc_descriptor_raise(open(path, O_RDONLY | O_CLOEXEC));
    bool cut = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &info) != 0 ||
        pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof(part)) {
        close(fd);
        return false;
    }
    cut = head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize >
          (uint64_t)info.st_size;
    for (int i = 0; i < head.e_phnum && !cut; i++) {
        off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof(part));

        cut = pread(fd, &part, sizeof(part), at) != sizeof(part) ||
              part.p_offset > (uint64_t)info.st_size ||
              part.p_filesz > (uint64_t)info.st_size - part.p_offset;
    }
    close(fd);
    return cut;
}

symmcoll_status_t symc_module_load(
    const char *name, const struct symc_backend **backend)
{
    char path[PATH_MAX];
    const struct symc_backend *found;
    void *module;

    if (!is_name(name))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "module: expected a name of a-z, 0-9 and _, found '%.64s'", name);
    if (snprintf(path, sizeof(path), "%s/symmcoll_%s.so", symc_module_folder(),
            name) >= (int)sizeof(path))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "module %.64s: its path is longer than %d bytes", name, PATH_MAX);
    if (is_other(path))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "module %s: expected a regular file, found something else at %s",
            name, path);
    if (is_cut_off(path))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "module %s: expected a whole file, found one that was cut off at "
            "%s",
            name, path);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return symc_fail(
            SYMMCOLL_ERR_UNSUPPORTED, "module %s: %s", name, dlerror());
    found = dlsym(module, SYMC_BACKEND_SYMBOL);
    if (found == NULL) {
        symmcoll_status_t status = symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "module %s: %s exports no '%s'", name, path, SYMC_BACKEND_SYMBOL);

        dlclose(module);
        return status;
    }
    if (found->interface != SYMC_BACKEND_INTERFACE) {
        symmcoll_status_t status = symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "module %s: expected interface %016" PRIx64 ", found %016" PRIx64
            " in %s: it was built with other headers than this library",
            name, SYMC_BACKEND_INTERFACE, found->interface, path);

        dlclose(module);
        return status;
    }
    *backend = found;
    return SYMMCOLL_OK;
}
