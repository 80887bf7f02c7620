/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves and loads built-in hooks.  The bytes of PowerSGD are those of
 * symmcoll_powersgd_save().
 */
#include "ddp/hook_state.h"

#include <stdlib.h>

#define MAGIC UINT64_C(0x314b4f4f485f4353)

/* The beginning of a saved hook; its buckets follow.  Fields have the same size, so
 * that no byte is padding. */
struct file {
    uint64_t magic;
    uint64_t nbytes;
    char name[24];
    double start, ratio;
    uint64_t passes;
    uint64_t nbuckets;
};

/* The beginning of a saved bucket; its parameters follow, and the errors. */
struct file_bucket {
    uint64_t ngrads, count;
};

/* ---- saving ---- */

static size_t saved_size(const struct symc_encoded *bucket)
{
    return sizeof(struct file_bucket) +
           (bucket->errors != NULL ? bucket->ngrads * sizeof(int) +
                                         bucket->coding.count * sizeof(float)
                                   : 0);
}

static char *put_bucket(char *at, const struct symc_encoded *bucket)
{
    struct file_bucket head = {0};

    if (bucket->errors != NULL)
        head = (struct file_bucket){bucket->ngrads, bucket->coding.count};
    at = symc_saved_put(at, &head, sizeof(head));
    at = symc_saved_put(at, bucket->params, head.ngrads * sizeof(int));
    return symc_saved_put(at, bucket->errors, head.count * sizeof(float));
}

static struct file describe(const struct symmcoll_hook *hook)
{
    struct file head = {.magic = MAGIC,
        .start = hook->args.start,
        .ratio = hook->args.ratio,
        .passes = hook->passes,
        .nbuckets = (uint64_t)hook->nbuckets};

    strncpy(head.name, hook->kind->name, sizeof(head.name) - 1);
    return head;
}

symmcoll_status_t symmcoll_hook_save(
    const struct symmcoll_hook *hook, void **data, size_t *nbytes)
{
    struct file head;
    char *at;

    if (hook == NULL || data == NULL || nbytes == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_save: expected a hook and places for its bytes, found NULL");
    if (hook->powersgd != NULL)
        return symmcoll_powersgd_save(hook->powersgd, data, nbytes);
    head = describe(hook);
    head.nbytes = sizeof(head);
    for (int b = 0; b < hook->nbuckets; b++) {
        if (hook->buckets[b].in_flight)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "hook_save: expected a hook whose passes have all ended, found "
                "one that has not, or has failed");
        head.nbytes += saved_size(&hook->buckets[b]);
    }
    *data = symc_alloc(1, head.nbytes);
    if (*data == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *nbytes = head.nbytes;
    at = symc_saved_put(*data, &head, sizeof(head));
    for (int b = 0; b < hook->nbuckets; b++)
        at = put_bucket(at, &hook->buckets[b]);
    return SYMMCOLL_OK;
}

/* ---- loading ---- */

static symmcoll_status_t refuse_bytes(const char *found)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "hook_load: expected the bytes of symmcoll_hook_save(), found %s",
        found);
}

static symmcoll_status_t take_bucket(
    struct symc_saved *saved, struct symc_encoded *bucket)
{
    struct file_bucket head;

    if (!symc_saved_take(saved, &head, 1, sizeof(head)) ||
        head.ngrads > saved->nbytes / sizeof(int) ||
        head.count > saved->nbytes / sizeof(float))
        return refuse_bytes("a part of a bucket");
    if (head.ngrads == 0)
        return SYMMCOLL_OK;
    bucket->ngrads = head.ngrads;
    bucket->coding.count = head.count;
    if (symc_encoded_alloc(bucket, true) != SYMMCOLL_OK)
        return SYMMCOLL_ERR_NO_MEMORY;
    return symc_saved_take(saved, bucket->params, head.ngrads, sizeof(int)) &&
                   symc_saved_take(
                       saved, bucket->errors, head.count, sizeof(float))
               ? SYMMCOLL_OK
               : refuse_bytes("a part of a bucket");
}

/* Checks that a saved hook has the options of the one that is loaded. */
static symmcoll_status_t check_options(
    const struct symmcoll_hook *hook, struct file *head)
{
    struct file own = describe(hook);

    head->name[sizeof(head->name) - 1] = '\0';
    if (strcmp(head->name, own.name) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_load: expected the bytes of a hook %s, found those of %s",
            own.name, head->name);
    if (head->start != own.start || head->ratio != own.ratio)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_load: expected a hook with the start %g and the ratio %g, "
            "found %g and %g",
            own.start, own.ratio, head->start, head->ratio);
    return SYMMCOLL_OK;
}

/* Reads a saved hook into an empty one of the same kind. */
static symmcoll_status_t read_hook(
    struct symmcoll_hook *made, const void *data, size_t nbytes)
{
    struct symc_saved saved = {data, nbytes};
    struct file head;
    symmcoll_status_t status;

    if (!symc_saved_take(&saved, &head, 1, sizeof(head)) ||
        head.magic != MAGIC || head.nbytes != nbytes ||
        head.nbuckets > nbytes / sizeof(struct file_bucket))
        return refuse_bytes("others");
    status = check_options(made, &head);
    if (status != SYMMCOLL_OK)
        return status;
    made->passes = head.passes;
    for (uint64_t b = 0; b < head.nbuckets; b++) {
        struct symc_encoded *bucket = symc_hook_bucket(made, (int)b);

        status = bucket != NULL ? take_bucket(&saved, bucket)
                                : SYMMCOLL_ERR_NO_MEMORY;
        if (status != SYMMCOLL_OK)
            return status;
    }
    return saved.nbytes == 0 ? SYMMCOLL_OK : refuse_bytes("more");
}

/* Makes a hook (out) with the options of another one from saved bytes. */
static symmcoll_status_t make_loaded(const struct symmcoll_hook *hook,
    const void *data, size_t nbytes, struct symmcoll_hook **made)
{
    if (data == NULL)
        return refuse_bytes("NULL");
    if (hook->pass.reducer != NULL)
        return symc_hook_refuse_load("hook_load");
    *made = symc_alloc(1, sizeof(**made));
    if (*made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    (*made)->kind = hook->kind;
    (*made)->args = hook->args;
    (*made)->inner = hook->inner;
    return read_hook(*made, data, nbytes);
}

symmcoll_status_t symmcoll_hook_load(struct symmcoll_hook *hook,
    struct symmcoll_group *group, const void *data, size_t nbytes)
{
    struct symmcoll_hook *made = NULL, old;
    symmcoll_status_t status;

    if (group == NULL || hook == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "hook_load: expected a group and a hook, found NULL");
    if (hook->powersgd != NULL)
        return symmcoll_powersgd_load(hook->powersgd, group, data, nbytes);
    status = make_loaded(hook, data, nbytes, &made);
    status = symc_hook_compare("hook_load", group, made, status);
    if (status == SYMMCOLL_OK && made != NULL) {
        old = *hook;
        *hook = *made;
        *made = old;
    }
    symmcoll_hook_free(made);
    return status;
}
