/* SPDX-License-Identifier: Apache-2.0 */
/* variable_query.c - answers `meshflow job vars` between two steps. */
#include "train/loop/variable_query.h"

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "formats/npy.h"
#include "observe/status_page.h"
#include "train/loop/dist.h"

#include <stdio.h>
#include <string.h>

void mf_holders_add(mf_holders *h, const char *task, const char *slice, int64_t version)
{
    mf_buf_printf(&h->text, "holder\t%s\t%s\t%lld\n", task, slice, (long long)version);
}

/* If the strategy does not report holders. */
static void usual_holders(const mf_trainer *t, const mf_train_var *v, mf_holders *out)
{
    const mf_dist *dist = t->dist;
    const char *self;
    char each[48];

    (void)mf_status_page_is_seen(&self);
    (void)snprintf(each, sizeof each, "each of %d workers", dist ? dist->size : 1);
    if (mf_dist_can(dist, MF_DIST_ONE_UPDATER) && !v->is_weight)
        mf_holders_add(out, "the chief", "all", t->step);
    else if (dist && dist->size > 1 && !mf_dist_can(dist, MF_DIST_OWN_BATCHES))
        mf_holders_add(out, each, "all", t->step);
    else /* with groups, others have different values */
        mf_holders_add(out, self, "all", t->step);
}

static mf_status variable_query_put_variable(mf_trainer *t, int64_t i, mf_buf *out)
{
    const mf_train_var *v = &t->trained[i];
    char shape[MF_SHAPE_TEXT];
    mf_holders holders = { 0 };
    mf_tensor value = { 0 };
    int64_t step = t->step;
    bool is_here;
    mf_status st;

    /* First: the strategy may gather the variable. */
    st = MF_DIST_HAS(t->dist, state, holders)
             ? t->dist->ops.state->holders(t->dist, t, i, &holders, &step)
             : MF_OK;
    is_here = mf_variable_is_initialized(v->variable);
    if (st == MF_OK && !is_here && !holders.text.data)
        return MF_OK; /* no task has it */
    if (st == MF_OK && !holders.text.data)
        usual_holders(t, v, &holders);
    if (st == MF_OK && is_here)
        st = mf_variable_read(v->variable, &value);
    if (st == MF_OK) {
        mf_buf_printf(out, "variable\t%s\t%s\t%s\t%s\t%lld\n%s", v->name,
                      mf_dtype_name(v->variable->dtype),
                      mf_shape_text(is_here ? &value.shape : &v->variable->declared, shape),
                      v->is_weight ? "weight" : "other", (long long)step,
                      holders.text.data ? holders.text.data : "");
        st = mf_buf_finish(&holders.text);
    }
    mf_tensor_clear(&value);
    mf_buf_deinit(&holders.text);
    return st;
}

static mf_status variable_query_write_value(const mf_trainer *t, const char *name, const char *path)
{
    mf_buf file = { 0 }, bytes = { 0 };
    mf_tensor *value = NULL;
    mf_status st = mf_trainer_get(t, name, &value);

    if (st == MF_OK)
        st = mf_npy_encode(value, &bytes);
    mf_buf_printf(&file, "%s.npy", path);
    if (st == MF_OK)
        st = mf_buf_finish(&file);
    if (st == MF_OK)
        st = mf_file_write(file.data, bytes.data, bytes.len);
    mf_tensor_free(value);
    mf_buf_deinit(&bytes);
    mf_buf_deinit(&file);
    return st;
}

static mf_status variable_query_find_out(mf_trainer *t, const mf_status_page_question *q,
                                         const char *path, mf_buf *out)
{
    mf_buf_printf(out, "step\t%lld\n", (long long)t->step);
    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!q->name[0] || strcmp(q->name, t->trained[i].name) == 0)
            MF_TRY(variable_query_put_variable(t, i, out));
    }
    if (q->name[0])
        MF_TRY(variable_query_write_value(t, q->name, path)); /* which reports the invalid name */
    return mf_buf_finish(out);
}

void mf_variable_query_answer(mf_trainer *t)
{
    mf_buf path = { 0 }, text = { 0 };
    mf_status_page_question q;
    mf_process requester;
    mf_status st;

    if (!mf_status_page_take_question(&q) || !mf_process_read(q.requester, &requester))
        return; /* no process would read the answer */
    st = mf_status_page_answer_path(NULL, q.requester, &path);
    if (st == MF_OK) {
        if (variable_query_find_out(t, &q, path.data, &text) != MF_OK) {
            mf_buf_clear(&text);
            mf_buf_printf(&text, "error\t%s\n", mf_error_message());
        }
        st = mf_file_write(path.data, text.data, text.len);
    }
    if (st != MF_OK)
        MF_WARN("a question about variables is not answered: %s", mf_error_message());
    mf_buf_deinit(&text);
    mf_buf_deinit(&path);
}
