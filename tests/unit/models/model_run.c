/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/models/model_run.h"

#include "graph/graph.h"
#include "mf_test.h"

#include <stdio.h>
#include <string.h>

static void output_name(mf_output o, char name[200])
{
    (void)snprintf(name, 200, "%s:%d", mf_node_name(o.node), o.port);
}

static mf_tensor *clock_tensor(int64_t a, int64_t b, int64_t n)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_I64, &n, n > 1 ? 1 : 0, &t));
    ((int64_t *)mf_tensor_data(t))[0] = a;
    if (n > 1)
        ((int64_t *)mf_tensor_data(t))[1] = b;
    return t;
}

mf_session *t_model_start(mf_model *m, int64_t seed)
{
    mf_output assigns[200] = { { 0 } };
    const char *targets[200];
    const char *const feeds[] = { "seed:0" };
    mf_tensor *value = clock_tensor(seed, 0, 1);
    mf_session *s;

    T_TRUE(m->n_weights < 200);
    for (int64_t i = 0; i < m->n_weights; i++) {
        assigns[i] = mf_apply(m->graph, "AssignVariableOp",
                              MF_IN(m->weights[i]->handle, m->weights[i]->initial));
        T_OK(mf_model_status(m));
        targets[i] = mf_node_name(assigns[i].node);
    }
    T_OK(mf_model_status(m));
    T_OK(mf_session_new(m->graph, NULL, &s));
    if (m->n_weights > 0)
        T_OK(mf_session_run(s, NULL, feeds, (const mf_tensor *const *)&value, 1, NULL, 0, targets,
                            (int)m->n_weights, NULL));
    mf_tensor_free(value);
    return s;
}

mf_tensor *t_model_fetch(mf_session *s, const mf_model *m, mf_output y, mf_tensor *const *inputs)
{
    char names[8][200], fetch[200];
    const char *feeds[8], *fetches[1] = { fetch };
    const mf_tensor *values[8];
    mf_tensor *clock = clock_tensor(1, 5, 2), *out = NULL;
    int n = 0;

    for (; n < (int)m->n_inputs; n++) {
        output_name(m->inputs[n], names[n]);
        feeds[n] = names[n];
        values[n] = inputs[n];
    }
    feeds[n] = "clock:0";
    values[n++] = clock;
    output_name(y, fetch);
    T_OK(mf_session_run(s, NULL, feeds, values, n, fetches, 1, NULL, 0, &out));
    mf_tensor_free(clock);
    return out;
}

mf_output t_model_training(mf_model *m, mf_output y, int shards)
{
    static int calls;
    mf_output in[220] = { { 0 } };
    mf_buf shared = { 0 }, batched = { 0 };
    char name[30];
    int n = 0;
    mf_output out;

    for (int64_t i = 0; i < m->n_inputs; i++) {
        in[n++] = m->inputs[i];
        mf_buf_printf(&batched, "%s%s", i ? "," : "",
                      mf_dtype_name(m->inputs[i].node->out_types[0]));
    }
    for (int64_t i = 0; i < m->n_weights; i++) {
        if (!m->weights[i]->lookups) {
            in[n++] = m->weights[i]->value;
            mf_buf_str(&shared, "float,");
        }
    }
    in[n++] = m->clock;
    in[n] = (mf_output)MF_END;
    (void)snprintf(name, sizeof name, "step_%d", calls++);
    mf_define(m->graph, name, in, MF_IN(y));
    out = mf_applyf(m->graph, "_ShardMap", in,
                    "f=@%s shards=%d join=['concat'] Tbatched=[%s] Tshared=[%sint64] Tout=[float]",
                    name, shards, batched.data, shared.data ? shared.data : "");
    mf_buf_deinit(&shared);
    mf_buf_deinit(&batched);
    T_OK(mf_model_status(m));
    return out;
}

mf_tensor *t_floats(const int64_t *dims, int rank, const float *values, float scale)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_F32, dims, rank, &t));
    for (int64_t i = 0; i < mf_tensor_count(t); i++)
        ((float *)mf_tensor_data(t))[i] = values ? values[i] : (float)i * scale;
    return t;
}

mf_tensor *t_ints(const int64_t *dims, int rank, const int32_t *values)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(MF_DTYPE_I32, dims, rank, &t));
    memcpy(mf_tensor_data(t), values, mf_tensor_bytes(t));
    return t;
}
