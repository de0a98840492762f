/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_compiled_graph.c - a GraphDef that is compiled with all passes, planned and run.
 * Placeholders are
 * fed with small tensors; nodes without consumers are fetches or targets, all at once and, if that
 * fails,
 * one by one.
 *
 * Bounded: bytes and nodes of the graph, tensor memory, and the time of a run, after which it is
 * cancelled
 * and must end. The session has no allowed directories, so ops access no files. */
#include "base/quota.h"
#include "graph/graph.h"
#include "mutate_graph.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

#include <meshflow/session.h>

enum {
    BYTES = 64 << 10,
    NODES = 300,
    FEEDS = 16,
    FETCHES = 16,
    TARGETS = 32,
    ONE_BY_ONE = 4, /* of each, if all at once fail */
    NAME = 256, /* nodes with longer names are skipped */
    ELEMENTS = 2048, /* maximum per fed tensor */
    MEMORY = 64 << 20,
    TIMEOUT_MS = 400,
};

typedef struct step {
    const char *feed_names[FEEDS], *fetches[FETCHES], *targets[TARGETS];
    mf_tensor *feeds[FEEDS], *results[FETCHES];
    char names[FETCHES][NAME + 16];
    int n_feeds, n_fetches, n_targets;
} step;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unknown and large dimensions are reduced. NULL: a type that cannot be fed. */
static mf_tensor *value_for(const mf_node *n)
{
    mf_shape shape = *mf_node_shape(n, "shape");
    const mf_dtype type = mf_type_base(n->out_types[0]);
    mf_tensor *t = NULL;
    int64_t count = 1;

    shape.rank = shape.rank < 0 ? 1 : shape.rank;
    for (int d = 0; d < shape.rank; d++) {
        shape.dims[d] = shape.dims[d] < 0                  ? 2
                        : shape.dims[d] * count > ELEMENTS ? 1
                                                           : shape.dims[d];
        count *= shape.dims[d] > 0 ? shape.dims[d] : 1;
    }
    if ((!mf_dtype_is_plain(type) && type != MF_DTYPE_STRING) ||
        mf_tensor_new(type, shape.dims, shape.rank, &t) != MF_OK)
        return NULL;
    for (int64_t i = 0; i < t->count && type != MF_DTYPE_STRING; i++)
        mf_tensor_put(t, i, mf_dtype_is_int(type) ? (double)(i % 2) : (double)(i % 7) - 2);
    for (int64_t i = 0; i < t->count && type == MF_DTYPE_STRING; i++)
        (void)!mf_string_set((mf_string *)t->data + i, "1,a b", 1 + (size_t)(i % 5));
    return t;
}

static void add_feed(step *s, const mf_node *n)
{
    mf_tensor *t = s->n_feeds < FEEDS ? value_for(n) : NULL;

    if (!t)
        return;
    s->feed_names[s->n_feeds] = n->name;
    s->feeds[s->n_feeds++] = t;
}

static void add_end(step *s, const mf_node *n)
{
    bool fetched = false;

    for (int i = 0; i < n->n_outputs && s->n_fetches < FETCHES; i++) {
        const mf_dtype t = n->out_types[i];

        if (t == MF_DTYPE_RESOURCE || t == MF_DTYPE_VARIANT || strlen(n->name) > NAME)
            continue;
        (void)snprintf(s->names[s->n_fetches], sizeof s->names[0], "%s:%d", n->name, i);
        s->fetches[s->n_fetches] = s->names[s->n_fetches];
        s->n_fetches++;
        fetched = true;
    }
    if (!fetched && s->n_targets < TARGETS)
        s->targets[s->n_targets++] = n->name;
}

static void choose(const mf_graph *g, step *s)
{
    bool used[NODES] = { false };

    for (int64_t i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i]->n_inputs; k++)
            used[g->nodes[i]->inputs[k].node->id] = true;
    }
    for (int64_t i = 0; i < g->n_nodes; i++) {
        const mf_node *n = g->nodes[i];

        if (strncmp(n->op_name, "Placeholder", 11) == 0 && n->n_outputs == 1 && n->n_inputs == 0)
            add_feed(s, n);
        else if (!used[n->id])
            add_end(s, n);
    }
}

static const mf_run_options limits = { .timeout_ms = TIMEOUT_MS };

/* Runs a range of fetches and targets. */
static mf_status ask(mf_session *session, step *s, int fetch, int fetches, int target, int targets)
{
    const mf_status st =
        mf_session_run(session, &limits, s->feed_names, (const mf_tensor *const *)s->feeds,
                       s->n_feeds, s->fetches + fetch, fetches - fetch, s->targets + target,
                       targets - target, s->results + fetch);

    if (getenv("FUZZ_TELL"))
        fprintf(stderr, "    %s %.300s\n", mf_status_name(st),
                st == MF_OK ? "" : mf_error_message());
    return st;
}

static void run(const mf_graph *g)
{
    const mf_session_options options = { .threads = 2 };
    const char *init = "init";
    step s = { .n_feeds = 0 };
    mf_session *session;
    mf_status st;

    if (mf_session_new(g, &options, &session) != MF_OK)
        return;
    choose(g, &s);
    st = mf_graph_find(g, init)
             ? mf_session_run(session, &limits, NULL, NULL, 0, NULL, 0, &init, 1, NULL)
             : MF_OK;
    if (st == MF_OK)
        st = ask(session, &s, 0, s.n_fetches, 0, s.n_targets);
    for (int i = 0; st != MF_OK && i < s.n_fetches && i < ONE_BY_ONE; i++)
        (void)!ask(session, &s, i, i + 1, 0, 0);
    for (int i = 0; st != MF_OK && i < s.n_targets && i < ONE_BY_ONE; i++)
        (void)!ask(session, &s, 0, 0, i, i + 1);
    for (int i = 0; i < s.n_fetches; i++)
        mf_tensor_free(s.results[i]);
    for (int i = 0; i < s.n_feeds; i++)
        mf_tensor_free(s.feeds[i]);
    mf_session_free(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_graph *g;

    mf_quota_set(MEMORY);
    if (size > BYTES || mf_graph_new(&g) != MF_OK)
        return 0;
    if (mf_graph_decode(g, data, size) == MF_OK && g->n_nodes <= NODES)
        run(g);
    mf_graph_free(g);
    mf_buffer_trim();
    return 0;
}

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    const size_t n = seed % 16 > 0 ? mutate_graph(data, size, most, seed) : 0;

    return n > 0 ? n : LLVMFuzzerMutate(data, size, most);
}
#endif
