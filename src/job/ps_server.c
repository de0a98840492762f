/* SPDX-License-Identifier: Apache-2.0 */
/* ps_server.c - a parameter server's side: pushes come, sums are made in the fixed tree, weights
 * are updated, and go back. Synchronous: when all workers have pushed a step. Asynchronous: at
 * once. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/ps_leases.h"
#include "job/ps_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct request {
    int from;
    mf_frame frame;
    char *data;
    struct request *next;
} request;

/* A worker's push, looked at: pointers into its data. */
typedef struct push {
    request *of; /* NULL: it has not come */
    mf_ps_push head;
    const mf_tree_node *parts;
    const float *floats; /* of the first part */
    const char *rows; /* where rows begin */
    size_t rows_left;
} push;

typedef struct server {
    mf_ps_server_options o;
    mf_placement place;
    mf_ps_store store;
    int64_t dense; /* floats of all dense slices */
    push *pushes; /* by worker */
    uint32_t *last_seq; /* by worker: of its last push that was answered */
    int64_t version; /* updates so far */
    int active; /* workers that still push */
    int64_t *pulled; /* by worker: the version it has */
    int64_t **touched; /* by weight of the store: of each row, the version that changed it last */
    struct mf_ps_leases *leases;
    mf_buf *last_reply; /* by worker */
    bool over;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    request *first, *last; /* guarded by lock */
} server;

/* ---- requests ---- */

static void request_free(request *r)
{
    if (!r)
        return;
    mf_free(r->data);
    mf_free(r);
}

static void take_request(void *ctx, int from, const mf_frame *f, void *data)
{
    server *s = ctx;
    request *r = mf_calloc(1, sizeof *r);

    if (!r) {
        mf_free(data); /* whoever waits for the answer will say so */
        return;
    }
    *r = (request){ .from = from, .frame = *f, .data = data };
    pthread_mutex_lock(&s->lock);
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static mf_status next_request(server *s, request **out)
{
    mf_status st = MF_OK;

    *out = NULL;
    pthread_mutex_lock(&s->lock);
    while (!s->first && st == MF_OK) {
        const int64_t until = mf_clock_ns() + 100000000;

        (void)pthread_cond_timedwait(&s->changed, &s->lock,
                                     &(struct timespec){ until / 1000000000, until % 1000000000 });
        if (!s->first)
            st = mf_net_check(s->o.net);
    }
    *out = s->first;
    if (*out) {
        s->first = (*out)->next;
        if (!s->first)
            s->last = NULL;
        st = MF_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static mf_status reply(server *s, const request *r, const void *data, size_t size)
{
    mf_frame f = r->frame;

    f.kind = MF_MESSAGE_REPLY;
    f.size = size;
    return mf_net_send(s->o.net, r->from, &f, data, mf_clock_ns() + s->o.timeout_ns);
}

/* ---- looking at a push ---- */

static mf_status look_at(const server *s, request *r, push *p)
{
    mf_reader in = { .at = r->data, .left = r->frame.size };
    const void *head = mf_reader_take(&in, 1, sizeof p->head);

    *p = (push){ .of = r };
    if (head)
        memcpy(&p->head, head, sizeof p->head);
    if (!head || p->head.n_parts < 0 || p->head.n_parts > MF_TREE_PARTS || p->head.n_extra < 0 ||
        p->head.n_extra > 1 << 24 || p->head.leaves < 1 || p->head.leaves > MF_TREE_LEAVES)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s pushed what makes no sense",
                       mf_net_name(s->o.net, r->from));
    p->parts = mf_reader_take(&in, p->head.n_parts, sizeof *p->parts);
    p->floats = mf_reader_take(&in, p->head.n_parts * (s->dense + p->head.n_extra), sizeof(float));
    p->rows = in.at;
    p->rows_left = in.left;
    if (in.bad)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s pushed too few bytes",
                       mf_net_name(s->o.net, r->from));
    return MF_OK;
}

/* ---- sums ---- */

/* Floats [at, at + n) of all parts of all pushes, in the tree. */
static mf_status sum_tree(const server *s, const push *const *all, int n_all, int64_t at, int64_t n,
                          float *out)
{
    mf_tree_part *parts;
    int n_parts = 0;
    mf_status st;

    for (int i = 0; i < n_all; i++)
        n_parts += (int)all[i]->head.n_parts;
    parts = mf_calloc(n_parts, sizeof *parts);
    if (!parts)
        return MF_NOMEM("a sum");
    n_parts = 0;
    for (int i = 0; i < n_all; i++) {
        const int64_t stride = s->dense + all[i]->head.n_extra;

        for (int64_t p = 0; p < all[i]->head.n_parts; p++)
            parts[n_parts++] = (mf_tree_part){ all[i]->parts[p], all[i]->floats + p * stride + at };
    }
    st = mf_tree_covers(all[0]->head.leaves, parts, n_parts)
             ? mf_tree_sum(all[0]->head.leaves, (mf_tree_node){ 0, all[0]->head.leaves }, parts,
                           n_parts, MF_DTYPE_F32, n, out)
             : MF_FAIL(MF_INVALID_ARGUMENT, "the pushes of step %lld do not make up the batch",
                       (long long)all[0]->head.step);
    mf_free(parts);
    return st;
}

/* Pushes that are batches of their own: their mean, in the order of the workers. */
static mf_status mean_of(const server *s, const push *const *all, int n_all, int64_t at, int64_t n,
                         float *out)
{
    float *one = mf_calloc(n, sizeof *one);
    mf_status st = one ? sum_tree(s, all, 1, at, n, out) : MF_NOMEM("a mean");

    for (int i = 1; i < n_all && st == MF_OK; i++) {
        st = sum_tree(s, all + i, 1, at, n, one);
        for (int64_t k = 0; k < n && st == MF_OK; k++)
            out[k] += one[k];
    }
    for (int64_t k = 0; k < n && st == MF_OK; k++)
        out[k] *= 1.0f / (float)n_all;
    mf_free(one);
    return st;
}

static mf_status sum_at(const server *s, const push *const *all, int n_all, int64_t at, int64_t n,
                        float *out)
{
    return s->o.mode.sync ? sum_tree(s, all, n_all, at, n, out)
                          : mean_of(s, all, n_all, at, n, out);
}

static mf_status sum_dense(server *s, const push *const *all, int n_all)
{
    int64_t at = 0;
    int g = 0;

    for (int i = 0; i < s->store.n_slices; i++) {
        const mf_weight *w = s->store.model->weights[i];
        mf_tensor *x;

        for (; g < s->store.graph.n_gradients && s->store.graph.gradients[g].weight != w; g++)
            ;
        if (w->lookups)
            continue;
        x = mf_ps_store_gradient(&s->store, g);
        mf_tensor_clear(x);
        MF_TRY(mf_tensor_alloc(x, MF_DTYPE_F32, &w->shape));
        MF_TRY(sum_at(s, all, n_all, at, x->count, x->data));
        at += x->count;
    }
    return MF_OK;
}

/* ---- rows ---- */

/* The next block of rows of a push: how many, which, what. */
static bool take_rows(push *p, int64_t width, int64_t *n, const int64_t **ids, const float **rows)
{
    mf_reader in = { .at = p->rows, .left = p->rows_left };
    const void *count = mf_reader_take(&in, 1, sizeof *n);

    *n = 0;
    if (count)
        memcpy(n, count, sizeof *n);
    *ids = mf_reader_take(&in, *n, sizeof **ids);
    *rows = mf_reader_take(&in, *n, (size_t)width * sizeof(float));
    p->rows = in.at;
    p->rows_left = in.left;
    return !in.bad;
}

/* Gradient g: the rows of all pushes, worker after worker. */
static mf_status join_rows(server *s, push *const *all, int n_all, int g, int64_t first_row)
{
    const mf_weight *w = s->store.graph.gradients[g].weight;
    const int64_t width = mf_shape_span(&w->shape, 1, w->shape.rank);
    mf_buf ids = { 0 }, rows = { 0 };
    mf_shape shape = w->shape;
    mf_tensor *x = mf_ps_store_gradient(&s->store, g), *at = mf_ps_store_rows(&s->store, g);
    mf_status st = MF_OK;

    for (int i = 0; i < n_all && st == MF_OK; i++) {
        const int64_t *id;
        const float *row;
        int64_t n;

        if (!take_rows(all[i], width, &n, &id, &row))
            st = MF_FAIL(MF_INVALID_ARGUMENT, "%s pushed too few rows",
                         mf_net_name(s->o.net, all[i]->of->from));
        for (int64_t k = 0; k < n && st == MF_OK; k++) {
            int64_t local;

            memcpy(&local, (const char *)id + (size_t)k * sizeof local, sizeof local);
            local -= first_row;
            if (local < 0 || local >= w->shape.dims[0])
                st = MF_FAIL(MF_INVALID_ARGUMENT, "row %lld of %s is not here",
                             (long long)(local + first_row), w->name);
            mf_buf_bytes(&ids, &local, sizeof local);
        }
        if (st == MF_OK)
            mf_buf_bytes(&rows, row, (size_t)(n * width) * sizeof(float));
    }
    mf_tensor_clear(x);
    mf_tensor_clear(at);
    shape.dims[0] = (int64_t)(ids.len / sizeof(int64_t));
    if (st == MF_OK)
        st = mf_tensor_alloc(x, MF_DTYPE_F32, &shape);
    if (st == MF_OK)
        st = mf_tensor_alloc(at, MF_DTYPE_I64, &MF_SHAPE(shape.dims[0]));
    if (st == MF_OK && shape.dims[0] > 0) {
        memcpy(x->data, rows.data, rows.len);
        memcpy(at->data, ids.data, ids.len);
        for (int64_t k = 0; k < x->count && !s->o.mode.sync && n_all > 1; k++)
            ((float *)x->data)[k] *= 1.0f / (float)n_all;
    }
    mf_buf_deinit(&ids);
    mf_buf_deinit(&rows);
    return st;
}

static int64_t first_row_of(const server *s, const mf_weight *w)
{
    for (int i = 0; i < s->store.n_slices; i++) {
        if (s->store.model->weights[i] == w)
            return s->store.slices[i].from / mf_shape_span(&w->shape, 1, w->shape.rank);
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Rows that this gradient has changed, each once: behind the update, the feed is ours. */
static int64_t changed_now(server *s, int g, int64_t *ids)
{
    const mf_tensor *at = mf_ps_store_rows(&s->store, g);
    int64_t n = 0;

    memcpy(ids, at->data, (size_t)at->count * sizeof *ids);
    qsort(ids, (size_t)at->count, sizeof *ids, by_number);
    for (int64_t i = 0; i < at->count; i++) {
        if (i == 0 || ids[i] != ids[i - 1])
            ids[n++] = ids[i];
    }
    return n;
}

/* Rows that anybody has changed since this worker was last here. */
static int64_t changed_since(const server *s, int weight, int64_t version, int64_t *ids)
{
    const int64_t rows = s->store.model->weights[weight]->shape.dims[0];
    int64_t n = 0;

    for (int64_t i = 0; i < rows; i++) {
        if (s->touched[weight][i] > version)
            ids[n++] = i;
    }
    return n;
}

static int index_of(const server *s, const mf_weight *w)
{
    for (int i = 0; i < s->store.n_slices; i++) {
        if (s->store.model->weights[i] == w)
            return i;
    }
    return 0;
}

static void touch_rows(server *s)
{
    for (int g = 0; g < s->store.graph.n_gradients; g++) {
        const mf_weight *w = s->store.graph.gradients[g].weight;
        const mf_tensor *at = mf_ps_store_rows(&s->store, g);

        for (int64_t i = 0; w->lookups && i < at->count; i++)
            s->touched[index_of(s, w)][((const int64_t *)at->data)[i]] = s->version;
    }
}

/* What the worker (-1: any) does not know yet of the rows that gradient g is about. */
static mf_status write_rows(server *s, int g, int worker, mf_buf *out)
{
    const mf_weight *w = s->store.graph.gradients[g].weight;
    const int64_t width = mf_shape_span(&w->shape, 1, w->shape.rank), first = first_row_of(s, w);
    const int64_t most = worker < 0 ? mf_ps_store_rows(&s->store, g)->count : w->shape.dims[0];
    int64_t *ids = mf_calloc(most + 1, sizeof *ids), n;
    mf_tensor value = { 0 };

    if (!ids)
        return MF_NOMEM("rows");
    n = worker < 0 ? changed_now(s, g, ids)
                   : changed_since(s, index_of(s, w), s->pulled[worker], ids);
    MF_TRY(mf_variable_read(s->store.variables[index_of(s, w)].variable, &value));
    mf_buf_bytes(out, &n, sizeof n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t global = ids[i] + first;

        mf_buf_bytes(out, &global, sizeof global);
    }
    for (int64_t i = 0; i < n; i++)
        mf_buf_bytes(out, (const float *)value.data + ids[i] * width,
                     (size_t)width * sizeof(float));
    mf_tensor_clear(&value);
    mf_free(ids);
    return MF_OK;
}

/* ---- a step ---- */

static mf_status write_dense(server *s, mf_buf *out)
{
    for (int i = 0; i < s->store.n_slices; i++) {
        mf_tensor value = { 0 };

        if (s->store.model->weights[i]->lookups)
            continue;
        MF_TRY(mf_variable_read(s->store.variables[i].variable, &value));
        mf_buf_bytes(out, value.data, mf_tensor_bytes(&value));
        mf_tensor_clear(&value);
    }
    return MF_OK;
}

/* What a worker (-1: any) gets to know. */
static mf_status write_reply(server *s, push *const *all, int n_all, int worker, mf_buf *out)
{
    mf_ps_reply head = { .n_extra = all[0]->head.n_extra, .version = s->version };
    float *extra;
    mf_status st;

    for (int i = 0; i < n_all; i++)
        head.flags |= all[i]->head.flags & MF_PS_STOP;
    mf_buf_clear(out);
    mf_buf_bytes(out, &head, sizeof head);
    MF_TRY(write_dense(s, out));
    extra = mf_buf_room(out, (size_t)head.n_extra * sizeof(float));
    st = extra || head.n_extra == 0 ? MF_OK : MF_NOMEM("a sum");
    if (st == MF_OK && head.n_extra > 0)
        st = sum_at(s, (const push *const *)all, n_all, s->dense, head.n_extra, extra);
    for (int g = 0; st == MF_OK && g < s->store.graph.n_gradients; g++) {
        if (s->store.graph.gradients[g].weight->lookups)
            st = write_rows(s, g, worker, out);
    }
    return st == MF_OK ? mf_buf_finish(out) : st;
}

/* What all pushes together come to: a new state. */
static mf_status apply(server *s, push *const *all, int n_all)
{
    for (int i = 0; i < n_all; i++) {
        if (all[i]->head.flags & MF_PS_BAD)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "check_loss: the loss is no number: nothing was updated");
        if (all[i]->head.leaves != all[0]->head.leaves ||
            all[i]->head.n_extra != all[0]->head.n_extra)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s and %s do not do the same step",
                           mf_net_name(s->o.net, all[i]->of->from),
                           mf_net_name(s->o.net, all[0]->of->from));
    }
    MF_TRY(sum_dense(s, (const push *const *)all, n_all));
    for (int g = 0; g < s->store.graph.n_gradients; g++) {
        const mf_weight *w = s->store.graph.gradients[g].weight;

        if (w->lookups)
            MF_TRY(join_rows(s, all, n_all, g, first_row_of(s, w)));
    }
    MF_TRY(mf_ps_store_update(&s->store, all[0]->head.step, all[0]->head.learning_rate));
    s->version++;
    touch_rows(s);
    return MF_OK;
}

static mf_status answer_push(server *s, push *p, const mf_buf *out)
{
    mf_buf *kept = &s->last_reply[p->of->from];
    mf_status st = reply(s, p->of, out->data, out->len);

    s->last_seq[p->of->from] = p->of->frame.seq;
    s->pulled[p->of->from] = s->version;
    mf_buf_clear(kept);
    mf_buf_bytes(kept, out->data, out->len);
    request_free(p->of);
    p->of = NULL;
    return st;
}

/* An error is the workers' to say; nothing was changed. */
static void write_failure(mf_status st, mf_buf *out)
{
    const mf_ps_reply head = { .status = st };

    mf_buf_clear(out);
    mf_buf_bytes(out, &head, sizeof head);
    mf_buf_str(out, mf_error_message());
}

/* Everybody gets the same answer, except where workers differ in what they know already. All are
 * written before the first is sent: with that, the push is gone. */
static mf_status answer_all(server *s, mf_status st, push *const *all, int n_all)
{
    const bool same = s->o.mode.sync;
    mf_buf *out = mf_calloc(n_all, sizeof *out);
    mf_status sent = MF_OK;

    if (!out)
        return MF_NOMEM("answers");
    for (int i = 0; i < (same ? 1 : n_all); i++) {
        if (st == MF_OK)
            st = write_reply(s, all, n_all, same ? -1 : all[i]->of->from, &out[i]);
        if (st != MF_OK)
            write_failure(st, &out[i]);
    }
    for (int i = 0; i < n_all && sent == MF_OK; i++)
        sent = answer_push(s, all[i], &out[same ? 0 : i]);
    for (int i = 0; i < n_all; i++)
        mf_buf_deinit(&out[i]);
    mf_free(out);
    return sent;
}

static mf_status do_step(server *s, push *const *all, int n_all)
{
    return answer_all(s, apply(s, all, n_all), all, n_all);
}

/* How many pushes make an update. */
static int wanted(const server *s)
{
    const int quorum = (int)s->o.mode.quorum;

    if (s->o.mode.sync)
        return s->o.n_workers;
    return quorum < 1 ? 1 : quorum < s->active ? quorum : s->active;
}

/* Those that are here and belong to the weights of now, if they are enough. */
static mf_status try_step(server *s)
{
    push *all[MF_TREE_LEAVES];
    int n = 0;

    for (int w = 0; w < s->o.n_workers && n < MF_TREE_LEAVES; w++) {
        if (s->pushes[w].of)
            all[n++] = &s->pushes[w];
    }
    return n > 0 && n >= wanted(s) ? do_step(s, all, n) : MF_OK;
}

static mf_status take_push(server *s, request *r)
{
    if (r->from < 0 || r->from >= s->o.n_workers) {
        request_free(r);
        return MF_OK; /* not a worker's business */
    }
    if (s->last_reply[r->from].len > 0 && r->frame.seq <= s->last_seq[r->from]) {
        const mf_status st = reply(s, r, s->last_reply[r->from].data, s->last_reply[r->from].len);

        request_free(r); /* it was applied already */
        return st;
    }
    if (s->pushes[r->from].of) {
        request_free(r);
        return MF_OK;
    }
    MF_TRY(look_at(s, r, &s->pushes[r->from]));
    if (s->o.mode.quorum > 0 && s->pushes[r->from].head.version < s->version) {
        push *late = &s->pushes[r->from]; /* others were enough: what it did is thrown away */

        return answer_all(s, MF_OK, &late, 1);
    }
    return try_step(s);
}

/* ---- other requests ---- */

static mf_status take_set(server *s, request *r)
{
    mf_reader in = { .at = r->data, .left = r->frame.size };
    const mf_status st = mf_ps_store_read(&s->store, &in);
    const char *text = st == MF_OK ? "" : mf_error_message();
    const mf_status sent = reply(s, r, text, *text ? strlen(text) + 1 : 0);

    request_free(r);
    return sent;
}

static mf_status take_get(server *s, request *r)
{
    mf_buf out = { 0 };
    mf_status st = mf_ps_store_write(&s->store, &out);

    if (st == MF_OK)
        st = reply(s, r, out.data, out.len);
    mf_buf_deinit(&out);
    request_free(r);
    return st;
}

static mf_status take_leave(server *s, request *r)
{
    const mf_status st = reply(s, r, NULL, 0);

    s->active -= r->from < s->o.n_workers;
    request_free(r);
    return st == MF_OK ? try_step(s) : st;
}

static mf_status take_end(server *s, request *r)
{
    const int64_t staleness = mf_ps_leases_staleness(s->leases);
    const mf_status st = reply(s, r, &staleness, sizeof staleness);

    s->over = true;
    request_free(r);
    return st;
}

/* Whoever may go on now, goes on. */
static mf_status grant_leases(server *s)
{
    mf_ps_grant g;

    while (mf_ps_leases_next(s->leases, &g)) {
        mf_frame f = { .kind = MF_MESSAGE_REPLY, .group = MF_PS_LEASE, .seq = g.seq };

        f.size = sizeof g.batch;
        MF_TRY(mf_net_send(s->o.net, g.worker, &f, &g.batch, mf_clock_ns() + s->o.timeout_ns));
    }
    return MF_OK;
}

static mf_status take_lease(server *s, request *r)
{
    mf_ps_lease lease = { 0 };

    if (r->frame.size == sizeof lease)
        memcpy(&lease, r->data, sizeof lease);
    if (r->from >= 0 && r->from < s->o.n_workers)
        mf_ps_leases_ask(s->leases, r->from, r->frame.seq, &lease);
    request_free(r);
    return grant_leases(s);
}

static mf_status serve_one(server *s, request *r)
{
    switch (r->frame.group) {
    case MF_PS_PUSH:
        return take_push(s, r);
    case MF_PS_SET:
        return take_set(s, r);
    case MF_PS_GET:
        return take_get(s, r);
    case MF_PS_END:
        return take_end(s, r);
    case MF_PS_LEAVE:
        return take_leave(s, r);
    case MF_PS_LEASE:
        return take_lease(s, r);
    default:
        request_free(r);
        return MF_OK;
    }
}

/* ---- the whole ---- */

static mf_status start(server *s, mf_trainer *t)
{
    MF_TRY(mf_ps_place(t, s->o.n_servers, &s->place));
    MF_TRY(mf_ps_store_init(&s->store, t, &s->place, s->o.index));
    for (int i = 0; i < s->store.n_slices; i++) {
        if (!s->store.slices[i].weight->lookups)
            s->dense += s->store.slices[i].to - s->store.slices[i].from;
    }
    s->active = s->o.n_workers;
    s->pushes = mf_calloc(s->o.n_workers, sizeof *s->pushes);
    s->last_seq = mf_calloc(s->o.n_workers, sizeof *s->last_seq);
    s->last_reply = mf_calloc(s->o.n_workers, sizeof *s->last_reply);
    s->pulled = mf_calloc(s->o.n_workers, sizeof *s->pulled);
    s->touched = mf_calloc(s->store.n_slices, sizeof *s->touched);
    if (!s->pushes || !s->last_seq || !s->last_reply || !s->pulled || !s->touched)
        return MF_NOMEM("a parameter server");
    for (int i = 0; i < s->store.n_slices; i++) {
        const mf_weight *w = s->store.model->weights[i];

        if (w->lookups)
            s->touched[i] = mf_calloc(w->shape.dims[0], sizeof *s->touched[i]);
        if (w->lookups && !s->touched[i])
            return MF_NOMEM("a parameter server");
    }
    MF_TRY(mf_ps_leases_new(s->o.n_workers, s->o.mode.staleness, &s->leases));
    MF_INFO("this parameter server holds %lld numbers", (long long)s->dense);
    mf_net_serve(s->o.net, take_request, s);
    return MF_OK;
}

static void finish(server *s)
{
    mf_net_serve(s->o.net, NULL, NULL);
    for (int w = 0; s->pushes && w < s->o.n_workers; w++)
        request_free(s->pushes[w].of);
    for (int w = 0; s->last_reply && w < s->o.n_workers; w++)
        mf_buf_deinit(&s->last_reply[w]);
    while (s->first) {
        request *r = s->first;

        s->first = r->next;
        request_free(r);
    }
    for (int i = 0; s->touched && i < s->store.n_slices; i++)
        mf_free(s->touched[i]);
    mf_free(s->touched);
    mf_free(s->pulled);
    mf_free(s->pushes);
    mf_free(s->last_seq);
    mf_free(s->last_reply);
    mf_ps_leases_free(s->leases);
    mf_ps_store_deinit(&s->store);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

mf_status mf_ps_serve(const mf_ps_server_options *o, mf_trainer *t)
{
    server s = { .o = *o };
    pthread_condattr_t monotonic;
    mf_status st;

    pthread_mutex_init(&s.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    st = start(&s, t);
    while (st == MF_OK && !s.over) {
        request *r;

        st = next_request(&s, &r);
        if (st == MF_OK)
            st = serve_one(&s, r);
    }
    finish(&s);
    return st;
}
