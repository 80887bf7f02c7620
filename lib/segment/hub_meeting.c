/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meetings: who has come, what they brought, and how it is sent to everybody.
 */
#include "segment/hub_room.h"
#include "segment/liveness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FLYING 400 /* descriptors sent and not yet acknowledged */
#define READ_NS (INT64_C(200) * 1000 * 1000) /* for what others have sent */

/* The meeting of a name that still takes ranks: one that has met only sends its
 * answers. */
static struct symc_hub_meeting *find_meeting(
    const struct symc_hub *hub, const char *name)
{
    struct symc_hub_meeting *meeting = hub->meetings;

    while (
        meeting != NULL && (meeting->met || strcmp(meeting->name, name) != 0))
        meeting = meeting->next;
    return meeting;
}

static void free_meeting(struct symc_hub_meeting *meeting)
{
    free(meeting->ranks);
    free(meeting->brought);
    free(meeting->informed);
    free(meeting->gone);
    free(meeting);
}

static struct symc_hub_meeting *add_meeting(
    struct symc_hub *hub, const char *name, int size)
{
    struct symc_hub_meeting *meeting = symc_alloc(1, sizeof(*meeting));

    if (meeting == NULL)
        return NULL;
    meeting->ranks = symc_alloc((size_t)size, sizeof(struct symc_client *));
    meeting->brought = symc_alloc((size_t)size, sizeof(struct symc_brought));
    meeting->informed = symc_alloc((size_t)size, sizeof(bool));
    meeting->gone = symc_alloc((size_t)size, sizeof(bool));
    if (meeting->ranks == NULL || meeting->brought == NULL ||
        meeting->informed == NULL || meeting->gone == NULL) {
        free_meeting(meeting);
        return NULL;
    }
    snprintf(meeting->name, sizeof(meeting->name), "%s", name);
    meeting->size = size;
    meeting->next = hub->meetings;
    hub->meetings = meeting;
    return meeting;
}

void symc_hub_drop_meeting(
    struct symc_hub *hub, struct symc_hub_meeting *meeting)
{
    struct symc_hub_meeting **at = &hub->meetings;

    while (*at != meeting)
        at = &(*at)->next;
    *at = meeting->next;
    for (int r = 0; r < meeting->size; r++)
        symc_hub_close_fds(meeting->brought[r].fds, meeting->brought[r].nfds);
    free_meeting(meeting);
}

static void list_missing(
    const struct symc_hub_meeting *meeting, char *buffer, size_t nbytes)
{
    bool *absent = symc_alloc((size_t)meeting->size, sizeof(bool));

    buffer[0] = '\0';
    if (absent == NULL)
        return;
    for (int r = 0; r < meeting->size; r++)
        absent[r] = meeting->ranks[r] == NULL && !meeting->gone[r];
    symc_format_ranks(absent, meeting->size, buffer, nbytes);
    free(absent);
}

/* Tell all who have come, and remember it for those who have not. */
void symc_hub_fail_meeting(struct symc_hub *hub,
    struct symc_hub_meeting *meeting, symmcoll_status_t status,
    const char *text)
{
    bool everybody = true;

    meeting->failure = status;
    snprintf(meeting->text, sizeof(meeting->text), "%s", text);
    for (int r = 0; r < meeting->size; r++) {
        struct symc_client *client = meeting->ranks[r];

        if (client != NULL) {
            meeting->informed[r] = true;
            symc_hub_inform(hub, client, status, text);
        }
        everybody = everybody && meeting->informed[r];
    }
    meeting->met = false;
    if (everybody)
        symc_hub_drop_meeting(hub, meeting);
}

/* Where the kinds of ranks are mixed: the text of the error, else NULL. */
static const char *check_kinds(
    struct symc_hub_meeting *meeting, char *buffer, size_t nbytes)
{
    char first[SYMC_PID_TEXT], second[SYMC_PID_TEXT];

    for (int r = 1; r < meeting->size; r++) {
        for (int s = 0; s < r; s++) {
            pid_t pid = meeting->ranks[r]->pid, other = meeting->ranks[s]->pid;
            bool same = pid == other && pid > 0; /* 0: one of many */

            if (r == 1)
                meeting->threads = same;
            if (same == meeting->threads)
                continue;
            snprintf(buffer, nbytes,
                "init: expected all ranks to be processes or all to be threads "
                "of one, found rank %d (%s) and rank %d (%s)",
                s, symc_format_pid(other, first), r,
                symc_format_pid(pid, second));
            return buffer;
        }
    }
    return NULL;
}

static void note_met(struct symc_hub *hub, const char *name)
{
    char **grown = realloc(hub->met, (hub->met_count + 1) * sizeof(*hub->met));

    if (grown == NULL)
        return;
    hub->met = grown;
    hub->met[hub->met_count] = symc_strdup(name);
    if (hub->met[hub->met_count] != NULL)
        hub->met_count++;
}

static void announce(
    struct symc_hub *hub, const struct symc_hub_meeting *meeting)
{
    int *blocks = symc_alloc((size_t)meeting->size, sizeof(int));
    pid_t *pids = symc_alloc((size_t)meeting->size, sizeof(pid_t));

    for (int r = 0; blocks != NULL && pids != NULL && r < meeting->size; r++) {
        const struct symc_brought *brought = &meeting->brought[r];

        blocks[r] = brought->nfds > 0 ? brought->fds[0] : -1;
        pids[r] = brought->pid;
    }
    if (blocks != NULL && pids != NULL)
        hub->events.met(
            meeting->name, meeting->size, blocks, pids, hub->events.arg);
    free(blocks);
    free(pids);
}

/* Take over what a rank brought. */
static void take_brought(
    struct symc_client *client, struct symc_brought *brought)
{
    *brought = (struct symc_brought){.pid = client->pid,
        .nbytes = client->hello.nbytes,
        .address = client->hello.address,
        .nfds = (int)client->hello.nfds};
    memcpy(brought->fds, client->fds, sizeof(brought->fds));
    client->hello.nfds = 0;
}

/* Everybody has come. */
static void complete_meeting(
    struct symc_hub *hub, struct symc_hub_meeting *meeting)
{
    char text[256];
    const char *mixed = check_kinds(meeting, text, sizeof(text));

    if (mixed != NULL) {
        symc_hub_fail_meeting(hub, meeting, SYMMCOLL_ERR_INVALID, mixed);
        return;
    }
    meeting->met = true;
    for (int r = 0; r < meeting->size; r++) {
        meeting->ranks[r]->state = SYMC_CLIENT_SENDING;
        take_brought(meeting->ranks[r], &meeting->brought[r]);
    }
    if (!symc_hub_met(hub, meeting->name))
        note_met(hub, meeting->name);
    if (hub->one_meeting)
        symc_hub_stop_listening(hub);
    if (hub->events.met != NULL)
        announce(hub, meeting);
}

/* Send a client the next batch of ranks, or wait for room. */
static void send_batch(struct symc_hub *hub, struct symc_client *client)
{
    const struct symc_hub_meeting *meeting = client->meeting;
    struct symc_hub_answer answer;
    int fds[SYMC_HUB_BATCH * SYMC_HUB_FDS];
    int nfds = 0, count = meeting->size - client->told, error;

    if (count > SYMC_HUB_BATCH)
        count = SYMC_HUB_BATCH;
    memset(&answer, 0, sizeof(answer));
    answer.magic = SYMC_HUB_MAGIC;
    answer.kind = SYMC_HUB_PEERS;
    answer.first = client->told;
    answer.count = count;
    answer.threads = meeting->threads;
    for (int i = 0; i < count; i++) {
        const struct symc_brought *peer = &meeting->brought[client->told + i];
        struct symc_hub_peer *entry = &answer.peers[i];

        entry->pid = (int32_t)peer->pid;
        entry->nbytes = peer->nbytes;
        entry->address = meeting->threads ? peer->address : 0;
        if (meeting->threads)
            continue;
        entry->nfds = (uint32_t)peer->nfds;
        for (int f = 0; f < peer->nfds; f++)
            fds[nfds++] = peer->fds[f];
    }
    if (hub->flying > 0 && hub->flying + nfds > MAX_FLYING)
        return;
    error = symc_message_send(
        client->fd, &answer, symc_hub_answer_nbytes(count), fds, nfds);
    if (error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS)
        return;
    /* Any other error is seen again when the client's hang-up is read. */
    client->told += count;
    client->owes = true;
    client->flying = nfds;
    hub->flying += nfds;
    if (client->told == meeting->size)
        client->state = SYMC_CLIENT_TOLD;
}

/* One batch to each; the next when it has said thanks.  Who has to wait for
 * room is tried again at the next event, at the latest when somebody says so.
 */
void symc_hub_send_all(struct symc_hub *hub)
{
    for (struct symc_client *client = hub->clients; client != NULL;
         client = client->next) {
        if (client->state == SYMC_CLIENT_SENDING && !client->owes)
            send_batch(hub, client);
    }
}

void symc_hub_join(struct symc_hub *hub, struct symc_client *client)
{
    const struct symc_hub_hello *hello = &client->hello;
    struct symc_hub_meeting *meeting = find_meeting(hub, hello->name);
    char text[256], first[SYMC_PID_TEXT], second[SYMC_PID_TEXT];

    if (hub->failure != SYMMCOLL_OK) {
        symc_hub_inform(hub, client, hub->failure, hub->text);
        return;
    }
    if (meeting == NULL)
        meeting = add_meeting(hub, hello->name, hello->size);
    if (meeting == NULL) {
        symc_hub_refuse(
            hub, client, SYMMCOLL_ERR_NO_MEMORY, symmcoll_last_error());
        return;
    }
    if (meeting->size != hello->size) {
        snprintf(text, sizeof(text),
            "init: size differs: rank %d says %d ranks, others said %d",
            hello->rank, hello->size, meeting->size);
        symc_hub_refuse(hub, client, SYMMCOLL_ERR_INVALID, text);
        return;
    }
    if (meeting->failure != SYMMCOLL_OK && meeting->informed[hello->rank]) {
        symc_hub_drop_meeting(
            hub, meeting); /* it has been told, and tries again */
        meeting = add_meeting(hub, hello->name, hello->size);
        if (meeting == NULL) {
            symc_hub_refuse(
                hub, client, SYMMCOLL_ERR_NO_MEMORY, symmcoll_last_error());
            return;
        }
    } else if (meeting->failure != SYMMCOLL_OK) {
        bool everybody = true;

        meeting->informed[hello->rank] = true;
        for (int r = 0; r < meeting->size; r++)
            everybody = everybody && meeting->informed[r];
        symc_hub_inform(hub, client, meeting->failure, meeting->text);
        if (everybody)
            symc_hub_drop_meeting(hub, meeting);
        return;
    }
    if (meeting->ranks[hello->rank] != NULL) {
        snprintf(text, sizeof(text),
            "init: rank %d has come already (%s); another (%s) says that it is "
            "rank %d too",
            hello->rank,
            symc_format_pid(meeting->ranks[hello->rank]->pid, first),
            symc_format_pid(client->pid, second), hello->rank);
        symc_hub_refuse(hub, client, SYMMCOLL_ERR_INVALID, text);
        return;
    }
    symc_hub_acknowledge(client);
    client->meeting = meeting;
    client->state = SYMC_CLIENT_JOINED;
    meeting->ranks[hello->rank] = client;
    if (++meeting->joined == meeting->size)
        complete_meeting(hub, meeting);
}

/* A client's deadline has passed: nobody in its meeting need wait longer.  But
 * others may have come by now and not have been heard. */
void symc_hub_give_up(struct symc_hub *hub, struct symc_client *client)
{
    client->late = true;
    if (hub->late_at == 0)
        hub->late_at = symc_now_ns();
}

/* Whether a deadline has passed in a meeting; count and list those who came. */
static bool is_late(const struct symc_hub_meeting *meeting, int *came)
{
    bool late = false;

    *came = 0;
    for (int r = 0; r < meeting->size; r++) {
        const struct symc_client *client = meeting->ranks[r];

        *came += client != NULL || meeting->gone[r];
        late = late || meeting->gone[r] || (client != NULL && client->late);
    }
    return late;
}

static void fail_late_meeting(
    struct symc_hub *hub, struct symc_hub_meeting *meeting, int came)
{
    char ranks[100], text[256], refused[SYMC_HUB_REFUSED_TEXT];

    if (came == meeting->size) {
        symc_format_ranks(meeting->gone, meeting->size, ranks, sizeof(ranks));
        snprintf(text, sizeof(text),
            "init: all %d ranks came, but rank %s gave up before process %d, "
            "which introduces them, had heard all: was it stopped?",
            meeting->size, ranks, (int)getpid());
    } else {
        list_missing(meeting, ranks, sizeof(ranks));
        snprintf(text, sizeof(text),
            "init: %d of %d ranks came, missing: rank %s%s", came,
            meeting->size, ranks, symc_hub_format_refused(hub, refused));
    }
    symc_hub_fail_meeting(hub, meeting, SYMMCOLL_ERR_TIMEOUT, text);
}

void symc_hub_fail_late(struct symc_hub *hub, bool all_read)
{
    struct symc_hub_meeting *meeting, *next;
    int came;

    if (hub->late_at == 0 ||
        (!all_read && symc_now_ns() - hub->late_at < READ_NS))
        return;
    hub->late_at = 0;
    for (meeting = hub->meetings; meeting != NULL; meeting = next) {
        next = meeting->next;
        if (!meeting->met && meeting->failure == SYMMCOLL_OK &&
            is_late(meeting, &came))
            fail_late_meeting(hub, meeting, came);
    }
}

static void finish_client(struct symc_hub *hub, struct symc_client *client)
{
    struct symc_hub_meeting *meeting = client->meeting;

    symc_hub_drop_client(hub, client);
    if (meeting->joined == 0)
        symc_hub_drop_meeting(hub, meeting);
}

/* A batch has arrived. */
void symc_hub_take_thanks(struct symc_hub *hub, struct symc_client *client)
{
    client->owes = false;
    hub->flying -= client->flying;
    client->flying = 0;
    if (client->state == SYMC_CLIENT_TOLD)
        finish_client(hub, client);
}

/* A client has gone. */
void symc_hub_lose(struct symc_hub *hub, struct symc_client *client)
{
    struct symc_hub_meeting *meeting = client->meeting;
    char text[256], how[64], pid[SYMC_PID_TEXT];

    if (meeting == NULL) {
        symc_hub_drop_client(hub, client);
        return;
    }
    if (meeting->met) { /* its peers' monitors will see it */
        finish_client(hub, client);
        return;
    }
    if (client->late) { /* it has not died: symc_hub_fail_late() comes */
        meeting->gone[client->hello.rank] = true;
        meeting->informed[client->hello.rank] = true;
        symc_hub_drop_client(hub, client);
        return;
    }
    if (!symc_liveness_ask_kernel(client->pid,
            client->hello.nfds == 2 ? client->fds[1] : -1, how, sizeof(how)))
        snprintf(how, sizeof(how), "died or gave up");
    snprintf(text, sizeof(text), "init: rank %d (%s) %s during init",
        client->hello.rank, symc_format_pid(client->pid, pid), how);
    meeting->informed[client->hello.rank] = true;
    symc_hub_drop_client(hub, client);
    symc_hub_fail_meeting(hub, meeting, SYMMCOLL_ERR_PEER, text);
}

bool symc_hub_busy(const struct symc_hub *hub)
{
    const struct symc_hub_meeting *at = hub->meetings;

    while (at != NULL && !at->met && at->failure == SYMMCOLL_OK)
        at = at->next;
    return at != NULL;
}

bool symc_hub_met(const struct symc_hub *hub, const char *meeting)
{
    for (size_t i = 0; i < hub->met_count; i++) {
        if (strcmp(hub->met[i], meeting) == 0)
            return true;
    }
    return false;
}

void symc_hub_fail_rank(struct symc_hub *hub, int rank, const char *text)
{
    char line[256];
    struct symc_hub_meeting *meeting, *next;

    snprintf(line, sizeof(line), "init: %s", text);
    for (meeting = hub->meetings; meeting != NULL; meeting = next) {
        next = meeting->next;
        if (meeting->met || meeting->failure != SYMMCOLL_OK ||
            rank >= meeting->size)
            continue;
        meeting->informed[rank] = true;
        if (meeting->ranks[rank] != NULL)
            symc_hub_drop_client(hub, meeting->ranks[rank]);
        symc_hub_fail_meeting(hub, meeting, SYMMCOLL_ERR_PEER, line);
    }
}

void symc_hub_missing(
    const struct symc_hub *hub, const char *name, char *buffer, size_t nbytes)
{
    const struct symc_hub_meeting *meeting = find_meeting(hub, name);

    buffer[0] = '\0';
    if (meeting != NULL)
        list_missing(meeting, buffer, nbytes);
}
