/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - the contents of a checkpoint: in memory, to a bundle, and back. */
#include "base/host_state.h"
#include "base/log.h"
#include "formats/bundle.h"
#include "formats/tensors.h"
#include "graph/op.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/ckpt_dtype.h"
#include "train/loop/dist.h"
#include "train/step/ema.h"
#include "train/step/offload.h"

#include <string.h>

enum { EPOCH, FIRST, SEED, SHARDS, SLICE, SLICE_BATCH, SLICE_FILES, N_FIELDS };

/* The fields of slices are newer than the others: a checkpoint without them was sliced by element,
 * and all three are 0. */
static const char *const field_names[N_FIELDS] = { "_meshflow/epoch",      "_meshflow/first",
                                                   "_meshflow/seed",       "_meshflow/shards",
                                                   "_meshflow/slice",      "_meshflow/slice_batch",
                                                   "_meshflow/slice_files" };
static const char numerics_name[] = "_meshflow/numerics_class";
static const char judged_name[] = "_meshflow/judged"; /* mf_trainer.judged */
static const char groups_name[] = "_meshflow/groups"; /* by group: mf_train_progress.left_at */

struct mf_snapshot {
    int64_t step;
    bool of_trainer; /* it has fields */
    const char *numerics; /* class of its bits; NULL: unknown */
    char run[MF_RUN_ID]; /* "": none */
    int64_t fields[N_FIELDS];
    int64_t groups, left_at[MF_MOST_GROUPS]; /* see mf_train_progress */
    mf_tensor judged; /* see mf_trainer */
    const char **names; /* of variables; a trainer's are the model's, which outlives the snapshot,
                         */
    char **own_names; /* others are owned; NULL: none */
    mf_tensor *values;
    mf_dtype *as; /* by variable: the type it is written in; NULL: each in its own */
    int64_t n;
    mf_aux_state_list extra; /* the strategy's auxiliary state */
    char **parts; /* prefixes of the parts that other tasks wrote */
    int64_t n_parts, cap_parts;
};

/* Updates without locks write in place even if a snapshot refers to the storage, so a copy is made.
 */
static mf_status snapshot_take_value(const mf_trainer *t, int64_t i, mf_tensor *out)
{
    mf_tensor value = { 0 };
    mf_status st = MF_OK;

    MF_TRY(mf_trainer_read(t, &t->trained[i], &value));
    if (mf_offload_has(&value)) /* the next update would find it shared, and would leave its file */
        st = mf_offload_clone(t->options.offload, &value, out);
    else if (t->options.hogwild)
        st = mf_tensor_clone(out, &value);
    else
        mf_tensor_set(out, &value);
    mf_tensor_clear(&value);
    return st;
}

/* Several workers gather it collectively (mf_fit); a single one at any time. */
static mf_status take_extra(mf_trainer *t, mf_aux_state_list *out)
{
    mf_dist *dist = t->dist;

    if (!mf_dist_has_aux_state(dist))
        return MF_OK;
    if (dist->size == 1)
        MF_TRY(dist->ops.state->collect(dist, t->step));
    if (dist->aux.collected) {
        *out = dist->aux.list;
        dist->aux.list = (mf_aux_state_list){ 0 };
        dist->aux.collected = false;
    }
    return MF_OK;
}

mf_status mf_snapshot_take(mf_trainer *t, mf_snapshot **out)
{
    mf_snapshot *s = mf_calloc(1, sizeof *s);
    mf_status st = MF_OK;

    *out = NULL;
    if (!s)
        return MF_NOMEM("a snapshot");
    s->step = t->step;
    s->of_trainer = true;
    s->numerics = mf_numerics_class(t->bf16);
    memcpy(s->run, t->run, sizeof s->run);
    s->fields[EPOCH] = t->epoch;
    s->fields[FIRST] = t->first;
    s->fields[SEED] = (int64_t)t->options.seed;
    s->fields[SHARDS] = t->options.shards;
    s->fields[SLICE] = t->sliced.by;
    s->fields[SLICE_BATCH] = t->sliced.batch;
    s->fields[SLICE_FILES] = t->sliced.files;
    s->groups = t->progress.groups;
    memcpy(s->left_at, t->progress.left_at, sizeof s->left_at);
    mf_tensor_set(&s->judged, &t->judged);
    s->names = mf_calloc(t->n_trained, sizeof *s->names);
    s->values = mf_calloc(t->n_trained, sizeof *s->values);
    s->as = mf_calloc(t->n_trained, sizeof *s->as);
    if (!s->names || !s->values || !s->as)
        st = MF_NOMEM("a snapshot");
    for (int64_t i = 0; st == MF_OK && i < t->n_trained; i++) {
        st = snapshot_take_value(t, i, &s->values[i]);
        s->as[s->n] = t->trained[i].is_weight ? t->stored : MF_DTYPE_F32;
        s->names[s->n++] = t->trained[i].name;
    }
    if (st == MF_OK)
        st = take_extra(t, &s->extra);
    if (st != MF_OK)
        mf_snapshot_free(s);
    else
        *out = s;
    return st;
}

mf_status mf_snapshot_of(int64_t step, const char *const *names, mf_tensor *const *values,
                         int64_t n, mf_snapshot **out)
{
    mf_snapshot *s = mf_calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return MF_NOMEM("a snapshot");
    s->step = step;
    s->names = mf_calloc(n, sizeof *s->names);
    s->own_names = mf_calloc(n, sizeof *s->own_names);
    s->values = mf_calloc(n, sizeof *s->values);
    if (!s->names || !s->own_names || !s->values) {
        mf_snapshot_free(s);
        return MF_NOMEM("a snapshot");
    }
    for (; s->n < n; s->n++) {
        s->names[s->n] = s->own_names[s->n] = mf_strdup(names[s->n]);
        if (!s->names[s->n]) {
            mf_snapshot_free(s);
            return MF_NOMEM("a snapshot");
        }
        mf_tensor_move(&s->values[s->n], values[s->n]);
    }
    *out = s;
    return MF_OK;
}

void mf_snapshot_free(mf_snapshot *s)
{
    if (!s)
        return;
    for (int64_t i = 0; i < s->n; i++)
        mf_tensor_clear(&s->values[i]);
    for (int64_t i = 0; s->own_names && i < s->n; i++)
        mf_free(s->own_names[i]);
    for (int64_t i = 0; i < s->n_parts; i++)
        mf_free(s->parts[i]);
    mf_tensor_clear(&s->judged);
    mf_aux_state_clear(&s->extra);
    mf_free(s->parts);
    mf_free(s->values);
    mf_free(s->as);
    mf_free(s->own_names);
    mf_free(s->names);
    mf_free(s);
}

int64_t mf_snapshot_step(const mf_snapshot *s)
{
    return s->step;
}

mf_status mf_snapshot_add_part(mf_snapshot *s, const char *prefix)
{
    char *copy;
    mf_bundle *b;
    mf_status st;

    MF_TRY(mf_bundle_open(prefix, NULL, &b));
    st = mf_grow(&s->parts, &s->cap_parts, s->n_parts + 1, sizeof *s->parts);
    copy = st == MF_OK ? mf_strdup(prefix) : NULL;
    if (copy)
        s->parts[s->n_parts++] = copy;
    for (int64_t i = 0; copy && i < s->n; i++) {
        if (mf_bundle_find(b, s->names[i], strlen(s->names[i])))
            mf_tensor_clear(&s->values[i]);
    }
    mf_bundle_close(b);
    return copy ? MF_OK : MF_NOMEM("a snapshot");
}

bool mf_snapshot_has_parts(const mf_snapshot *s)
{
    return s->n_parts > 0;
}

/* ---- writing ---- */

static mf_status snapshot_write_tensor(mf_bundle_writer *w, const char *name, const mf_tensor *t)
{
    return mf_bundle_writer_add(w, name, strlen(name), t, &t->shape, NULL);
}

static mf_status write_ints(mf_bundle_writer *w, const char *name, const int64_t *values,
                            const mf_shape *shape)
{
    mf_tensor t = { 0 };
    mf_status st;

    MF_TRY(mf_tensor_alloc(&t, MF_DTYPE_I64, shape));
    memcpy(t.data, values, mf_tensor_bytes(&t));
    st = snapshot_write_tensor(w, name, &t);
    mf_tensor_clear(&t);
    return st;
}

static mf_status snapshot_write_text(mf_bundle_writer *w, const char *name, const char *text)
{
    mf_tensor *t;
    mf_status st;

    MF_TRY(mf_tensor_new(MF_DTYPE_STRING, NULL, 0, &t));
    st = mf_tensor_set_string(t, 0, text, strlen(text));
    if (st == MF_OK)
        st = snapshot_write_tensor(w, name, t);
    mf_tensor_free(t);
    return st;
}

/* The snapshot keeps the value unchanged: another checkpoint may be made of it. */
static mf_status snapshot_write_value(mf_bundle_writer *w, const mf_snapshot *s, int64_t i)
{
    mf_tensor value = { 0 };
    mf_status st;

    mf_tensor_set(&value, &s->values[i]);
    st = s->as ? mf_ckpt_dtype_narrow(s->as[i], s->names[i], &value) : MF_OK;
    if (st == MF_OK)
        st = snapshot_write_tensor(w, s->names[i], &value);
    mf_tensor_clear(&value);
    return st;
}

static mf_status write_bundle(const mf_snapshot *s, const char *prefix)
{
    mf_bundle_writer *w;
    mf_status st;

    MF_TRY(mf_bundle_writer_new(prefix, &w));
    st = s->numerics ? snapshot_write_text(w, numerics_name, s->numerics) : MF_OK;
    if (st == MF_OK && s->run[0])
        st = snapshot_write_text(w, MF_RUN_NAME, s->run);
    for (int i = 0; st == MF_OK && s->of_trainer && i < N_FIELDS; i++)
        st = write_ints(w, field_names[i], &s->fields[i], &MF_SCALAR);
    if (st == MF_OK && s->groups > 0)
        st = write_ints(w, groups_name, s->left_at, &MF_SHAPE(s->groups));
    if (st == MF_OK && s->judged.data)
        st = snapshot_write_tensor(w, judged_name, &s->judged);
    for (int64_t i = 0; st == MF_OK && i < s->n; i++) {
        if (s->values[i].data) /* otherwise it is in another part */
            st = snapshot_write_value(w, s, i);
    }
    for (int64_t i = 0; st == MF_OK && i < s->extra.n; i++)
        st = snapshot_write_tensor(w, s->extra.at[i].name, &s->extra.at[i].value);
    if (st == MF_OK)
        st = mf_bundle_writer_finish(w);
    mf_bundle_writer_free(w);
    return st;
}

/* This part beside the other ones; then all become one. */
static mf_status write_and_merge(const mf_snapshot *s, const char *prefix)
{
    const char **all = mf_calloc(s->n_parts + 1, sizeof *all);
    mf_buf own = { 0 };
    mf_status st;

    mf_buf_printf(&own, "%s.tmp-own", prefix); /* as temporary files are called */
    st = all ? mf_buf_finish(&own) : MF_NOMEM("a checkpoint");
    if (st == MF_OK)
        st = write_bundle(s, own.data);
    if (st == MF_OK) {
        all[0] = own.data;
        for (int64_t i = 0; i < s->n_parts; i++)
            all[i + 1] = s->parts[i];
        st = mf_bundle_merge(all, s->n_parts + 1, prefix, NULL, false, false);
    }
    mf_buf_deinit(&own);
    mf_free(all);
    return st;
}

mf_status mf_snapshot_write(const mf_snapshot *s, const char *prefix)
{
    return s->n_parts > 0 ? write_and_merge(s, prefix) : write_bundle(s, prefix);
}

mf_status mf_trainer_save(mf_trainer *t, const char *prefix)
{
    MF_ENTRY;
    MF_NEED(t, prefix);

    mf_snapshot *s;
    mf_status st;

    (void)mf_trainer_lock_take(&t->turns);
    st = mf_snapshot_take(t, &s);
    mf_trainer_lock_end(&t->turns);
    if (st != MF_OK)
        return st;
    st = mf_snapshot_write(s, prefix);
    mf_snapshot_free(s);
    return st;
}

/* ---- reading ---- */

/* *found is false, and the call succeeds, if the file has no such number. */
static mf_status read_int(mf_tensors *file, const char *name, int64_t *out, bool *found)
{
    const int64_t at = mf_tensors_find(file, name);
    mf_tensor t = { 0 };

    *found = at >= 0;
    if (!*found)
        return MF_OK;
    MF_TRY(mf_tensors_read(file, at, &t));
    if (t.dtype == MF_DTYPE_I64 && t.count == 1)
        *out = ((const int64_t *)t.data)[0];
    else
        *found = false;
    mf_tensor_clear(&t);
    return MF_OK;
}

static mf_status snapshot_check_shape(const mf_train_var *v, const mf_tensor *value,
                                      const char *prefix)
{
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    if (value->dtype == v->variable->dtype && mf_shape_equal(&value->shape, &v->variable->declared))
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%s: '%s' is %s%s, the model has %s%s; was it made by another model?", prefix,
                   v->name, mf_dtype_name(value->dtype), mf_shape_text(&value->shape, have),
                   mf_dtype_name(v->variable->dtype), mf_shape_text(&v->variable->declared, want));
}

/* All values are read and checked before a variable changes. */
static mf_status snapshot_read_values(mf_trainer *t, mf_tensors *file, const char *prefix,
                                      bool partly, mf_tensor *values)
{
    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_train_var *v = &t->trained[i];
        const int64_t at = mf_tensors_find(file, v->name);

        if (partly && (at < 0 || !v->is_weight))
            continue;
        if (at < 0 && !v->is_weight) /* weights alone are a checkpoint, too: slots begin at their
                                        initial values */
            continue;
        if (at < 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "%s: Key %s not found in checkpoint; was it made by another model?",
                           prefix, v->name);
        MF_TRY(mf_tensors_read(file, at, &values[i]));
        MF_TRY(mf_ckpt_dtype_widen(v->variable->dtype, &values[i]));
        if (partly && !mf_shape_equal(&values[i].shape, &v->variable->declared))
            mf_tensor_clear(&values[i]);
        else
            MF_TRY(snapshot_check_shape(v, &values[i], prefix));
    }
    return MF_OK;
}

static mf_status check_same(const char *prefix, const char *what, int64_t then, int64_t now,
                            bool found)
{
    if (!found || then == now)
        return MF_OK;
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "%s was made with %s %lld, this training has %lld: continuing would give "
                   "other weights; use the same %s, or begin in another folder",
                   prefix, what, (long long)then, (long long)now, what);
}

/* A checkpoint of another run may be in the folder, copied there or older than run ids. */
static mf_status snapshot_check_run(const mf_trainer *t, mf_tensors *file, const char *prefix)
{
    const int64_t at = mf_tensors_find(file, MF_RUN_NAME);
    mf_tensor value = { 0 };
    mf_status st = MF_OK;

    if (at < 0 || !t->run[0])
        return MF_OK;
    MF_TRY(mf_tensors_read(file, at, &value));
    if (value.dtype == MF_DTYPE_STRING && value.count == 1) {
        const mf_string s = ((const mf_string *)value.data)[0];

        if (s.len != strlen(t->run) || memcmp(s.data, t->run, s.len) != 0)
            st = MF_FAIL(MF_FAILED_PRECONDITION, "%s is of another run, %.*s", prefix,
                         s.len < 64 ? (int)s.len : 64, s.data);
    }
    mf_tensor_clear(&value);
    return st;
}

/* A training may continue in another class. The steps after this one then have other bits than an
 * uninterrupted training. */
static mf_status report_numerics(const mf_trainer *t, mf_tensors *file, const char *prefix)
{
    const int64_t at = mf_tensors_find(file, numerics_name);
    const char *own = mf_numerics_class(t->bf16);
    mf_tensor value = { 0 };

    if (at < 0)
        return MF_OK;
    MF_TRY(mf_tensors_read(file, at, &value));
    if (value.dtype == MF_DTYPE_STRING && value.count == 1) {
        const mf_string s = ((const mf_string *)value.data)[0];

        if (s.len != strlen(own) || memcmp(s.data, own, s.len) != 0)
            MF_WARN("%s was computed as numerics class '%.*s' and continues as '%s': from here on, "
                    "the bits differ from those of an uninterrupted training",
                    prefix, s.len < 200 ? (int)s.len : 200, s.data, own);
    }
    mf_tensor_clear(&value);
    return MF_OK;
}

static mf_status read_fields(mf_trainer *t, mf_tensors *file, const char *prefix, int64_t *fields)
{
    bool found[N_FIELDS];

    for (int i = 0; i < N_FIELDS; i++)
        MF_TRY(read_int(file, field_names[i], &fields[i], &found[i]));
    MF_TRY(check_same(prefix, "seed", fields[SEED], (int64_t)t->options.seed, found[SEED]));
    return check_same(prefix, "shards", fields[SHARDS], t->options.shards, found[SHARDS]);
}

/* Is this the value for local SGD: for each group the step at which it ended, 0 for a group that
 * still trains? At least one group still trains. */
static bool are_groups(const mf_tensor *value)
{
    const int64_t *left_at = value->data;
    bool some = false;

    if (value->dtype != MF_DTYPE_I64 || value->count < 1 || value->count > MF_MOST_GROUPS)
        return false;
    for (int64_t i = 0; i < value->count; i++) {
        if (left_at[i] < 0)
            return false;
        some |= left_at[i] == 0;
    }
    return some;
}

static mf_status snapshot_read_groups(mf_trainer *t, mf_tensors *file, const char *prefix)
{
    const int64_t at = mf_tensors_find(file, groups_name);
    mf_tensor value = { 0 };
    mf_status st;

    if (t->progress.groups == 0 || at < 0)
        return MF_OK;
    st = mf_tensors_read(file, at, &value);
    if (st == MF_OK && !are_groups(&value))
        st = MF_FAIL(MF_DATA_LOSS, "%s: %s is damaged", prefix, groups_name);
    if (st == MF_OK) {
        t->progress.groups = value.count;
        memcpy(t->progress.left_at, value.data, mf_tensor_bytes(&value));
    }
    mf_tensor_clear(&value);
    mf_tensor_clear(&t->judged);
    if (st == MF_OK && mf_tensors_find(file, judged_name) >= 0)
        st = mf_tensors_read(file, mf_tensors_find(file, judged_name), &t->judged);
    return st;
}

static mf_status assign_all(mf_trainer *t, const mf_tensor *values, int64_t *n)
{
    *n = 0;
    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!values[i].data)
            continue;
        MF_TRY(mf_variable_assign(t->trained[i].variable, &values[i], true));
        *n += t->trained[i].is_weight;
    }
    return MF_OK;
}

/* The strategy's auxiliary state; the strategy takes it when training continues. */
static mf_status snapshot_read_extra(mf_trainer *t, mf_tensors *file)
{
    mf_dist *dist = t->dist;

    if (!mf_dist_has_aux_state(dist))
        return MF_OK;
    mf_aux_state_clear(&dist->aux.list);
    for (int64_t i = 0; i < mf_tensors_count(file); i++) {
        const char *name = mf_tensors_name(file, i);
        mf_tensor value = { 0 };
        mf_status st;

        if (strncmp(name, MF_AUX_STATE_PREFIX, strlen(MF_AUX_STATE_PREFIX)) != 0)
            continue;
        MF_TRY(mf_tensors_read(file, i, &value));
        st = value.dtype == MF_DTYPE_F32 ? mf_aux_state_add(&dist->aux.list, name, &value) : MF_OK;
        mf_tensor_clear(&value);
        MF_TRY(st);
    }
    dist->aux.restored = true;
    dist->aux.collected = false;
    return MF_OK;
}

static mf_status snapshot_restore(mf_trainer *t, const char *prefix, bool partly, int64_t *loaded)
{
    MF_TRY(mf_trainer_need_no_fit(t));
    MF_ALONE(&t->turns);
    int64_t fields[N_FIELDS] = { 0 };
    mf_tensor *values = mf_calloc(t->n_trained, sizeof *values);
    mf_tensors *file = NULL;
    mf_status st = values ? mf_tensors_open(prefix, &file) : MF_NOMEM("a checkpoint");

    if (st == MF_OK && !partly)
        st = snapshot_check_run(t, file, prefix);
    if (st == MF_OK && !partly)
        st = report_numerics(t, file, prefix);
    if (st == MF_OK && !partly)
        st = read_fields(t, file, prefix, fields);
    if (st == MF_OK)
        st = snapshot_read_values(t, file, prefix, partly, values);
    if (st == MF_OK && !partly)
        st = snapshot_read_extra(t, file);
    if (st == MF_OK && !partly)
        st = snapshot_read_groups(t, file, prefix);
    if (st == MF_OK)
        st = assign_all(t, values, loaded);
    if (st == MF_OK)
        st = mf_ema_restart(t, values);
    if (st == MF_OK && !partly) {
        mf_tensor step = { 0 };

        t->epoch = fields[EPOCH];
        t->first = fields[FIRST];
        t->sliced = (mf_sliced){ fields[SLICE], fields[SLICE_BATCH], fields[SLICE_FILES] };
        st = mf_variable_read(mf_trainer_find(t, "global_step")->variable, &step);
        t->step = st == MF_OK ? ((const int64_t *)step.data)[0] : 0;
        mf_tensor_clear(&step);
    }
    for (int64_t i = 0; values && i < t->n_trained; i++)
        mf_tensor_clear(&values[i]);
    mf_free(values);
    mf_tensors_close(file);
    return st;
}

mf_status mf_trainer_restore(mf_trainer *t, const char *prefix)
{
    MF_ENTRY;
    MF_NEED(t, prefix);

    int64_t loaded;

    return snapshot_restore(t, prefix, false, &loaded);
}

mf_status mf_trainer_use(mf_trainer *t, const char *where)
{
    MF_ENTRY;
    MF_NEED(t, where);

    char *prefix;
    mf_status st;
    int64_t n = 0, wanted = 0;

    for (int64_t i = 0; i < t->n_trained; i++)
        wanted += t->trained[i].is_weight;
    MF_TRY(mf_checkpoints_find(where, &prefix));
    st = snapshot_restore(t, prefix, true, &n);
    if (st == MF_OK && n != wanted)
        st = MF_FAIL(MF_NOT_FOUND,
                     "%s has %lld of the model's %lld weights; was it made by another model?",
                     prefix, (long long)n, (long long)wanted);
    mf_free(prefix);
    return st;
}

mf_status mf_trainer_load_weights(mf_trainer *t, const char *where, int64_t *loaded)
{
    MF_ENTRY;
    MF_NEED(t, where);

    int64_t n = 0;
    char *prefix;
    mf_status st;

    MF_TRY(mf_checkpoints_find(where, &prefix));
    st = snapshot_restore(t, prefix, true, &n);
    if (st == MF_OK && n == 0)
        st = MF_FAIL(MF_NOT_FOUND, "%s has none of the model's weights", prefix);
    if (loaded)
        *loaded = n;
    mf_free(prefix);
    return st;
}
