/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hub from the inside: its clients (hub.c) and their meetings
 * (hub_meeting.c). Private to this room.
 */
#ifndef SYMC_SEGMENT_HUB_ROOM_H
#define SYMC_SEGMENT_HUB_ROOM_H

#include "segment/hub.h"
#include "segment/message.h"

enum symc_client_state {
    SYMC_CLIENT_NEW,     /* has said nothing */
    SYMC_CLIENT_JOINED,  /* waits for the others */
    SYMC_CLIENT_SENDING, /* is being told */
    SYMC_CLIENT_TOLD     /* must say thanks */
};

struct symc_client {
    struct symc_client *next;
    struct symc_hub_meeting *meeting;
    int fd;
    pid_t pid;
    enum symc_client_state state;
    struct symc_hub_hello hello;
    int fds[SYMC_HUB_FDS];
    int told;   /* ranks sent so far */
    int flying; /* descriptors sent, not acknowledged */
    bool owes;  /* an acknowledgement */
    bool late;  /* its deadline has passed */
};

/* What a rank brought, kept until all have been told: a rank that has said
 * thanks and gone is still to be introduced to those who have not been told
 * yet. */
struct symc_brought {
    pid_t pid;
    uint64_t nbytes;
    uint64_t address;
    int nfds;
    int fds[SYMC_HUB_FDS];
};

/* One set of ranks that comes together. */
struct symc_hub_meeting {
    struct symc_hub_meeting *next;
    char name[SYMC_HUB_NAME];
    int size;
    int joined;
    bool met;     /* everybody has come: answers go out */
    bool threads; /* all of one process */
    struct symc_client **ranks;
    struct symc_brought *brought; /* of each rank, once met */

    /* Who has come, and has gone again when its deadline had passed. */
    bool *gone;

    /* After a failure: those who come late are told once, too. */
    symmcoll_status_t failure; /* 0: none */
    char text[256];
    bool *informed;
};

struct symc_hub {
    int listener;
    int epoll;
    int flying;       /* descriptors in flight to all clients */
    uint64_t refused; /* connections of other users */
    int64_t late_at;  /* since when a deadline has passed; 0: none has */
    struct symc_client *clients;
    struct symc_hub_meeting *meetings;
    char **met; /* names of completed meetings */
    size_t met_count;
    struct symc_hub_events events;
    bool one_meeting; /* nobody is taken in after it */

    /* Of one meeting: somebody could not be taken in, so there will be none. */
    symmcoll_status_t failure;
    char text[256];
};

/* ---- hub.c: clients ---- */

void symc_hub_close_fds(int *fds, int count);
void symc_hub_drop_client(struct symc_hub *hub, struct symc_client *client);

/* Tell a client that its hello has been read: until then the end of the
 * connection says nothing about this server's job. */
void symc_hub_acknowledge(const struct symc_client *client);

/* Send an error and let the client go: one who is not to blame, one who is. */
void symc_hub_inform(struct symc_hub *hub, struct symc_client *client,
    symmcoll_status_t status, const char *text);
void symc_hub_refuse(struct symc_hub *hub, struct symc_client *client,
    symmcoll_status_t status, const char *text);

/* "; 12 connections of other users were refused", or "": for an error that they
 * may explain. */
#define SYMC_HUB_REFUSED_TEXT 80
const char *symc_hub_format_refused(
    const struct symc_hub *hub, char buffer[SYMC_HUB_REFUSED_TEXT]);

/* Who comes now belongs to a later meeting: refused, it looks for the next hub.
 */
void symc_hub_stop_listening(struct symc_hub *hub);

/* ---- hub_meeting.c: meetings ---- */

/* What a client has done: said hello, run out of time, received a batch, gone.
 * It may not exist afterwards. */
void symc_hub_join(struct symc_hub *hub, struct symc_client *client);
void symc_hub_give_up(struct symc_hub *hub, struct symc_client *client);
void symc_hub_take_thanks(struct symc_hub *hub, struct symc_client *client);
void symc_hub_lose(struct symc_hub *hub, struct symc_client *client);

/* Fail the meetings in which a deadline has passed, once all that had been sent
 * by then has been read. */
void symc_hub_fail_late(struct symc_hub *hub, bool all_read);

/* Send what there is to send. */
void symc_hub_send_all(struct symc_hub *hub);

/* Tell all who have come, and remember it for those who have not. */
void symc_hub_fail_meeting(struct symc_hub *hub,
    struct symc_hub_meeting *meeting, symmcoll_status_t status,
    const char *text);
void symc_hub_drop_meeting(
    struct symc_hub *hub, struct symc_hub_meeting *meeting);

#endif
