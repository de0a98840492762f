/* SPDX-License-Identifier: Apache-2.0 */
/* mutated.c - every op on samples with random mutations: extreme values, odd shapes, attributes and
 * shared inputs. A result or an error is valid. A crash, a hang, an internal error or a sanitizer
 * report is a failure.
 *
 * OP=Relu selects an op, MUTATIONS=1000 the number of mutations of each sample (default: 6), SEED=2
 * the random seed. VERBOSE=1 prints each mutation before it runs. */
#include "mf_test.h"
#include "op_harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COPIES = 100, /* copies of one tensor, for ops with any number of inputs */
    TIMEOUT_MS = 2000, /* of a run: ops that wait must end by then */
    PATIENCE_S = 120, /* for all samples of an op with the default number of mutations */
};

static const double extremes[] = { NAN,         INFINITY,
                                   -INFINITY,   0,
                                   -0.0,        1,
                                   -1,          2,
                                   0.5,         1e-310,
                                   3.4e38,      -3e38,
                                   1e308,       -1e308,
                                   127,         128,
                                   -128,        -129,
                                   255,         256,
                                   65535,       65536,
                                   2147483647,  2147483648,
                                   -2147483648, -2147483649.0,
                                   9.3e18,      -9.3e18,
                                   1.9e19,      4611686018427387904.0,
                                   1e9,         -1e18 };
static const char *const extreme_ints[] = { "-1",
                                            "0",
                                            "1",
                                            "2",
                                            "3",
                                            "7",
                                            "64",
                                            "255",
                                            "65536",
                                            "2147483647",
                                            "2147483648",
                                            "4294967297",
                                            "9223372036854775807",
                                            "-2147483648",
                                            "-9223372036854775808",
                                            "4611686018427387904" };
static const char *const extreme_floats[] = { "nan",  "inf",   "-inf",  "0",   "-1",
                                              "1e38", "-1e38", "1e-38", "0.5", "3e9" };
static const char *const extreme_shapes[] = { "?",
                                              "[]",
                                              "[0]",
                                              "[-1]",
                                              "[1]",
                                              "[2,-1,3]",
                                              "[3,0]",
                                              "[2147483648,2147483648]",
                                              "[4611686018427387904,2]",
                                              "[9223372036854775807]" };
static const char *const types[] = {
    "float", "double", "half",   "bfloat16", "int8",      "uint8",
    "int32", "int64",  "uint64", "bool",     "complex64", "string"
};

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

typedef struct mutator {
    uint64_t state;
} mutator;

/* A random number below n. */
static int draw(mutator *m, int n)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((m->state >> 33) % (uint64_t)n);
}

#define DRAW(m, list) ((list)[draw((m), MF_COUNT(list))])

/* ---- inputs ---- */

static void change_values(mutator *m, mf_tensor *t)
{
    const bool all = draw(m, 3) == 0;
    const double value = DRAW(m, extremes);

    if (t->count == 0 || t->dtype == MF_DTYPE_STRING)
        return;
    for (int64_t k = 0; all && k < t->count; k++)
        mf_tensor_put(t, k, value);
    for (int n = 1 + draw(m, 3); !all && n > 0; n--)
        mf_tensor_put(t, draw(m, (int)t->count), DRAW(m, extremes));
}

static void change_dims(mutator *m, mf_shape *s)
{
    static const int64_t sizes[] = { 0, 1, 2, 3, 5, 8 };
    const int at = s->rank > 0 ? draw(m, s->rank) : 0;

    if (s->rank > 0 && draw(m, 3) > 0) {
        s->dims[at] = DRAW(m, sizes);
    } else if (s->rank > 0 && draw(m, 2) == 0) {
        memmove(&s->dims[at], &s->dims[at + 1], (size_t)(s->rank - at - 1) * sizeof *s->dims);
        s->rank--;
    } else if (s->rank < MF_MAX_RANK) {
        s->dims[s->rank++] = DRAW(m, sizes);
    }
}

/* Repeats its elements. */
static bool change_shape(mutator *m, mf_tensor *t)
{
    mf_tensor odd = { 0 };
    mf_shape shape = t->shape;
    int64_t count;

    change_dims(m, &shape);
    if (mf_shape_count(&shape, &count) != MF_OK || count > 4096)
        return true;
    if (mf_tensor_alloc(&odd, t->dtype, &shape) != MF_OK)
        return false;
    for (int64_t k = 0; k < odd.count && mf_dtype_is_plain(odd.dtype); k++)
        mf_tensor_put(&odd, k, t->count > 0 ? mf_tensor_float_at(t, k % t->count) : 1);
    mf_tensor_clear(t);
    *t = odd;
    return true;
}

/* Replaces input i by an earlier tensor. */
static void share_input(mutator *m, mf_sample *s, int i)
{
    const int other = i > 0 ? draw(m, i) : 0;

    if (other < i && s->in[other].value.dtype == s->in[i].value.dtype)
        s->in[i].same_as = other + 1;
}

static bool change_input(mutator *m, mf_sample *s)
{
    const int i = s->n_in > 0 ? draw(m, s->n_in) : -1;

    if (i < 0)
        return true;
    switch (draw(m, 5)) {
    case 0:
    case 1:
        return change_shape(m, &s->in[i].value);
    case 2:
        share_input(m, s, i);
        return true;
    default:
        change_values(m, &s->in[i].value);
        return true;
    }
}

/* ---- attributes ---- */

/* The end of the value that begins at text: brackets and quotes may contain spaces. */
static const char *behind_value(const char *text)
{
    int open = 0;

    for (bool quoted = false; *text && (quoted || open > 0 || *text != ' '); text++) {
        quoted ^= *text == '\'';
        open += *text == '[' ? 1 : *text == ']' ? -1 : 0;
    }
    return text;
}

/* Replaces or adds NAME=...; value NULL: removes it. */
static void set_attribute(mf_sample *s, const char *name, const char *value)
{
    const size_t len = strlen(name);
    char text[sizeof s->attrs];
    const char *from = s->attrs;
    size_t n = 0;

    while (*(from += strspn(from, " "))) {
        const char *equals = strchr(from, '='), *end = behind_value(equals ? equals : from);

        if (strncmp(from, name, len) != 0 || from[len] != '=')
            n += (size_t)snprintf(text + n, sizeof text - n, "%.*s ", (int)(end - from), from);
        from = end;
    }
    text[n] = '\0';
    if (value)
        (void)snprintf(text + n, sizeof text - n, "%s=%s", name, value);
    memcpy(s->attrs, text, sizeof text);
}

static const char *extreme_value(mutator *m, const mf_attrdef *def, char text[64])
{
    switch (def->kind) {
    case MF_ATTR_INT:
        return DRAW(m, extreme_ints);
    case MF_ATTR_FLOAT:
        return DRAW(m, extreme_floats);
    case MF_ATTR_BOOL:
        return draw(m, 2) ? "true" : "false";
    case MF_ATTR_TYPE:
        return DRAW(m, types);
    case MF_ATTR_SHAPE:
        (void)snprintf(text, 64, def->is_list ? "%s" : "shape%s", DRAW(m, extreme_shapes));
        return text;
    case MF_ATTR_STRING:
        (void)snprintf(text, 64, "'%s'",
                       def->n_allowed_strings > 0
                           ? def->allowed_strings[draw(m, def->n_allowed_strings)]
                           : "odd");
        return text;
    default:
        return NULL;
    }
}

static void change_attribute(mutator *m, const mf_op *op, mf_sample *s)
{
    const mf_opdef *def;
    const mf_attrdef *a;
    const char *value;
    char text[64], list[4 * 64 + 8] = "[";
    size_t n = 1;

    if (mf_op_def(op, &def) != MF_OK || def->n_attrs == 0)
        return;
    a = &def->attrs[draw(m, def->n_attrs)];
    value = extreme_value(m, a, text);
    if (!a->is_list || !value) {
        set_attribute(s, a->name, value);
        return;
    }
    for (int k = draw(m, 5); k > 0 && value; k--, value = extreme_value(m, a, text))
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", value, k > 1 ? "," : "");
    (void)snprintf(list + n, sizeof list - n, "]");
    set_attribute(s, a->name, list);
}

/* ---- a run ---- */

static void tell(const mf_op *op, const mf_sample *s)
{
    char shape[MF_SHAPE_TEXT];

    (void)fprintf(stderr, "%s", op->name);
    for (int i = 0; i < s->n_in; i++) {
        const mf_tensor *t = &s->in[i].value;

        (void)fprintf(stderr, " %s%s", mf_dtype_name(t->dtype), mf_shape_text(&t->shape, shape));
        for (int64_t k = 0; k < t->count && k < 8 && t->dtype != MF_DTYPE_STRING; k++)
            (void)fprintf(stderr, "%s%g", k > 0 ? "," : "{", mf_tensor_float_at(t, k));
        (void)fprintf(stderr, t->count > 0 && t->dtype != MF_DTYPE_STRING ? "}" : "");
        if (s->in[i].same_as > 0)
            (void)fprintf(stderr, "=in%d", s->in[i].same_as - 1);
    }
    (void)fprintf(stderr, " ; %s\n", s->attrs);
}

static bool answers(const mf_op *op, const char *text, const mf_sample *s)
{
    mf_case c;
    mf_answer a = { 0 };
    mf_status st = mf_case_build(op, s, &c);
    const char *disable[] = { NULL, "fold,simplify,cse,fuse,region,schedule,place" };
    bool good = st != MF_INTERNAL;

    c.timeout_ms = TIMEOUT_MS;
    if (getenv("VERBOSE"))
        tell(op, s);
    for (int i = 0; st == MF_OK && good && i < MF_COUNT(disable); i++) {
        good = mf_case_run(&c, c.graph, 2, disable[i], &a) != MF_INTERNAL;
        mf_answer_deinit(&a);
    }
    if (!good) {
        mf_complain(op, text, "%s", mf_error_message());
        tell(op, s);
    }
    mf_case_deinit(&c);
    return good;
}

static bool try_mutations(const mf_op *op, const char *text, uint64_t seed)
{
    bool good = true;

    for (int i = 0; i < number("MUTATIONS", 6) && good; i++) {
        mutator m = { .state = seed + (uint64_t)i * 7919 + (uint64_t)number("SEED", 1) * 1000003 };
        mf_sample s;

        (void)draw(&m, 2);
        good = mf_sample_parse(text, seed, &s) == MF_OK;
        for (int n = 1 + draw(&m, 4); n > 0 && good; n--) {
            if (draw(&m, 3) == 0)
                change_attribute(&m, op, &s);
            else
                good = change_input(&m, &s);
        }
        good = good && answers(op, text, &s);
        mf_sample_deinit(&s);
    }
    return good;
}

static bool op_answers(const mf_op *op)
{
    bool good = true;

    alarm(PATIENCE_S * (unsigned)(1 + number("MUTATIONS", 6) / 50));
    for (int i = 0; op->samples[i]; i++)
        good = try_mutations(op, op->samples[i], (uint64_t)i + 1) && good;
    return good;
}

MF_TEST_TIMEOUT(every_op_answers_mutated_samples_without_a_crash, 3600)
{
    T_EQ(mf_each_op("mutated sample", op_answers), 0);
}

/* ---- one tensor for all inputs ---- */

static bool takes_one_tensor(const mf_op *op)
{
    bool good = true;

    for (int k = 0; op->samples[k]; k++) {
        mf_sample s;

        good = mf_sample_parse(op->samples[k], (uint64_t)k + 1, &s) == MF_OK && good;
        for (int i = 1; i < s.n_in; i++) {
            for (int other = i - 1; other >= 0; other--) {
                if (s.in[other].value.dtype == s.in[i].value.dtype)
                    s.in[i].same_as = other + 1;
            }
        }
        good = answers(op, op->samples[k], &s) && good;
        mf_sample_deinit(&s);
    }
    return good;
}

MF_TEST_TIMEOUT(every_op_takes_one_tensor_for_all_its_inputs, 240)
{
    T_EQ(mf_each_op("one tensor for all inputs", takes_one_tensor), 0);
}

/* Argument `arg`, any number of tensors of one type, as COPIES of its first tensor in the sample.
 * Other arguments keep their tensors. */
static mf_status build_many(const mf_op *op, const mf_opdef *def, mf_case *one, int arg,
                            mf_sample *s)
{
    mf_output in[COPIES + MF_SAMPLE_INPUTS + 1];
    int n = 0;

    for (int a = 0; a < def->n_in; a++) {
        const bool shares =
            def->in[a].number_attr && strcmp(def->in[a].number_attr, def->in[arg].number_attr) == 0;
        int first, count;

        mf_node_arg_range(one->node, false, a, &first, &count);
        if (n + (shares ? COPIES : count) > COPIES + MF_SAMPLE_INPUTS || (shares && count == 0))
            return MF_OK; /* more than one such argument */
        for (int i = 0; i < (shares ? COPIES : count); i++)
            in[n++] = one->in[first + (shares ? 0 : i)];
    }
    in[n] = (mf_output)MF_END;
    set_attribute(s, def->in[arg].number_attr, NULL);
    one->node = mf_applyf(one->graph, op->name, in, "name='many' %s", s->attrs).node;
    return mf_graph_status(one->graph);
}

static bool many_answer(const mf_op *op, const mf_opdef *def, const char *text, int arg)
{
    mf_sample s;
    mf_case c = { 0 };
    mf_answer a = { 0 };
    mf_status st = mf_sample_parse(text, 1, &s);

    if (st == MF_OK)
        st = mf_case_build(op, &s, &c);
    if (st == MF_OK)
        st = build_many(op, def, &c, arg, &s);
    c.timeout_ms = TIMEOUT_MS;
    if (st == MF_OK && c.node) {
        st = mf_case_run(&c, c.graph, 2, NULL, &a);
        mf_answer_deinit(&a);
    }
    mf_case_deinit(&c);
    mf_sample_deinit(&s);
    if (st == MF_INTERNAL)
        mf_complain(op, text, "%d inputs: %s", COPIES, mf_error_message());
    return st != MF_INTERNAL;
}

static bool takes_many(const mf_op *op)
{
    const mf_opdef *def;
    bool good = mf_op_def(op, &def) == MF_OK;

    for (int k = 0; good && op->samples[k]; k++) {
        for (int a = 0; a < def->n_in; a++) {
            if (def->in[a].number_attr)
                good = many_answer(op, def, op->samples[k], a) && good;
        }
    }
    return good;
}

MF_TEST_TIMEOUT(ops_of_any_number_of_inputs_take_one_tensor_a_hundred_times, 240)
{
    T_EQ(mf_each_op("one tensor many times", takes_many), 0);
}
