/* SPDX-License-Identifier: Apache-2.0 */
/* every_split.c - the split rule of an op is correct: on its samples, under random meshes and
 * layouts, it gives the results of one device. Floats are fed, integers (axes, shapes, indices) are
 * constants. Every dimension has its own name, so that each can be split. To test one op: OP=MatMul
 * make test T=every_split */
#include "compiler/compiler.h"
#include "graph/split.h"
#include "mf_test.h"
#include "op_harness.h"
#include "unit/spmd/mesh_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 6, NAMES = 256 };

static const char *const MESHES[] = { "a:2", "a:3", "a:3,1", "a:2;b:3", "a:4", "a:1,2;b:2" };

typedef struct trial {
    const mf_op *op;
    const char *text; /* the sample */
    double tolerance; /* of the sample; 0: default */
    mf_graph *graph;
    mf_output in[MF_SAMPLE_INPUTS];
    mf_node *node;
    const char *feed_names[MF_SAMPLE_INPUTS];
    const mf_tensor *feeds[MF_SAMPLE_INPUTS];
    int n_feeds;
    char fetches[2 * MF_SAMPLE_INPUTS][64];
    int n_fetches, n_variables, out_rank;
} trial;

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* ---- the graph ---- */

static bool is_constant(const mf_sample_input *in)
{
    return mf_dtype_is_int(in->value.dtype) && !in->is_variable;
}

static void add_input(trial *t, const mf_sample_input *in, int i, mf_node *init)
{
    const mf_tensor *v = &in->value;
    char shape[MF_SHAPE_TEXT], names[NAMES] = "";

    if (is_constant(in)) {
        t->in[i] = mf_constant(t->graph, v, NULL);
    } else if (in->is_variable) {
        t->in[i] =
            mf_applyf(t->graph, "VarHandleOp", MF_NO_IN, "dtype=%s shape=shape%s name='in%d'",
                      mf_dtype_name(v->dtype), mf_shape_text(&v->shape, shape), i);
        mf_control(
            t->graph, init,
            mf_apply(t->graph, "AssignVariableOp", MF_IN(t->in[i], mf_constant(t->graph, v, NULL)))
                .node);
        t->n_variables++;
    } else {
        t->in[i] =
            mf_applyf(t->graph, "Placeholder", MF_NO_IN, "dtype=%s shape=shape%s name='in%d'",
                      mf_dtype_name(v->dtype), mf_shape_text(&v->shape, shape), i);
        t->feed_names[t->n_feeds] = mf_node_name(t->in[i].node);
        t->feeds[t->n_feeds++] = v;
    }
    for (int d = 0; d < v->shape.rank; d++)
        (void)snprintf(names + strlen(names), NAMES - strlen(names), "%si%dd%d", d ? "," : "", i,
                       d);
    if (v->shape.rank > 0 && !is_constant(in))
        mf_name_dims(t->graph, t->in[i], names);
}

/* "o0,o1", if its rank is known. */
static int name_output(trial *t)
{
    mf_compile c = { 0 };
    mf_output out = { t->node, 0 };
    char names[NAMES] = "";
    int rank = 0;

    if (t->node->n_outputs == 1 && mf_graph_copy(t->graph, NULL, &c.graph) == MF_OK) {
        if (mf_infer_graph(&c) == MF_OK)
            rank = mf_compile_facts(&c, mf_graph_find(c.graph, "op"))->shapes[0].rank;
        mf_compile_end(&c);
    }
    for (int d = 0; d < rank; d++)
        (void)snprintf(names + strlen(names), NAMES - strlen(names), "%so%d", d ? "," : "", d);
    if (rank > 0)
        mf_name_dims(t->graph, out, names);
    return rank;
}

/* Outputs, and the values of variables after the run. */
static void add_fetches(trial *t, const mf_sample *s)
{
    for (int i = 0; i < t->node->n_outputs; i++)
        (void)snprintf(t->fetches[t->n_fetches++], sizeof t->fetches[0], "op:%d", i);
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].is_variable) {
            mf_output read =
                mf_applyf(t->graph, "ReadVariableOp", MF_IN(t->in[i]), "dtype=%s name='read%d'",
                          mf_dtype_name(s->in[i].value.dtype), i);

            mf_control(t->graph, read.node, t->node);
            (void)snprintf(t->fetches[t->n_fetches++], sizeof t->fetches[0], "read%d:0", i);
        }
    }
}

/* False: not supported on a mesh (references, strings, failing samples). */
static bool build(trial *t, const mf_sample *s)
{
    mf_output in[MF_SAMPLE_INPUTS + 1];
    const mf_opdef *def;
    mf_node *init;
    bool fit = mf_op_def(t->op, &def) == MF_OK && !s->fails && !s->unordered;

    for (int i = 0; fit && i < s->n_in; i++)
        fit = mf_dtype_is_plain(s->in[i].value.dtype) && !(i < def->n_in && def->in[i].is_ref);
    if (!fit)
        return false;
    T_OK(mf_graph_new(&t->graph));
    init = mf_applyf(t->graph, "NoOp", MF_NO_IN, "name='init'").node;
    for (int i = 0; i < s->n_in; i++) {
        add_input(t, &s->in[i], i, init);
        in[i] = t->in[i];
    }
    in[s->n_in] = (mf_output)MF_END;
    t->node = mf_applyf(t->graph, t->op->name, in, "name='op' %s", s->attrs).node;
    T_OK(mf_graph_status(t->graph));
    t->out_rank = name_output(t);
    add_fetches(t, s);
    T_OK(mf_graph_status(t->graph));
    return t->n_fetches > 0;
}

/* ---- running ---- */

static mf_status run(const trial *t, mf_session *s, mf_answer *out)
{
    const char *fetches[2 * MF_SAMPLE_INPUTS], *init = "init";

    *out = (mf_answer){ .n = t->n_fetches };
    for (int i = 0; i < t->n_fetches; i++)
        fetches[i] = t->fetches[i];
    MF_TRY(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    return mf_session_run(s, NULL, t->feed_names, t->feeds, t->n_feeds, fetches, t->n_fetches, NULL,
                          0, out->out);
}

/* Every axis splits one dimension of one or several inputs, and possibly of the output. */
static void write_layout(const trial *t, const mf_sample *s, int axes, uint64_t *seed,
                         char layout[NAMES])
{
    layout[0] = '\0';
    for (int a = 0; a < axes; a++) {
        for (int i = 0; i < s->n_in; i++) {
            const int rank = s->in[i].value.shape.rank;
            const int d = rank > 0 ? (int)(next(seed) % (uint64_t)rank) : 0;

            if (rank > 0 && !is_constant(&s->in[i]) && next(seed) % 3 != 0)
                (void)snprintf(layout + strlen(layout), NAMES - strlen(layout), "%si%dd%d:%c",
                               layout[0] ? ";" : "", i, d, 'a' + a);
        }
        if (t->out_rank > 0 && next(seed) % 2 != 0)
            (void)snprintf(layout + strlen(layout), NAMES - strlen(layout), "%so%d:%c",
                           layout[0] ? ";" : "", (int)(next(seed) % (uint64_t)t->out_rank),
                           'a' + a);
    }
}

static double tolerance(const trial *t, const mf_answer *a)
{
    double most = t->tolerance > 1e-5 ? t->tolerance : 1e-5;

    for (int i = 0; i < a->n; i++) {
        if (a->out[i]->dtype == MF_DTYPE_BF16)
            most = 3e-2;
        else if (a->out[i]->dtype == MF_DTYPE_F16 && most < 1e-2)
            most = 1e-2;
    }
    return most;
}

static bool near(const mf_answer *a, const mf_answer *b, double most)
{
    for (int i = 0; i < a->n; i++) {
        if (a->out[i]->dtype != b->out[i]->dtype ||
            !mf_shape_equal(&a->out[i]->shape, &b->out[i]->shape) ||
            mesh_distance(a->out[i], b->out[i]) > most)
            return false;
    }
    return true;
}

/* Some layouts are refused: a variable whose op does not support its sharding, or one axis for two
 * dimensions. */
static bool is_refused(mf_status st)
{
    return (st == MF_UNIMPLEMENTED && strstr(mf_error_message(), "does not support this split")) ||
           (st == MF_INVALID_ARGUMENT && strstr(mf_error_message(), "along the axis"));
}

static bool try_layout(const trial *t, const char *mesh, const char *layout, bool exact,
                       const mf_answer *want)
{
    const mf_mesh_options o = {
        .mesh = mesh, .layout = layout, .exact = exact, .session.threads = 1
    };
    mf_answer got = { 0 };
    mf_session *s = NULL;
    mf_status st = mf_mesh_session_new(t->graph, &o, &s);
    bool good;

    if (st == MF_OK)
        st = run(t, s, &got);
    good = st == MF_OK ? exact ? mf_answer_equal(want, &got) : near(want, &got, tolerance(t, want))
                       : is_refused(st);
    if (!good)
        mf_complain(t->op, t->text, "mesh %s, layout '%s'%s: %s", mesh, layout,
                    exact ? ", exact" : "", st == MF_OK ? "differs" : mf_error_message());
    mf_answer_deinit(&got);
    mf_session_free(s);
    return good;
}

static bool sample_holds(const mf_op *op, const char *text, const mf_sample *s, uint64_t seed)
{
    trial t = { .op = op, .text = text, .tolerance = s->tolerance };
    mf_answer want = { 0 };
    mf_session *one = NULL;
    bool good = true;

    if (!build(&t, s))
        return true;
    T_OK(mf_session_new(t.graph, &(mf_session_options){ .threads = 1 }, &one));
    if (run(&t, one, &want) == MF_OK) {
        for (int i = 0; good && i < ROUNDS; i++) {
            const char *mesh = MESHES[next(&seed) % (uint64_t)MF_COUNT(MESHES)];
            char layout[NAMES];

            write_layout(&t, s, strchr(mesh, ';') ? 2 : 1, &seed, layout);
            good = try_layout(&t, mesh, layout, false, &want) &&
                   try_layout(&t, mesh, layout, true, &want);
        }
    }
    mf_answer_deinit(&want);
    mf_session_free(one);
    mf_graph_free(t.graph);
    return good;
}

static bool split_holds(const mf_op *op)
{
    bool good = true;

    for (int i = 0; mf_op_split(op) && op->samples[i]; i++) {
        mf_sample s;

        if (mf_sample_parse(op->samples[i], (uint64_t)i + 1, &s) == MF_OK)
            good = sample_holds(op, op->samples[i], &s, (uint64_t)i * 77 + 5) && good;
        mf_sample_deinit(&s);
    }
    return good;
}

MF_TEST_TIMEOUT(every_split_gives_the_result_of_one_device, 300)
{
    T_EQ(mf_each_op("wrong when cut", split_holds), 0);
}
