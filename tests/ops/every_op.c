/* SPDX-License-Identifier: Apache-2.0 */
/* every_op.c - properties of every op, tested on its own samples. To test one op: OP=Relu make test
 * T=every_op */
#include "compiler/compiler.h"
#include "mf_test.h"
#include "op_harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Calls fn on each sample that can be parsed and built; `failing`: on the !fails samples instead.
 */
static bool each_sample(const mf_op *op, bool (*fn)(const mf_op *, const char *, mf_sample *))
{
    bool good = true;

    for (int i = 0; op->samples[i]; i++) {
        mf_sample s;

        if (mf_sample_parse(op->samples[i], (uint64_t)i + 1, &s) != MF_OK) {
            mf_complain(op, op->samples[i], "cannot be read: %s", mf_error_message());
            good = false;
        } else {
            good = fn(op, op->samples[i], &s) && good;
        }
        mf_sample_deinit(&s);
    }
    return good;
}

/* ---- an op runs, with the inferred shapes ---- */

static bool shapes_hold(const mf_op *op, const char *text, const mf_case *c, const mf_answer *a)
{
    mf_output outs[MF_CASE_OUTPUTS], feeds[MF_SAMPLE_INPUTS];
    mf_shape shapes[MF_SAMPLE_INPUTS];
    mf_compile work = { 0 };
    mf_signature sig = { .feeds = feeds,
                         .feed_shapes = shapes,
                         .targets = (mf_node *[]){ c->node },
                         .n_targets = 1,
                         .fetches = outs };
    bool good = true;

    for (int i = 0; i < c->n_feeds; i++) {
        feeds[i] = (mf_output){ mf_graph_find(c->graph, c->feed_names[i]), 0 };
        shapes[i] = c->feeds[i]->shape;
    }
    sig.n_feeds = c->n_feeds;
    if (mf_compile_begin(&work, c->graph, &sig) != MF_OK || mf_infer_graph(&work) != MF_OK) {
        mf_complain(op, text, "shape inference failed: %s", mf_error_message());
        good = false;
    }
    for (int i = 0, k = 0; good && i < c->node->n_outputs && k < a->n; i++) {
        const mf_dtype t = mf_type_base(c->node->out_types[i]);
        const mf_shape *s = &mf_compile_facts(&work, work.targets[0])->shapes[i];
        char want[MF_SHAPE_TEXT], have[MF_SHAPE_TEXT];

        if (t == MF_DTYPE_RESOURCE || t == MF_DTYPE_VARIANT)
            continue;
        if (!mf_shape_compatible(s, &a->out[k]->shape) || a->out[k]->dtype != t) {
            mf_complain(op, text, "output %d was inferred as %s %s but is %s %s", i,
                        mf_dtype_name(t), mf_shape_text(s, want), mf_dtype_name(a->out[k]->dtype),
                        mf_shape_text(&a->out[k]->shape, have));
            good = false;
        }
        k++;
    }
    mf_compile_end(&work);
    return good;
}

static bool runs(const mf_op *op, const char *text, mf_sample *s)
{
    mf_case c;
    mf_answer a = { 0 };
    mf_status st = mf_case_build(op, s, &c);
    bool good;

    if (st == MF_OK)
        st = mf_case_run(&c, c.graph, 1, NULL, &a);
    good = s->fails ? st != MF_OK : st == MF_OK;
    if (!good)
        mf_complain(op, text, "%s: %s", mf_status_name(st),
                    st == MF_OK ? "an error was expected" : mf_error_message());
    else if (st == MF_OK)
        good = shapes_hold(op, text, &c, &a);
    mf_answer_deinit(&a);
    mf_case_deinit(&c);
    return good;
}

static bool op_runs(const mf_op *op)
{
    return each_sample(op, runs);
}

MF_TEST_TIMEOUT(every_op_runs_its_samples_with_the_inferred_shapes, 240)
{
    T_EQ(mf_each_op("wrong answer", op_runs), 0);
}

/* ---- threads, passes and encoding do not change results ---- */

static bool compare_with(const mf_op *op, const char *text, const mf_case *c, const mf_answer *a,
                         const mf_graph *graph, int threads, const char *disable, const char *what)
{
    mf_answer b = { 0 };
    const mf_status st = mf_case_run(c, graph, threads, disable, &b);
    const bool good = st == MF_OK && mf_answer_equal(a, &b);

    if (!good)
        mf_complain(op, text, "%s: %s", what, st == MF_OK ? "the bits differ" : mf_error_message());
    mf_answer_deinit(&b);
    return good;
}

static bool stable(const mf_op *op, const char *text, mf_sample *s)
{
    mf_case c;
    mf_answer a = { 0 };
    mf_graph *again = NULL;
    char *bytes = NULL;
    size_t len = 0;
    bool good = true;

    if (!s->fails && !s->unordered && mf_case_build(op, s, &c) == MF_OK) {
        if (mf_case_run(&c, c.graph, 1, NULL, &a) == MF_OK) {
            good = compare_with(op, text, &c, &a, c.graph, 4, NULL, "four threads");
            good = compare_with(op, text, &c, &a, c.graph, 2,
                                "fold,simplify,cse,fuse,region,schedule,place", "passes off") &&
                   good;
            if (mf_graph_encode(c.graph, &bytes, &len) != MF_OK || mf_graph_new(&again) != MF_OK ||
                mf_graph_decode(again, bytes, len) != MF_OK) {
                mf_complain(op, text, "encoding: %s", mf_error_message());
                good = false;
            } else {
                good = compare_with(op, text, &c, &a, again, 1, NULL, "round trip") && good;
            }
        }
        mf_answer_deinit(&a);
        mf_case_deinit(&c);
    }
    mf_graph_free(again);
    mf_bytes_free(bytes);
    return good;
}

static bool op_is_stable(const mf_op *op)
{
    return each_sample(op, stable);
}

MF_TEST_TIMEOUT(every_op_gives_the_same_bits_for_any_threads_passes_and_after_encoding, 240)
{
    T_EQ(mf_each_op("bits differ", op_is_stable), 0);
}

/* ---- instruction sets give the same bits ---- */

static bool sets_agree(const mf_op *op, const char *text, mf_sample *s)
{
    mf_answer base = { 0 };
    mf_case c;
    bool good = true;

    if (s->fails || s->unordered || mf_case_build(op, s, &c) != MF_OK)
        return true;
    mf_isa_switch(MF_ISA_BASE);
    if (mf_case_run(&c, c.graph, 1, NULL, &base) == MF_OK) {
        for (int isa = MF_ISA_AVX512; isa < MF_ISA_COUNT; isa++) {
            /* Sets with instructions for bfloat16 are numerics classes of their own. */
            const bool other_class =
                mf_isa_bits((mf_isa)isa) != MF_ISA_BASE && strstr(text, "bf16") != NULL;

            if (!mf_isa_is_available((mf_isa)isa) || other_class)
                continue;
            mf_isa_switch((mf_isa)isa);
            good = compare_with(op, text, &c, &base, c.graph, 1, NULL, mf_isa_name((mf_isa)isa)) &&
                   good;
        }
    }
    mf_answer_deinit(&base);
    mf_case_deinit(&c);
    return good;
}

/* Random cells, with every exponent. */
static void fill_cells(void *data, size_t bytes, uint64_t seed)
{
    uint64_t *word = data;

    for (size_t i = 0; i < bytes / sizeof *word; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        word[i] = seed ^ seed >> 29;
    }
}

enum { LOOP_CELLS = 1037 };

/* Do two loops agree on more elements than a vector has? */
static bool loops_agree(const mf_op *op, const mf_loop *a, const mf_loop *b, mf_dtype type,
                        double param)
{
    static _Alignas(64) char in[3][LOOP_CELLS * 16 + 64], out[2][LOOP_CELLS * 16 + 64];
    mf_span s = { .n = LOOP_CELLS, .param = param };

    for (int i = 0; i < 3; i++) {
        fill_cells(in[i], sizeof in[i], (uint64_t)i + 1);
        s.in[i] = in[i];
    }
    for (int which = 0; which < 2; which++) {
        memset(out[which], 0, sizeof out[which]);
        s.out = out[which];
        (which ? b : a)->fn[type](&s);
    }
    if (memcmp(out[0], out[1], sizeof out[0]) == 0)
        return true;
    mf_complain(op, mf_dtype_name(type), "the loops of two instruction sets differ");
    return false;
}

static bool op_agrees_in_every_set(const mf_op *op)
{
    const mf_kernel_def *const *kernels = mf_op_kernels(op);
    bool good = true;

    for (int isa = MF_ISA_AVX512; isa < MF_ISA_COUNT; isa++) {
        const mf_loop *base = kernels[MF_ISA_BASE]->loop, *loop = kernels[isa]->loop;

        for (int t = 0;
             loop && loop != base && mf_isa_is_available((mf_isa)isa) && t < MF_DTYPE_COUNT; t++)
            good = (!base->fn[t] || loops_agree(op, base, loop, (mf_dtype)t, 0.25)) && good;
    }
    return each_sample(op, sets_agree) && good;
}

MF_TEST_TIMEOUT(every_op_gives_the_same_bits_in_every_instruction_set, 240)
{
    if (mf_isa_best() == MF_ISA_BASE)
        T_SKIP("the processor has the baseline instruction set only");
    T_EQ(mf_each_op("bits differ", op_agrees_in_every_set), 0);
}

/* ---- gradients ---- */

/* Float samples are differentiated in double if the op supports it, because differences need
 * precision. */
static bool to_double(const mf_op *op, mf_sample *s)
{
    const mf_opdef *def;
    mf_case c;
    mf_tensor old[MF_SAMPLE_INPUTS] = { { 0 } };
    bool ok;

    if (mf_op_def(op, &def) != MF_OK)
        return false;
    for (int i = 0; i < s->n_in; i++) {
        mf_tensor *t = &s->in[i].value;

        mf_tensor_set(&old[i], t);
        if (t->dtype != MF_DTYPE_F32)
            continue;
        mf_tensor_clear(t);
        if (mf_tensor_alloc(t, MF_DTYPE_F64, &old[i].shape) != MF_OK)
            return false;
        for (int64_t k = 0; k < t->count; k++)
            ((double *)t->data)[k] = (double)((float *)old[i].data)[k];
    }
    ok = mf_case_build(op, s, &c) == MF_OK;
    if (ok) {
        mf_answer a = { 0 };

        ok = mf_case_run(&c, c.graph, 1, NULL, &a) == MF_OK;
        mf_answer_deinit(&a);
    }
    mf_case_deinit(&c);
    for (int i = 0; i < s->n_in; i++) {
        if (!ok)
            mf_tensor_set(&s->in[i].value, &old[i]);
        mf_tensor_clear(&old[i]);
    }
    return ok;
}

/* sum over outputs of y * weight, with different weights for all elements. */
static double weighed(const mf_answer *a)
{
    double sum = 0;

    for (int i = 0; i < a->n; i++) {
        if (!mf_dtype_is_float(a->out[i]->dtype))
            continue;
        for (int64_t k = 0; k < a->out[i]->count; k++)
            sum += mf_tensor_float_at(a->out[i], k) * (1.0 + 0.1 * (double)(k % 7));
    }
    return sum;
}

static mf_output weights_like(mf_graph *g, const mf_tensor *y)
{
    mf_tensor w = { 0 };
    mf_output out = { 0 };

    if (mf_tensor_alloc(&w, y->dtype, &y->shape) != MF_OK)
        return out;
    for (int64_t k = 0; k < w.count; k++)
        mf_tensor_put(&w, k, 1.0 + 0.1 * (double)(k % 7));
    out = mf_constant(g, &w, NULL);
    mf_tensor_clear(&w);
    return out;
}

static bool close_enough(const mf_op *op, const char *text, int input, const mf_tensor *dx,
                         int64_t k, double numeric, double tol)
{
    const double symbolic = dx ? mf_tensor_float_at(dx, k) : 0;

    /* If the function overflows, the difference is meaningless. */
    if (!isfinite(numeric) || fabs(symbolic - numeric) <= tol * (1 + fabs(numeric)))
        return true;
    mf_complain(op, text, "gradient of input %d, element %lld: %.9g, differences give %.9g", input,
                (long long)k, symbolic, numeric);
    return false;
}

static bool outputs_are_wide(const mf_node *n)
{
    for (int i = 0; i < n->n_outputs; i++) {
        if (mf_dtype_is_float(n->out_types[i]) && n->out_types[i] != MF_DTYPE_F64)
            return false;
    }
    return true;
}

/* Gradient of one input by central differences. */
static bool check_input(const mf_op *op, const char *text, const mf_case *c, mf_sample *s, int i,
                        const mf_tensor *dx)
{
    mf_tensor *x = &s->in[i].value;
    const bool wide = x->dtype == MF_DTYPE_F64 && outputs_are_wide(c->node);
    const double eps = wide ? 1e-6 : 1e-2, tol = wide ? 1e-5 : 2e-2;

    for (int64_t k = 0; k < x->count; k++) {
        const double at = mf_tensor_float_at(x, k);
        double y[2] = { 0 };

        for (int side = 0; side < 2; side++) {
            mf_answer a = { 0 };

            mf_tensor_put(x, k, at + (side ? -eps : eps));
            if (mf_case_run(c, c->graph, 1, NULL, &a) != MF_OK) {
                mf_complain(op, text, "%s", mf_error_message());
                mf_answer_deinit(&a);
                return false;
            }
            y[side] = weighed(&a);
            mf_answer_deinit(&a);
        }
        mf_tensor_put(x, k, at);
        if (!close_enough(op, text, i, dx, k, (y[0] - y[1]) / (2 * eps), tol))
            return false;
    }
    return true;
}

/* Gradients of every float input, fetched in one run. */
static mf_status symbolic(const mf_case *c, const mf_sample *s, const mf_answer *y, mf_tensor **dx)
{
    mf_output ys[MF_CASE_OUTPUTS], dys[MF_CASE_OUTPUTS], dxs[MF_SAMPLE_INPUTS];
    char names[MF_SAMPLE_INPUTS][128];
    const char *fetches[MF_SAMPLE_INPUTS];
    mf_tensor *got[MF_SAMPLE_INPUTS] = { NULL };
    mf_session *session;
    mf_status st;
    int n_y = 0, n = 0;

    for (int i = 0; i < y->n; i++) {
        if (mf_dtype_is_float(y->out[i]->dtype)) {
            ys[n_y] = (mf_output){ c->node, i };
            dys[n_y++] = weights_like(c->graph, y->out[i]);
        }
    }
    MF_TRY(mf_gradients(c->graph, ys, n_y, c->in, s->n_in, dys, dxs));
    for (int i = 0; i < s->n_in; i++) {
        if (dxs[i].node) {
            (void)snprintf(names[n], sizeof names[n], "%s:%d", dxs[i].node->name, dxs[i].port);
            fetches[n] = names[n];
            n++;
        }
    }
    if (n == 0)
        return MF_OK;
    MF_TRY(mf_session_new(c->graph, NULL, &session));
    st = mf_session_run(session, NULL, c->feed_names, c->feeds, c->n_feeds, fetches, n, NULL, 0,
                        got);
    for (int i = 0, k = 0; st == MF_OK && i < s->n_in; i++) {
        if (dxs[i].node)
            dx[i] = got[k++];
    }
    mf_session_free(session);
    return st;
}

static bool gradient_holds(const mf_op *op, const char *text, mf_sample *s)
{
    mf_tensor *dx[MF_SAMPLE_INPUTS] = { NULL };
    mf_case c = { 0 };
    mf_answer y = { 0 };
    mf_status st;
    bool good = true;

    for (int i = 0; i < s->n_in; i++)
        s->no_grad = s->no_grad || s->in[i].is_variable;
    if (s->fails || s->no_grad || s->unordered || s->n_in == 0)
        return true;
    (void)to_double(op, s);
    st = mf_case_build(op, s, &c);
    if (st == MF_OK)
        st = mf_case_run(&c, c.graph, 1, NULL, &y);
    if (st == MF_OK)
        st = symbolic(&c, s, &y, dx);
    if (st != MF_OK) {
        mf_complain(op, text, "%s", mf_error_message());
        good = false;
    }
    for (int i = 0; good && i < s->n_in; i++) {
        const mf_tensor *x = &s->in[i].value;

        if ((x->dtype != MF_DTYPE_F64 && x->dtype != MF_DTYPE_F32) || s->in[i].no_grad)
            continue;
        if (dx[i] && !mf_shape_equal(&dx[i]->shape, &x->shape)) {
            mf_complain(op, text, "the gradient of input %d has another shape", i);
            good = false;
        } else {
            good = check_input(op, text, &c, s, i, dx[i]);
        }
    }
    for (int i = 0; i < s->n_in; i++)
        mf_tensor_free(dx[i]);
    mf_answer_deinit(&y);
    mf_case_deinit(&c);
    return good;
}

static bool op_gradient_holds(const mf_op *op)
{
    if (op->grad == mf_grad_none || op->grad == mf_grad_missing)
        return true;
    return each_sample(op, gradient_holds);
}

MF_TEST_TIMEOUT(every_gradient_equals_central_differences, 300)
{
    T_EQ(mf_each_op("wrong gradient", op_gradient_holds), 0);
}

/* ---- hostile inputs ---- */

static const mf_shape odd_shapes[] = { { .rank = 0 },
                                       { .rank = 1, .dims = { 0 } },
                                       { .rank = 1, .dims = { 1 } },
                                       { .rank = 2, .dims = { 3, 0 } },
                                       { .rank = 3, .dims = { 2, 1, 5 } },
                                       { .rank = 5, .dims = { 1, 2, 1, 2, 1 } } };
static const double odd_values[] = { -1, 0, 1, 1e9, -1e18, 9e18 };

/* Both a result and an error that names the node are valid. */
static bool answers(const mf_op *op, const char *text, const mf_sample *s, const char *what)
{
    mf_case c;
    mf_answer a = { 0 };
    mf_status st = mf_case_build(op, s, &c);
    bool built = st == MF_OK, good = true;

    if (built)
        st = mf_case_run(&c, c.graph, 2, NULL, &a);
    if (st == MF_INTERNAL || (built && st != MF_OK && !strstr(mf_error_message(), "{{node op}}") &&
                              !strstr(mf_error_message(), "in"))) {
        mf_complain(op, text, "%s: %s: %s", what, mf_status_name(st), mf_error_message());
        good = false;
    }
    mf_answer_deinit(&a);
    mf_case_deinit(&c);
    return good;
}

static bool with_shape(const mf_op *op, const char *text, mf_sample *s, int i,
                       const mf_shape *shape)
{
    char what[64];
    mf_tensor keep = s->in[i].value, odd = { 0 };
    bool good;

    if (mf_tensor_alloc(&odd, keep.dtype, shape) != MF_OK)
        return false;
    for (int64_t k = 0; k < odd.count && mf_dtype_is_plain(odd.dtype); k++)
        mf_tensor_put(&odd, k, keep.count > 0 ? mf_tensor_float_at(&keep, k % keep.count) : 1);
    s->in[i].value = odd;
    (void)snprintf(what, sizeof what, "input %d of odd shape, rank %d", i, shape->rank);
    good = answers(op, text, s, what);
    s->in[i].value = keep;
    mf_tensor_clear(&odd);
    return good;
}

static bool with_value(const mf_op *op, const char *text, mf_sample *s, int i, double value)
{
    char what[64];
    mf_tensor keep = s->in[i].value, odd = { 0 };
    bool good;

    if (mf_tensor_clone(&odd, &keep) != MF_OK)
        return false;
    for (int64_t k = 0; k < odd.count; k++)
        mf_tensor_put(&odd, k, value);
    s->in[i].value = odd;
    (void)snprintf(what, sizeof what, "input %d all %g", i, value);
    good = answers(op, text, s, what);
    s->in[i].value = keep;
    mf_tensor_clear(&odd);
    return good;
}

static bool with_type(const mf_op *op, const char *text, mf_sample *s, int i, mf_dtype type)
{
    mf_tensor keep = s->in[i].value, odd = { 0 };
    char what[64];
    bool good;

    if (mf_tensor_alloc(&odd, type, &keep.shape) != MF_OK)
        return false;
    for (int64_t k = 0; k < odd.count; k++)
        mf_tensor_put(&odd, k, 1);
    s->in[i].value = odd;
    (void)snprintf(what, sizeof what, "input %d of type %s", i, mf_dtype_name(type));
    good = answers(op, text, s, what);
    s->in[i].value = keep;
    mf_tensor_clear(&odd);
    return good;
}

/* Extreme values of integer attributes. */
static bool with_attributes(const mf_op *op, const char *text, mf_sample *s)
{
    static const char *const values[] = {
        "-1", "0", "7", "2147483648", "9223372036854775807", "-9223372036854775808"
    };
    char keep[sizeof s->attrs];
    const mf_opdef *def;
    bool good = true;

    if (mf_op_def(op, &def) != MF_OK)
        return false;
    memcpy(keep, s->attrs, sizeof keep);
    for (int a = 0; a < def->n_attrs && good; a++) {
        if (def->attrs[a].kind != MF_ATTR_INT)
            continue;
        for (int v = 0; v < MF_COUNT(values) && good; v++) {
            char what[160];

            (void)snprintf(what, sizeof what, "attribute %s=%s", def->attrs[a].name, values[v]);
            (void)snprintf(s->attrs, sizeof s->attrs,
                           def->attrs[a].is_list ? "%s %s=[%s,%s]" : "%s %s=%s",
                           strstr(keep, def->attrs[a].name) ? "" : keep, def->attrs[a].name,
                           values[v], values[v]);
            good = answers(op, text, s, what);
        }
    }
    memcpy(s->attrs, keep, sizeof keep);
    return good;
}

static bool survives(const mf_op *op, const char *text, mf_sample *s)
{
    bool good = with_attributes(op, text, s);

    for (int i = 0; i < s->n_in; i++) {
        const mf_dtype t = s->in[i].value.dtype;

        for (int k = 0; k < MF_COUNT(odd_shapes); k++)
            good = with_shape(op, text, s, i, &odd_shapes[k]) && good;
        for (int k = 0; k < MF_COUNT(odd_values) && t != MF_DTYPE_STRING; k++)
            good = with_value(op, text, s, i, odd_values[k]) && good;
        good = with_type(op, text, s, i, MF_DTYPE_F64) && good;
        good = with_type(op, text, s, i, MF_DTYPE_I8) && good;
        good = with_type(op, text, s, i, MF_DTYPE_BOOL) && good;
    }
    return good;
}

static bool op_survives(const mf_op *op)
{
    return each_sample(op, survives);
}

MF_TEST_TIMEOUT(every_op_answers_hostile_inputs_with_a_result_or_an_error_naming_the_node, 400)
{
    T_EQ(mf_each_op("hostile input", op_survives), 0);
}

/* ---- definitions ---- */

MF_TEST(every_op_definition_can_be_read_and_is_complete)
{
    int n;
    const mf_op *const *ops = mf_op_all(&n);

    T_TRUE(n > 0);
    for (int i = 0; i < n; i++) {
        const mf_opdef *def;

        T_OK(mf_op_def(ops[i], &def));
        if (ops[i]->control == MF_CONTROL_NONE && (!ops[i]->run) == (!ops[i]->start)) {
            (void)fprintf(stderr, "%s\n", ops[i]->name);
            T_EQ((ops[i]->run != NULL) + (ops[i]->start != NULL), 1);
        }
        if (!ops[i]->infer || !ops[i]->grad)
            (void)fprintf(stderr, "%s\n", ops[i]->name);
        T_TRUE(ops[i]->infer != NULL);
        T_TRUE(ops[i]->grad != NULL);
        T_TRUE(i == 0 || strcmp(ops[i - 1]->name, ops[i]->name) < 0);
    }
}
