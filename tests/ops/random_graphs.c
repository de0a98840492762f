/* SPDX-License-Identifier: Apache-2.0 */
/* random_graphs.c - graphs of random ops whose nodes share inputs, through compile, plan and run.
 * Ops and first values come from the ops' samples. Inputs are chosen from existing nodes, possibly
 * repeatedly, if types and shapes match.
 *
 * A graph may be refused or fail. It must not crash, hang, or end with an internal error. If it
 * succeeds, compiler passes must not change any bit of the results.
 *
 * GRAPHS=10000: the number of graphs (default: 200). SEED=2: the random seed. GRAPHS_TO=DIR writes
 * the graphs to a directory. */
#include "base/quota.h"
#include "compiler/compiler.h"
#include "mf_test.h"
#include "op_harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BATCH = 25, /* graphs of one process */
    PATIENCE_S = 300, /* for a batch */
    TIMEOUT_MS = 10000, /* of a run */
    NODES = 24,
    POOL = 256, /* outputs that can be inputs */
    COPIES = 40, /* maximum number of inputs of a list argument */
    FEEDS = 128,
    INPUTS = COPIES + MF_SAMPLE_INPUTS,
};

typedef struct value {
    mf_output o;
    mf_dtype type;
    mf_shape shape;
} value;

typedef struct maker {
    uint64_t state; /* of the random numbers */
    mf_compile c; /* shapes of existing nodes */
    mf_graph *graph;
    mf_node *init;
    value pool[POOL];
    int n_pool;
    char names[FEEDS][16];
    const char *feed_names[FEEDS];
    mf_tensor *feeds[FEEDS];
    int n_feeds;
    bool unordered; /* results of two runs may differ */
} maker;

static int draw(maker *m, int n)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->state >> 33) % (uint64_t)n);
}

/* ---- values ---- */

/* Adds the outputs with their inferred shapes to the pool. False: inference refuses the node. */
static bool add_outputs(maker *m, mf_node *n)
{
    if (mf_infer_more(&m->c) != MF_OK)
        return false;
    for (int i = 0; i < n->n_outputs && m->n_pool < POOL; i++) {
        const mf_dtype t = n->out_types[i];

        if (!mf_type_is_ref(t) && (mf_dtype_is_plain(t) || t == MF_DTYPE_STRING))
            m->pool[m->n_pool++] = (value){ { n, i }, t, mf_compile_facts(&m->c, n)->shapes[i] };
    }
    return true;
}

static mf_output add_fed(maker *m, const mf_tensor *v)
{
    char text[MF_SHAPE_TEXT];
    mf_output o;

    if (m->n_feeds == FEEDS ||
        mf_tensor_new(v->dtype, v->shape.dims, v->shape.rank, &m->feeds[m->n_feeds]) != MF_OK)
        return mf_constant(m->graph, v, NULL);
    mf_tensor_set(m->feeds[m->n_feeds], v);
    (void)snprintf(m->names[m->n_feeds], sizeof m->names[0], "in%d", m->n_feeds);
    m->feed_names[m->n_feeds] = m->names[m->n_feeds];
    o = mf_applyf(m->graph, "Placeholder", MF_NO_IN, "dtype=%s shape=shape%s name='%s'",
                  mf_dtype_name(v->dtype), draw(m, 4) ? mf_shape_text(&v->shape, text) : "?",
                  m->names[m->n_feeds]);
    m->n_feeds++;
    return o;
}

static mf_output add_variable(maker *m, const mf_tensor *v)
{
    char text[MF_SHAPE_TEXT];
    const mf_output handle = mf_applyf(m->graph, "VarHandleOp", MF_NO_IN, "dtype=%s shape=shape%s",
                                       mf_dtype_name(v->dtype), mf_shape_text(&v->shape, text));

    if (handle.node)
        mf_control(
            m->graph, m->init,
            mf_apply(m->graph, "AssignVariableOp", MF_IN(handle, mf_constant(m->graph, v, NULL)))
                .node);
    m->unordered = true;
    return handle;
}

static mf_output add_value(maker *m, const mf_tensor *v)
{
    const mf_output o = draw(m, 2) ? add_fed(m, v) : mf_constant(m->graph, v, NULL);

    if (o.node && m->n_pool < POOL)
        m->pool[m->n_pool++] = (value){ o, v->dtype, v->shape };
    return o;
}

/* An output of the pool that can replace v; with `exact`, one of equal shape. */
static bool find_value(maker *m, const mf_tensor *v, bool exact, mf_output *out)
{
    int n = 0;

    for (int i = 0; i < m->n_pool; i++) {
        const value *p = &m->pool[i];

        if (p->type == v->dtype &&
            (exact ? mf_shape_equal(&p->shape, &v->shape)
                   : mf_shape_compatible(&p->shape, &v->shape)) &&
            draw(m, ++n) == 0)
            *out = p->o;
    }
    return n > 0;
}

/* The effect of an op depends on the values of integers, so other nodes rarely replace integers. */
static mf_output input_for(maker *m, const mf_tensor *v)
{
    const bool is_number = mf_dtype_is_float(v->dtype);
    mf_output o;

    if (draw(m, is_number ? 8 : 2) > 0 && draw(m, is_number ? 8 : 4) > 0 &&
        find_value(m, v, draw(m, 4) > 0, &o))
        return o;
    return add_value(m, v);
}

/* ---- nodes ---- */

static bool is_usable(const mf_op *op)
{
    const mf_opdef *def;

    if (!op->samples || !op->run || op->control != MF_CONTROL_NONE || mf_op_def(op, &def) != MF_OK)
        return false;
    for (int i = 0; i < def->n_in; i++) {
        if (def->in[i].is_ref)
            return false;
    }
    return true;
}

/* The op's inputs. List arguments sometimes get many inputs. */
static int collect_inputs(maker *m, const mf_opdef *def, const mf_sample *s, mf_output *in,
                          bool *counted)
{
    const bool many = def->n_in == 1 && def->in[0].number_attr && s->n_in > 0 && draw(m, 2);
    const int n = many ? 2 + draw(m, COPIES - 1) : s->n_in;

    for (int i = 0; i < n; i++) {
        const mf_sample_input *of = &s->in[i % s->n_in];

        in[i] = of->is_variable ? add_variable(m, &of->value) : input_for(m, &of->value);
        if (many && draw(m, 4) > 0 && i > 0)
            in[i] = in[i - 1];
    }
    *counted = many;
    in[n] = (mf_output)MF_END;
    return n;
}

/* Removes the attribute for the number of inputs. */
static void drop_number(const mf_opdef *def, char *attrs)
{
    char *at = strstr(attrs, def->in[0].number_attr);

    if (at && at[strlen(def->in[0].number_attr)] == '=') {
        char *end = at + strcspn(at, " ");

        memmove(at, end, strlen(end) + 1);
    }
}

static void add_node(maker *m, const mf_op *op, const char *text)
{
    mf_output in[INPUTS + 1], o;
    const mf_opdef *def;
    mf_sample s;
    bool many = false;

    if (mf_sample_parse(text, m->state, &s) == MF_OK && !s.fails && mf_op_def(op, &def) == MF_OK) {
        collect_inputs(m, def, &s, in, &many);
        if (many)
            drop_number(def, s.attrs);
        o = mf_applyf(m->graph, op->name, in, "%s", s.attrs);
        m->unordered = m->unordered || s.unordered || def->is_stateful;
        if (o.node && m->n_pool > 0 && draw(m, 6) == 0)
            mf_control(m->graph, o.node, m->pool[draw(m, m->n_pool)].o.node);
        if (o.node)
            (void)!add_outputs(m, o.node);
    }
    mf_sample_deinit(&s);
}

/* One value through both branches of a Switch, and a Merge. */
static void add_switch(maker *m)
{
    const value *v = m->n_pool > 0 ? &m->pool[draw(m, m->n_pool)] : NULL;
    mf_output pred, sw, sides[2];

    if (!v)
        return;
    pred = mf_scalar(m->graph, MF_DTYPE_BOOL, draw(m, 2));
    sw = mf_apply(m->graph, "Switch", MF_IN(v->o, pred));
    for (int i = 0; i < 2 && sw.node; i++) {
        const mf_output side = { sw.node, i };

        sides[i] = mf_dtype_is_float(v->type) ? mf_apply(m->graph, "AddV2", MF_IN(side, v->o))
                                              : mf_apply(m->graph, "Identity", MF_IN(side));
    }
    if (sw.node)
        sw = mf_apply(m->graph, "Merge", MF_IN(sides[0], sides[1]));
    if (sw.node)
        (void)!add_outputs(m, sw.node);
}

static void make(maker *m)
{
    int n_ops;
    const mf_op *const *ops = mf_op_all(&n_ops);

    m->init = mf_applyf(m->graph, "NoOp", MF_NO_IN, "name='init'").node;
    for (int n = 2 + draw(m, NODES); n > 0; n--) {
        const mf_op *op = ops[draw(m, n_ops)];
        int n_samples = 0;

        if (draw(m, 12) == 0)
            add_switch(m);
        if (!is_usable(op))
            continue;
        while (op->samples[n_samples])
            n_samples++;
        for (int copies = 1 + draw(m, 3); copies > 0; copies--) /* in parallel */
            add_node(m, op, op->samples[draw(m, n_samples)]);
    }
}

/* ---- runs ---- */

static mf_status run(const maker *m, const char *disable, int threads, const char *const *fetches,
                     int n, mf_answer *out)
{
    const mf_session_options options = { .threads = threads, .disable = disable };
    const mf_run_options limits = { .timeout_ms = TIMEOUT_MS };
    const char *init = "init";
    mf_session *s;
    mf_status st;

    *out = (mf_answer){ .n = n };
    MF_TRY(mf_session_new(m->graph, &options, &s));
    st = mf_session_run(s, &limits, NULL, NULL, 0, NULL, 0, &init, 1, NULL);
    if (st == MF_OK)
        st = mf_session_run(s, &limits, m->feed_names, (const mf_tensor *const *)m->feeds,
                            m->n_feeds, fetches, n, NULL, 0, out->out);
    mf_session_free(s);
    return st;
}

static bool run_both(maker *m)
{
    char names[MF_CASE_OUTPUTS][300];
    const char *fetches[MF_CASE_OUTPUTS];
    mf_answer a, b;
    mf_status first, second;
    int n = 0;
    bool good;

    while (n < MF_CASE_OUTPUTS && n < m->n_pool) { /* mostly the last nodes, which depend on the
                                                      others */
        const int back = draw(m, 1 + draw(m, m->n_pool));
        const mf_output o = m->pool[m->n_pool - 1 - back].o;

        (void)snprintf(names[n], sizeof names[n], "%s:%d", mf_node_name(o.node), o.port);
        fetches[n] = names[n];
        n++;
    }
    first = run(m, NULL, 2, fetches, n, &a);
    good = first != MF_INTERNAL;
    second = good ? run(m, "fold,simplify,cse,fuse,region,schedule,place", 1, fetches, n, &b)
                  : MF_INTERNAL;
    if (!good || second == MF_INTERNAL)
        (void)fprintf(stderr, "  %s\n", mf_error_message());
    good = good && second != MF_INTERNAL;
    if (good && first == MF_OK && second == MF_OK && !m->unordered && !mf_answer_equal(&a, &b)) {
        (void)fprintf(stderr, "  passes change the results\n");
        good = false;
    }
    mf_answer_deinit(&a);
    if (first != MF_INTERNAL)
        mf_answer_deinit(&b);
    return good;
}

static void save(const mf_graph *g, int number)
{
    const char *dir = getenv("GRAPHS_TO");
    char path[300];

    if (!dir)
        return;
    (void)snprintf(path, sizeof path, "%s/random%05d.pb", dir, number);
    if (mf_graph_save(g, path) != MF_OK)
        (void)fprintf(stderr, "  %s\n", mf_error_message());
}

/* *done counts the graphs that were built. */
static bool try_graph(int number, uint64_t seed, int *done)
{
    maker *m = calloc(1, sizeof *m);
    bool good = m && mf_graph_new(&m->graph) == MF_OK;

    if (good) {
        m->state = seed * 1000003 + (uint64_t)number;
        (void)draw(m, 2);
        m->c.graph = m->graph;
        make(m);
        if (mf_graph_status(m->graph) == MF_OK) {
            save(m->graph, number);
            good = run_both(m);
            ++*done;
        }
        for (int i = 0; i < m->n_feeds; i++)
            mf_tensor_free(m->feeds[i]);
        mf_graph_free(m->graph);
    }
    free(m);
    return good;
}

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

/* at: for the parent, the current graph and the number of built graphs. */
static void try_batch(int first, int n, int *at)
{
    bool good = true;

    alarm(PATIENCE_S);
    mf_quota_set((int64_t)64 << 20);
    for (int i = first; i < first + n; i++) {
        at[0] = i;
        if (!try_graph(i, (uint64_t)setting("SEED", 1), &at[1])) {
            (void)fprintf(stderr, "graph %d\n", i);
            good = false;
        }
    }
    exit(good ? 0 : 1);
}

MF_TEST_TIMEOUT(random_graphs_whose_nodes_share_inputs_compile_plan_and_run, 7200)
{
    const int n = setting("GRAPHS", 200);
    int *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = 0, status;

    T_TRUE(at != MAP_FAILED);
    for (int first = 0; first < n; first += BATCH) {
        const pid_t pid = fork();

        if (pid == 0)
            try_batch(first, n - first < BATCH ? n - first : BATCH, at);
        T_TRUE(pid > 0 && waitpid(pid, &status, 0) == pid);
        if (WIFSIGNALED(status))
            (void)fprintf(stderr, "graph %d: %s\n", at[0], strsignal(WTERMSIG(status)));
        else if (status != 0)
            (void)fprintf(stderr, "graph %d, or one before it: exit status %d\n", at[0],
                          WEXITSTATUS(status));
        failed += status != 0;
    }
    T_EQ(failed, 0);
    T_TRUE(at[1] > n / 2); /* most graphs were built */
    munmap(at, 4096);
}
