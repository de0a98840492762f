/* SPDX-License-Identifier: Apache-2.0 */
/* master_partial.c - partial runs: a thread executes the run; feeds and fetches go through the
 * rendezvous table of its step. */
#include "base/thread.h"
#include "runtime/rendezvous_table.h"
#include "tf_server/master.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct master_partial {
    char handle[17];
    mf_server *server;
    const char *session; /* its handle */
    mf_exec_plan *plan;
    mf_arena *arena; /* of names */
    mf_run_names names;
    bool *fed, *fetched; /* guarded by the session's `extending` */
    int64_t id;
    mf_cancel cancel;
    mf_rendezvous_table *table;
    pthread_t thread;
    bool has_thread;
} master_partial;

/* ---- names ---- */

static int master_partial_index_of(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

/* ---- start and end ---- */

static void *master_partial_run_it(void *arg)
{
    master_partial *p = arg;
    const mf_master_step m = { .names = p->names, .id = p->id, .cancel = &p->cancel };
    const mf_status st = mf_master_run_plan(p->server, p->session, p->plan, &m);

    if (st != MF_OK)
        mf_rendezvous_table_fail(p->table, st);
    return NULL;
}

static void master_partial_free(master_partial *p, const mf_session_workers *workers)
{
    mf_cancel_raise(&p->cancel);
    if (p->has_thread)
        pthread_join(p->thread, NULL);
    if (p->plan) {
        mf_master_clean_up(workers, p->plan, p->id, false);
        mf_exec_plan_free(p->plan, workers, p->session);
    }
    if (p->table)
        mf_rendezvous_table_leave(p->table);
    mf_cancel_deinit(&p->cancel);
    mf_arena_free(p->arena);
    mf_free(p);
}

void mf_client_session_end_partials(mf_client_session *s)
{
    mf_map_entry *e;
    int64_t it = 0;

    while ((e = mf_map_next(&s->partials, &it)) != NULL)
        master_partial_free(e->value, &s->workers);
    mf_map_deinit(&s->partials);
}

static mf_status read_setup(master_partial *p, const Tensorflow__PartialRunSetupRequest *q)
{
    p->names = (mf_run_names){
        .feeds = mf_arena_strings(p->arena, (const char *const *)q->feed, (int64_t)q->n_feed),
        .fetches = mf_arena_strings(p->arena, (const char *const *)q->fetch, (int64_t)q->n_fetch),
        .targets = mf_arena_strings(p->arena, (const char *const *)q->target, (int64_t)q->n_target),
        .n_feeds = (int)q->n_feed,
        .n_fetches = (int)q->n_fetch,
        .n_targets = (int)q->n_target
    };
    p->fed = MF_ARENA_ARRAY(p->arena, bool, p->names.n_feeds + 1);
    p->fetched = MF_ARENA_ARRAY(p->arena, bool, p->names.n_fetches + 1);
    if (!p->names.feeds || !p->names.fetches || !p->names.targets || !p->fed || !p->fetched)
        return MF_NOMEM("a run");
    return MF_OK;
}

/* The caller holds the session's lock. */
static mf_status master_partial_start(master_partial *p, mf_client_session *s, mf_cancel *cancel)
{
    p->id = mf_master_new_step();
    MF_TRY(mf_client_session_make_plan(s, &p->names, cancel, true, &p->plan));
    if (p->plan->collectives.is_shared)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "a partial run with collectives whose groups have members under other "
                       "masters is not supported: use run(), or one master for all members");
    MF_TRY(mf_rendezvous_tables_enter(p->server->tables, p->id, &p->table));
    (void)snprintf(p->handle, sizeof p->handle, "%016" PRIx64, (uint64_t)p->id);
    if (mf_thread_start(&p->thread, master_partial_run_it, p) != 0)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a thread");
    p->has_thread = true;
    return mf_map_set(&s->partials, p->handle, p);
}

static mf_status master_partial_set_up(mf_request *r, mf_client_session *s,
                                       const Tensorflow__PartialRunSetupRequest *q)
{
    Tensorflow__PartialRunSetupResponse out = TENSORFLOW__PARTIAL_RUN_SETUP_RESPONSE__INIT;
    master_partial *p = mf_calloc(1, sizeof *p);
    mf_status st;
    mf_error why;

    if (!p)
        return MF_NOMEM("a run");
    *p = (master_partial){ .server = r->server, .session = s->handle, .arena = mf_arena_new() };
    mf_cancel_init(&p->cancel);
    st = p->arena ? read_setup(p, q) : MF_NOMEM("a run");
    pthread_mutex_lock(&s->extending);
    if (st == MF_OK)
        st = master_partial_start(p, s, &r->cancel);
    pthread_mutex_unlock(&s->extending);
    if (st != MF_OK) {
        mf_error_save(st, &why);
        master_partial_free(p, &s->workers);
        return mf_error_restore(&why);
    }
    out.partial_run_handle = p->handle;
    return mf_request_reply(r, &out.base);
}

mf_status mf_master_partial_setup(mf_request *r, const ProtobufCMessage *message)
{
    const Tensorflow__PartialRunSetupRequest *q =
        (const Tensorflow__PartialRunSetupRequest *)message;
    mf_client_session *s;
    mf_status st;

    MF_TRY(mf_clients_find(r->server->clients, q->session_handle, &s));
    st = master_partial_set_up(r, s, q);
    mf_client_session_release(s);
    return st;
}

/* ---- valid feeds and fetches ---- */

static mf_status master_partial_check_names(const master_partial *p, const mf_run_names *n)
{
    for (int i = 0; i < n->n_feeds; i++) {
        const int k = master_partial_index_of(p->names.feeds, p->names.n_feeds, n->feeds[i]);

        if (k < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "The feed %s was not specified in partial_run_setup.", n->feeds[i]);
        if (p->fed[k])
            return MF_FAIL(MF_INVALID_ARGUMENT, "The feed %s has already been fed.", n->feeds[i]);
    }
    for (int i = 0; i < n->n_fetches; i++) {
        const int k = master_partial_index_of(p->names.fetches, p->names.n_fetches, n->fetches[i]);

        if (k < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "The fetch %s was not specified in partial_run_setup.", n->fetches[i]);
        if (p->fetched[k])
            return MF_FAIL(MF_INVALID_ARGUMENT, "The fetch %s has already been fetched.",
                           n->fetches[i]);
    }
    return MF_OK;
}

/* A fetch that depends on a missing feed would never complete. */
typedef struct master_partial_search {
    const master_partial *p;
    const mf_signature *feeds; /* all feeds of the run */
    bool *seen; /* by node id */
    const mf_node **stack;
    int64_t depth;
    const char *missing; /* a feed that the search reached; NULL: none */
} master_partial_search;

static void master_partial_visit(master_partial_search *s, mf_output o)
{
    for (int i = 0; i < s->feeds->n_feeds; i++) {
        if (s->feeds->feeds[i].node == o.node && s->feeds->feeds[i].port == o.port) {
            if (!s->p->fed[i])
                s->missing = s->p->names.feeds[i];
            return;
        }
    }
    if (!s->seen[o.node->id]) {
        s->seen[o.node->id] = true;
        s->stack[s->depth++] = o.node;
    }
}

static mf_status check_fed(const master_partial *p, const mf_graph *graph,
                           const mf_run_names *wanted, mf_arena *arena)
{
    mf_signature all, now;
    master_partial_search s = { .p = p,
                                .feeds = &all,
                                .seen = MF_ARENA_ARRAY(arena, bool, graph->n_nodes + 1),
                                .stack =
                                    MF_ARENA_ARRAY(arena, const mf_node *, graph->n_nodes + 1) };

    if (!s.seen || !s.stack)
        return MF_NOMEM("a run");
    MF_TRY(mf_signature_find(graph, &p->names, arena, &all));
    MF_TRY(mf_signature_find(graph, wanted, arena, &now));
    for (int i = 0; i < now.n_fetches; i++)
        master_partial_visit(&s, now.fetches[i]);
    while (s.depth > 0 && !s.missing) {
        const mf_node *n = s.stack[--s.depth];

        for (int i = 0; i < n->n_inputs; i++)
            master_partial_visit(&s, n->inputs[i]);
        for (int i = 0; i < n->n_controls; i++)
            master_partial_visit(&s, (mf_output){ n->controls[i], -1 });
    }
    if (s.missing)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the fetch depends on %s, which has not been fed",
                       s.missing);
    return MF_OK;
}

/* Marks names as fed and fetched. The caller holds the session's lock. */
static mf_status master_partial_claim(master_partial *p, const mf_client_session *session,
                                      const mf_run_names *n, mf_arena *arena)
{
    MF_TRY(master_partial_check_names(p, n));
    for (int i = 0; i < n->n_feeds; i++)
        p->fed[master_partial_index_of(p->names.feeds, p->names.n_feeds, n->feeds[i])] = true;
    MF_TRY(check_fed(p, session->placed->graph, n, arena));
    for (int i = 0; i < n->n_fetches; i++)
        p->fetched[master_partial_index_of(p->names.fetches, p->names.n_fetches, n->fetches[i])] =
            true;
    return MF_OK;
}

/* ---- one step ---- */

static mf_status master_partial_feed_and_fetch(const master_partial *p, const mf_master_step *m,
                                               mf_cancel *cancel)
{
    const mf_run_names *n = &m->names;

    for (int i = 0; i < n->n_feeds; i++) {
        const int k = master_partial_index_of(p->names.feeds, p->names.n_feeds, n->feeds[i]);

        MF_TRY(mf_rendezvous_table_send(p->table, p->plan->feeds[k], m->feeds[i]));
    }
    for (int i = 0; i < n->n_fetches; i++) {
        const int k = master_partial_index_of(p->names.fetches, p->names.n_fetches, n->fetches[i]);

        m->results[i] = mf_calloc(1, sizeof *m->results[i]);
        if (!m->results[i])
            return MF_NOMEM("results");
        MF_TRY(mf_rendezvous_table_await(p->table, p->plan->fetches[k], cancel, m->results[i]));
    }
    return MF_OK;
}

mf_status mf_master_partial_run(mf_request *r, mf_client_session *s, const char *handle,
                                const mf_master_step *m)
{
    master_partial *p;
    mf_status st = MF_OK;

    pthread_mutex_lock(&s->extending);
    p = mf_map_find(&s->partials, handle);
    if (!p)
        st =
            MF_FAIL(MF_INVALID_ARGUMENT, "Must run PartialRunSetup before performing partial runs");
    else
        st = master_partial_claim(p, s, &m->names, r->arena);
    pthread_mutex_unlock(&s->extending);
    return st == MF_OK ? master_partial_feed_and_fetch(p, m, &r->cancel) : st;
}
