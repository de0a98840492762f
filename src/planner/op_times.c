/* SPDX-License-Identifier: Apache-2.0 */
/* op_times.c - measures the run time of each kernel on this machine. */
#include "planner/op_times.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RUNS = 3, TRIES = 10, RUNS_NS = 2000000, COLD_BYTES = 4 << 20 };

/* Above LARGE_ELEMENTS an op is scaled from a smaller one; without one, measured up to
 * MAX_ELEMENTS. */
static const double LARGE_ELEMENTS = 2e6, MAX_ELEMENTS = 64e6;

/* A measured kernel. */
typedef struct point {
    struct point *next; /* of the same op */
    double work, ns;
    int64_t scratch; /* bytes of scratch memory */
} point;

struct mf_op_times {
    mf_arena *arena;
    mf_pool *pool; /* the threads of one device */
    mf_pool *whole; /* all threads, which a device may use at times */
    mf_resources *resources; /* for kernels that need them */
    int64_t tries; /* the memory account of the resources has seen the last one */
    mf_map exact; /* op, attributes and shapes -> point */
    mf_map ops; /* name -> its points */
    float *cold; /* COLD_BYTES to evict the caches with */
    double unit_ns; /* 0: measured */
    int64_t budget_ns, spent_ns, count;
};

mf_status mf_op_times_new(int threads, int all_threads, int64_t budget_ns, mf_op_times **out)
{
    mf_op_times *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("measurements");
    t->budget_ns = budget_ns;
    t->arena = mf_arena_new();
    t->cold = mf_calloc(1, COLD_BYTES);
    st = t->arena && t->cold ? mf_pool_new(threads, &t->pool) : MF_NOMEM("measurements");
    if (st == MF_OK)
        st = mf_pool_new(all_threads, &t->whole);
    if (st == MF_OK)
        st = mf_resources_new(&t->resources);
    if (st != MF_OK)
        mf_op_times_free(t);
    else
        *out = t;
    return st;
}

mf_status mf_op_times_fixed(double unit_ns, mf_op_times **out)
{
    MF_TRY(mf_op_times_new(1, 1, 0, out));
    (*out)->unit_ns = unit_ns;
    return MF_OK;
}

void mf_op_times_free(mf_op_times *t)
{
    if (!t)
        return;
    mf_map_deinit(&t->exact);
    mf_map_deinit(&t->ops);
    if (t->resources)
        mf_resources_free(t->resources);
    mf_pool_free(t->pool);
    mf_pool_free(t->whole);
    mf_free(t->cold);
    mf_arena_free(t->arena);
    mf_free(t);
}

int64_t mf_op_times_count(const mf_op_times *t)
{
    return t->count;
}

int64_t mf_op_times_spent_ns(const mf_op_times *t)
{
    return t->spent_ns;
}

/* ---- ops ---- */

mf_shape mf_op_input_shape(const mf_compile *c, const mf_node *n, int i)
{
    const mf_node *from = n->inputs[i].node;

    if (strcmp(from->op_name, "VarHandleOp") == 0)
        return *mf_node_shape(from, "shape");
    return mf_compile_facts(c, from)->shapes[n->inputs[i].port];
}

static double elements(const mf_shape *s)
{
    int64_t n = 0;

    return mf_shape_is_static(s) && mf_shape_count(s, &n) == MF_OK ? (double)n : 0;
}

static bool is_product(const mf_node *n)
{
    return strstr(n->op_name, "MatMul") || strstr(n->op_name, "Conv") ||
           strcmp(n->op_name, "Einsum") == 0;
}

double mf_op_work(const mf_compile *c, const mf_node *n)
{
    double product = 1, sum = 0;
    int factors = 0;

    for (int i = 0; i < n->n_inputs + n->n_outputs; i++) {
        const mf_shape s = i < n->n_inputs ? mf_op_input_shape(c, n, i)
                                           : mf_compile_facts(c, n)->shapes[i - n->n_inputs];
        const double e = elements(&s);

        sum += e;
        if (s.rank > 1 && factors < 3 && e > 0) {
            product *= e; /* (m k) (k n) (m n) is the square of m n k */
            factors++;
        }
    }
    return is_product(n) && factors == 3 ? sqrt(product) : sum;
}

static void op_times_write_key(const mf_compile *c, const mf_node *n, mf_buf *out)
{
    char text[MF_SHAPE_TEXT];

    mf_buf_str(out, n->op_name);
    for (int i = 0; i < n->n_inputs; i++) {
        const mf_shape s = mf_op_input_shape(c, n, i);

        mf_buf_printf(out, " %d%s", (int)n->in_types[i], mf_shape_text(&s, text));
    }
    for (int i = 0; i < n->n_attrs; i++) {
        const mf_attr *a = &n->attrs[i].value;

        /* Single integers are seeds and offsets, or follow from shapes: not part of the key. */
        if (a->kind != MF_ATTR_TENSOR && (a->kind != MF_ATTR_INT || a->is_list)) {
            mf_buf_printf(out, " %s=", n->attrs[i].name);
            mf_attr_print(a, out);
        }
    }
}

/* ---- measuring ---- */

typedef struct trial {
    mf_op_times *times;
    const mf_compile *c;
    const mf_node *n;
    mf_tensor *in, *out;
    const mf_tensor **in_at;
    mf_tensor **out_at;
} trial;

/* Ordinary values; indices are 0. */
static mf_status make_tensor(mf_dtype type, const mf_shape *shape, mf_tensor *out)
{
    MF_TRY(mf_tensor_alloc(out, type, shape));
    for (int64_t i = 0; mf_dtype_is_plain(type) && i < out->count; i++) {
        if (type == MF_DTYPE_F32) /* the common case, without conversion */
            ((float *)out->data)[i] = (float)(i % 7 + 1) * 0.0625f;
        else
            mf_tensor_put(out, i, mf_dtype_is_float(type) ? (double)(i % 7 + 1) * 0.0625 : 0);
    }
    return MF_OK;
}

static mf_status make_variable(const mf_node *handle, mf_tensor *out)
{
    mf_variable_spec spec = { mf_node_type(handle, "dtype"), mf_node_shape(handle, "shape"),
                              handle->name };
    mf_tensor value = { 0 };
    mf_object *object = NULL;
    mf_status st = make_tensor(spec.dtype, spec.declared, &value);

    if (st == MF_OK)
        st = mf_variable_make(&spec, &object);
    if (st == MF_OK)
        st = mf_variable_assign((mf_variable *)object, &value, true);
    mf_tensor_clear(&value);
    if (st == MF_OK)
        st = mf_tensor_alloc(out, MF_DTYPE_RESOURCE, &MF_SCALAR);
    if (st == MF_OK)
        *(mf_object **)out->data = object;
    else
        mf_object_unref(object);
    return st;
}

static mf_status make_input(const trial *t, int i, mf_tensor *out)
{
    const mf_output o = t->n->inputs[i];
    const mf_facts *facts = mf_compile_facts(t->c, o.node);
    const mf_attr *constant =
        strcmp(o.node->op_name, "Const") == 0 ? mf_node_attr(o.node, "value") : NULL;

    if (constant || facts->values[o.port]) {
        mf_tensor_set(out, constant ? constant->tensor : facts->values[o.port]);
        return MF_OK;
    }
    if (strcmp(o.node->op_name, "VarHandleOp") == 0)
        return make_variable(o.node, out);
    return make_tensor(mf_type_base(t->n->in_types[i]), &facts->shapes[o.port], out);
}

/* With one thread its CPU time, which excludes other processes of this machine. */
static int64_t op_times_now(const mf_op_times *t)
{
    struct timespec cpu;

    if (mf_pool_threads(t->pool) > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) != 0)
        return mf_clock_ns();
    return (int64_t)cpu.tv_sec * 1000000000 + cpu.tv_nsec;
}

/* Evicts the caches: in a step they hold the data of other kernels, not of the kernel's last run.
 */
static void op_times_leave(mf_op_times *t)
{
    for (size_t i = 0; i < COLD_BYTES / sizeof *t->cold; i += 16)
        t->cold[i] += 1;
}

static int op_times_ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Of CPU times the median; of wall-clock times, which include other work, the minimum. */
static double op_times_pick(const mf_op_times *t, int64_t *took, int n)
{
    qsort(took, (size_t)n, sizeof *took, op_times_ascending);
    return (double)took[mf_pool_threads(t->pool) > 1 ? 0 : n / 2];
}

/* Memory besides the outputs, which are allocated from the second run on. */
static mf_status run_accounted(const trial *t, mf_kernel *k, int64_t *scratch)
{
    mf_op_times *times = t->times;
    mf_mem_account *account = mf_resources_account(times->resources);
    mf_mem_account *before = mf_mem_account_enter(account);
    mf_step step = *k->step;
    mf_kernel helped = *k;
    mf_status st;

    step.pool = times->whole;
    helped.step = &step;
    mf_mem_account_begin(account);
    st = k->def->run(&helped);
    mf_mem_account_end(account, &(mf_mem_account_run){ .ops = ++times->tries });
    (void)mf_mem_account_enter(before);
    *scratch = mf_mem_account_largest(account).bytes;
    return st;
}

/* Helper threads have separate memory, and do not work in every run. */
static mf_status find_scratch(const trial *t, mf_kernel *k, int64_t *most)
{
    const int64_t begin = mf_clock_ns();
    mf_status st = MF_OK;

    for (int i = 0; st == MF_OK && i < TRIES && mf_clock_ns() - begin < RUNS_NS; i++) {
        int64_t scratch = 0;

        st = run_accounted(t, k, &scratch);
        *most = scratch > *most ? scratch : *most;
    }
    return st;
}

/* The first run is a warm-up. */
static mf_status op_times_run(trial *t, void *state, point *out)
{
    mf_cancel cancel;
    mf_step step = { .pool = t->times->pool,
                     .resources = t->times->resources,
                     .local = t->times->resources,
                     .cancel = &cancel };
    mf_kernel k = { .node = t->n,
                    .def = mf_node_kernel(t->n),
                    .state = state,
                    .step = &step,
                    .in = t->in_at,
                    .out = t->out_at,
                    .n_in = t->n->n_inputs,
                    .n_out = t->n->n_outputs };
    int64_t took[MAX_RUNS], all = 0;
    mf_status st;
    int n = 0;

    mf_cancel_init(&cancel);
    st = k.def->run(&k);
    if (st == MF_OK)
        st = find_scratch(t, &k, &out->scratch);
    while (st == MF_OK && n < MAX_RUNS && all < RUNS_NS) {
        int64_t begin;

        op_times_leave(t->times);
        begin = op_times_now(t->times);
        st = k.def->run(&k);
        took[n] = op_times_now(t->times) - begin;
        all += took[n++];
    }
    out->ns = n > 0 ? op_times_pick(t->times, took, n) : 0;
    mf_cancel_deinit(&cancel);
    return st;
}

static mf_status op_times_measure(trial *t, void *state, point *p)
{
    const int n_in = t->n->n_inputs, n_out = t->n->n_outputs;
    mf_status st = MF_OK;

    t->in = mf_calloc(n_in + 1, sizeof *t->in);
    t->out = mf_calloc(n_out + 1, sizeof *t->out);
    t->in_at = mf_calloc(n_in + 1, sizeof *t->in_at);
    t->out_at = mf_calloc(n_out + 1, sizeof *t->out_at);
    if (!t->in || !t->out || !t->in_at || !t->out_at)
        st = MF_NOMEM("a measurement");
    for (int i = 0; st == MF_OK && i < n_in; i++) {
        t->in_at[i] = &t->in[i];
        st = make_input(t, i, &t->in[i]);
    }
    for (int i = 0; st == MF_OK && i < n_out; i++)
        t->out_at[i] = &t->out[i];
    if (st == MF_OK)
        st = op_times_run(t, state, p);
    for (int i = 0; t->in && i < n_in; i++)
        mf_tensor_clear(&t->in[i]);
    for (int i = 0; t->out && i < n_out; i++)
        mf_tensor_clear(&t->out[i]);
    mf_free(t->in);
    mf_free(t->out);
    mf_free(t->in_at);
    mf_free(t->out_at);
    return st;
}

/* ---- results ---- */

/* Ops that forward their inputs, or compute nothing. */
static bool op_times_is_free(const mf_node *n)
{
    return !mf_node_kernel(n)->run || mf_node_kernel(n)->start ||
           mf_node_kernel(n)->flags & MF_OP_VIEW || strcmp(n->op_name, "VarHandleOp") == 0 ||
           strcmp(n->op_name, "ReadVariableOp") == 0 || strcmp(n->op_name, "NoOp") == 0;
}

static bool can_run(const mf_op_times *t, const mf_compile *c, const mf_node *n)
{
    const bool known = mf_map_find(&t->ops, n->op_name) != NULL;
    double all = 0;

    for (int i = 0; i < n->n_inputs; i++) {
        const mf_shape s = mf_op_input_shape(c, n, i);
        const bool handle = mf_type_base(n->in_types[i]) == MF_DTYPE_RESOURCE;

        if (!mf_shape_is_static(&s) || mf_type_is_ref(n->in_types[i]) ||
            (handle && strcmp(n->inputs[i].node->op_name, "VarHandleOp") != 0) ||
            (!handle && !mf_dtype_is_plain(mf_type_base(n->in_types[i]))))
            return false;
        all += elements(&s);
    }
    return all <= (known ? LARGE_ELEMENTS : MAX_ELEMENTS);
}

/* Scaled from the measured kernel of this op with the most similar work. */
static point op_times_scaled(const mf_op_times *t, const mf_node *n, double work)
{
    const point *best = NULL;
    double nearest = INFINITY;

    for (const point *p = mf_map_find(&t->ops, n->op_name); p; p = p->next) {
        const double far = fabs(log((p->work + 1) / (work + 1)));

        if (far < nearest) {
            nearest = far;
            best = p;
        }
    }
    if (!best)
        return (point){ 0 };
    return (point){ .ns = best->ns * (work + 1) / (best->work + 1), .scratch = best->scratch };
}

static mf_status op_times_remember(mf_op_times *t, const char *key, const mf_node *n,
                                   const point *is)
{
    point *p = MF_ARENA_NEW(t->arena, point);
    const char *op = mf_arena_strdup(t->arena, n->op_name), *name = mf_arena_strdup(t->arena, key);

    if (!p || !op || !name)
        return MF_NOMEM("measurements");
    *p = *is;
    p->next = mf_map_find(&t->ops, op);
    MF_TRY(mf_map_set(&t->ops, op, p));
    return mf_map_set(&t->exact, name, p);
}

/* A kernel that fails on synthetic values counts as free. */
static point op_times_find_out(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state,
                               const char *key)
{
    trial try = { .times = t, .c = c, .n = n };
    point is = { .work = mf_op_work(c, n) };
    int64_t begin;

    if (t->spent_ns >= t->budget_ns || !can_run(t, c, n))
        return op_times_scaled(t, n, is.work);
    begin = mf_clock_ns();
    if (op_times_measure(&try, state, &is) != MF_OK) {
        MF_LOG(MF_LOG_DEBUG, "%s cannot be measured: %s", key, mf_error_message());
        is.ns = 0;
    }
    MF_LOG(MF_LOG_DEBUG, "%.0f ns, work %.3g, %lld bytes: %.300s", is.ns, is.work,
           (long long)is.scratch, key);
    t->spent_ns += mf_clock_ns() - begin;
    t->count++;
    return op_times_remember(t, key, n, &is) == MF_OK ? is : (point){ 0 };
}

static point op_times_look_up(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state)
{
    point is = { 0 };
    mf_buf key = { 0 };
    const point *known;

    if (op_times_is_free(n))
        return is;
    if (t->unit_ns > 0)
        return (point){ .ns = t->unit_ns * mf_op_work(c, n) };
    op_times_write_key(c, n, &key);
    if (mf_buf_finish(&key) == MF_OK) {
        known = mf_map_find(&t->exact, key.data);
        is = known ? *known : op_times_find_out(t, c, n, state, key.data);
    }
    mf_buf_deinit(&key);
    return is;
}

double mf_op_time(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state)
{
    return op_times_look_up(t, c, n, state).ns;
}

int64_t mf_op_scratch(mf_op_times *t, const mf_compile *c, const mf_node *n, void *state)
{
    return op_times_look_up(t, c, n, state).scratch;
}
