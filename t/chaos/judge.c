/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks after a fault. */
#include "t/chaos/chaos.h"
#include "t/tap.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the victim's end as other ranks report it; "": they cannot know
 * it. */
static const char *cause_of(const struct chaos_case *drawn)
{
    switch (drawn->fault) {
    case CHAOS_KILL:
        return "killed by SIGKILL";
    case CHAOS_ABORT:
        return "killed by SIGABRT";
    case CHAOS_EXIT:
        return "exited with status 3";
    case CHAOS_CANCEL:
        return "exited with status 4";
    default:
        return "";
    }
}

static int status_of(const struct chaos_case *drawn)
{
    switch (drawn->fault) {
    case CHAOS_KILL:
        return 128 + SIGKILL;
    case CHAOS_ABORT:
        return 128 + SIGABRT;
    case CHAOS_EXIT:
        return 3;
    case CHAOS_CANCEL:
        return 4;
    case CHAOS_EXEC:
        return 6;
    default:
        return 0;
    }
}

static bool fail(const struct chaos_board *board, int r, const char *what)
{
    const struct chaos_line *line = &board->lines[r];

    diag("rank %d (pid %d): %s; it found %s after %d operations: %s", r,
        atomic_load(&line->pid), what, symmcoll_status_name(line->status),
        atomic_load(&line->completed), line->detail);
    return false;
}

/* Checks a survivor's error after a death. */
static bool judge_death(const struct chaos_board *board, int r)
{
    const struct chaos_case *drawn = &board->drawn;
    const struct chaos_line *line = &board->lines[r];
    const char *cause = cause_of(drawn);
    char name[64], pid[64];

    /* The rank's number in the group is between them. */
    snprintf(pid, sizeof(pid), "pid %d)",
        atomic_load(&board->lines[drawn->victim].pid));
    snprintf(name, sizeof(name), "rank %d", drawn->victim);
    /* Only a launcher knows a rank that dies before it has joined; other ranks
     * detect its absence at the timeout. */
    if (drawn->moment == CHAOS_INIT && line->status == SYMMCOLL_ERR_TIMEOUT &&
        !drawn->launcher)
        return strstr(line->detail, name) != NULL ||
               fail(board, r, "it must name the missing rank");
    if (line->status != SYMMCOLL_ERR_PEER &&
        line->status != SYMMCOLL_ERR_ABORTED &&
        (!drawn->groups || line->status != SYMMCOLL_ERR_CANCELED))
        return fail(board, r, "expected PEER");
    if (strstr(line->detail, name) == NULL || strstr(line->detail, pid) == NULL)
        return fail(board, r, "it must name the rank that died");
    if (drawn->moment != CHAOS_INIT && strstr(line->detail, cause) == NULL)
        return fail(board, r, "it must name the cause");
    return true;
}

static bool judge_freeze(const struct chaos_board *board, int r)
{
    const struct chaos_line *line = &board->lines[r];
    char name[64];

    snprintf(name, sizeof(name), "rank %d", board->drawn.victim);
    if (line->status != SYMMCOLL_ERR_TIMEOUT &&
        line->status != SYMMCOLL_ERR_ABORTED &&
        (!board->drawn.groups || line->status != SYMMCOLL_ERR_CANCELED))
        return fail(board, r, "expected TIMEOUT");
    /* A rank may wait for one that waits for the victim in another group. */
    if (board->drawn.groups)
        return strstr(line->detail, "rank ") != NULL ||
               fail(board, r, "it must name a rank");
    return strstr(line->detail, name) != NULL ||
           (board->drawn.moment == CHAOS_INIT && board->drawn.victim == 0) ||
           fail(board, r, "it must name the rank that did not come");
}

/* Checks the errors when one rank lacks a resource: it or all may get an error
 * that names the resource. */
static bool judge_lack(const struct chaos_board *board, int r)
{
    symmcoll_status_t status = board->lines[r].status;
    char name[64];

    snprintf(name, sizeof(name), "rank %d", board->drawn.victim);
    if (status == SYMMCOLL_OK || status == SYMMCOLL_ERR_SYSTEM ||
        status == SYMMCOLL_ERR_NO_MEMORY)
        return true;
    if (r != board->drawn.victim && status == SYMMCOLL_ERR_TIMEOUT &&
        board->drawn.moment != CHAOS_INIT)
        return fail(board, r, "expected no timeout");
    return r == board->drawn.victim ||
           strstr(board->lines[r].detail, name) != NULL ||
           fail(board, r, "it must name the rank with the fault");
}

/* Checks the ranks that continued without the victim. */
static bool judge_left(const struct chaos_board *board, int r)
{
    const struct chaos_line *line = &board->lines[r];

    if (line->left == SYMMCOLL_IN_PROGRESS)
        return board->drawn.moment == CHAOS_INIT ||
               fail(board, r, "it must go on with the others");
    if (line->left != SYMMCOLL_OK) {
        diag("rank %d: expected a group of those that are left, found %s: %s",
            r, symmcoll_status_name(line->left), line->left_detail);
        return false;
    }
    /* In init some ranks may have failed before they could continue. */
    if (board->drawn.moment != CHAOS_INIT &&
        line->left_size != board->drawn.size - 1)
        return fail(board, r, "a survivor was left out");
    for (int q = 0; q < r; q++)
        if (board->lines[q].left == SYMMCOLL_OK &&
            (board->lines[q].left_last != line->left_last ||
                board->lines[q].left_size != line->left_size))
            return fail(board, r, "survivors differ in what was completed");
    return true;
}

static bool judge_survivor(const struct chaos_board *board, int r)
{
    const struct chaos_case *drawn = &board->drawn;
    const struct chaos_line *line = &board->lines[r];

    if (atomic_load(&line->wrong) != 0)
        return fail(board, r, "wrong values");
    if (atomic_load(&line->ended) == 0)
        return fail(board, r, "it did not come to its end");
    if (line->finalized != SYMMCOLL_OK)
        return fail(board, r, "finalize failed");
    if (drawn->fault == CHAOS_CLOSE || drawn->fault == CHAOS_LIMIT)
        return judge_lack(board, r);
    if (chaos_has_no_end(drawn) && drawn->groups && !judge_left(board, r))
        return false;
    if (chaos_is_fatal(drawn))
        return judge_death(board, r);
    if (chaos_has_no_end(drawn))
        return judge_freeze(board, r);
    return line->status == SYMMCOLL_OK || fail(board, r, "expected OK");
}

/* Checks the launcher's status, and its last line. */
static bool judge_launcher(
    const struct chaos_board *board, const struct chaos_ends *ends)
{
    const struct chaos_case *drawn = &board->drawn;
    int wanted = status_of(drawn);
    const char *last = strrchr(ends->said, '\n');
    char name[128];
    bool good;

    while (last != NULL && last > ends->said && last[-1] != '\n')
        last--;
    last = last != NULL ? last : ends->said;
    /* A rank missing in init is named at the end of the line. */
    snprintf(name, sizeof(name), "symmcoll-run: rank %d%s", drawn->victim,
        drawn->moment == CHAOS_INIT && chaos_has_no_end(drawn) && wanted == 0
            ? ""
            : " ");
    if (drawn->fault == CHAOS_CLOSE || drawn->fault == CHAOS_LIMIT)
        good = WIFEXITED(ends->launcher);
    else if (chaos_has_no_end(drawn) && wanted == 0)
        good =
            WIFEXITED(ends->launcher) && WEXITSTATUS(ends->launcher) != 0 &&
            strstr(last, drawn->groups ? "rank" : strstr(name, "rank")) != NULL;
    else
        good = WIFEXITED(ends->launcher) &&
               WEXITSTATUS(ends->launcher) == wanted &&
               (wanted == 0 || (strncmp(last, name, strlen(name)) == 0 &&
                                   strstr(last, cause_of(drawn)) != NULL));
    if (!good)
        diag("launcher: wait status 0x%x, expected an exit with %d and \"%s\"; "
             "it said: %s",
            ends->launcher, wanted, name, ends->said);
    return good;
}

/* Checks how each rank ended, without a launcher. */
static bool judge_ends(
    const struct chaos_board *board, const struct chaos_ends *ends)
{
    bool good = true;

    for (int r = 0; r < board->drawn.size; r++) {
        int wanted = board->lines[r].status == SYMMCOLL_OK ? 0 : 1;

        if (r == board->drawn.victim && status_of(&board->drawn) != 0)
            continue;
        if (WIFEXITED(ends->ranks[r]) && WEXITSTATUS(ends->ranks[r]) == wanted)
            continue;
        diag("rank %d ended with wait status 0x%x, expected an exit with %d", r,
            ends->ranks[r], wanted);
        good = false;
    }
    return good;
}

bool chaos_judge(const struct chaos_board *board, const struct chaos_ends *ends)
{
    const struct chaos_case *drawn = &board->drawn;
    bool good =
        drawn->launcher ? judge_launcher(board, ends) : judge_ends(board, ends);

    for (int r = 0; r < drawn->size; r++)
        if (r != drawn->victim)
            good = judge_survivor(board, r) && good;
    /* A rank that continues is a survivor, too, but the others may have timed
     * out waiting for it. */
    if (status_of(drawn) == 0 && !chaos_has_no_end(drawn))
        good = judge_survivor(board, drawn->victim) && good;
    return good;
}

/* ---- remaining resources ---- */

static bool is_held(const char *pid, const char *mark)
{
    char path[300], target[512];
    struct dirent *entry;
    bool held = false;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        ssize_t n;

        snprintf(
            path, sizeof(path), "/proc/%.20s/fd/%.200s", pid, entry->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        held = held || strstr(target, mark) != NULL;
    }
    if (dir != NULL)
        closedir(dir);
    if (held)
        diag("process %s still holds %s", pid, mark);
    return held;
}

static bool has_sockets(void)
{
    FILE *file = fopen("/proc/self/net/unix", "r");
    char text[512];
    bool found = false;

    while (file != NULL && fgets(text, sizeof(text), file) != NULL)
        if (strstr(text, "@symmcoll") != NULL) {
            diag("a socket is left: %s", text);
            found = true;
        }
    if (file != NULL)
        fclose(file);
    return found;
}

bool chaos_is_clean(const struct chaos_board *board, bool own_network)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    bool clean = dir != NULL;
    char mark[96];

    snprintf(mark, sizeof(mark), "memfd:symmcoll:%s:", board->world);
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            clean = !is_held(entry->d_name, mark) && clean;
    if (dir != NULL)
        closedir(dir);
    /* In our own network namespace no foreign sockets are visible. */
    return (!own_network || !has_sockets()) && clean;
}
