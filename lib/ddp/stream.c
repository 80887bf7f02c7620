/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves the reducer between streams of a device.  A pass is captured in a CUDA
 * graph as a whole or not at all: a captured part would run later than the
 * rest, and nothing would order the two.
 */
#include "ddp/reducer.h"

#include "group/group.h"
#include "run/call.h"

#include <symmcoll/group.h>

symmcoll_status_t symc_open_site(struct symmcoll_reducer *reducer)
{
    const struct symmcoll_tensor *first = &reducer->params[0].tensor;
    int found;

    if (first->device != SYMMCOLL_CUDA)
        return SYMMCOLL_OK;
    if (!symc_run_is_on_device(
            symc_group_runner(reducer->group), first->device_index, &found))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: expected parameters on device %d, as earlier operations "
            "of group %s, found device %d",
            found, symc_group_name(reducer->group), first->device_index);
    return symc_site_open("reducer", reducer->group, first->device_index,
        symmcoll_group_stream(reducer->group), first->data, true,
        &reducer->site);
}

/* Returns whether a stream is the device's default one, by either of its names.
 * It is never captured. */
static bool is_default(const void *stream)
{
    return (uintptr_t)stream <= 1;
}

symmcoll_status_t symc_take_stream(
    struct symmcoll_reducer *reducer, const char *where)
{
    void *stream = symmcoll_group_stream(reducer->group);
    void *before = symc_site_stream(reducer->site);
    bool captured, was;
    symmcoll_status_t status =
        symc_site_query_captured(reducer->site, stream, &captured);

    was = captured && stream == before;
    /* A default stream is not queried during a capture: the query fails while
     * a stream that waits for it is captured. */
    if (status == SYMMCOLL_OK && stream != before &&
        !(captured && is_default(before)))
        status = symc_site_query_captured(reducer->site, before, &was);
    if (status != SYMMCOLL_OK)
        return status;
    if (was && !captured)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a stream of the capture that stream %p is in since the "
            "call before, or the end of that capture, found stream %p",
            where, before, stream);
    reducer->captured = captured;
    if (!captured || was)
        return symc_site_set_stream(reducer->site, stream);
    /* A graph does not wait for work before its capture. */
    symc_site_leave_stream(reducer->site, stream);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_keep_stream(const struct symmcoll_reducer *reducer)
{
    void *stream = symmcoll_group_stream(reducer->group);
    bool captured;
    symmcoll_status_t status =
        symc_site_query_captured(reducer->site, stream, &captured);

    if (status != SYMMCOLL_OK)
        return status;
    if (captured && !reducer->captured)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "expected a pass that is not captured, as it began, found that "
            "stream %p is being captured: capture it from begin to finish",
            stream);
    if (!captured && reducer->captured)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "expected a pass that is captured from begin to finish, found that "
            "stream %p is not being captured",
            stream);
    return symc_site_set_stream(reducer->site, stream);
}

symmcoll_status_t symc_follow_stream(
    const struct symmcoll_reducer *reducer, void *stream)
{
    void *own = symc_site_stream(reducer->site);
    bool captured, other;
    symmcoll_status_t status;

    if (!symc_site_is_beside(reducer->site, stream))
        return SYMMCOLL_OK;
    status = symc_site_query_captured(reducer->site, own, &captured);
    if (status == SYMMCOLL_OK)
        status = symc_site_query_captured(reducer->site, stream, &other);
    if (status == SYMMCOLL_OK && captured && !other)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "expected stream %p not to be captured, for it is to wait for stream "
            "%p, which is not in the capture",
            own, stream);
    return status == SYMMCOLL_OK ? symc_site_follow(reducer->site, stream)
                                 : status;
}
