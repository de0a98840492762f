/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch_closure.c - closures, and their graphs in serialized form. */
#include "base/host_state.h"
#include "dispatch/dispatch_private.h"

#include <string.h>

static void free_names(char **names, int n)
{
    for (int i = 0; names && i < n; i++)
        mf_free(names[i]);
    mf_free(names);
}

void mf_closure_unref(mf_closure *c)
{
    if (--c->refs > 0)
        return;
    free_names(c->feeds, c->n_feeds);
    free_names(c->fetches, c->n_fetches);
    free_names(c->targets, c->n_targets);
    mf_free(c);
}

void mf_closure_free(mf_closure *c)
{
    MF_ENTRY_OR();

    mf_master *m = c ? c->master : NULL;

    if (!c)
        return;
    pthread_mutex_lock(&m->lock);
    mf_closure_unref(c);
    pthread_mutex_unlock(&m->lock);
}

static mf_status dispatch_closure_copy_names(const char *const *names, int n, char ***out)
{
    *out = mf_calloc(n, sizeof **out);
    if (!*out)
        return MF_NOMEM("a closure");
    for (int i = 0; i < n; i++) {
        (*out)[i] = mf_strdup(names[i]);
        if (!(*out)[i])
            return MF_NOMEM("a closure");
    }
    return MF_OK;
}

/* With the lock held: the graph of these bytes, whose ownership is transferred. */
static mf_status dispatch_closure_ship(mf_master *m, char *bytes, size_t len,
                                       const mf_shipped **out)
{
    const mf_digest digest = mf_digest_of(bytes, len);
    mf_shipped *s = m->graphs;

    while (s && memcmp(&s->digest, &digest, sizeof digest) != 0)
        s = s->next;
    if (s) {
        mf_bytes_free(bytes);
        *out = s;
        return MF_OK;
    }
    s = mf_calloc(1, sizeof *s);
    if (!s) {
        mf_bytes_free(bytes);
        return MF_NOMEM("a graph");
    }
    *s = (mf_shipped){
        .digest = digest, .bytes = bytes, .len = len, .number = m->n_graphs++, .next = m->graphs
    };
    m->graphs = s;
    *out = s;
    return MF_OK;
}

mf_status mf_dispatch_need_master(const mf_dispatch *d)
{
    if (d->master)
        return MF_OK;
    return MF_FAIL(MF_FAILED_PRECONDITION,
                   "this task is not the master: it can only serve (mf_dispatch_serve)");
}

static mf_status fill_closure(mf_closure *c, const mf_closure_spec *spec)
{
    char *bytes;
    size_t len;
    mf_status st;

    MF_TRY(dispatch_closure_copy_names(spec->feeds, spec->n_feeds, &c->feeds));
    MF_TRY(dispatch_closure_copy_names(spec->fetches, spec->n_fetches, &c->fetches));
    MF_TRY(dispatch_closure_copy_names(spec->targets, spec->n_targets, &c->targets));
    MF_TRY(mf_graph_status(spec->graph));
    MF_TRY(mf_graph_encode(spec->graph, &bytes, &len));
    if (len > MF_FRAME_MAX) {
        mf_bytes_free(bytes);
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "a graph of %zu bytes does not fit one message of at most %d: feed large "
                       "values, or read them from files",
                       len, (int)MF_FRAME_MAX);
    }
    pthread_mutex_lock(&c->master->lock);
    st = dispatch_closure_ship(c->master, bytes, len, &c->graph);
    pthread_mutex_unlock(&c->master->lock);
    return st;
}

mf_status mf_closure_new(mf_dispatch *d, const mf_closure_spec *spec, mf_closure **out)
{
    MF_ENTRY;
    MF_NEED(d, spec, out);
    MF_NEED(spec->graph);
    MF_NEED_ALL(spec->feeds, spec->n_feeds);
    MF_NEED_ALL(spec->fetches, spec->n_fetches);
    MF_NEED_ALL(spec->targets, spec->n_targets);

    mf_closure *c;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_dispatch_need_master(d));
    if (spec->n_fetches + spec->n_targets < 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a closure without fetches and targets does nothing");
    c = mf_calloc(1, sizeof *c);
    if (!c)
        return MF_NOMEM("a closure");
    *c = (mf_closure){ .master = d->master,
                       .n_feeds = spec->n_feeds,
                       .n_fetches = spec->n_fetches,
                       .n_targets = spec->n_targets,
                       .refs = 1 };
    st = fill_closure(c, spec);
    if (st == MF_OK)
        *out = c;
    else
        mf_closure_free(c);
    return st;
}
