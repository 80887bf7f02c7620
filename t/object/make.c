/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects for tests: see object.h. */
#include "../tap.h"
#include "object.h"

#include <stdlib.h>
#include <string.h>

static unsigned char byte_at(size_t i, int whose)
{
    return (unsigned char)(i * 7 + (size_t)whose * 31 + 1);
}

struct symmcoll_object object_make(size_t nbytes, int whose)
{
    struct symmcoll_object object = {
        NULL, nbytes, UINT64_C(0x8000000000000000) + (uint64_t)whose};
    unsigned char *bytes = nbytes > 0 ? malloc(nbytes) : NULL;

    if (nbytes > 0 && bytes == NULL)
        abort();
    for (size_t i = 0; i < nbytes; i++)
        bytes[i] = byte_at(i, whose);
    object.data = bytes;
    return object;
}

bool object_is(const struct symmcoll_object *object, size_t nbytes, int whose)
{
    const unsigned char *bytes = object->data;
    size_t same = 0;

    if (object->nbytes == nbytes && (bytes != NULL) == (nbytes > 0) &&
        object->type == UINT64_C(0x8000000000000000) + (uint64_t)whose) {
        while (same < nbytes && bytes[same] == byte_at(same, whose))
            same++;
        if (same == nbytes)
            return true;
    }
    diag("expected %zu bytes of %d, found %zu of type %llu, %zu right", nbytes,
        whose, object->nbytes, (unsigned long long)object->type, same);
    return false;
}

bool object_ok(symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        diag("%s: %s", symmcoll_status_name(status), symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

bool object_fails(
    symmcoll_status_t status, symmcoll_status_t expected, const char *text)
{
    if (status == expected && strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("expected %s with \"%s\", found %s: %s",
        symmcoll_status_name(expected), text, symmcoll_status_name(status),
        symmcoll_last_error());
    return false;
}
