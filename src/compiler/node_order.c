/* SPDX-License-Identifier: Apache-2.0 */
/* node_order.c - the order of nodes inside a region: inputs first, and among the ready nodes:
 *
 *   first  a node that does not increase the memory in use: its result is no larger than the
 *   storage
 *          it is the last to use. (A weight's gradient frees the layer's input; in the order of the
 *          graph it might run only after all other layers.)
 *   then   the next one in a base order: that of the graph, which completes one path before the
 *          next, or the one by depth, which advances all paths together. The second is used if its
 *          peak memory is clearly smaller
 *   last   writes to variables, so that readers have released the storage, which is then updated in
 *          place */
#include "compiler/region.h"

#include <string.h>

typedef struct scheduler {
    const mf_compile *c;
    mf_node **nodes; /* base order; the arrays below are indexed by position in it */
    int64_t n;
    bool *const *leaves;
    int *at; /* by node id: position + 1; 0: not in the region */
    int *root; /* position whose storage the node's first output is a view of; itself if none; -1:
                  outside */
    int *next_view; /* the next view of the same root, or -1 */
    double *bytes; /* of the node's results; -1: unknown */
    int *waiting; /* inputs not placed yet */
    int *left; /* unplaced nodes that use its storage */
    int *all_waiting, *all_left; /* initial values of both */
    int *rank, *by_rank; /* the base order: rank of a position, and its inverse */
    int *users, *users_at; /* positions that use position p: users[users_at[p] .. users_at[p+1]) */
    int *uses, *uses_at; /* and roots that position p uses, without duplicates */
    int *seen; /* by position: the last user + 1 */
    bool *placed;
    int64_t *heap; /* of ready nodes: class * n + rank */
    int64_t size, cap;
    int *out, *best;
    double held, peak; /* bytes in use; peak */
} scheduler;

enum { FREES, PLAIN, WRITES };

static mf_node *node_order_input_at(const mf_node *n, int i)
{
    return i < n->n_inputs ? n->inputs[i].node : n->controls[i - n->n_inputs];
}

/* ---- results and uses of nodes ---- */

/* Takes a variable and returns nothing, or the variable. */
static bool is_write(const mf_node *n)
{
    bool handle = false;

    for (int i = 0; i < n->n_inputs; i++)
        handle = handle || mf_type_is_ref(n->in_types[i]) || n->in_types[i] == MF_DTYPE_RESOURCE;
    for (int i = 0; i < n->n_outputs; i++)
        handle = handle && mf_type_is_ref(n->out_types[i]);
    return handle;
}

static bool is_view(const mf_node *n)
{
    return mf_node_kernel(n)->flags & MF_OP_VIEW && n->n_inputs > 0;
}

static double node_order_bytes_of(const scheduler *s, const mf_node *n)
{
    double sum = 0;

    for (int i = 0; i < n->n_outputs && !is_view(n); i++) {
        const double bytes = mf_compile_bytes(s->c, n, i);

        if (bytes < 0)
            return -1;
        sum += bytes;
    }
    return sum;
}

/* The position that owns the storage of input k; -1: another region, or a constant. */
static int node_order_root_of(const scheduler *s, const mf_node *n, int k)
{
    const int at = s->at[n->inputs[k].node->id];

    return at > 0 ? s->root[at - 1] : -1;
}

/* Several inputs may share storage. */
static void note_uses(scheduler *s, int p)
{
    const mf_node *n = s->nodes[p];

    s->uses_at[p + 1] = s->uses_at[p];
    for (int k = 0; k < n->n_inputs; k++) {
        const int root = node_order_root_of(s, n, k);

        if (root < 0 || s->seen[root] == p + 1)
            continue;
        s->seen[root] = p + 1;
        s->uses[s->uses_at[p + 1]++] = root;
        s->all_left[root]++;
    }
}

static bool is_left(const scheduler *s, const mf_node *n)
{
    for (int i = 0; s->leaves[n->id] && i < n->n_outputs; i++) {
        if (s->leaves[n->id][i])
            return true;
    }
    return false;
}

static void node_order_look(scheduler *s)
{
    for (int p = 0; p < s->n; p++) {
        const mf_node *n = s->nodes[p];

        s->root[p] = is_view(n) ? node_order_root_of(s, n, 0) : p;
        s->bytes[p] = node_order_bytes_of(s, n);
        s->next_view[p] = -1;
        if (s->root[p] >= 0 && s->root[p] != p) {
            s->next_view[p] = s->next_view[s->root[p]];
            s->next_view[s->root[p]] = p;
        }
        if (s->root[p] >= 0)
            s->all_left[s->root[p]] += is_left(s, n); /* never the last use */
        note_uses(s, p);
        for (int k = 0; k < n->n_inputs + n->n_controls; k++)
            s->all_waiting[p] += s->at[node_order_input_at(n, k)->id] != 0;
    }
}

static void count_users(scheduler *s, int *users_at, int *users)
{
    for (int64_t p = 0; p < s->n; p++) {
        const mf_node *n = s->nodes[p];

        for (int k = 0; k < n->n_inputs + n->n_controls; k++) {
            const int from = s->at[node_order_input_at(n, k)->id];

            if (from == 0)
                continue;
            if (users)
                users[users_at[from - 1]++] = (int)p;
            else
                users_at[from]++;
        }
    }
}

static void index_users(scheduler *s)
{
    count_users(s, s->users_at, NULL);
    for (int64_t p = 0; p < s->n; p++)
        s->users_at[p + 1] += s->users_at[p];
    count_users(s, s->users_at, s->users);
    for (int64_t p = s->n; p > 0; p--)
        s->users_at[p] = s->users_at[p - 1];
    s->users_at[0] = 0;
}

/* ---- ready nodes ---- */

static mf_status node_order_heap_push(scheduler *s, int64_t key)
{
    int64_t i = s->size;

    MF_TRY(mf_grow(&s->heap, &s->cap, s->size + 1, sizeof *s->heap));
    s->size++;
    for (; i > 0 && s->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = key;
    return MF_OK;
}

static int64_t node_order_heap_pop(scheduler *s)
{
    const int64_t top = s->heap[0], key = s->heap[--s->size];
    int64_t i = 0, k;

    while ((k = 2 * i + 1) < s->size) {
        k += k + 1 < s->size && s->heap[k + 1] < s->heap[k];
        if (key <= s->heap[k])
            break;
        s->heap[i] = s->heap[k];
        i = k;
    }
    s->heap[i] = key;
    return top;
}

/* Bytes that become free after this node. */
static double freed_by(const scheduler *s, int p)
{
    double freed = 0;

    for (int u = s->uses_at[p]; u < s->uses_at[p + 1]; u++) {
        if (s->left[s->uses[u]] == 1 && s->bytes[s->uses[u]] > 0)
            freed += s->bytes[s->uses[u]];
    }
    return freed;
}

static int node_order_class_of(const scheduler *s, int p)
{
    if (is_write(s->nodes[p]))
        return WRITES;
    return s->bytes[p] >= 0 && s->bytes[p] <= freed_by(s, p) ? FREES : PLAIN;
}

static mf_status node_order_could_run(scheduler *s, int p)
{
    return node_order_heap_push(s, node_order_class_of(s, p) * s->n + s->rank[p]);
}

/* Only one node that uses the storage remains: it may now free more than it allocates. It is then
 * in the heap twice. */
static mf_status add_last_user(scheduler *s, int root)
{
    for (int v = root; v >= 0; v = s->next_view[v]) {
        for (int u = s->users_at[v]; u < s->users_at[v + 1]; u++) {
            const int p = s->users[u];

            if (!s->placed[p] && s->waiting[p] == 0 && node_order_class_of(s, p) == FREES)
                MF_TRY(node_order_heap_push(s, s->rank[p]));
        }
    }
    return MF_OK;
}

/* Results are allocated before inputs are freed, unless computed in place. */
static void node_order_hold(scheduler *s, int p)
{
    const mf_node *n = s->nodes[p];
    const double made = s->bytes[p] > 0 ? s->bytes[p] : 0, freed = freed_by(s, p);
    const double now =
        s->held + (mf_node_kernel(n)->flags & MF_OP_INPLACE && freed >= made ? 0 : made);

    s->peak = now > s->peak ? now : s->peak;
    s->held += made - freed;
}

static mf_status node_order_place(scheduler *s, int p, int64_t *n_placed)
{
    node_order_hold(s, p);
    s->placed[p] = true;
    s->out[(*n_placed)++] = p;
    for (int u = s->uses_at[p]; u < s->uses_at[p + 1]; u++) {
        if (--s->left[s->uses[u]] == 1)
            MF_TRY(add_last_user(s, s->uses[u]));
    }
    for (int u = s->users_at[p]; u < s->users_at[p + 1]; u++) {
        if (--s->waiting[s->users[u]] == 0)
            MF_TRY(node_order_could_run(s, s->users[u]));
    }
    return MF_OK;
}

static mf_status node_order_place_all(scheduler *s)
{
    int64_t n_placed = 0;

    s->held = s->peak = 0;
    memcpy(s->waiting, s->all_waiting, (size_t)s->n * sizeof *s->waiting);
    memcpy(s->left, s->all_left, (size_t)s->n * sizeof *s->left);
    memset(s->placed, 0, (size_t)s->n * sizeof *s->placed);
    for (int p = 0; p < s->n; p++) {
        if (s->waiting[p] == 0)
            MF_TRY(node_order_could_run(s, p));
    }
    while (s->size > 0) {
        const int p = s->by_rank[node_order_heap_pop(s) % s->n];

        if (!s->placed[p])
            MF_TRY(node_order_place(s, p, &n_placed));
    }
    MF_ASSERT(n_placed == s->n);
    return MF_OK;
}

/* ---- base orders ---- */

static void rank_as_given(scheduler *s)
{
    for (int p = 0; p < s->n; p++)
        s->rank[p] = s->by_rank[p] = p;
}

/* The length of the longest path to this node; `count` is scratch. */
static void rank_by_depth(scheduler *s, int *depth, int *count)
{
    int deepest = 0;

    for (int p = 0; p < s->n; p++) {
        const mf_node *n = s->nodes[p];

        depth[p] = 0;
        for (int k = 0; k < n->n_inputs + n->n_controls; k++) {
            const int from = s->at[node_order_input_at(n, k)->id] - 1;

            if (from >= 0 && depth[from] >= depth[p])
                depth[p] = depth[from] + 1;
        }
        deepest = depth[p] > deepest ? depth[p] : deepest;
    }
    memset(count, 0, (size_t)(deepest + 2) * sizeof *count);
    for (int p = 0; p < s->n; p++)
        count[depth[p] + 1]++;
    for (int d = 0; d <= deepest; d++)
        count[d + 1] += count[d];
    for (int p = 0; p < s->n; p++) {
        s->rank[p] = count[depth[p]]++;
        s->by_rank[s->rank[p]] = p;
    }
}

static mf_status find_best(scheduler *s)
{
    double peak;

    rank_as_given(s);
    MF_TRY(node_order_place_all(s));
    memcpy(s->best, s->out, (size_t)s->n * sizeof *s->best);
    peak = s->peak;
    rank_by_depth(s, s->out, s->waiting);
    MF_TRY(node_order_place_all(s));
    if (s->peak < peak - peak / 16) /* path by path is better for caches */
        memcpy(s->best, s->out, (size_t)s->n * sizeof *s->best);
    return MF_OK;
}

/* ---- the schedule ---- */

static mf_status node_order_begin(scheduler *s)
{
    int **const by_position[] = { &s->root,        &s->next_view, &s->waiting,  &s->left,
                                  &s->all_waiting, &s->all_left,  &s->rank,     &s->by_rank,
                                  &s->out,         &s->best,      &s->users_at, &s->uses_at,
                                  &s->seen };
    int64_t edges = 0;

    for (int64_t i = 0; i < s->n; i++)
        edges += s->nodes[i]->n_inputs + s->nodes[i]->n_controls;
    s->at = mf_calloc(s->c->graph->n_nodes, sizeof *s->at);
    s->bytes = mf_calloc(s->n, sizeof *s->bytes);
    s->users = mf_calloc(edges, sizeof *s->users);
    s->uses = mf_calloc(edges, sizeof *s->uses);
    s->placed = mf_calloc(s->n, sizeof *s->placed);
    for (int i = 0; i < MF_COUNT(by_position); i++) {
        *by_position[i] = mf_calloc(s->n + 2, sizeof **by_position[i]);
        if (!*by_position[i])
            return MF_NOMEM("compiling");
    }
    return s->at && s->bytes && s->users && s->uses && s->placed ? MF_OK : MF_NOMEM("compiling");
}

static void node_order_end(scheduler *s)
{
    mf_free(s->at);
    mf_free(s->root);
    mf_free(s->next_view);
    mf_free(s->bytes);
    mf_free(s->waiting);
    mf_free(s->left);
    mf_free(s->all_waiting);
    mf_free(s->all_left);
    mf_free(s->rank);
    mf_free(s->by_rank);
    mf_free(s->users);
    mf_free(s->users_at);
    mf_free(s->uses);
    mf_free(s->uses_at);
    mf_free(s->seen);
    mf_free(s->placed);
    mf_free(s->heap);
    mf_free(s->out);
    mf_free(s->best);
}

static mf_status node_order_sort(mf_node **nodes, const int *order, int64_t n)
{
    mf_node **given = mf_calloc(n, sizeof *given);

    if (!given)
        return MF_NOMEM("compiling");
    memcpy(given, nodes, (size_t)n * sizeof *nodes);
    for (int64_t i = 0; i < n; i++)
        nodes[i] = given[order[i]];
    mf_free(given);
    return MF_OK;
}

mf_status mf_region_schedule(const mf_compile *c, mf_node **nodes, int64_t n, bool *const *leaves)
{
    scheduler s = { .c = c, .nodes = nodes, .n = n, .leaves = leaves };
    mf_status st = node_order_begin(&s);

    if (st == MF_OK) {
        for (int64_t i = 0; i < n; i++)
            s.at[nodes[i]->id] = (int)i + 1;
        node_order_look(&s);
        index_users(&s);
        st = find_best(&s);
    }
    if (st == MF_OK)
        st = node_order_sort(nodes, s.best, n);
    node_order_end(&s);
    return st;
}
