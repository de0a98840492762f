/* SPDX-License-Identifier: Apache-2.0 */
/* ps_save.c - the last checkpoint of a training with parameter servers: every server writes its
 * variables to a bundle, and the chief makes one checkpoint of these bundles and its own.
 *
 * This needs a shared folder. The chief puts a file with an unpredictable name there; a server that
 * does not find it has another folder. The files have names of temporary files, so remains of a
 * crash are removed when training continues. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "dist/param_server/ps_client.h"
#include "dist/param_server/ps_server.h"
#include "formats/bundle.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/ckpt_dtype.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "WHERE.part-2" */
static mf_status part_prefix(const char *where, int index, mf_buf *out)
{
    mf_buf_clear(out);
    mf_buf_printf(out, "%s.part-%d", where, index);
    return mf_buf_finish(out);
}

/* ---- a server ---- */

/* Several servers may hold the same value: that of the last one counts, as for pulls. */
static bool is_last(const server *s, const mf_train_var *v, int64_t count)
{
    int64_t from, to;

    for (int i = s->o.index + 1; i < s->o.n_servers; i++) {
        if (mf_ps_range(s->t, &s->place, i, v->name, count, &from, &to))
            return false;
    }
    return true;
}

/* Elements [from, to) of the variable, which are all that `value` contains. */
static mf_status write_range(mf_bundle_writer *w, const mf_train_var *v, const mf_tensor *value,
                             int64_t from, int64_t to)
{
    const mf_shape *full = &v->variable->declared;
    mf_tensor part = *value; /* borrowed */

    for (int64_t at = from; at < to; at += part.count) {
        mf_slice slice;

        part.count = mf_slice_of_range(full, at, to, &slice, &part.shape);
        part.data = (char *)value->data + (size_t)(at - from) * mf_dtype_cell(value->dtype);
        MF_TRY(mf_bundle_writer_add(w, v->name, strlen(v->name), &part, full, &slice));
    }
    return MF_OK;
}

/* Except variables that the chief has, too: the step counter. */
static mf_status write_variable(server *s, mf_bundle_writer *w, const mf_ps_variable *mine)
{
    const mf_train_var *v = mf_trainer_find(s->t, mine->name);
    mf_tensor value = { 0 };
    int64_t from, to, count;
    mf_status st;

    if (!v || strcmp(v->name, "global_step") == 0)
        return MF_OK;
    count = mf_shape_span(&v->variable->declared, 0, v->variable->declared.rank);
    if (!mf_ps_range(s->t, &s->place, s->o.index, v->name, count, &from, &to))
        return MF_OK;
    if (to - from == count && !is_last(s, v, count))
        return MF_OK;
    MF_TRY(mf_variable_read(mine->variable, &value));
    st = v->is_weight ? mf_ckpt_dtype_narrow(s->t->stored, v->name, &value) : MF_OK;
    if (st == MF_OK)
        st = value.count == to - from
                 ? write_range(w, v, &value, from, to)
                 : MF_FAIL(MF_INTERNAL, "%s has %lld elements, not %lld", v->name,
                           (long long)value.count, (long long)(to - from));
    mf_tensor_clear(&value);
    return st;
}

mf_status mf_ps_save_part(server *s, const char *where)
{
    mf_bundle_writer *w = NULL;
    mf_buf prefix = { 0 };
    mf_status st;

    if (s->t->stored == MF_DTYPE_F16) /* true for complete tensors */
        return MF_FAIL(MF_FAILED_PRECONDITION, "TensorFlow reads no slices of float16");
    if (access(where, R_OK) != 0)
        return MF_FAIL(MF_FAILED_PRECONDITION, "%s does not exist here: this is another folder",
                       where);
    st = part_prefix(where, s->o.index, &prefix);
    if (st == MF_OK)
        st = mf_bundle_writer_new(prefix.data, &w);
    for (int64_t i = 0; st == MF_OK && i < s->store.n_variables; i++)
        st = write_variable(s, w, &s->store.variables[i]);
    if (st == MF_OK)
        st = mf_bundle_writer_finish(w);
    mf_bundle_writer_free(w);
    mf_buf_deinit(&prefix);
    return st;
}

/* ---- the chief ---- */

static void remove_part(const char *prefix)
{
    char *index = mf_bundle_index_path(prefix), *data = mf_bundle_data_path(prefix, 0, 1);

    if (index)
        (void)unlink(index);
    if (data)
        (void)unlink(data);
    mf_free(index);
    mf_free(data);
}

/* Writing may take long on a slow disk. */
static int64_t save_deadline(const mf_ps_client *c)
{
    const int64_t ns_a_byte = 100; /* 10 MB a second */
    int64_t bytes = 0;

    for (int64_t i = 0; i < c->t->n_trained; i++) {
        const mf_shape *shape = &c->t->trained[i].variable->declared;
        const int64_t count = mf_shape_span(shape, 0, shape->rank);

        bytes += count > 0 ? count * (int64_t)sizeof(float) : 0;
    }
    return mf_clock_ns() + c->timeout_ns + ns_a_byte * bytes;
}

/* Has it written? *why: of the first server that has not, also for lack of time: other workers may
 * not have left yet. */
static mf_status answer_save(mf_ps_client *c, int64_t deadline_ns, int index, mf_error *why)
{
    void *text;
    size_t size;
    const mf_status st = mf_ps_answer_by(c, deadline_ns, index, MF_PS_SAVE, 0, &text, &size);

    if (st == MF_DEADLINE_EXCEEDED) {
        if (why->status == MF_OK)
            mf_error_save(st, why);
        return MF_OK;
    }
    MF_TRY(st);
    if (size > 0 && why->status == MF_OK)
        mf_error_save(MF_FAIL(MF_FAILED_PRECONDITION, "%s: %.*s", mf_ps_server_name(c, index),
                              (int)size, (const char *)text),
                      why);
    mf_free(text);
    return MF_OK;
}

/* All servers write at the same time. */
static mf_status ask_to_save(mf_ps_client *c, const char *where, mf_error *why)
{
    const int64_t deadline = save_deadline(c);
    mf_buf text = { 0 };
    mf_status st;

    c->seq++;
    mf_buf_str(&text, where);
    st = mf_buf_finish(&text);
    for (int s = 0; s < c->n_servers && st == MF_OK; s++)
        st = mf_ps_ask(c, s, MF_PS_SAVE, 0, &text);
    for (int s = 0; s < c->n_servers && st == MF_OK; s++)
        st = answer_save(c, deadline, s, why);
    mf_buf_deinit(&text);
    return st;
}

static mf_status ps_save_add_parts(mf_ps_client *c, const char *where, mf_snapshot *s,
                                   mf_error *why)
{
    mf_buf prefix = { 0 };
    mf_status st = MF_OK;

    for (int i = 0; i < c->n_servers && st == MF_OK; i++) {
        st = part_prefix(where, i, &prefix);
        if (st == MF_OK && why->status == MF_OK)
            st = mf_snapshot_add_part(s, prefix.data);
        else if (st == MF_OK)
            remove_part(prefix.data);
    }
    mf_buf_deinit(&prefix);
    return st;
}

/* "/path/of/the/folder/model.ckpt-20.tmp-0123456789abcdef": absolute, as servers may have another
 * working directory. */
static mf_status secret_name(const char *prefix, mf_buf *out)
{
    const char *name = strrchr(prefix, '/');
    mf_buf dir = { 0 };
    char *whole;

    mf_buf_printf(&dir, "%.*s", name ? (int)(name - prefix) : 1, name ? prefix : ".");
    whole = dir.data ? realpath(name == prefix ? "/" : dir.data, NULL) : NULL;
    mf_buf_deinit(&dir);
    if (!whole)
        return MF_FAIL(MF_NOT_FOUND, "%s has no folder", prefix);
    mf_buf_printf(out, "%s/%s.tmp-%016llx", whole, name ? name + 1 : prefix,
                  (unsigned long long)mf_random_seed());
    free(whole);
    return mf_buf_finish(out);
}

mf_status mf_ps_client_save(mf_ps_client *c, const char *prefix, mf_snapshot *s)
{
    mf_error why = { 0 };
    mf_buf where = { 0 };
    mf_status st = secret_name(prefix, &where);

    if (st == MF_OK)
        st = mf_file_write(where.data, "", 0);
    if (st == MF_OK)
        st = ask_to_save(c, where.data, &why);
    if (st == MF_OK)
        st = ps_save_add_parts(c, where.data, s, &why);
    if (where.data)
        (void)unlink(where.data);
    mf_buf_deinit(&where);
    if (st == MF_OK && why.status != MF_OK)
        MF_WARN("the parameter servers cannot write the last checkpoint (%s); the chief does",
                why.message);
    return st;
}
