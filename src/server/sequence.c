/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c - see sequence.h. */
#include "server/sequence.h"

#include "base/map.h"
#include "graph/codec.h"
#include "proto/worker.pb-c.h"
#include "runtime/room.h"
#include "server/cast.h"
#include "server/master.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES_MAX = 10000, NAME_SIZE = 17, BEHIND_MAX = 1 << 20 };

typedef struct sequence {
    char name[NAME_SIZE]; /* of its key */
    int64_t next; /* the first that has not ended; 0: ask the leader */
    int64_t begun; /* the first that has not begun */
    int64_t kept; /* the last that went well, whose room stays; 0: none */
} sequence;

struct mf_sequences {
    pthread_mutex_t lock; /* all below */
    mf_map all; /* by key */
};

/* ---- keys ---- */

typedef struct ids {
    int32_t group, size, instance;
} ids;

typedef struct keys {
    ids *all;
    int64_t n, cap;
} keys;

static mf_status add_ids(keys *k, ids new)
{
    MF_TRY(mf_grow(&k->all, &k->cap, k->n + 1, sizeof *k->all));
    k->all[k->n++] = new;
    return MF_OK;
}

static bool is_collective(const char *op)
{
    return strncmp(op, "Collective", 10) == 0;
}

static int32_t int_attr(const Tensorflow__NodeDef *n, const char *name)
{
    for (size_t i = 0; i < n->n_attr; i++) {
        if (strcmp(n->attr[i]->key, name) == 0 && n->attr[i]->value &&
            n->attr[i]->value->value_case == TENSORFLOW__ATTR_VALUE__VALUE_I)
            return (int32_t)n->attr[i]->value->i;
    }
    return 0;
}

static mf_status add_function(keys *k, const mf_function *f)
{
    const Tensorflow__FunctionDef *def = f ? f->proto : NULL;

    for (size_t i = 0; def && i < def->n_node_def; i++) {
        const Tensorflow__NodeDef *n = def->node_def[i];

        if (is_collective(n->op))
            MF_TRY(add_ids(k, (ids){ int_attr(n, "group_key"), int_attr(n, "group_size"),
                                     int_attr(n, "instance_key") }));
    }
    return MF_OK;
}

static mf_status add_node(keys *k, const mf_graph *g, const mf_node *n)
{
    if (n->op && is_collective(n->op_name))
        MF_TRY(add_ids(k, (ids){ (int32_t)mf_node_int(n, "group_key"),
                                 (int32_t)mf_node_int(n, "group_size"),
                                 (int32_t)mf_node_int(n, "instance_key") }));
    MF_TRY(add_function(k, n->function));
    for (int i = 0; i < n->n_attrs; i++) {
        const mf_attr *a = &n->attrs[i].value;

        for (int64_t f = 0; a->kind == MF_ATTR_FUNC && f < a->n; f++)
            MF_TRY(add_function(
                k, mf_graph_function(g, a->is_list ? a->funcs[f].name : a->func->name)));
    }
    return MF_OK;
}

static int order(int32_t x, int32_t y)
{
    return (x > y) - (x < y);
}

static int by_instance(const void *a, const void *b)
{
    const ids *x = a, *y = b;
    const int by = order(x->instance, y->instance);

    return by != 0 ? by : order(x->group, y->group);
}

/* They are sorted. As TensorFlow's masters mix them, each once, the smallest first. */
static int64_t mix(const keys *k)
{
    uint64_t hash = UINT64_C(0x8774aa605c729c72);

    for (int64_t i = 0; i < k->n; i++) {
        const uint64_t next = (uint64_t)k->all[i].instance;

        if (i == 0 || k->all[i].instance != k->all[i - 1].instance)
            hash = next ^ (hash + UINT64_C(0x9e3779b97f4a7800) + (next << 10) + (next >> 4));
    }
    return hash == 0 ? 1 : (int64_t)hash;
}

/* One of them has fewer members here than it should have. */
static bool has_others(const keys *k)
{
    int64_t first = 0;

    for (int64_t i = 1; i <= k->n; i++) {
        if (i < k->n && by_instance(&k->all[first], &k->all[i]) == 0)
            continue;
        if (i - first < k->all[first].size)
            return true;
        first = i;
    }
    return false;
}

mf_status mf_collectives_find(mf_graph *const *graphs, int n, mf_collectives *out)
{
    keys k = { 0 };
    mf_status st = MF_OK;

    *out = (mf_collectives){ 0 };
    for (int g = 0; g < n; g++) {
        for (int64_t i = 0; st == MF_OK && graphs[g] && i < graphs[g]->n_nodes; i++) {
            if (!graphs[g]->nodes[i]->removed)
                st = add_node(&k, graphs[g], graphs[g]->nodes[i]);
        }
    }
    if (st == MF_OK && k.n > 0) {
        qsort(k.all, (size_t)k.n, sizeof *k.all, by_instance);
        *out = (mf_collectives){ mix(&k), has_others(&k) };
    }
    mf_free(k.all);
    return st;
}

/* ---- numbers ---- */

/* With the lock. */
static mf_status find(mf_sequences *q, int64_t key, sequence **out)
{
    char name[NAME_SIZE];

    (void)snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)key);
    *out = mf_map_find(&q->all, name);
    if (*out)
        return MF_OK;
    if (q->all.count >= SEQUENCES_MAX)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "there are %d keys of runs with collectives already",
                       SEQUENCES_MAX);
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

/* Where the numbers of a key are, as its leader. With the lock. */
static mf_status find_begun(mf_sequences *q, int64_t key, sequence **out)
{
    MF_TRY(find(q, key, out));
    if ((*out)->next == 0)
        (*out)->next = (*out)->begun = mf_master_new_step();
    return MF_OK;
}

static bool leads(const mf_sequence *s)
{
    return s->leader == s->server->tasks.self;
}

static mf_status ask_leader(const mf_sequence *s, mf_cancel *cancel, int64_t *next)
{
    Tensorflow__GetStepSequenceRequest request = TENSORFLOW__GET_STEP_SEQUENCE_REQUEST__INIT;
    const mf_question q = { .method = "/tensorflow.WorkerService/GetStepSequence",
                            .message = &request.base,
                            .reply = &tensorflow__get_step_sequence_response__descriptor,
                            .cancel = cancel };
    const Tensorflow__GetStepSequenceResponse *answer;
    ProtobufCMessage *reply = NULL;
    mf_arena *arena = mf_arena_new();
    int64_t key = s->key;
    mf_status st = arena ? MF_OK : MF_NOMEM("a step");

    request.graph_key = &key;
    request.n_graph_key = 1;
    if (st == MF_OK)
        st = mf_server_ask(s->server, s->leader, &q, arena, &reply);
    answer = (const Tensorflow__GetStepSequenceResponse *)reply;
    if (st == MF_OK && (answer->n_step_sequence != 1 || answer->step_sequence[0]->graph_key != key))
        st = MF_FAIL(MF_INTERNAL, "%s, the leader of groups, does not say which step is next",
                     s->server->tasks.all[s->leader].name);
    if (st == MF_OK)
        *next = answer->step_sequence[0]->next_step_id;
    mf_arena_free(arena);
    return st;
}

static mf_status is_known(const mf_sequence *s, bool *out)
{
    mf_sequences *q = s->server->sequences;
    sequence *e;
    mf_status st;

    pthread_mutex_lock(&q->lock);
    st = leads(s) ? find_begun(q, s->key, &e) : find(q, s->key, &e);
    *out = st == MF_OK && e->next != 0;
    pthread_mutex_unlock(&q->lock);
    return st;
}

/* A number that failed here is not used again, though the leader may not be past it yet. One that
 * was restarted has other numbers. */
static int64_t later(int64_t own, int64_t leaders)
{
    return own > leaders && own - leaders < BEHIND_MAX ? own : leaders;
}

mf_status mf_sequence_begin(const mf_sequence *s, mf_cancel *cancel, int64_t *step)
{
    mf_sequences *q = s->server->sequences;
    int64_t next = 0;
    sequence *e;
    bool known;
    mf_status st;

    MF_TRY(is_known(s, &known));
    if (!known)
        MF_TRY(ask_leader(s, cancel, &next));
    pthread_mutex_lock(&q->lock);
    st = find(q, s->key, &e);
    if (st == MF_OK && e->next == 0)
        e->next = e->begun = later(e->begun, next);
    if (st == MF_OK)
        *step = e->begun++;
    pthread_mutex_unlock(&q->lock);
    return st;
}

void mf_sequence_end(const mf_sequence *s, int64_t step, bool well)
{
    mf_sequences *q = s->server->sequences;
    int64_t over = 0;
    sequence *e;

    pthread_mutex_lock(&q->lock);
    if (find(q, s->key, &e) == MF_OK) {
        over = e->kept;
        e->kept = well ? step : 0;
        if (!well && !leads(s))
            e->next = 0;
        else if (e->next <= step)
            e->next = step + 1;
    }
    pthread_mutex_unlock(&q->lock);
    if (over != 0)
        mf_rooms_end(s->server->rooms, over);
    if (!well)
        mf_rooms_end(s->server->rooms, step);
}

mf_status mf_sequence_called(mf_request *r, const ProtobufCMessage *message)
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

mf_status mf_sequences_new(mf_sequences **out)
{
    *out = mf_calloc(1, sizeof **out);
    if (!*out)
        return MF_NOMEM("steps");
    pthread_mutex_init(&(*out)->lock, NULL);
    return MF_OK;
}

void mf_sequences_free(mf_sequences *q)
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
