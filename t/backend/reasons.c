/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the combined reasons of several backends that cannot serve a group. */
#include "../tap.h"

#include "registry/registry.h"

#include <string.h>

static symmcoll_status_t refuse(char letter)
{
    char reason[SYMC_DETAIL_MAX];

    memset(reason, letter, sizeof(reason));
    reason[sizeof(reason) - 1] = '\0';
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED, "%s", reason);
}

static symmcoll_status_t refuse_first(const struct symc_peers *peers)
{
    (void)peers;
    return refuse('a');
}

static symmcoll_status_t refuse_second(const struct symc_peers *peers)
{
    (void)peers;
    return refuse('b');
}

static symmcoll_status_t refuse_shortly(const struct symc_peers *peers)
{
    (void)peers;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED, "shortly");
}

/* Chooses among backends of device memory, all of which refuse, and checks
 * that the message begins with the text and is not truncated. */
static bool refused(symmcoll_status_t (*first)(const struct symc_peers *),
    symmcoll_status_t (*second)(const struct symc_peers *), const char *text)
{
    struct symc_backend backends[] = {
        {.name = "one", .memory = SYMC_MEMORY_DEVICE, .probe = first},
        {.name = "two", .memory = SYMC_MEMORY_DEVICE, .probe = second},
        {.name = "three", .memory = SYMC_MEMORY_DEVICE, .probe = second}};
    struct symc_registry registry = {
        .backends = {&backends[0], &backends[1], &backends[2]}, .count = 3};
    struct symc_peers peers = {.size = 2};
    const struct symc_backend *chosen = NULL;
    symmcoll_status_t status =
        symc_registry_choose(&registry, SYMC_MEMORY_DEVICE, &peers, &chosen);

    if (status == SYMMCOLL_ERR_UNSUPPORTED && chosen == NULL &&
        strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("found status %d: %s", (int)status, symmcoll_last_error());
    return false;
}

int main(void)
{
    ok(refused(refuse_shortly, refuse_shortly,
           "for 2 ranks: shortly; shortly; shortly"),
        "the reasons of all backends of a memory are in the message");
    ok(refused(refuse_first, refuse_second, "for 2 ranks: aaaa"),
        "reasons that are longer than the message are cut");
    return done_testing();
}
