/* SPDX-License-Identifier: Apache-2.0 */
/* step_sequence.c - step IDs of collectives across masters. */
#include "tf_server/step_sequence.h"

#include "base/clock.h"
#include "mf_test.h"
#include "runtime/rendezvous_table.h"

static mf_server server; /* leads its groups */
static mf_cancel cancel;
static const mf_step_sequence steps = { .server = &server, .key = 7 };

static void begin(void)
{
    mf_cancel_init(&cancel);
    T_OK(mf_rendezvous_tables_new(&server.tables));
    T_OK(mf_step_sequences_new(&server.sequences));
}

static void end(void)
{
    mf_step_sequences_free(server.sequences);
    mf_rendezvous_tables_free(server.tables);
    mf_cancel_deinit(&cancel);
}

/* A step that leaves something for another member. */
static int64_t begin_step(void)
{
    mf_tensor value = { 0 };
    mf_rendezvous_table *room;
    int64_t step;

    T_OK(mf_step_sequence_begin(&steps, &cancel, &step));
    T_OK(mf_rendezvous_tables_enter(server.tables, step, &room));
    T_OK(mf_tensor_alloc(&value, MF_DTYPE_F32, &MF_SCALAR));
    T_OK(mf_rendezvous_table_send(room, "piece", &value));
    mf_tensor_clear(&value);
    mf_rendezvous_table_leave(room);
    return step;
}

static void fetched(void *ctx, mf_status st, const mf_tensor *value)
{
    *(mf_status *)ctx = st == MF_OK && !value ? MF_INTERNAL : st;
}

static mf_status fetch(int64_t step)
{
    mf_status st = MF_UNKNOWN;
    mf_rendezvous_table *room;

    MF_TRY(mf_rendezvous_tables_enter(server.tables, step, &room));
    mf_rendezvous_table_fetch(room, "piece", &cancel, fetched, &st);
    mf_rendezvous_table_leave(room);
    return st;
}

MF_TEST(server_step_sequence_keeps_values_when_a_later_step_fails)
{
    int64_t first, second;

    begin();
    first = begin_step();
    mf_step_sequence_end(&steps, first, true);
    second = begin_step();
    T_EQ(second, first + 1);
    mf_step_sequence_end(&steps, second, false);
    T_OK(fetch(first));
    T_FAILS(MF_CANCELLED, "the step has ended", fetch(second));
    end();
}

MF_TEST(server_step_sequence_keeps_overlapping_steps_whichever_ends_first)
{
    int64_t first, second;

    begin();
    first = begin_step();
    second = begin_step();
    mf_step_sequence_end(&steps, second, true);
    mf_step_sequence_end(&steps, first, true);
    T_OK(fetch(first));
    T_OK(fetch(second));
    end();
}

MF_TEST(server_step_sequence_waits_for_members_two_steps_behind)
{
    mf_step_sequence late = steps;
    int64_t first, second, third;

    begin();
    first = begin_step();
    mf_step_sequence_end(&steps, first, true);
    second = begin_step();
    mf_step_sequence_end(&steps, second, true);
    T_OK(fetch(first));
    third = begin_step(); /* at once */
    mf_step_sequence_end(&steps, third, true);
    late.deadline_ns = mf_clock_ns() + 1000000;
    T_FAILS(MF_DEADLINE_EXCEEDED, "have not fetched what step",
            mf_step_sequence_begin(&late, &cancel, &first));
    mf_step_sequence_end(&steps, begin_step(), true); /* they may be gone */
    T_OK(fetch(second));
    T_OK(fetch(third));
    end();
}

MF_TEST(server_step_sequence_wait_can_be_cancelled)
{
    int64_t step;

    begin();
    mf_step_sequence_end(&steps, begin_step(), true);
    mf_step_sequence_end(&steps, begin_step(), true);
    mf_cancel_raise(&cancel);
    T_FAILS(MF_CANCELLED, "the step was cancelled", mf_step_sequence_begin(&steps, &cancel, &step));
    end();
}
