/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening of a group's backends, and what the members create together in an open
 * one: what an operation needs, what a new group inherits of it, and joined
 * memory.  The backend of host memory is opened with the group.  Another one is
 * opened by its first operation, when all members have compared that and so take
 * part: in rounds, each an operation of its own in which every member sends its
 * progress or the reason why it refuses, and reads those of all.  INVARIANT: in
 * each round all members read the same, so all go on or none does.
 */
#include "base/ranks.h"
#include "registry/registry.h"
#include "run/runner.h"

#include <stdio.h>
#include <string.h>

#define LAST_ROUND UINT32_MAX

/* ---- opening ---- */

static bool open_alike(const void *verdicts, int a, int b)
{
    const struct symc_verdict *all = verdicts;

    return all[a].round == all[b].round && all[a].nbytes == all[b].nbytes &&
           strncmp(all[a].backend, all[b].backend, sizeof(all[a].backend)) == 0;
}

/* Returns the error of members that differ in what they open, or in their
 * progress. */
static symmcoll_status_t differ(const struct symc_runner *runner, int member)
{
    const struct symc_verdict *first = &runner->verdicts[0];
    const struct symc_verdict *other = &runner->verdicts[member];
    char who[2][SYMC_RANK_TEXT];

    symc_format_rank(&runner->members.ranks, 0, SYMC_NO_PID, who[0]);
    symc_format_rank(&runner->members.ranks, member, SYMC_NO_PID, who[1]);
    if (strncmp(other->backend, first->backend, sizeof(first->backend)) != 0)
        (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
            "backend differs: %s has %.*s, %s has %.*s", who[0],
            (int)sizeof(first->backend), first->backend, who[1],
            (int)sizeof(other->backend), other->backend);
    else
        (void)symc_fail(SYMMCOLL_ERR_INTERNAL,
            "backend %.*s exchanges or gathers other than on %s on %s",
            (int)sizeof(first->backend), first->backend, who[0], who[1]);
    return symc_error_add_odd(
        &runner->members.ranks, open_alike, runner->verdicts);
}

/* Returns OK if all members go on alike, else their error. */
static symmcoll_status_t judge(const struct symc_runner *runner)
{
    const struct symc_verdict *first = &runner->verdicts[0];
    char who[SYMC_RANK_TEXT];

    for (int r = 0; r < runner->size; r++) {
        const struct symc_verdict *other = &runner->verdicts[r];

        if (other->status == SYMMCOLL_OK)
            continue;
        (void)symc_fail((symmcoll_status_t)other->status, "%s: %.*s",
            symc_format_rank(&runner->members.ranks, r, SYMC_NO_PID, who),
            (int)sizeof(other->text), other->text);
        return symc_error_add_reporter(&runner->members.ranks, r);
    }
    for (int r = 1; r < runner->size; r++) {
        const struct symc_verdict *other = &runner->verdicts[r];

        if (other->round != first->round || other->nbytes != first->nbytes ||
            strncmp(other->backend, first->backend, sizeof(first->backend)) !=
                0)
            return differ(runner, r);
    }
    return SYMMCOLL_OK;
}

/* Returns the time until a deadline, at least 1: members that have already
 * arrived are still found. */
static int64_t time_until(int64_t deadline_ns)
{
    int64_t now = symc_now_ns();

    if (deadline_ns == SYMC_NEVER)
        return deadline_ns;
    return deadline_ns > now ? deadline_ns - now : 1;
}

/* Holds one round: sends this member's progress and reads all members'. */
static symmcoll_status_t hold_round(
    struct symc_runner *runner, struct symc_verdict *mine)
{
    symmcoll_status_t status = symc_run_round(runner, runner->opening, mine,
        runner->verdicts, sizeof(*mine), time_until(runner->opening_until_ns));

    if (status == SYMMCOLL_OK)
        status = judge(runner);
    if (status != SYMMCOLL_OK || mine->round == LAST_ROUND) {
        runner->decided = true;
        runner->agreed = status;
    }
    return status;
}

static void name_backend(
    struct symc_verdict *mine, const struct symc_backend *backend)
{
    snprintf(mine->backend, sizeof(mine->backend), "%s", backend->name);
}

/* Holds the round before an exchange or a gather: checks that all members do
 * the same. */
static symmcoll_status_t go_on_opening(
    struct symc_runner *runner, const char *call, uint32_t nbytes)
{
    struct symc_verdict mine = {.round = runner->rounds++, .nbytes = nbytes};

    name_backend(&mine, runner->opened);
    if (runner->decided)
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "%s: the members have refused backend %s", call, mine.backend);
    return hold_round(runner, &mine);
}

symmcoll_status_t symc_slot_exchange(void *context, int fd, int *fds)
{
    struct symc_runner *runner = context;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (runner->rounds > 0)
        status = go_on_opening(runner, "exchange", 0);
    return status == SYMMCOLL_OK ? symc_run_exchange(runner, fd, fds) : status;
}

symmcoll_status_t symc_slot_gather(
    void *context, const void *mine, void *all, size_t nbytes)
{
    struct symc_runner *runner = context;
    symmcoll_status_t status;

    if (runner->rounds == 0 || nbytes == 0 || nbytes > SYMC_GATHER_MOST)
        return symc_fail(SYMMCOLL_ERR_INTERNAL,
            "gather: expected 1 to %d bytes while a backend is opened, found "
            "%zu",
            SYMC_GATHER_MOST, nbytes);
    status = go_on_opening(runner, "gather", (uint32_t)nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_run_round(runner, runner->opening, mine, all, nbytes,
        time_until(runner->opening_until_ns));
    /* The group has failed, and this call has got the reason. */
    if (status != SYMMCOLL_OK) {
        runner->decided = true;
        runner->agreed = status;
    }
    return status;
}

/* Chooses and opens a backend on this member. */
static symmcoll_status_t open_here(struct symc_runner *runner,
    enum symc_memory memory, const struct symc_peers *peers, void **state)
{
    symmcoll_status_t status = symc_registry_choose(
        &runner->world->registry, memory, peers, &runner->opened);

    if (status != SYMMCOLL_OK)
        return status;
    if (memory == SYMC_MEMORY_HOST ? runner->opened->host == NULL
                                   : runner->opened->device == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED, "backend %s: no operations",
            runner->opened->name);
    return runner->opened->open(&runner->core, peers, state);
}

/* Begins the rounds of a call; a member waits for the others until the
 * deadline, over all rounds.  They have the call's kind if it is one with
 * rounds of its own. */
static void begin_rounds(struct symc_runner *runner, const struct symc_op *op,
    const struct symc_backend *backend, int64_t deadline_ns)
{
    runner->opening = symc_kinds[op->kind].counter == SYMC_COUNT_NONE
                          ? op->kind
                          : SYMC_OPEN_BACKEND;
    runner->opened = backend;
    runner->opening_until_ns = deadline_ns;
    runner->rounds = 1;
    runner->decided = false;
}

/* Holds the last round with this member's status.  Returns the status common to
 * all. */
static symmcoll_status_t end_rounds(
    struct symc_runner *runner, symmcoll_status_t own)
{
    struct symc_verdict mine = {.status = own, .round = LAST_ROUND};
    symmcoll_status_t status = own;

    if (runner->opened != NULL)
        name_backend(&mine, runner->opened);
    if (own != SYMMCOLL_OK)
        snprintf(mine.text, sizeof(mine.text), "%s", symmcoll_last_error());
    if (!runner->decided)
        status = hold_round(runner, &mine);
    else if (own == SYMMCOLL_OK)
        status = symc_fail(SYMMCOLL_ERR_INTERNAL,
            "backend %s opened although the members refused", mine.backend);
    else /* whatever the backend has made of it */
        status = runner->agreed;
    runner->rounds = 0;
    return status;
}

/* Opens the backend on all members or on none; own: an error if this member
 * cannot. */
static symmcoll_status_t open_everywhere(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_slot_memory *joins,
    symmcoll_status_t own, int64_t timeout_ns, void **state)
{
    struct symc_peers peers = runner->peers;
    symmcoll_status_t status;

    peers.channels = NULL;
    peers.staging = NULL;
    peers.staging_nbytes = 0;
    peers.device = op->device;
    if (op->memory == SYMC_MEMORY_DEVICE) {
        peers.stream = op->stream;
        peers.buffer = op->out != NULL ? op->out : op->in;
        peers.owner = joins != NULL ? joins->backend : NULL;
        peers.memory = joins != NULL ? joins->memory : NULL;
    }
    begin_rounds(runner, op, NULL, symc_deadline_ns(symc_now_ns(), timeout_ns));
    if (own == SYMMCOLL_OK)
        own = open_here(runner, (enum symc_memory)op->memory, &peers, state);
    status = end_rounds(runner, own);
    if (own == SYMMCOLL_OK && status != SYMMCOLL_OK)
        runner->opened->close(*state);
    return status;
}

symmcoll_status_t symc_slot_open_host(struct symc_runner *runner)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_HOST];
    symmcoll_status_t status;

    /* In advance, because opening a slot must not fail on one member alone. */
    runner->verdicts =
        symc_alloc((size_t)runner->size, sizeof(*runner->verdicts));
    if (runner->verdicts == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    runner->peers = (struct symc_peers){.rank = runner->rank,
        .size = runner->size,
        .threads = runner->world->threads,
        .doorbells = runner->doorbells,
        .channels = runner->channels,
        .staging = runner->staging,
        .staging_nbytes = runner->staging_nbytes,
        .absent = runner->world->fake};
    status = open_here(runner, SYMC_MEMORY_HOST, &runner->peers, &slot->state);
    if (status == SYMMCOLL_OK)
        slot->backend = runner->opened;
    return status;
}

bool symc_slot_take_device(
    struct symc_runner *runner, int device, int *found, bool *first)
{
    int32_t taken = 0;

    *first = atomic_compare_exchange_strong(
        &runner->device, &taken, (int32_t)device + 1);
    *found = *first ? device : (int)taken - 1;
    return *found == device;
}

/* Before the rounds, because another thread's call binds a device without the
 * ticket. */
static symmcoll_status_t take_device(
    struct symc_runner *runner, const struct symc_op *op, bool *first)
{
    int found;

    if (symc_slot_take_device(runner, op->device, &found, first))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "expected memory of device %d, as in another operation of the group, "
        "found memory of device %d",
        found, op->device);
}

/* Adds the call to the error of a failed group if it does not name it. */
static symmcoll_status_t name_call(
    const struct symc_op *op, symmcoll_status_t status)
{
    const char *name = symc_kind_name(op->kind);
    char call[SYMC_OP_TEXT];

    if (strstr(symmcoll_last_error(), name) != NULL)
        return status;
    symc_op_format(op->kind, op->seq, op->label, call, sizeof(call));
    return symc_error_prefix(status, "%s", call);
}

/* Keeps an error and its detail for later calls, and returns it. */
static symmcoll_status_t keep_refusal(const struct symc_runner *runner,
    const struct symc_op *op, symmcoll_status_t status,
    struct symc_refusal *refusal)
{
    refusal->status = status;
    refusal->at_ns = symc_now_ns();
    symc_op_format(
        op->kind, op->seq, op->label, refusal->call, sizeof(refusal->call));
    snprintf(
        refusal->reason, sizeof(refusal->reason), "%s", symmcoll_last_error());
    return symc_error_amend(status, "%s: %s (group %s)",
        symc_kind_name(op->kind), refusal->reason, runner->name);
}

/* Ends a refused opening: the group is no longer bound to a device for it. */
static symmcoll_status_t refuse_open(struct symc_runner *runner,
    const struct symc_op *op, symmcoll_status_t status, bool first)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    int32_t mine = (int32_t)op->device + 1;
    struct symc_refusal passing;

    if (first)
        (void)atomic_compare_exchange_strong(&runner->device, &mine, 0);
    if (symc_members_failed(&runner->members))
        return name_call(op, status);
    return keep_refusal(runner, op, status,
        status != SYMMCOLL_ERR_INVALID ? &slot->refusal : &passing);
}

/* Returns an earlier refusal for a call that does not try again. */
static symmcoll_status_t return_refusal(const struct symc_runner *runner,
    const struct symc_op *op, const struct symc_refusal *refusal,
    const char *what)
{
    return symc_fail(refusal->status,
        "%s: %s was refused %.3g s ago, in %s: %s (group %s)",
        symc_kind_name(op->kind), what,
        (double)(symc_now_ns() - refusal->at_ns) / (double)SYMC_NS_PER_S,
        refusal->call, refusal->reason, runner->name);
}

symmcoll_status_t symc_slot_open(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_slot_memory *joins)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    int64_t init_ns = runner->world->config->timeouts_init;
    void *state = NULL;
    symmcoll_status_t own, status;
    bool first;

    if (slot->backend != NULL)
        return SYMMCOLL_OK;
    if (slot->refusal.status != SYMMCOLL_OK)
        return return_refusal(
            runner, op, &slot->refusal, symc_memory_name(op->memory));
    own = take_device(runner, op, &first);
    status = open_everywhere(runner, op, joins, own,
        init_ns > op->timeout_ns ? init_ns : op->timeout_ns, &state);
    if (status != SYMMCOLL_OK)
        return refuse_open(runner, op, status, first);
    slot->backend = runner->opened;
    slot->state = state;
    atomic_store(&slot->open, true);
    if (atomic_load(&runner->members.stopped) != 0)
        /* the thread that failed the group may have missed this slot */
        symc_slots_stop(runner);
    return SYMMCOLL_OK;
}

/* ---- what operations need ---- */

#define LACKS_MOST 8

/* Returns whether a member's invalid call was the reason, known to all: its
 * next call may succeed. */
static bool may_try_again(const struct symc_slot *slot)
{
    return slot->lack.status == SYMMCOLL_ERR_INVALID &&
           slot->lacks < LACKS_MOST;
}

/* Returns whether an operation needs something that can still be created.
 * agreed: NULL if it has not been compared. */
static bool needs(const struct symc_slot *slot, const struct symc_op *op,
    const struct symc_agreed *agreed)
{
    const struct symc_device_ops *device = slot->backend->device;

    return symc_slot_serves(slot, op->kind) &&
           device->needs(slot->state, op, agreed) &&
           (slot->lack.status == SYMMCOLL_OK || may_try_again(slot));
}

bool symc_slot_is_ready(struct symc_runner *runner, const struct symc_op *op)
{
    const struct symc_slot *slot = &runner->slots[op->memory];

    return slot->backend != NULL && !needs(slot, op, NULL);
}

/* Goes on without it, on all members. */
static symmcoll_status_t do_without(
    const struct symc_runner *runner, const struct symc_slot *slot)
{
    symc_logf(&runner->world->log, SYMC_LOG_INFO,
        "backend %s of group %s goes on without what %s would use: %s",
        slot->backend->name, runner->name, slot->lack.call, slot->lack.reason);
    return SYMMCOLL_OK;
}

/* Returns the time for all rounds of a preparation together: more than a
 * backend itself waits for what it creates, so that it can end that, within a
 * second, and report it before the group fails. */
#define TELLING_NS (3 * SYMC_NS_PER_S)

static int64_t find_preparing_ns(
    const struct symc_runner *runner, const struct symc_op *op, int64_t more)
{
    int64_t ns = runner->world->config->timeouts_init;

    if (ns < op->timeout_ns)
        ns = op->timeout_ns;
    return ns < SYMC_NEVER - more ? ns + more : SYMC_NEVER;
}

symmcoll_status_t symc_slot_prepare(
    struct symc_runner *runner, const struct symc_op *op)
{
    struct symc_slot *slot = &runner->slots[op->memory];
    const struct symc_device_ops *device = slot->backend->device;
    symmcoll_status_t status;

    /* All members have failed in the same attempts, so all try again or
     * none. */
    if (!needs(slot, op, &runner->compared))
        return SYMMCOLL_OK;
    begin_rounds(runner, op, slot->backend,
        symc_deadline_ns(
            symc_now_ns(), find_preparing_ns(runner, op, TELLING_NS)));
    status =
        end_rounds(runner, device->prepare(slot->state, op, &runner->compared));
    if (status == SYMMCOLL_OK) {
        /* Nothing has been created for captured operations. */
        if (!needs(slot, op, &runner->compared)) {
            slot->lack.status = SYMMCOLL_OK;
            slot->lacks = 0;
        }
        return status;
    }
    if (!symc_members_failed(&runner->members)) {
        (void)keep_refusal(runner, op, status, &slot->lack);
        device->forgo(slot->state);
        slot->lacks++;
        return do_without(runner, slot);
    }
    return runner->members.own.status == SYMMCOLL_ERR_CANCELED
               ? symc_members_interrupted(&runner->members, op)
               : name_call(op, status);
}

symmcoll_status_t symc_slot_split(struct symc_runner *runner,
    const struct symc_op *op, const struct symc_heir *heir,
    symmcoll_status_t own, void **made)
{
    const struct symc_slot *slot = &runner->slots[op->memory];
    const struct symc_admin_ops *admin = slot->backend->admin;
    void *part = NULL;
    symmcoll_status_t status;

    begin_rounds(runner, op, slot->backend,
        symc_deadline_ns(symc_now_ns(),
            find_preparing_ns(runner, op, TELLING_NS + SYMC_SLOT_QUIET_NS)));
    if (own == SYMMCOLL_OK)
        own = admin->split(slot->state, heir, &part);
    status = end_rounds(runner, own);
    if (status == SYMMCOLL_OK)
        *made = part;
    else if (part != NULL)
        admin->drop(part);
    return status;
}

/* ---- joining ---- */

/* Joins this member's memory.  A backend can only read its own objects. */
static symmcoll_status_t join_here(const struct symc_slot *slot,
    struct symc_slot_memory memory, struct symc_joined **joined)
{
    const struct symc_memory_ops *mem = slot->backend->mem;
    symmcoll_status_t status;

    if (memory.backend != slot->backend)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "expected memory of backend %s, which serves the group's "
            "operations, found memory of backend %s",
            slot->backend->name, memory.backend->name);
    status = mem->join(slot->state, memory.memory, joined);
    if (status != SYMMCOLL_OK || memory.other == NULL)
        return status;
    status = mem->tabulate(slot->state, memory.other, *joined, memory.table_at);
    if (status != SYMMCOLL_OK)
        mem->leave(*joined);
    return status;
}

symmcoll_status_t symc_slot_join(struct symc_runner *runner,
    const struct symc_op *op, struct symc_slot_memory memory,
    int64_t deadline_ns, struct symc_joined **joined)
{
    struct symc_slot *slot = &runner->slots[SYMC_MEMORY_DEVICE];
    const struct symc_memory_ops *mem =
        slot->backend != NULL ? slot->backend->mem : NULL;
    struct symc_joined *made = NULL;
    symmcoll_status_t own, status;

    if (mem == NULL || mem->join == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "backend %s has no memory that a group can join",
            slot->backend != NULL ? slot->backend->name : "of devices");
    begin_rounds(runner, op, slot->backend, deadline_ns);
    own = join_here(slot, memory, &made);
    status = end_rounds(runner, own);
    if (status == SYMMCOLL_OK)
        *joined = made;
    else if (symc_members_failed(&runner->members))
        status = name_call(op, status);
    if (status != SYMMCOLL_OK && own == SYMMCOLL_OK)
        mem->leave(made);
    return status;
}
