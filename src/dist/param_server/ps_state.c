/* SPDX-License-Identifier: Apache-2.0 */
/* ps_state.c - transfers all variables to the parameter servers, slice by slice, and back. */
#include "base/mem.h"
#include "dist/param_server/ps_client.h"

#include <string.h>

static mf_status write_variables(const mf_ps_client *c, int server, mf_buf *buf)
{
    mf_ps_out out = { .pool = c->t->pool, .buf = buf };

    for (int64_t i = 0; i < c->t->n_trained; i++) {
        const mf_train_var *v = &c->t->trained[i];
        mf_tensor value = { 0 };
        int64_t from, to;

        MF_TRY(mf_variable_read(v->variable, &value));
        if (mf_ps_range(c->t, &c->place, server, v->name, value.count, &from, &to)) {
            const size_t cell = mf_dtype_cell(value.dtype);

            mf_ps_write_variable(&out, v->name, (const char *)value.data + (size_t)from * cell,
                                 to - from, cell);
        }
        mf_tensor_clear(&value);
    }
    return mf_buf_finish(buf);
}

void mf_ps_client_begin(mf_ps_client *c)
{
    memset(c->version, 0, (size_t)c->n_servers * sizeof *c->version);
    c->done = c->t->step;
    c->step_flags = 0;
}

mf_status mf_ps_client_set(mf_ps_client *c)
{
    mf_status st = MF_OK;

    c->seq++;
    for (int s = 0; s < c->n_servers && st == MF_OK; s++) {
        mf_buf out = { 0 };

        st = write_variables(c, s, &out);
        if (st == MF_OK)
            st = mf_ps_ask(c, s, MF_PS_SET, c->t->step, &out);
        mf_buf_deinit(&out);
    }
    for (int s = 0; s < c->n_servers && st == MF_OK; s++)
        st = mf_ps_answer_done(c, s, MF_PS_SET, c->t->step);
    return st;
}

/* Elements [from, to) of a variable. */
static mf_status ps_state_put_variable(const mf_trainer *t, const mf_placement *place, int server,
                                       const char *who, const char *name, const void *data,
                                       int64_t bytes)
{
    const mf_train_var *v = mf_trainer_find(t, name);
    mf_tensor old = { 0 }, value = { 0 };
    int64_t from, to;
    mf_status st;

    if (!v)
        return MF_OK; /* of the server alone */
    MF_TRY(mf_variable_read(v->variable, &old));
    st = mf_tensor_alloc(&value, old.dtype, &old.shape);
    if (st == MF_OK && (!mf_ps_range(t, place, server, name, old.count, &from, &to) ||
                        bytes != (to - from) * (int64_t)mf_dtype_cell(old.dtype)))
        st = MF_FAIL(MF_DATA_LOSS, "%s has another %s", who, name);
    if (st == MF_OK) {
        memcpy(value.data, old.data, mf_tensor_bytes(&old));
        memcpy((char *)value.data + (size_t)from * mf_dtype_cell(old.dtype), data, (size_t)bytes);
        st = mf_variable_assign(v->variable, &value, true);
    }
    mf_tensor_clear(&value);
    mf_tensor_clear(&old);
    return st;
}

mf_status mf_ps_take_variables(const mf_trainer *t, const mf_placement *place, int server,
                               const char *who, const void *data, size_t size)
{
    mf_ps_reader in = { .at = data, .left = size };
    const void *values;
    const char *name;
    int64_t bytes;

    while (mf_ps_read_variable(&in, &name, &values, &bytes))
        MF_TRY(ps_state_put_variable(t, place, server, who, name, values, bytes));
    return in.bad ? MF_FAIL(MF_DATA_LOSS, "%s sent an invalid reply", who) : MF_OK;
}

mf_status mf_ps_client_get(mf_ps_client *c)
{
    c->seq++;
    for (int s = 0; s < c->n_servers; s++)
        MF_TRY(mf_ps_ask(c, s, MF_PS_GET, 0, NULL));
    for (int s = 0; s < c->n_servers; s++) {
        void *all;
        size_t size;
        mf_status st;

        MF_TRY(mf_ps_answer(c, s, MF_PS_GET, 0, &all, &size));
        st = mf_ps_take_variables(c->t, &c->place, s, mf_ps_server_name(c, s), all, size);
        mf_free(all);
        MF_TRY(st);
    }
    return MF_OK;
}
