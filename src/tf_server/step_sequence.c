/* SPDX-License-Identifier: Apache-2.0 */
/* step_sequence.c - agrees on the step ids of runs with collectives between several masters. */
#include "tf_server/step_sequence.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/param.h"
#include "proto/worker.pb-c.h"
#include "runtime/rendezvous_table.h"
#include "tf_server/master.h"
#include "tf_server/session_workers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

MF_PARAM_INT(server_graph_keys, 10000,
             "maximum number of collective graph keys whose steps a task counts "
             "for several masters");

enum {
    NAME_SIZE = 17,
    BEHIND_MAX = 1 << 20,
    AHEAD = 2, /* steps that may be unfetched by other tasks when the next one begins */
    KEPT = 8, /* the same, where steps overlap */
    SAY_S = 10
};

typedef struct sequence {
    char name[NAME_SIZE]; /* of its key */
    int64_t next; /* the first that has not ended; 0: unknown, ask the leader */
    int64_t begun; /* the first that has not begun */
    int64_t kept[KEPT]; /* the last successful steps, whose tables may hold values; ascending */
    int n_kept;
    int64_t failed; /* the last that failed */
} sequence;

struct mf_step_sequences {
    pthread_mutex_t lock; /* all below */
    mf_map all; /* by key */
};

/* ---- sequences ---- */

/* The caller holds the lock. */
static mf_status step_sequence_find(mf_step_sequences *q, int64_t key, sequence **out)
{
    char name[NAME_SIZE];

    (void)snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)key);
    *out = mf_map_find(&q->all, name);
    if (*out)
        return MF_OK;
    if (q->all.count >= MF_PARAM(server_graph_keys))
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "%lld collective graph keys exist already: use fewer, or raise "
                       "server_graph_keys",
                       (long long)q->all.count);
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("a step");
    memcpy((*out)->name, name, sizeof name);
    if (mf_map_set(&q->all, (*out)->name, *out) != MF_OK) {
        mf_free(*out);
        return MF_NOMEM("a step");
    }
    return MF_OK;
}

/* ---- values that are not fetched yet ---- */

/* The step that all members must have completed; 0: none. The caller holds the lock. */
static int64_t awaited(const sequence *e)
{
    const int64_t step = e->n_kept >= AHEAD ? e->kept[e->n_kept - AHEAD] : 0;

    return step > e->failed ? step : 0;
}

static mf_status await_fetched(const mf_step_sequence *s, int64_t step, mf_cancel *cancel)
{
    const int64_t begun = mf_clock_ns(), until = s->deadline_ns ? s->deadline_ns : INT64_MAX;

    for (;;) {
        const int64_t say = mf_clock_ns() + SAY_S * INT64_C(1000000000);
        const mf_status st = mf_rendezvous_tables_await_fetched(s->server->tables, step, cancel,
                                                                say < until ? say : until);

        if (st != MF_DEADLINE_EXCEEDED)
            return st;
        if (say >= until)
            return MF_FAIL(
                MF_DEADLINE_EXCEEDED,
                "other members of its groups have not fetched what step %" PRId64 " sent", step);
        MF_WARN("a step has been waiting for members of its groups for %.0f s: they have not "
                "fetched what step %" PRId64 " sent",
                (double)(mf_clock_ns() - begun) * 1e-9, step);
    }
}

/* Waits until the members have completed that step. After a timeout, those steps are not waited for
 * again. */
static mf_status step_sequence_await_others(const mf_step_sequence *s, mf_cancel *cancel)
{
    mf_step_sequences *q = s->server->sequences;
    sequence *e;
    int64_t step;
    mf_status st;

    pthread_mutex_lock(&q->lock);
    st = step_sequence_find(q, s->key, &e);
    step = st == MF_OK ? awaited(e) : 0;
    pthread_mutex_unlock(&q->lock);
    if (step == 0)
        return st;
    st = await_fetched(s, step, cancel);
    if (st == MF_OK)
        return MF_OK;
    pthread_mutex_lock(&q->lock);
    if (e->n_kept > 0) /* unless the leader was restarted meanwhile */
        e->failed = e->kept[e->n_kept - 1];
    pthread_mutex_unlock(&q->lock);
    return st;
}

/* Records a successful step. Returns the step that it displaces; 0: none. The caller holds the
 * lock. */
static int64_t step_sequence_keep(sequence *e, int64_t step)
{
    const int64_t over = e->n_kept == KEPT ? e->kept[0] : 0;
    int at;

    if (over != 0)
        memmove(e->kept, e->kept + 1, (size_t)--e->n_kept * sizeof *e->kept);
    for (at = e->n_kept++; at > 0 && e->kept[at - 1] > step; at--)
        e->kept[at] = e->kept[at - 1];
    e->kept[at] = step;
    return over;
}

/* ---- the leader's numbers ---- */

/* The next number of a key, as its leader. The caller holds the lock. */
static mf_status find_begun(mf_step_sequences *q, int64_t key, sequence **out)
{
    MF_TRY(step_sequence_find(q, key, out));
    if ((*out)->next == 0)
        (*out)->next = (*out)->begun = mf_master_new_step();
    return MF_OK;
}

static bool step_sequence_leads(const mf_step_sequence *s)
{
    return s->leader == s->server->tasks.self;
}

static mf_status step_sequence_ask_leader(const mf_step_sequence *s, mf_cancel *cancel,
                                          int64_t *next)
{
    Tensorflow__GetStepSequenceRequest request = TENSORFLOW__GET_STEP_SEQUENCE_REQUEST__INIT;
    const mf_rpc_stub_call q = { .method = "/tensorflow.WorkerService/GetStepSequence",
                                 .message = &request.base,
                                 .reply = &tensorflow__get_step_sequence_response__descriptor,
                                 .deadline_ns = s->deadline_ns,
                                 .cancel = cancel };
    const Tensorflow__GetStepSequenceResponse *answer;
    ProtobufCMessage *reply = NULL;
    mf_arena *arena = mf_arena_new();
    int64_t key = s->key;
    mf_status st = arena ? MF_OK : MF_NOMEM("a step");

    *next = 0;
    request.graph_key = &key;
    request.n_graph_key = 1;
    if (st == MF_OK)
        st = mf_server_ask(s->server, s->leader, &q, arena, &reply);
    answer = (const Tensorflow__GetStepSequenceResponse *)reply;
    if (st == MF_OK && answer->n_step_sequence == 1 && answer->step_sequence[0]->graph_key == key)
        *next = answer->step_sequence[0]->next_step_id;
    if (st == MF_OK && (*next <= 0 || *next > INT64_MAX / 2))
        st = MF_FAIL(MF_INTERNAL, "%s, the leader of groups, does not return the next step",
                     s->server->tasks.all[s->leader].name);
    mf_arena_free(arena);
    return st;
}

/* A number that failed here is not used again, even if the leader has not passed it yet. A
 * restarted leader has other numbers. */
static int64_t later(int64_t own, int64_t leaders)
{
    return own > leaders && own - leaders < BEHIND_MAX ? own : leaders;
}

/* ---- steps ---- */

/* Continues at the leader's number. If the leader was restarted, all kept steps end. The caller
 * holds the lock. Returns the number of tables to drop. */
static int resume_at(sequence *e, int64_t leaders, int64_t over[KEPT])
{
    const int64_t next = later(e->begun, leaders);
    const bool others = next < e->begun || next - e->begun >= BEHIND_MAX;
    const int n = others ? e->n_kept : 0;

    memcpy(over, e->kept, sizeof e->kept);
    if (others) {
        e->n_kept = 0;
        e->failed = 0;
    }
    e->next = e->begun = next;
    return n;
}

/* leaders: the leader's number; 0: not asked. *step: 0: it must be asked. */
static mf_status take_number(const mf_step_sequence *s, int64_t leaders, int64_t *step)
{
    mf_step_sequences *q = s->server->sequences;
    int64_t over[KEPT];
    int n_over = 0;
    sequence *e;
    mf_status st;

    *step = 0;
    pthread_mutex_lock(&q->lock);
    st = step_sequence_leads(s) ? find_begun(q, s->key, &e) : step_sequence_find(q, s->key, &e);
    if (st == MF_OK && e->next == 0 && leaders != 0)
        n_over = resume_at(e, leaders, over);
    if (st == MF_OK && e->next != 0)
        *step = e->begun++;
    pthread_mutex_unlock(&q->lock);
    for (int i = 0; i < n_over; i++)
        mf_rendezvous_tables_end(s->server->tables, over[i]);
    return st;
}

mf_status mf_step_sequence_begin(const mf_step_sequence *s, mf_cancel *cancel, int64_t *step)
{
    int64_t leaders;

    MF_TRY(step_sequence_await_others(s, cancel));
    MF_TRY(take_number(s, 0, step));
    while (*step == 0) {
        MF_TRY(step_sequence_ask_leader(s, cancel, &leaders));
        MF_TRY(take_number(s, leaders, step));
    }
    return MF_OK;
}

void mf_step_sequence_end(const mf_step_sequence *s, int64_t step, bool well)
{
    mf_step_sequences *q = s->server->sequences;
    int64_t over = well ? 0 : step;
    sequence *e;

    pthread_mutex_lock(&q->lock);
    if (step_sequence_find(q, s->key, &e) == MF_OK) {
        if (well)
            over = step_sequence_keep(e, step);
        else if (e->failed < step)
            e->failed = step;
        if (!well && !step_sequence_leads(s))
            e->next = 0;
        else if (e->next <= step)
            e->next = step + 1;
    }
    pthread_mutex_unlock(&q->lock);
    if (over != 0)
        mf_rendezvous_tables_end(s->server->tables, over);
}

mf_status mf_step_sequence_called(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__GetStepSequenceRequest *q =
        (const Tensorflow__GetStepSequenceRequest *)message;
    Tensorflow__GetStepSequenceResponse out = TENSORFLOW__GET_STEP_SEQUENCE_RESPONSE__INIT;
    const int64_t n = (int64_t)q->n_graph_key;
    Tensorflow__StepSequence *all = MF_ARENA_ARRAY(r->arena, Tensorflow__StepSequence, n + 1);

    out.step_sequence = MF_ARENA_ARRAY(r->arena, Tensorflow__StepSequence *, n + 1);
    if (!all || !out.step_sequence)
        return MF_NOMEM("a step");
    for (int64_t i = 0; i < n; i++) {
        sequence *e;
        mf_status st;

        tensorflow__step_sequence__init(&all[i]);
        pthread_mutex_lock(&r->server->sequences->lock);
        st = find_begun(r->server->sequences, q->graph_key[i], &e);
        if (st == MF_OK)
            all[i].next_step_id = e->next;
        pthread_mutex_unlock(&r->server->sequences->lock);
        MF_TRY(st);
        all[i].graph_key = q->graph_key[i];
        out.step_sequence[i] = &all[i];
    }
    out.n_step_sequence = (size_t)n;
    return mf_request_reply(r, &out.base);
}

/* ---- opening and closing ---- */

mf_status mf_step_sequences_new(mf_step_sequences **out)
{
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("steps");
    pthread_mutex_init(&(*out)->lock, NULL);
    return MF_OK;
}

void mf_step_sequences_free(mf_step_sequences *q)
{
    mf_map_entry *e;
    int64_t it = 0;

    if (!q)
        return;
    while ((e = mf_map_next(&q->all, &it)) != NULL)
        mf_free(e->value);
    mf_map_deinit(&q->all);
    pthread_mutex_destroy(&q->lock);
    mf_free(q);
}
