/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules by which set, add, append, compare_set, delete and the queue calls
 * change a value, for every kind of store that computes new values in this
 * process.
 */
#include "store/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *symc_key_text(const char *key, char *buffer)
{
    size_t length = strlen(key);

    snprintf(buffer, SYMC_KEY_TEXT, "%.*s%s", SYMC_KEY_TEXT - 4, key,
        length > SYMC_KEY_TEXT - 4 ? "..." : "");
    symc_make_printable(buffer);
    return buffer;
}

symmcoll_status_t symc_fail_is_queue(const char *where, const char *key)
{
    char shown[SYMC_KEY_TEXT];

    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: key \"%s\": expected a value, found a queue", where,
        symc_key_text(key, shown));
}

symmcoll_status_t symc_fail_is_value(const char *where, const char *key)
{
    char shown[SYMC_KEY_TEXT];

    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: key \"%s\": expected a queue, found a value", where,
        symc_key_text(key, shown));
}

symmcoll_status_t symc_bytes_copy(
    const void *data, size_t nbytes, struct symc_bytes *copy)
{
    char *bytes = symc_alloc(nbytes + 1, 1);

    if (bytes == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (nbytes > 0)
        memcpy(bytes, data, nbytes);
    copy->data = bytes;
    copy->nbytes = nbytes;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_item_copy(const char *key, struct symc_item item,
    bool *found, struct symc_bytes *value)
{
    if (item.queue != NULL)
        return symc_fail_is_queue("store_get", key);
    *found = item.value != NULL;
    if (item.value == NULL)
        return SYMMCOLL_OK;
    return symc_bytes_copy(item.value->data, item.value->nbytes, value);
}

symmcoll_status_t symc_item_length(
    const char *key, struct symc_item item, size_t *length)
{
    if (item.value != NULL)
        return symc_fail_is_value("store_queue_len", key);
    *length = item.queue != NULL ? item.queue->length : 0;
    return SYMMCOLL_OK;
}

/* Parses a counter's value: a decimal number and no other text. */
static symmcoll_status_t parse_counter(
    const char *key, const struct symc_bytes *present, int64_t *number)
{
    char shown[SYMC_KEY_TEXT];
    char found[SYMC_KEY_TEXT];
    const char *text = present->data;
    char *end;
    intmax_t value;

    errno = 0;
    value = strtoimax(text, &end, 10);
    /* strtoimax() skips leading blanks, which add() never wrote. */
    if (errno != 0 || end == text || end != text + present->nbytes ||
        !strchr("-0123456789", text[0]) || value < INT64_MIN ||
        value > INT64_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_add: key \"%s\": expected a whole number, found \"%s\"",
            symc_key_text(key, shown), symc_key_text(text, found));
    *number = value;
    return SYMMCOLL_OK;
}

/* Computes the sum of a counter and edit->amount. */
static symmcoll_status_t add_number(struct symc_edit *edit, const char *key,
    const struct symc_bytes *present, struct symc_change *change)
{
    char shown[SYMC_KEY_TEXT];
    char text[24];
    int64_t number = 0;
    int length;

    if (present != NULL) {
        symmcoll_status_t status = parse_counter(key, present, &number);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (__builtin_add_overflow(number, edit->amount, &edit->sum))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_add: key \"%s\": %" PRId64 " + %" PRId64
            " does not fit in 64 bits",
            symc_key_text(key, shown), number, edit->amount);
    length = snprintf(text, sizeof text, "%" PRId64, edit->sum);
    change->what = SYMC_PUT;
    return symc_bytes_copy(text, (size_t)length, &change->value);
}

/* Computes a value with the edit's bytes appended. */
static symmcoll_status_t append_bytes(struct symc_edit *edit, const char *key,
    const struct symc_bytes *present, struct symc_change *change)
{
    char shown[SYMC_KEY_TEXT];
    size_t before = present != NULL ? present->nbytes : 0;
    char *bytes;

    if (edit->nbytes > SYMC_STORE_VALUE_MAX - before)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_append: key \"%s\": expected at most %d bytes in all, found "
            "%zu + %zu",
            symc_key_text(key, shown), SYMC_STORE_VALUE_MAX, before,
            edit->nbytes);
    bytes = symc_alloc(before + edit->nbytes + 1, 1);
    if (bytes == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (before > 0)
        memcpy(bytes, present->data, before);
    if (edit->nbytes > 0)
        memcpy(bytes + before, edit->value, edit->nbytes);
    change->what = SYMC_PUT;
    change->value.data = bytes;
    change->value.nbytes = before + edit->nbytes;
    return SYMMCOLL_OK;
}

/* The four cases of compare_set; the result is the value for the caller. */
static symmcoll_status_t compare_value(struct symc_edit *edit,
    const struct symc_bytes *present, struct symc_change *change)
{
    symmcoll_status_t status;
    bool equal = present != NULL && present->nbytes == edit->expected_nbytes &&
                 (present->nbytes == 0 || memcmp(present->data, edit->expected,
                                              present->nbytes) == 0);

    if (present != NULL && !equal) {
        edit->outcome = SYMMCOLL_STORE_DIFFERS;
        return symc_bytes_copy(present->data, present->nbytes, &edit->result);
    }
    if (present == NULL && edit->expected_nbytes > 0) {
        edit->outcome = SYMMCOLL_STORE_ABSENT;
        return symc_bytes_copy(
            edit->expected, edit->expected_nbytes, &edit->result);
    }
    edit->outcome =
        present == NULL ? SYMMCOLL_STORE_CREATED : SYMMCOLL_STORE_REPLACED;
    status = symc_bytes_copy(edit->value, edit->nbytes, &edit->result);
    if (status != SYMMCOLL_OK)
        return status;
    change->what = SYMC_PUT;
    return symc_bytes_copy(edit->value, edit->nbytes, &change->value);
}

/* Appends a value to a queue, or takes its first one. */
static symmcoll_status_t apply_queued(struct symc_edit *edit, const char *key,
    struct symc_item present, struct symc_change *change)
{
    bool push = edit->kind == SYMC_EDIT_PUSH;

    if (present.value != NULL)
        return symc_fail_is_value(
            push ? "store_queue_push" : "store_queue_pop", key);
    if (push) {
        change->what = SYMC_PUSH;
        edit->sum =
            present.queue != NULL ? (int64_t)present.queue->length + 1 : 1;
        return symc_bytes_copy(edit->value, edit->nbytes, &change->value);
    }
    if (present.queue == NULL)
        return SYMMCOLL_OK;
    change->what = SYMC_POP;
    return symc_bytes_copy(present.queue->first->value.data,
        present.queue->first->value.nbytes, &edit->result);
}

symmcoll_status_t symc_edit_apply(struct symc_edit *edit, const char *key,
    struct symc_item item, struct symc_change *change)
{
    static const char *const wants_value[] = {
        [SYMC_EDIT_ADD] = "store_add",
        [SYMC_EDIT_APPEND] = "store_append",
        [SYMC_EDIT_COMPARE_SET] = "store_compare_set",
        [SYMC_EDIT_POP] = NULL,
    };
    const struct symc_bytes *present = item.value;

    *change = (struct symc_change){.what = SYMC_KEEP};
    edit->existed = present != NULL || item.queue != NULL;
    if (item.queue != NULL && wants_value[edit->kind] != NULL)
        return symc_fail_is_queue(wants_value[edit->kind], key);
    switch (edit->kind) {
    case SYMC_EDIT_SET:
        change->what = SYMC_PUT;
        return symc_bytes_copy(edit->value, edit->nbytes, &change->value);
    case SYMC_EDIT_ADD:
        return add_number(edit, key, present, change);
    case SYMC_EDIT_APPEND:
        return append_bytes(edit, key, present, change);
    case SYMC_EDIT_COMPARE_SET:
        return compare_value(edit, present, change);
    case SYMC_EDIT_DELETE:
        if (edit->existed)
            change->what = SYMC_REMOVE;
        return SYMMCOLL_OK;
    case SYMC_EDIT_PUSH:
    case SYMC_EDIT_POP:
        return apply_queued(edit, key, item, change);
    }
    return symc_fail(
        SYMMCOLL_ERR_INTERNAL, "store: no edit has the number %d", edit->kind);
}
