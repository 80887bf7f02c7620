/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests dumps as pickles: Python reads the same data from one as from the JSON
 * dump of the same record.
 */
#include "t/tap.h"
#include "t/trace/ring_util.h"

#include "config/config.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The differences between the forms: pairs, missing times, numbers of the
 * groups' status, absent entries. */
static const char script[] =
    "import json, pickle, pickletools, sys\n"
    "data = open(sys.argv[1], 'rb').read()\n"
    "used = [op.name for op, _, _ in pickletools.genops(data)]\n"
    "assert used[0] == 'PROTO' and used[-1] == 'STOP', used\n"
    "assert not set(used) & {'GLOBAL', 'REDUCE', 'BUILD', 'INST'}, used\n"
    "found = pickle.loads(data)\n"
    "expected = json.load(open(sys.argv[2], encoding='utf-8'))\n"
    "if len(sys.argv) > 3: assert found['entries'] == []\n"
    "elif 'entries' in expected: assert found['entries']\n"
    "for entry in found.get('entries', []):\n"
    "    assert type(entry['process_group']) is tuple, entry\n"
    "    entry['process_group'] = list(entry['process_group'])\n"
    "    for key in entry:\n"
    "        if key.startswith('time_discovered'):\n"
    "            assert entry[key] != 0\n"
    "            entry[key] = entry[key] or 0\n"
    "for status in found.get('pg_status', {}).values():\n"
    "    for key in status:\n"
    "        assert type(status[key]) is int\n"
    "        status[key] = str(status[key])\n"
    "if not found.get('entries', [1]): del found['entries']\n"
    "assert list(found) == list(expected), (list(found), list(expected))\n"
    "assert found == expected, (found, expected)\n";

static char folder[] = "/tmp/symmcoll-pickle-XXXXXX";

static bool write_as(const struct symc_trace_ring *ring, size_t nbytes,
    struct symc_trace_format format, enum symc_trace_syntax syntax)
{
    char path[64];

    format.syntax = syntax;
    snprintf(path, sizeof(path), "%s/%d", folder, (int)syntax);
    if (symc_trace_write(ring, nbytes, path, &format) == SYMMCOLL_OK)
        return true;
    diag("%s", symmcoll_last_error());
    return false;
}

/* Checks that Python finds the same in both forms. */
static bool python_agrees(const char *more)
{
    char json[64], pickle[64];
    int status = -1;
    pid_t child;

    snprintf(json, sizeof(json), "%s/%d", folder, SYMC_TRACE_JSON);
    snprintf(pickle, sizeof(pickle), "%s/%d", folder, SYMC_TRACE_PICKLE);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        execlp("python3", "python3", "-c", script, pickle, json, more, NULL);
        _exit(1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool both_agree(const struct symc_trace_ring *ring, size_t nbytes,
    struct symc_trace_format format)
{
    return write_as(ring, nbytes, format, SYMC_TRACE_JSON) &&
           write_as(ring, nbytes, format, SYMC_TRACE_PICKLE) &&
           python_agrees(NULL);
}

static const struct symc_trace_format newer = {
    .version = "2.10", .backend_name = "nccl"};

static int forms_agree(const char *version)
{
    struct symc_trace_ring *ring = make_ring(16);
    struct symc_trace_format format = newer;
    struct symc_op op = make_op(4, 3);
    bool good;

    record(ring, 0, 1, 3);
    op.kind = SYMC_GATHER;
    op.root = 2;
    strcpy(op.label, "layer \"3\"\n\\ \xc3\xa9 \xff");
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), false);
    op.seq = 5;
    (void)symc_trace_start(WRITER(ring), 0, &op);
    format.version = version;
    format.reason = "rank 2 (pid 7) killed by SIGKILL \xe2\x82\xac \xfe";
    good = both_agree(ring, symc_trace_nbytes(16), format);
    free(ring);
    return good;
}

/* Checks numbers at each border of their encoding. */
static int numbers_agree(void)
{
    static const uint64_t counts[] = {0, 1, 255, 256, INT32_MAX,
        (uint64_t)INT32_MAX + 1, UINT32_MAX, (uint64_t)1 << 39,
        ((uint64_t)1 << 40) - 1, (uint64_t)1 << 55, INT64_MAX,
        (uint64_t)INT64_MAX + 1, UINT64_MAX};
    struct symc_trace_ring *ring = make_ring(16);
    bool good;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct symc_op op = make_op(i + 1, counts[i]);

        symc_trace_end(
            WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), true);
    }
    good = both_agree(ring, symc_trace_nbytes(16), newer);
    free(ring);
    return good;
}

static int empty_record_has_entries(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_format without = newer;
    bool good;

    good = write_as(ring, symc_trace_nbytes(4), newer, SYMC_TRACE_JSON) &&
           write_as(ring, symc_trace_nbytes(4), newer, SYMC_TRACE_PICKLE) &&
           python_agrees("empty");
    without.no_collectives = true;
    good = good && both_agree(ring, symc_trace_nbytes(4), without);
    free(ring);
    return good;
}

/* Writes a text of more bytes than the writer gathers. */
static int many_ranks_agree(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    bool good =
        symc_trace_add_group(WRITER(ring), "1", "large", 0, 20000, NULL) == 1;

    record(ring, 1, 1, 1);
    good = good && both_agree(ring, symc_trace_nbytes(4), newer);
    free(ring);
    return good;
}

static int setting_chooses(const char *value, enum symc_trace_syntax syntax)
{
    struct symc_config *config;
    bool good;

    if (value != NULL)
        setenv("SYMMCOLL_TRACE_FORMAT", value, 1);
    good = symc_config_load(&config, NULL, NULL) == SYMMCOLL_OK;
    if (good) {
        good = symc_trace_format_get(config).syntax == syntax;
        symc_config_free(config);
    }
    unsetenv("SYMMCOLL_TRACE_FORMAT");
    return good;
}

int main(void)
{
    char command[64];

    plan(7);
    ok(setting_chooses(NULL, SYMC_TRACE_JSON) &&
            setting_chooses("pickle", SYMC_TRACE_PICKLE),
        "trace.format chooses; JSON is the default");
    ok(!setting_chooses("xml", SYMC_TRACE_JSON) &&
            strstr(symmcoll_last_error(), "json or pickle") != NULL,
        "another form is refused with those that there are");
    if (system("python3 -c 'import pickletools' 2>/dev/null") != 0) {
        skip(5, "no python3");
        return done_testing();
    }
    if (mkdtemp(folder) == NULL)
        return 1;
    ok(forms_agree("2.10"), "Python finds in a pickle what JSON has");
    ok(forms_agree("2.2"), "in version 2.2 too");
    ok(numbers_agree(), "numbers of every size are right");
    ok(empty_record_has_entries(),
        "a pickle has entries where there are none, unless without");
    ok(many_ranks_agree(), "a long text is right");
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? done_testing() : 1;
}
