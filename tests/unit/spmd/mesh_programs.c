/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_programs.c - random programs of random shapes, with their gradients, on random meshes under
 * random layouts. The results are those of one device, with equal bits if no reduced dimension is
 * split. */
#include "unit/spmd/mesh_test.h"

#include <stdio.h>
#include <string.h>

enum { INPUTS = 2, STEPS = 9, VALUES = INPUTS + STEPS, PROGRAMS = 100 };

typedef struct program {
    mf_graph *g;
    uint64_t seed;
    mf_output value[VALUES];
    mf_shape shape[VALUES];
    int n;
    char fetches[INPUTS + 1][32];
    int n_fetches;
} program;

static int64_t dice(program *p, int64_t n)
{
    p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((p->seed >> 33) % (uint64_t)n);
}

static mf_output ints1(program *p, int64_t i)
{
    return mf_ints(p->g, &i, 1);
}

static void add(program *p, mf_output o, mf_shape shape)
{
    p->value[p->n] = o;
    p->shape[p->n++] = shape;
}

/* ---- ops; each returns false if the value does not fit ---- */

static bool unary(program *p, int i)
{
    static const char *const ops[] = { "Tanh", "Neg", "Square", "Sigmoid" };

    add(p, mf_apply(p->g, ops[dice(p, MF_COUNT(ops))], MF_IN(p->value[i])), p->shape[i]);
    return true;
}

static bool binary(program *p, int i)
{
    static const char *const ops[] = { "AddV2", "Sub", "Mul", "Maximum" };
    mf_output other = p->value[i];

    for (int k = 0; k < p->n; k++) {
        if (k != i && mf_shape_equal(&p->shape[k], &p->shape[i]))
            other = p->value[k];
    }
    add(p, mf_apply(p->g, ops[dice(p, MF_COUNT(ops))], MF_IN(p->value[i], other)), p->shape[i]);
    return true;
}

static bool product(program *p, int i)
{
    const mf_shape *s = &p->shape[i];
    const int64_t n = 1 + dice(p, 7);
    mf_tensor *t;

    if (s->rank != 2)
        return false;
    t = mesh_numbers(&MF_SHAPE(s->dims[1], n), p->seed);
    add(p, mf_apply(p->g, "MatMul", MF_IN(p->value[i], mf_constant(p->g, t, NULL))),
        MF_SHAPE(s->dims[0], n));
    mf_tensor_free(t);
    return true;
}

static bool batch_product(program *p, int i)
{
    const mf_shape *s = &p->shape[i];

    if (s->rank != 3)
        return false;
    add(p, mf_applyf(p->g, "BatchMatMulV2", MF_IN(p->value[i], p->value[i]), "adj_y=true"),
        MF_SHAPE(s->dims[0], s->dims[1], s->dims[1]));
    return true;
}

static bool transpose(program *p, int i)
{
    const mf_shape *s = &p->shape[i];
    mf_shape out = *s;
    int64_t perm[MF_MAX_RANK];

    if (s->rank < 2)
        return false;
    for (int d = 0; d < s->rank; d++)
        perm[d] = (d + 1) % s->rank;
    for (int d = 0; d < s->rank; d++)
        out.dims[d] = s->dims[perm[d]];
    add(p, mf_apply(p->g, "Transpose", MF_IN(p->value[i], mf_ints(p->g, perm, s->rank))), out);
    return true;
}

/* Merges two adjacent dimensions, or splits one. */
static bool reshape(program *p, int i)
{
    const mf_shape *s = &p->shape[i];
    const int d = s->rank > 0 ? (int)dice(p, s->rank) : 0;
    mf_shape out = *s;

    if (s->rank > 1 && d + 1 < s->rank) {
        out.dims[d] *= out.dims[d + 1];
        for (int k = d + 1; k + 1 < s->rank; k++)
            out.dims[k] = s->dims[k + 1];
        out.rank--;
    } else if (s->rank > 0 && s->rank < 4 && s->dims[d] % 2 == 0) {
        for (int k = s->rank; k > d + 1; k--)
            out.dims[k] = s->dims[k - 1];
        out.dims[d] = s->dims[d] / 2;
        out.dims[d + 1] = 2;
        out.rank++;
    } else {
        return false;
    }
    add(p, mf_apply(p->g, "Reshape", MF_IN(p->value[i], mf_ints(p->g, out.dims, out.rank))), out);
    return true;
}

static bool reduce(program *p, int i)
{
    static const char *const ops[] = { "Sum", "Mean", "Max" };
    const mf_shape *s = &p->shape[i];
    const int64_t d = s->rank > 0 ? dice(p, s->rank) : 0;
    const bool keep = dice(p, 2);
    mf_shape out = { .rank = 0 };

    if (s->rank < 2)
        return false;
    for (int k = 0; k < s->rank; k++) {
        if (k != d || keep)
            out.dims[out.rank++] = k == d ? 1 : s->dims[k];
    }
    add(p,
        mf_applyf(p->g, ops[dice(p, MF_COUNT(ops))], MF_IN(p->value[i], ints1(p, d)),
                  "keep_dims=%s", keep ? "true" : "false"),
        out);
    return true;
}

static bool concat(program *p, int i)
{
    mf_shape out = p->shape[i];
    const int64_t d = out.rank > 0 ? dice(p, out.rank) : 0;

    if (out.rank < 1)
        return false;
    out.dims[d] *= 2;
    add(p,
        mf_apply(p->g, "ConcatV2",
                 MF_IN(p->value[i], p->value[i], mf_scalar(p->g, MF_DTYPE_I32, (double)d))),
        out);
    return true;
}

static bool slice(program *p, int i)
{
    mf_shape out = p->shape[i];
    const int64_t d = out.rank > 0 ? dice(p, out.rank) : 0;
    int64_t begin[MF_MAX_RANK] = { 0 };

    if (out.rank < 1 || out.dims[d] < 3)
        return false;
    begin[d] = 1;
    out.dims[d] -= 2;
    add(p,
        mf_apply(
            p->g, "Slice",
            MF_IN(p->value[i], mf_ints(p->g, begin, out.rank), mf_ints(p->g, out.dims, out.rank))),
        out);
    return true;
}

static bool softmax(program *p, int i)
{
    if (p->shape[i].rank < 1)
        return false;
    add(p, mf_apply(p->g, "Softmax", MF_IN(p->value[i])), p->shape[i]);
    return true;
}

/* The sum of two products: one reduction. */
static bool sum_of_products(program *p, int i)
{
    const mf_shape *s = &p->shape[i];

    if (s->rank != 2)
        return false;
    if (!product(p, i))
        return false;
    p->value[p->n - 1] = mf_apply(
        p->g, "AddV2", MF_IN(p->value[p->n - 1], mf_apply(p->g, "Neg", MF_IN(p->value[p->n - 1]))));
    return true;
}

static bool scan(program *p, int i)
{
    const int rank = p->shape[i].rank;
    const bool exclusive = dice(p, 2), reverse = dice(p, 2);

    if (rank < 1)
        return false;
    add(p,
        mf_applyf(p->g, "Cumsum",
                  MF_IN(p->value[i], mf_scalar(p->g, MF_DTYPE_I32, (double)dice(p, rank))),
                  "exclusive=%s reverse=%s", exclusive ? "true" : "false",
                  reverse ? "true" : "false"),
        p->shape[i]);
    return true;
}

/* Selects rows by tuples of one or two indices. */
static bool choose(program *p, int i)
{
    enum { ROWS = 5 };
    const mf_shape *s = &p->shape[i];
    const int depth = 1 + (int)dice(p, 2);
    mf_shape out = { .rank = 1, .dims = { ROWS } };
    int64_t at[2 * ROWS];

    if (s->rank < depth)
        return false;
    for (int k = 0; k < ROWS * depth; k++)
        at[k] = dice(p, s->dims[k % depth]);
    for (int d = depth; d < s->rank; d++)
        out.dims[out.rank++] = s->dims[d];
    add(p,
        mf_apply(p->g, "GatherNd",
                 MF_IN(p->value[i], mf_apply(p->g, "Reshape",
                                             MF_IN(mf_ints(p->g, at, ROWS * depth),
                                                   mf_ints(p->g, (int64_t[]){ ROWS, depth }, 2))))),
        out);
    return true;
}

/* Average pooling; the value is an image with one channel. */
static bool pool(program *p, int i)
{
    const int64_t size = 2 + dice(p, 2), stride = 1 + dice(p, 2);
    mf_shape s = p->shape[i];
    mf_output x;

    if (s.rank != 3)
        return false;
    x = mf_apply(p->g, "ExpandDims", MF_IN(p->value[i], mf_scalar(p->g, MF_DTYPE_I32, 3)));
    x = mf_applyf(p->g, "AvgPool", MF_IN(x), "ksize=[1,%d,%d,1] strides=[1,%d,%d,1] padding='SAME'",
                  (int)size, (int)size, (int)stride, (int)stride);
    for (int d = 1; d < 3; d++)
        s.dims[d] = (s.dims[d] + stride - 1) / stride;
    add(p, mf_apply(p->g, "Reshape", MF_IN(x, mf_ints(p->g, s.dims, 3))), s);
    return true;
}

static bool (*const STEP[])(program *p,
                            int i) = { unary,           binary, product, batch_product, transpose,
                                       reshape,         reduce, concat,  slice,         softmax,
                                       sum_of_products, scan,   choose,  pool };

/* ---- programs ---- */

static void name_dims(program *p, int i, char tag)
{
    char names[64] = "";

    for (int d = 0; d < p->shape[i].rank; d++)
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%c%d", d ? "," : "",
                       tag, d);
    if (p->shape[i].rank > 0)
        mf_name_dims(p->g, p->value[i], names);
}

static void build(program *p)
{
    mf_output d[INPUTS], last;

    T_OK(mf_graph_new(&p->g));
    for (int i = 0; i < INPUTS; i++) {
        mf_shape s = { .rank = 2 + (int)dice(p, 2) };
        char text[MF_SHAPE_TEXT];

        for (int k = 0; k < s.rank; k++)
            s.dims[k] = 1 + dice(p, 9);
        add(p,
            mf_applyf(p->g, "Placeholder", MF_NO_IN, "dtype=float shape=shape%s name='in%d'",
                      mf_shape_text(&s, text), i),
            s);
        name_dims(p, i, (char)('p' + i));
    }
    for (int tries = 0; p->n < VALUES && tries < 200; tries++) {
        const int64_t from = p->n > 3 ? p->n - 3 : 0; /* mostly recent values */
        const int64_t of = from + dice(p, p->n - from), step = dice(p, MF_COUNT(STEP));

        (void)STEP[step](p, (int)of);
    }
    if (dice(p, 2))
        name_dims(p, INPUTS + (int)dice(p, p->n - INPUTS), 'v');
    last = p->value[p->n - 1];
    T_OK(mf_gradients(p->g, &last, 1, p->value, INPUTS, NULL, d));
    (void)mf_applyf(p->g, "Identity", MF_IN(last), "name='last'");
    (void)snprintf(p->fetches[p->n_fetches++], sizeof p->fetches[0], "last:0");
    for (int i = 0; i < INPUTS; i++) {
        if (!d[i].node)
            continue;
        (void)mf_applyf(p->g, "Identity", MF_IN(d[i]), "name='d%d'", i);
        (void)snprintf(p->fetches[p->n_fetches++], sizeof p->fetches[0], "d%d:0", i);
    }
    T_OK(mf_graph_status(p->g));
}

static void run(program *p, mf_session *s, mf_tensor **out)
{
    const char *fetches[INPUTS + 1], *names[INPUTS] = { "in0", "in1" };
    mf_tensor *feeds[INPUTS];

    for (int i = 0; i < INPUTS; i++)
        feeds[i] = mesh_numbers(&p->shape[i], (uint64_t)i + 50);
    for (int i = 0; i < p->n_fetches; i++)
        fetches[i] = p->fetches[i];
    T_OK(mf_session_run(s, NULL, names, (const mf_tensor *const *)feeds, INPUTS, fetches,
                        p->n_fetches, NULL, 0, out));
    for (int i = 0; i < INPUTS; i++)
        mf_tensor_free(feeds[i]);
}

static void write_layout(program *p, int axes, char *layout, size_t size)
{
    layout[0] = '\0';
    for (int a = 0; a < axes; a++) {
        for (const char *tag = "pqv"; *tag; tag++) {
            if (dice(p, 4) != 0)
                (void)snprintf(layout + strlen(layout), size - strlen(layout), "%s%c%d:%c",
                               layout[0] ? ";" : "", *tag, (int)dice(p, 3), 'a' + a);
        }
    }
}

/* Returns the number of collectives of the first device. */
static int64_t compare(program *p, const char *mesh, const char *layout, bool exact,
                       mf_tensor *const *want)
{
    const mf_mesh_options o = {
        .mesh = mesh, .layout = layout, .exact = exact, .session.threads = 1
    };
    mf_tensor *got[INPUTS + 1] = { NULL };
    mf_mesh_counts counts;
    mf_session *s;

    T_OK(mf_mesh_session_new(p->g, &o, &s));
    run(p, s, got);
    for (int i = 0; i < p->n_fetches; i++) {
        const double d = mesh_distance(want[i], got[i]);

        if (d > (exact ? 0 : 1e-4))
            T_FAIL("%s of program %llu on %s under '%s'%s: %g", p->fetches[i],
                   (unsigned long long)p->seed, mesh, layout, exact ? ", exact" : "", d);
        mf_tensor_free(got[i]);
    }
    T_OK(mf_mesh_session_counts(s, 0, &counts));
    T_EQ(counts.planned_bytes, counts.received_bytes);
    mf_session_free(s);
    return counts.collectives;
}

MF_TEST_TIMEOUT(random_programs_give_what_one_device_gives, 120)
{
    static const char *const meshes[] = { "a:2", "a:3",     "a:2;b:2",  "a:2;b:3",
                                          "a:4", "a:5,2,1", "a:1,3;b:2" };
    int64_t together = 0;

    for (int k = 0; k < PROGRAMS; k++) {
        program p = { .seed = (uint64_t)k * 7919 + 13 };
        mf_tensor *want[INPUTS + 1] = { NULL };
        mf_session *one;
        char layout[128];

        build(&p);
        T_OK(mf_session_new(p.g, &(mf_session_options){ .threads = 1 }, &one));
        run(&p, one, want);
        for (int i = 0; i < 3; i++) {
            const char *mesh = meshes[dice(&p, MF_COUNT(meshes))];

            write_layout(&p, strchr(mesh, ';') ? 2 : 1, layout, sizeof layout);
            together += compare(&p, mesh, layout, false, want);
            together += compare(&p, mesh, layout, true, want);
        }
        for (int i = 0; i < p.n_fetches; i++)
            mf_tensor_free(want[i]);
        mf_session_free(one);
        mf_graph_free(p.g);
    }
    printf("# %d programs, %lld collectives\n", PROGRAMS, (long long)together);
    T_TRUE(together > 6 * PROGRAMS);
}
