/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the messages about a rank's position. */
#include "t/tap.h"
#include "t/trace/ring_util.h"

static char text[128];

static const char *position(const struct symc_trace_ring *ring)
{
    return symc_trace_position(
        ring, symc_trace_nbytes(4), NULL, text, sizeof(text));
}

int main(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_op op = make_op(17, 1);
    struct symc_trace_entry *entry;
    char small[8];
    int other;

    plan(13);
    ok(strcmp(position(ring), "before its first operation") == 0,
        "a rank that has done nothing");
    entry = symc_trace_start(WRITER(ring), 0, &op);
    ok(strcmp(position(ring), "in all_reduce seq 17 of group 0") == 0,
        "a rank within an operation");
    symc_trace_end(WRITER(ring), entry, true);
    ok(strcmp(position(ring), "after all_reduce seq 17 of group 0") == 0,
        "a rank between operations");
    op.kind = SYMC_BARRIER;
    op.seq = 18;
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), false);
    ok(strcmp(position(ring), "after failed barrier seq 18 of group 0") == 0,
        "a rank after a failed operation");

    other = symc_trace_add_group(WRITER(ring), "pipeline", "", 2, 4, NULL);
    op.seq = 3;
    entry = symc_trace_start(WRITER(ring), other, &op);
    record(ring, 0, 19, 19);
    ok(strcmp(position(ring), "in barrier seq 3 of group pipeline") == 0,
        "what runs counts more than what came after it");
    symc_trace_end(WRITER(ring), entry, true);
    ok(strcmp(position(ring), "after all_reduce seq 19 of group 0") == 0,
        "of what has ended the latest counts");
    ok(strcmp(symc_trace_position(
                  ring, symc_trace_nbytes(4), "0", text, sizeof(text)),
           "after all_reduce seq 19") == 0,
        "a group that has been named is left out");
    ok(strcmp(symc_trace_position(
                  ring, symc_trace_nbytes(4), "1", text, sizeof(text)),
           "after all_reduce seq 19 of group 0") == 0,
        "another one is not");
    op = make_op(20, 1);
    strcpy(op.label, "loss");
    entry = symc_trace_start(WRITER(ring), 0, &op);
    ok(strcmp(position(ring), "in all_reduce seq 20 'loss' of group 0") == 0,
        "an operation is named with its label");
    symc_trace_end(WRITER(ring), entry, true);

    record(ring, 0, 21, 21);
    memcpy(WRITER(ring)->groups[0].name, "a\nb", 4);
    ok(strcmp(position(ring), "after all_reduce seq 21 of group a?b") == 0,
        "a name cannot break the line");
    symc_trace_position(ring, symc_trace_nbytes(4), NULL, small, sizeof(small));
    ok(strcmp(small, "after a") == 0, "a small buffer gets a part");
    ok(strcmp(symc_trace_position(ring, 100, NULL, text, sizeof(text)), "") ==
            0,
        "a truncated ring has nothing to say");
    free(ring);

    ring = make_ring(0);
    ok(strcmp(symc_trace_position(
                  ring, symc_trace_nbytes(0), NULL, text, sizeof(text)),
           "") == 0,
        "nor has a recorder that is off");
    free(ring);
    return done_testing();
}
