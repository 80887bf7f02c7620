/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recording of functional calls: the sequence of calls, and which call takes
 * the result of which; no data.
 */
#include "functional/functional.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recording {
    struct symc_extension extension;
    pthread_mutex_t lock;
    bool on;
    char *records;     /* the caller's array of struct symmcoll_f_record */
    size_t apart;      /* bytes of each record */
    const void **kept; /* address of each call's result */
    int room, count;
};

static const struct symmcoll_f_record default_record = SYMMCOLL_F_RECORD_INIT;
static const struct symc_sized record_kind = {.name = "record",
    .macro = "SYMMCOLL_F_RECORD_INIT",
    .defaults = &default_record,
    .nbytes = sizeof(default_record),
    .least = sizeof(default_record.size)};

static void end_recording(
    struct symc_extension *extension, struct symmcoll_world *world)
{
    struct recording *recording = (struct recording *)extension;

    (void)world;
    pthread_mutex_destroy(&recording->lock);
    free(recording->kept);
    free(recording);
}

static const char key; /* its address identifies this module's extension */

static struct symc_extension *make_recording(void)
{
    struct recording *recording = symc_alloc(1, sizeof(*recording));

    if (recording == NULL)
        return NULL;
    pthread_mutex_init(&recording->lock, NULL);
    recording->extension =
        (struct symc_extension){.key = &key, .end = end_recording};
    return &recording->extension;
}

static struct recording *find_recording(struct symmcoll_world *world, bool make)
{
    return (struct recording *)symc_world_extension(
        world, &key, make ? make_recording : NULL);
}

/* ---- entries ---- */

/* Returns the latest call with a result at an address; -1: none. Under the
 * lock. */
static int find_call(const struct recording *recording, const void *data)
{
    int at =
        recording->count < recording->room ? recording->count : recording->room;

    while (--at >= 0 && (data == NULL || recording->kept[at] != data))
        ;
    return at;
}

/* Adds a record, under the lock. */
static void add(struct recording *recording,
    const struct symmcoll_f_record *record, const void *result)
{
    int at = recording->count++;

    if (at >= recording->room)
        return;
    recording->kept[at] = result;
    /* The sizes have been checked. */
    if (symc_sized_write(&record_kind, "f_record", record,
            recording->records + (size_t)at * recording->apart) != SYMMCOLL_OK)
        recording->kept[at] = NULL;
}

static void copy_shape(
    const struct symmcoll_tensor *tensor, int *ndim, int64_t *shape)
{
    *ndim = tensor->ndim;
    memcpy(shape, tensor->shape, (size_t)tensor->ndim * sizeof(*shape));
}

void symc_f_record_calls(
    const struct symc_f_spec *spec, const struct symc_f_step *steps, int n)
{
    struct recording *recording =
        spec->group == NULL
            ? NULL
            : find_recording(symc_group_world(spec->group), false);

    if (recording == NULL)
        return;
    pthread_mutex_lock(&recording->lock);
    for (int i = 0; i < n && recording->on; i++) {
        struct symmcoll_f_record record = SYMMCOLL_F_RECORD_INIT;

        snprintf(record.name, sizeof(record.name), "%s", spec->name);
        snprintf(record.group, sizeof(record.group), "%s",
            symc_group_name(spec->group));
        record.dtype = steps[i].in.dtype;
        record.op = spec->op;
        record.root = spec->root;
        record.dim = spec->dims == NULL ? -1 : spec->dims[i];
        copy_shape(&steps[i].in, &record.in_ndim, record.in_shape);
        copy_shape(&steps[i].out, &record.out_ndim, record.out_shape);
        record.from = find_call(recording, steps[i].in.data);
        add(recording, &record, steps[i].out.data);
    }
    pthread_mutex_unlock(&recording->lock);
}

void symc_f_record_wait(struct symmcoll_world *world, const void *data)
{
    struct recording *recording = find_recording(world, false);

    if (recording == NULL)
        return;
    pthread_mutex_lock(&recording->lock);
    if (recording->on) {
        struct symmcoll_f_record record = SYMMCOLL_F_RECORD_INIT;

        snprintf(record.name, sizeof(record.name), "f_wait");
        record.from = find_call(recording, data);
        if (record.from >= 0 && record.from < recording->room)
            add(recording, &record, data);
    }
    pthread_mutex_unlock(&recording->lock);
}

/* ---- begin and end ---- */

/* Checks that all records have the same valid size, and no unknown member that is
 * set. */
static symmcoll_status_t check_records(
    const struct symmcoll_f_record *records, int count)
{
    for (int i = 0; i < count; i++) {
        struct symmcoll_f_record copy;
        symmcoll_status_t status = symc_sized_read_at(
            &record_kind, "f_record_begin", records, (size_t)i, &copy);

        if (status != SYMMCOLL_OK)
            return status;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_f_record_begin(
    struct symmcoll_world *world, struct symmcoll_f_record *records, int count)
{
    struct recording *recording;
    const void **kept;
    symmcoll_status_t status;

    if (world == NULL || records == NULL || count < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "f_record_begin: expected a world and one record or more, found %s",
            world == NULL     ? "no world"
            : records == NULL ? "no records"
                              : "none");
    status = check_records(records, count);
    if (status != SYMMCOLL_OK)
        return status;
    recording = find_recording(world, true);
    kept = recording == NULL ? NULL : symc_alloc((size_t)count, sizeof(*kept));
    if (kept == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&recording->lock);
    free(recording->kept);
    recording->on = true;
    recording->records = (char *)records;
    recording->apart = records->size;
    recording->kept = kept;
    recording->room = count;
    recording->count = 0;
    pthread_mutex_unlock(&recording->lock);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_f_record_end(
    struct symmcoll_world *world, int *count)
{
    struct recording *recording =
        world == NULL ? NULL : find_recording(world, false);
    bool was_on;

    if (recording == NULL || count == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "f_record_end: expected a world that records and a place for the "
            "number, found neither or one of them");
    pthread_mutex_lock(&recording->lock);
    was_on = recording->on;
    recording->on = false;
    if (was_on)
        *count = recording->count;
    pthread_mutex_unlock(&recording->lock);
    return was_on ? SYMMCOLL_OK
                  : symc_fail(SYMMCOLL_ERR_INVALID,
                        "f_record_end: expected a world that records, found "
                        "that it has ended");
}
