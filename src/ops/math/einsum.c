/* SPDX-License-Identifier: Apache-2.0 */
/* einsum.c - Einsum of one or two tensors.
 *
 * Labels of two inputs are batch (in both and in the output), free (in one and in the output),
 * contracted (in both, not in the output), or summed (in one only). An input whose label groups are
 * not laid out as a matrix product needs them is summed, permuted and its diagonals extracted into
 * a new tensor; then one batch of matrix products is computed; then the output is permuted if
 * necessary. */
#include "base/mem.h"
#include "graph/split.h"
#include "ops/control/grad_util.h"
#include "ops/math/einsum_parse.h"
#include "ops/math/gemm.h"
#include "ops/quant/widen.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DIMS = 2 * MF_MAX_RANK };

/* Dimensions with their strides. */
typedef struct einsum_walk {
    int n;
    int64_t dims[MAX_DIMS], stride[MAX_DIMS];
} einsum_walk;

static void walk_add(einsum_walk *w, int64_t dim, int64_t stride)
{
    w->dims[w->n] = dim;
    w->stride[w->n++] = stride;
}

static int64_t walk_count(const einsum_walk *w)
{
    int64_t n = 1;

    for (int d = 0; d < w->n; d++)
        n *= w->dims[d];
    return n;
}

/* Advances to the next position; false after the last one. */
static bool walk_next(const einsum_walk *w, int64_t *index, int64_t *at)
{
    for (int d = w->n - 1; d >= 0; d--) {
        *at += w->stride[d];
        if (++index[d] < w->dims[d])
            return true;
        *at -= w->stride[d] * w->dims[d];
        index[d] = 0;
    }
    return false;
}

/* to[j] = the sum of `from` over `inner`, with j enumerating `outer`. */
#define GATHER(NAME, T)                                                                            \
    static void gather_##NAME(const einsum_walk *outer, const einsum_walk *inner, const T *from,   \
                              T *to)                                                               \
    {                                                                                              \
        const int64_t each = walk_count(inner);                                                    \
        int64_t oi[MAX_DIMS] = { 0 }, at = 0;                                                      \
                                                                                                   \
        do {                                                                                       \
            int64_t ii[MAX_DIMS] = { 0 }, in_at = at;                                              \
            T sum = from[in_at];                                                                   \
                                                                                                   \
            if (mf_stopped_after(each))                                                            \
                return;                                                                            \
                                                                                                   \
            while (walk_next(inner, ii, &in_at))                                                   \
                sum += from[in_at];                                                                \
            *to++ = sum;                                                                           \
        } while (walk_next(outer, oi, &at));                                                       \
    }
GATHER(f32, float)
GATHER(f64, double)
GATHER(u32, uint32_t)
GATHER(u64, uint64_t)
GATHER(c64, float _Complex)
GATHER(c128, double _Complex)

/* to[position j of outer] = from[j] */
#define SCATTER(NAME, T)                                                                           \
    static void scatter_##NAME(const einsum_walk *outer, const T *from, T *to)                     \
    {                                                                                              \
        int64_t oi[MAX_DIMS] = { 0 }, at = 0;                                                      \
                                                                                                   \
        do {                                                                                       \
            to[at] = *from++;                                                                      \
        } while (walk_next(outer, oi, &at));                                                       \
    }
SCATTER(u32, uint32_t)
SCATTER(u64, uint64_t)
SCATTER(c128, double _Complex)

static mf_status einsum_gather(mf_dtype type, const einsum_walk *outer, const einsum_walk *inner,
                               const mf_tensor *from, mf_tensor *to)
{
    if (to->count == 0)
        return MF_OK;
    if (walk_count(inner) == 0) {
        memset(to->data, 0, (size_t)to->count * mf_dtype_cell(type));
        return MF_OK;
    }
    switch (type) {
    case MF_DTYPE_F32:
        gather_f32(outer, inner, from->data, to->data);
        return mf_stop_check();
    case MF_DTYPE_F64:
        gather_f64(outer, inner, from->data, to->data);
        return mf_stop_check();
    case MF_DTYPE_I32:
    case MF_DTYPE_U32:
        gather_u32(outer, inner, from->data, to->data);
        return mf_stop_check();
    case MF_DTYPE_I64:
    case MF_DTYPE_U64:
        gather_u64(outer, inner, from->data, to->data);
        return mf_stop_check();
    case MF_DTYPE_C64:
        gather_c64(outer, inner, from->data, to->data);
        return mf_stop_check();
    case MF_DTYPE_C128:
        gather_c128(outer, inner, from->data, to->data);
        return mf_stop_check();
    default:
        return MF_FAIL(MF_UNIMPLEMENTED, "op Einsum has no kernel for type %s",
                       mf_dtype_name(type));
    }
}

/* Only types that einsum_gather() accepts. */
static void einsum_scatter(mf_dtype type, const einsum_walk *outer, const void *from, void *to)
{
    switch (mf_dtype_cell(type)) {
    case 4:
        scatter_u32(outer, from, to);
        break;
    case 8:
        scatter_u64(outer, from, to);
        break;
    default:
        scatter_c128(outer, from, to);
        break;
    }
}

/* ---- labels and strides ---- */

typedef enum label_kind {
    LABEL_BATCH,
    LABEL_FREE_A,
    LABEL_FREE_B,
    LABEL_INNER,
    LABEL_KINDS
} label_kind;

typedef struct einsum_job {
    mf_einsum_labels in[MF_EINSUM_INPUTS], out;
    int64_t size[MF_EINSUM_LABELS];
    einsum_walk
        group[LABEL_KINDS]; /* dims only; in the order of the output or of the first input */
    unsigned char label[LABEL_KINDS][MAX_DIMS];
} einsum_job;

static bool einsum_has(const mf_einsum_labels *l, unsigned char label)
{
    return memchr(l->label, label, (size_t)l->n) != NULL;
}

static void group_add(einsum_job *job, label_kind kind, unsigned char label)
{
    einsum_walk *g = &job->group[kind];

    for (int i = 0; i < g->n; i++) {
        if (job->label[kind][i] == label)
            return;
    }
    job->label[kind][g->n] = label;
    walk_add(g, job->size[label], 0);
}

/* Labels in one input only and not in the output belong to no group: they are summed. */
static void einsum_make_groups(einsum_job *job)
{
    for (int d = 0; d < job->out.n; d++) {
        const unsigned char l = job->out.label[d];
        const bool a = einsum_has(&job->in[0], l), b = einsum_has(&job->in[1], l);

        group_add(job, a && b ? LABEL_BATCH : a ? LABEL_FREE_A : LABEL_FREE_B, l);
    }
    for (int d = 0; d < job->in[0].n; d++) {
        const unsigned char l = job->in[0].label[d];

        if (einsum_has(&job->in[1], l) && !einsum_has(&job->out, l))
            group_add(job, LABEL_INNER, l);
    }
}

/* The stride of each label in a tensor; the sum of strides for a diagonal. */
static void label_strides(const mf_einsum_labels *l, const mf_shape *shape, int64_t *stride)
{
    int64_t step = 1;

    memset(stride, 0, sizeof(int64_t) * MF_EINSUM_LABELS);
    for (int d = l->n - 1; d >= 0; d--) {
        if (shape->dims[d] != 1)
            stride[l->label[d]] += step;
        step *= shape->dims[d];
    }
}

/* The group as one dimension; true if its labels are laid out like one. */
static bool einsum_merge(const einsum_job *job, label_kind kind, const int64_t *stride,
                         int64_t *out)
{
    const einsum_walk *g = &job->group[kind];
    int64_t step = 0, expected = 0;
    bool first = true;

    for (int i = g->n - 1; i >= 0; i--) {
        if (g->dims[i] == 1)
            continue;
        if (!first && stride[job->label[kind][i]] != expected)
            return false;
        if (first)
            step = stride[job->label[kind][i]];
        expected = stride[job->label[kind][i]] * g->dims[i];
        first = false;
    }
    *out = step;
    return true;
}

/* One input as an operand of the product: rows are the free labels for A, the contracted ones for
 * B. `packed` holds a copy if the memory has another order. */
static mf_status make_side(const einsum_job *job, int input, const mf_tensor *t, mf_tensor *packed,
                           mf_gemm_side *side)
{
    const label_kind free_kind = input ? LABEL_FREE_B : LABEL_FREE_A;
    const label_kind order[3] = { LABEL_BATCH, free_kind, LABEL_INNER };
    int64_t stride[MF_EINSUM_LABELS], free_step, inner_step, count = 1;
    einsum_walk outer = { 0 }, summed = { 0 };
    bool done[MF_EINSUM_LABELS] = { false };

    label_strides(&job->in[input], &t->shape, stride);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < job->group[order[k]].n; i++) {
            const unsigned char l = job->label[order[k]][i];
            const bool repeats = stride[l] == 0 && k == 0;

            walk_add(&outer, repeats ? 1 : job->size[l], stride[l]);
            count *= outer.dims[outer.n - 1];
            done[l] = true;
        }
    }
    for (int d = 0; d < job->in[input].n; d++) {
        const unsigned char l = job->in[input].label[d];

        if (!done[l])
            walk_add(&summed, t->shape.dims[d], stride[l]);
        done[l] = true;
    }
    side->type = t->dtype;
    side->data = t->data;
    if (summed.n > 0 || !einsum_merge(job, free_kind, stride, &free_step) ||
        !einsum_merge(job, LABEL_INNER, stride, &inner_step)) {
        int64_t step = 1;

        MF_TRY(mf_tensor_alloc(packed, t->dtype, &MF_SHAPE(count)));
        MF_TRY(einsum_gather(t->dtype, &outer, &summed, t, packed));
        side->data = packed->data;
        inner_step = 1;
        free_step = walk_count(&job->group[LABEL_INNER]);
        for (int i = outer.n - 1; i >= 0; i--) {
            if (i < job->group[LABEL_BATCH].n)
                stride[job->label[LABEL_BATCH][i]] = outer.dims[i] == 1 ? 0 : step;
            step *= outer.dims[i];
        }
    }
    side->row = input ? inner_step : free_step;
    side->col = input ? free_step : inner_step;
    for (int i = 0; i < job->group[LABEL_BATCH].n; i++)
        side->batch_stride[i] = stride[job->label[LABEL_BATCH][i]];
    return MF_OK;
}

/* ---- the kernel ---- */

/* Permutes the product's labels to the output's; repeated labels go to the diagonal. */
static mf_status place_output(const einsum_job *job, const mf_tensor *product, mf_tensor *out)
{
    int64_t stride[MF_EINSUM_LABELS];
    einsum_walk w = { 0 };

    label_strides(&job->out, &out->shape, stride);
    for (int k = 0; k <= LABEL_FREE_B; k++) {
        for (int i = 0; i < job->group[k].n; i++)
            walk_add(&w, job->group[k].dims[i], stride[job->label[k][i]]);
    }
    memset(out->data, 0, (size_t)out->count * mf_dtype_cell(out->dtype));
    if (product->count > 0)
        einsum_scatter(out->dtype, &w, product->data, out->data);
    return MF_OK;
}

/* True if the product's labels are the output's, in the same order, each once. */
static bool same_order(const einsum_job *job)
{
    int at = 0;

    for (int k = 0; k <= LABEL_FREE_B; k++) {
        for (int i = 0; i < job->group[k].n; i++, at++) {
            if (at >= job->out.n || job->out.label[at] != job->label[k][i])
                return false;
        }
    }
    return at == job->out.n;
}

static void swap_sides(mf_gemm *g)
{
    const mf_gemm_side a = g->a;
    const int64_t m = g->m;

    g->a = g->b;
    g->a.row = g->b.col;
    g->a.col = g->b.row;
    g->b = a;
    g->b.row = a.col;
    g->b.col = a.row;
    g->m = g->n;
    g->n = m;
}

/* True if the product can be written to the output directly, as it is or transposed: then elements
 * of a row are adjacent. */
static bool fits_output(const einsum_job *job, const mf_tensor *out, mf_gemm *g)
{
    int64_t stride[MF_EINSUM_LABELS], a, b;

    for (int d = 0; d < job->out.n; d++) {
        if (memchr(job->out.label + d + 1, job->out.label[d], (size_t)(job->out.n - d - 1)))
            return false; /* a diagonal */
    }
    label_strides(&job->out, &out->shape, stride);
    if (!einsum_merge(job, LABEL_FREE_A, stride, &a) ||
        !einsum_merge(job, LABEL_FREE_B, stride, &b))
        return false;
    if (b != 1 && g->n > 1) {
        if (a != 1 && g->m > 1)
            return false;
        swap_sides(g);
        a = b;
    }
    g->c_row = a;
    for (int i = 0; i < g->batch_rank; i++)
        g->c_batch_stride[i] = stride[job->label[LABEL_BATCH][i]];
    return true;
}

static mf_status contract(const mf_kernel *k, einsum_job *job, const mf_tensor *in, mf_tensor *out)
{
    mf_tensor packed[2] = { { 0 } }, product = { 0 };
    mf_gemm g = { .c_type = out->dtype };
    mf_status st;

    einsum_make_groups(job);
    g.m = walk_count(&job->group[LABEL_FREE_A]);
    g.n = walk_count(&job->group[LABEL_FREE_B]);
    g.k = walk_count(&job->group[LABEL_INNER]);
    g.batch_rank = job->group[LABEL_BATCH].n;
    memcpy(g.batch_dims, job->group[LABEL_BATCH].dims, sizeof g.batch_dims);
    MF_TRY_TO(done, make_side(job, 0, &in[0], &packed[0], &g.a));
    MF_TRY_TO(done, make_side(job, 1, &in[1], &packed[1], &g.b));
    if (fits_output(job, out, &g)) {
        mf_tensor_set(&product, out);
    } else {
        mf_gemm_c_follows(&g);
        MF_TRY_TO(done, mf_tensor_alloc(&product, out->dtype,
                                        &MF_SHAPE(walk_count(&job->group[LABEL_BATCH]), g.m, g.n)));
    }
    g.c = product.data;
    MF_TRY_TO(done, mf_gemm_run(k, &g));
    if (product.data != out->data)
        MF_TRY_TO(done, place_output(job, &product, out));
done:
    mf_tensor_clear(&packed[0]);
    mf_tensor_clear(&packed[1]);
    mf_tensor_clear(&product);
    return st;
}

/* One input: sums, diagonals and permutations only. */
static mf_status rearrange(einsum_job *job, const mf_tensor *in, mf_tensor *out)
{
    int64_t stride[MF_EINSUM_LABELS];
    bool done[MF_EINSUM_LABELS] = { false };
    einsum_walk outer = { 0 }, summed = { 0 };
    mf_tensor values = { 0 };
    mf_status st;

    einsum_make_groups(job);
    label_strides(&job->in[0], &in->shape, stride);
    for (int i = 0; i < job->group[LABEL_FREE_A].n; i++) {
        const unsigned char l = job->label[LABEL_FREE_A][i];

        walk_add(&outer, job->size[l], stride[l]);
        done[l] = true;
    }
    for (int d = 0; d < job->in[0].n; d++) {
        const unsigned char l = job->in[0].label[d];

        if (!done[l])
            walk_add(&summed, in->shape.dims[d], stride[l]);
        done[l] = true;
    }
    if (same_order(job))
        return einsum_gather(in->dtype, &outer, &summed, in, out);
    MF_TRY_TO(done_label, mf_tensor_alloc(&values, in->dtype, &MF_SHAPE(walk_count(&outer))));
    MF_TRY_TO(done_label, einsum_gather(in->dtype, &outer, &summed, in, &values));
    MF_TRY_TO(done_label, place_output(job, &values, out));
done_label:
    mf_tensor_clear(&values);
    return st;
}

static mf_status einsum_resolve(const mf_equation *eq, const mf_shape *const *shapes,
                                einsum_job *job, mf_shape *out)
{
    MF_TRY(mf_equation_resolve(eq, shapes, job->in, &job->out, job->size));
    *out = (mf_shape){ .rank = job->out.n };
    for (int d = 0; d < job->out.n; d++)
        out->dims[d] = job->size[job->out.label[d]];
    return MF_OK;
}

static mf_status einsum_prepare(mf_prepare *p)
{
    mf_equation *eq = MF_ARENA_NEW(p->arena, mf_equation);

    if (!eq)
        return MF_NOMEM("an equation");
    MF_TRY(mf_equation_parse(mf_node_string(p->node, "equation"), p->node->n_inputs, eq));
    p->state = eq;
    return MF_OK;
}

static mf_status einsum_infer(mf_infer *in)
{
    const mf_shape *shapes[MF_EINSUM_INPUTS] = { NULL };
    einsum_job job = { 0 };
    mf_equation eq;

    MF_TRY(mf_equation_parse(mf_node_string(in->node, "equation"), in->n_in, &eq));
    for (int i = 0; i < in->n_in; i++) {
        shapes[i] = &in->in[i];
        if (shapes[i]->rank < 0)
            return MF_OK;
    }
    return einsum_resolve(&eq, shapes, &job, &in->out[0]);
}

static mf_status einsum_run(mf_kernel *k)
{
    const mf_shape *shapes[MF_EINSUM_INPUTS] = { NULL };
    mf_tensor in[MF_EINSUM_INPUTS] = { { 0 } }, wide = { 0 }, *out;
    einsum_job job = { 0 };
    mf_status st = MF_OK;
    int64_t count;
    mf_shape shape;

    for (int i = 0; i < k->n_in && i < MF_EINSUM_INPUTS; i++)
        shapes[i] = &k->in[i]->shape;
    MF_TRY(einsum_resolve(k->state, shapes, &job, &shape));
    MF_TRY(mf_shape_count(&shape, &count));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int i = 0; i < k->n_in; i++)
        MF_TRY_TO(done, mf_widen(k, k->in[i], &in[i]));
    MF_TRY_TO(done, mf_widen_out(out, &wide));
    if (k->n_in == 1)
        MF_TRY_TO(done, rearrange(&job, &in[0], &wide));
    else
        MF_TRY_TO(done, contract(k, &job, in, &wide));
    mf_narrow(k, &wide, out);
done:
    mf_tensor_clear(&in[0]);
    mf_tensor_clear(&in[1]);
    mf_tensor_clear(&wide);
    return st;
}

/* ---- gradient ---- */

enum { EQUATION_MAX = 8 * MF_MAX_RANK + 32 };

static void einsum_append(char *equation, const char *part)
{
    const size_t n = strlen(equation);

    (void)snprintf(equation + n, EQUATION_MAX - n, "%s", part);
}

/* Text of subscripts. Skips labels of `skip`; once: skips repetitions, too; lead: "..." first. */
static void write_side(char *text, const mf_subscripts *s, const bool *skip, bool once, bool lead)
{
    bool seen[MF_EINSUM_ELLIPSIS + 1] = { false };

    if (lead && memchr(s->label, MF_EINSUM_ELLIPSIS, (size_t)s->n)) {
        einsum_append(text, "...");
        seen[MF_EINSUM_ELLIPSIS] = true;
    }
    for (int i = 0; i < s->n; i++) {
        const unsigned char l = s->label[i];
        const char one[2] = { mf_label_char(l), 0 };

        if ((skip && skip[l]) || (seen[l] && (once || l == MF_EINSUM_ELLIPSIS)))
            continue;
        seen[l] = true;
        einsum_append(text, l == MF_EINSUM_ELLIPSIS ? "..." : one);
    }
}

static bool in_side(const mf_subscripts *s, unsigned char label)
{
    return memchr(s->label, label, (size_t)s->n) != NULL;
}

static mf_output einsum_apply(mf_grad *g, const char *equation, const mf_output *inputs)
{
    return mf_applyf(g->graph, "Einsum", inputs, "equation='%s'", equation);
}

/* The gradient of input `i`, in steps: a contraction with the other input over all shared labels;
 * summed labels are repeated; a broadcast "..." is summed; diagonals are restored. */
static mf_output einsum_input_grad(mf_grad *g, const mf_equation *eq, int i)
{
    const mf_subscripts *x = &eq->in[i], *other = eq->n_in == 2 ? &eq->in[1 - i] : NULL;
    bool summed[MF_EINSUM_ELLIPSIS + 1] = { false }, repeated = false, any_summed = false;
    const bool lead = in_side(x, MF_EINSUM_ELLIPSIS);
    char text[EQUATION_MAX] = "", to_x[EQUATION_MAX] = "";
    mf_output source = g->x[i], shape, dx;
    mf_subscripts unique = { 0 };

    for (int pass = 0; pass < 2; pass++) { /* "..." first, then every letter once */
        for (int d = 0; d < x->n; d++) {
            const unsigned char l = x->label[d];

            if ((l == MF_EINSUM_ELLIPSIS) != (pass == 0))
                continue;
            if (in_side(&unique, l))
                repeated = true;
            else
                unique.label[unique.n++] = l;
            summed[l] = !in_side(&eq->out, l) && !(other && in_side(other, l));
            any_summed = any_summed || summed[l];
        }
    }
    repeated = repeated || memcmp(unique.label, x->label, (size_t)unique.n) != 0;
    write_side(text, &eq->out, NULL, false, false);
    if (other) {
        einsum_append(text, ",");
        write_side(text, other, NULL, false, false);
    }
    einsum_append(text, "->");
    write_side(text, &unique, summed, true, true);
    dx = other ? einsum_apply(g, text, MF_IN(g->dy[0], mf_grad_conj(g, g->x[1 - i])))
               : einsum_apply(g, text, MF_IN(g->dy[0]));
    if (repeated) { /* x with its labels in that order, for its shape */
        text[0] = '\0';
        write_side(text, x, NULL, false, false);
        einsum_append(text, "->");
        write_side(text, &unique, NULL, true, true);
        source = einsum_apply(g, text, MF_IN(g->x[i]));
    }
    shape = MF_G1("Shape", source);
    for (int d = 0; d < unique.n; d++) { /* front to back: earlier positions are complete */
        if (summed[unique.label[d]] && unique.label[d] != MF_EINSUM_ELLIPSIS) {
            int after = 0; /* later dimensions that dx has */

            for (int j = d + 1; j < unique.n; j++)
                after += !summed[unique.label[j]];
            dx = MF_G2("ExpandDims", dx, mf_scalar(g->graph, MF_DTYPE_I32, -1 - after));
        }
    }
    if (lead) {
        mf_output axes;

        if (any_summed) { /* letters take their sizes; "..." may be longer than x's */
            const mf_output ones = MF_G1("OnesLike", source);

            dx = MF_G2("Mul", dx, ones);
        }
        axes = MF_G2("BroadcastGradientArgs", shape, MF_G1("Shape", dx));
        dx = MF_G2("Reshape", MF_G2("Sum", dx, axes), shape);
    } else if (any_summed) {
        dx = MF_G2("BroadcastTo", dx, shape);
    }
    if (!repeated)
        return dx;
    write_side(to_x, &unique, NULL, true, true);
    einsum_append(to_x, "->");
    write_side(to_x, x, NULL, false, false);
    return einsum_apply(g, to_x, MF_IN(dx));
}

static mf_status einsum_grad(mf_grad *g)
{
    mf_equation eq;

    MF_TRY(mf_equation_parse(mf_node_string(g->node, "equation"), g->n_in, &eq));
    for (int i = 0; i < g->n_in; i++)
        g->dx[i] = einsum_input_grad(g, &eq, i);
    return MF_OK;
}

/* Labels of one operand become split letters; a label that occurs twice (a diagonal) is not split.
 */
static void give_letters(const mf_einsum_labels *l, const mf_shape *shape, const int *letters,
                         const int64_t *size, mf_split_shape *to)
{
    for (int d = 0; d < l->n; d++) {
        if (shape->dims[d] == size[l->label[d]])
            to->dims[d] = (mf_split_dim){ .letter = letters[l->label[d]], .inside = 1 };
    }
}

static bool stands_twice(const mf_einsum_labels *l, unsigned char label)
{
    int n = 0;

    for (int d = 0; d < l->n; d++)
        n += l->label[d] == label;
    return n > 1;
}

static void einsum_split(mf_split *s)
{
    const mf_shape *const shapes[] = { &s->in[0], s->n_in > 1 ? &s->in[1] : NULL };
    mf_einsum_labels in[MF_EINSUM_INPUTS], out;
    int64_t size[MF_EINSUM_LABELS];
    int letters[MF_EINSUM_LABELS];
    mf_equation eq;

    if (s->n_in > MF_EINSUM_INPUTS ||
        mf_equation_parse(mf_node_string(s->node, "equation"), s->n_in, &eq) != MF_OK ||
        mf_equation_resolve(&eq, shapes, in, &out, size) != MF_OK)
        return;
    for (int label = 0; label < MF_EINSUM_LABELS; label++) {
        const unsigned char c = (unsigned char)label;
        bool used = memchr(out.label, c, (size_t)out.n), summed = !used;
        bool twice = stands_twice(&out, c);

        for (int i = 0; i < s->n_in; i++) {
            used |= memchr(in[i].label, c, (size_t)in[i].n) != NULL;
            twice |= stands_twice(&in[i], c);
        }
        letters[label] =
            used && !twice ? mf_split_new(s, size[label], summed ? MF_CUT_SUM : MF_CUT_FREE) : -1;
    }
    for (int i = 0; i < s->n_in; i++)
        give_letters(&in[i], &s->in[i], letters, size, &s->in_dims[i]);
    give_letters(&out, &s->out[0], letters, size, &s->out_dims[0]);
}

const mf_op mf_op_einsum = {
    .name = "Einsum",
    .def = "(inputs:N*T) -> (output:T) {equation:string, N:int>=1, T:type}",
    .infer = einsum_infer,
    .grad = einsum_grad,
    .prepare = einsum_prepare,
    .run = einsum_run,
    .split = einsum_split,
    .samples = MF_SAMPLES(
        "f32[3,4] f32[4,5] ; equation='ab,bc->ac'",
        "f32[2,3,4] f32[2,4,5] ; equation='abc,acd->abd'",
        "f64[3,4] f64[5,4] ; equation='ab,cb->ca'",
        "f32[2,3,4,5] f32[5,4,6] ; equation='abcd,dce->abe'", "f32[3] f32[4] ; equation='a,b->ab'",
        "f32[3] f32[3] ; equation='a,a->'", "f32[3,4] ; equation='ab->ba'",
        "f32[3,4] ; equation='ab->b'", "f32[3,3] ; equation='aa->a'", "f32[3,3] ; equation='aa->'",
        "f32[3] ; equation='a->aa'", "f32[2,3,4] ; equation='abc->ca'",
        "f32[2,3,4] f32[4,5] ; equation='...ab,bc->...ac'",
        "f32[2,1,3,4] f32[5,4,6] ; equation='...ab,...bc->...ac'",
        "f32[3,2] f32[2,4] ; equation='a...,...b->a...b'",
        "f32[2,3,4] f32[3] ; equation='abc,b->ca'", "f32[2,3] f32[3,4] ; equation='ab,bc->a'",
        "f32[2,3,3] f32[3,4] ; equation='abb,bc->ac'", "f16[3,4] f16[4,5] ; equation='ab,bc->ac'",
        "bf16[3,4] bf16[4,5] ; equation='ab,bc->ac'", "c64[3,4] c64[4,5] ; equation='ab,bc->ac'",
        "c128[3,4] ; equation='ab->ba'", "i32[3,4] i32[4,5] ; equation='ab,bc->ac'",
        "i64[3,4] ; equation='ab->a'", "f32[3,0] f32[0,5] ; equation='ab,bc->ac'",
        "f32[0,4] f32[4,5] ; equation='ab,bc->ac'", "f32[] f32[3] ; equation=',a->a'",
        "f32[2,3,4] ; equation='...a->a...'", "f32[3,4] f32[5,6] ; equation='ab,bc->ac' !fails",
        "f32[3,4] ; equation='ab->c' !fails", "f32[3,4] ; equation='abc->a' !fails",
        "f32[3,4] ; equation='ab' !fails"),
};
