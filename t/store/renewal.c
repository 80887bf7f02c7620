/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that keys of a tcp store live as long as a process has it open. */
#include "store/tcp.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#define EVERY_NS (SYMC_NS_PER_S / 50)

/* Returns the number that the server replies to a command about key k. */
static int64_t ask(struct symc_tcp *tcp, const char *command, const char *more)
{
    struct symc_tcp_call call;
    struct symc_reply *reply = NULL;
    int64_t number = -100;

    if (symc_tcp_begin(tcp, "k", symc_now_ns(), &call) != SYMMCOLL_OK)
        return number;
    if (symc_link_send(call.link,
            (struct symc_arg[]){{command, strlen(command)},
                symc_tcp_arg(&call.name), {more, strlen(more)}},
            more[0] != '\0' ? 3 : 2) == SYMMCOLL_OK &&
        symc_link_receive(call.link, call.deadline_ns, &reply) == SYMMCOLL_OK)
        number = reply->number;
    symc_reply_free(reply);
    symc_tcp_end(&call);
    return number;
}

static struct symmcoll_store *open_at(const char *url, int serve)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;

    args.url = url;
    args.serve = serve;
    if (symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return store;
}

static int child_closes(const void *arg)
{
    symmcoll_store_close((struct symmcoll_store *)(uintptr_t)arg);
    return 1;
}

int main(void)
{
    struct symmcoll_store *store, *other;
    struct symc_tcp *tcp, *second;
    char url[64];
    int64_t life;

    alarm(600);
    plan(4);
    store = open_at("redis://127.0.0.1:0", 1);
    snprintf(
        url, sizeof url, "redis://127.0.0.1:%d", symmcoll_store_port(store));
    other = open_at(url, 0);
    if (store == NULL || other == NULL)
        return 1;
    tcp = store->table;
    second = other->table;
    ok(set_text(store, "k", "v") && ask(tcp, "TTL", "") > 86000 &&
            ask(tcp, "EXPIRE", "50") == 1 && ask(tcp, "TTL", "") <= 50,
        "a key lives for a day");
    symc_renewal_every(tcp->renewal, EVERY_NS, 2);
    life = ask(tcp, "TTL", "");
    ok(life > 86000, "its life is prolonged though nobody writes it");
    diag("it lives for %lld s", (long long)life);
    /* The first renewal is the other process's, for an hour. */
    symc_renewal_every(tcp->renewal, 6000 * SYMC_NS_PER_S, 0);
    ok(ask(tcp, "EXPIRE", "50") == 1 && usleep(100000) == 0 &&
            (symc_renewal_every(second->renewal, EVERY_NS, 3), 1) &&
            ask(tcp, "TTL", "") > 86000,
        "by any process that has the store open");
    ok(run_in_child(child_closes, other) && holds(other, "k", "v"),
        "a child that closes it leaves the parent's thread alone");
    symmcoll_store_close(other);
    symmcoll_store_close(store);
    return done_testing();
}
