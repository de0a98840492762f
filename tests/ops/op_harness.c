/* SPDX-License-Identifier: Apache-2.0 */
#include "op_harness.h"

#include "base/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool takes_reference(const mf_op *op, int input)
{
    const mf_opdef *def;

    /* Variables come first in every signature that takes them. */
    return mf_op_def(op, &def) == MF_OK && input < def->n_in && def->in[input].is_ref;
}

static mf_output add_variable(mf_case *c, const mf_op *op, int i, const mf_tensor *value,
                              mf_node **init)
{
    char shape[MF_SHAPE_TEXT];
    const bool ref = takes_reference(op, i);
    const mf_output v = mf_applyf(c->graph, ref ? "VariableV2" : "VarHandleOp", MF_NO_IN,
                                  "dtype=%s shape=shape%s name='in%d'", mf_dtype_name(value->dtype),
                                  mf_shape_text(&value->shape, shape), i);
    const mf_output assign = mf_apply(c->graph, ref ? "Assign" : "AssignVariableOp",
                                      MF_IN(v, mf_constant(c->graph, value, NULL)));

    mf_control(c->graph, *init, assign.node);
    return v;
}

mf_status mf_case_build(const mf_op *op, const mf_sample *sample, mf_case *out)
{
    mf_output in[MF_SAMPLE_INPUTS + 1], op_out;
    mf_node *init;

    *out = (mf_case){ 0 };
    MF_TRY(mf_graph_new(&out->graph));
    init = mf_applyf(out->graph, "NoOp", MF_NO_IN, "name='init'").node;
    for (int i = 0; i < sample->n_in; i++) {
        const mf_tensor *v = &sample->in[i].value;

        if (sample->in[i].same_as > 0) {
            in[i] = in[sample->in[i].same_as - 1];
        } else if (sample->in[i].is_variable) {
            in[i] = add_variable(out, op, i, v, &init);
            out->has_init = true;
        } else {
            in[i] = mf_applyf(out->graph, "Placeholder", MF_NO_IN, "dtype=%s name='in%d'",
                              mf_dtype_name(v->dtype), i);
            if (in[i].node)
                out->feed_names[out->n_feeds] = in[i].node->name;
            out->feeds[out->n_feeds++] = v;
        }
        out->in[i] = in[i];
    }
    in[sample->n_in] = (mf_output)MF_END;
    op_out = mf_applyf(out->graph, op->name, in, "name='op' %s", sample->attrs);
    out->node = op_out.node;
    return mf_graph_status(out->graph);
}

void mf_case_deinit(mf_case *c)
{
    mf_graph_free(c->graph);
}

static mf_status run(mf_session *s, const mf_case *c, mf_answer *out)
{
    char names[MF_CASE_OUTPUTS][64];
    const char *fetches[MF_CASE_OUTPUTS], *init = "init", *target = mf_node_name(c->node);
    const mf_run_options options = { .timeout_ms = c->timeout_ms };
    int n = 0;

    if (c->has_init)
        MF_TRY(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &init, 1, NULL));
    for (int i = 0; i < c->node->n_outputs && n < MF_CASE_OUTPUTS; i++) {
        const mf_dtype t = mf_type_base(c->node->out_types[i]);

        if (t == MF_DTYPE_RESOURCE || t == MF_DTYPE_VARIANT)
            continue;
        (void)snprintf(names[n], sizeof names[n], "%s:%d", target, i);
        fetches[n] = names[n];
        n++;
    }
    out->n = n;
    return mf_session_run(s, &options, c->feed_names, c->feeds, c->n_feeds, fetches, n, &target,
                          n == 0 ? 1 : 0, out->out);
}

mf_status mf_case_run(const mf_case *c, const mf_graph *graph, int threads, const char *disable,
                      mf_answer *out)
{
    const mf_session_options options = { .threads = threads, .disable = disable };
    mf_session *s;
    mf_status st;

    *out = (mf_answer){ 0 };
    MF_TRY(mf_session_new(graph, &options, &s));
    st = run(s, c, out);
    mf_session_free(s);
    return st;
}

void mf_answer_deinit(mf_answer *a)
{
    for (int i = 0; i < a->n; i++)
        mf_tensor_free(a->out[i]);
}

static bool tensor_equal(const mf_tensor *a, const mf_tensor *b)
{
    if (a->dtype != b->dtype || !mf_shape_equal(&a->shape, &b->shape))
        return false;
    if (mf_dtype_is_plain(a->dtype))
        return memcmp(a->data, b->data, mf_tensor_bytes(a)) == 0;
    for (int64_t i = 0; i < a->count; i++) {
        const mf_string *x = (const mf_string *)a->data + i, *y = (const mf_string *)b->data + i;

        if (x->len != y->len || (x->len > 0 && memcmp(x->data, y->data, x->len) != 0))
            return false;
    }
    return true;
}

bool mf_answer_equal(const mf_answer *a, const mf_answer *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++) {
        if (!tensor_equal(a->out[i], b->out[i]))
            return false;
    }
    return true;
}

void mf_complain(const mf_op *op, const char *sample, const char *fmt, ...)
{
    char text[1500];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "  %s \"%s\": %s\n", op->name, sample, text);
}

int mf_each_op(const char *what, bool (*fn)(const mf_op *op))
{
    const char *only = getenv("OP");
    int n, failed = 0;
    const mf_op *const *ops = mf_op_all(&n);

    for (int i = 0; i < n; i++) {
        int status;
        pid_t pid;

        if (!ops[i]->samples || (only && strcmp(only, ops[i]->name) != 0))
            continue;
        (void)fflush(NULL);
        pid = fork();
        if (pid == 0) {
            mf_quota_set((int64_t)64 << 20); /* hostile sizes must fail, not exhaust the memory of
                                                the machine */
            exit(fn(ops[i]) ? 0 : 1); /* not _exit, which would skip the leak checker */
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            status = -1;
        if (status == 0)
            continue;
        failed++;
        (void)fprintf(stderr, "%s: %s\n", ops[i]->name,
                      WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : what);
    }
    return failed;
}
