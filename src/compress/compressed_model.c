/* SPDX-License-Identifier: Apache-2.0 */
/* compressed_model.c - loads, measures, trains and saves a model during compression. */
#include "compress/compressed_model.h"

#include "data/dataset.h"
#include "formats/packed.h"
#include "models/zoo.h"

#include <string.h>

/* ---- the model text ---- */

/* "mlp changes='dense rank=8' units=64" without the changes. */
static const char *without_changes(mf_arena *arena, const char *text)
{
    const char *at = strstr(text, " changes="), *end;

    if (!at)
        return mf_arena_strdup(arena, text);
    end = at + strlen(" changes=");
    end = *end == '\'' ? strchr(end + 1, '\'') : end + strcspn(end, " ") - 1;
    return mf_arena_printf(arena, "%.*s%s", (int)(at - text), text, end ? end + 1 : "");
}

const char *mf_compressed_text(const mf_compressed *s)
{
    if (!s->changes[0] && !s->quantize[0])
        return s->head;
    return mf_arena_printf(s->arena, "%s changes='%s%s%s'", s->head, s->changes,
                           s->changes[0] && s->quantize[0] ? "; " : "", s->quantize);
}

mf_status mf_compressed_change(mf_compressed *s, const char *layer, const char *settings)
{
    s->changes = mf_arena_printf(s->arena, "%s%s%s %s", s->changes, s->changes[0] ? "; " : "",
                                 layer, settings);
    return s->changes ? MF_OK : MF_NOMEM("a model");
}

mf_status mf_compressed_model(const mf_compressed *s, mf_model **out)
{
    const char *text = mf_compressed_text(s);

    return text ? mf_model_zoo(text, s->data, out) : MF_NOMEM("a model");
}

/* ---- weights ---- */

static int64_t compressed_model_index_of(const mf_compressed *s, const char *name)
{
    int64_t i = 0;

    while (i < s->n && strcmp(s->weights[i].name, name) != 0)
        i++;
    return i;
}

mf_tensor *mf_compressed_find(const mf_compressed *s, const char *name)
{
    const int64_t i = compressed_model_index_of(s, name);

    return i < s->n ? &s->weights[i].value : NULL;
}

mf_status mf_compressed_set(mf_compressed *s, const char *name, mf_tensor *value)
{
    const int64_t i = compressed_model_index_of(s, name);

    if (i == s->n) {
        MF_TRY(mf_grow(&s->weights, &s->cap, s->n + 1, sizeof *s->weights));
        s->weights[i] = (mf_compressed_weight){ .name = mf_arena_strdup(s->arena, name) };
        if (!s->weights[i].name)
            return MF_NOMEM("a weight");
        s->n++;
    }
    mf_tensor_clear(&s->weights[i].value);
    mf_tensor_move(&s->weights[i].value, value);
    return MF_OK;
}

void mf_compressed_remove(mf_compressed *s, const char *name)
{
    const int64_t i = compressed_model_index_of(s, name);

    if (i == s->n)
        return;
    mf_tensor_clear(&s->weights[i].value);
    memmove(&s->weights[i], &s->weights[i + 1], (size_t)(s->n - i - 1) * sizeof *s->weights);
    s->n--;
}

int64_t mf_compressed_bytes(const mf_compressed *s)
{
    int64_t bytes = 0;

    for (int64_t i = 0; i < s->n; i++)
        bytes += s->weights[i].value.count * (int64_t)mf_dtype_size(s->weights[i].value.dtype);
    return bytes;
}

mf_status mf_compressed_encode(const mf_compressed *s, mf_buf *out)
{
    const char **names = mf_calloc(s->n + 1, sizeof *names);
    const mf_tensor **values = mf_calloc(s->n + 1, sizeof(mf_tensor *));
    mf_status st = names && values ? MF_OK : MF_NOMEM("a packed file");

    for (int64_t i = 0; st == MF_OK && i < s->n; i++) {
        names[i] = s->weights[i].name;
        values[i] = &s->weights[i].value;
    }
    if (st == MF_OK)
        st = mf_packed_encode(names, values, s->n, out);
    mf_free(names);
    mf_free(values);
    return st;
}

/* ---- trainers ---- */

static mf_status give_weights(const mf_compressed *s, const mf_compressed_trainer *t)
{
    for (int64_t i = 0; i < t->model->n_weights; i++) {
        const mf_tensor *value = mf_compressed_find(s, t->model->weights[i]->name);

        if (value)
            MF_TRY(mf_trainer_set(t->trainer, t->model->weights[i]->name, value));
    }
    return MF_OK;
}

mf_status mf_compressed_train(const mf_compressed *s, const mf_compile_options *options,
                              mf_compressed_trainer *out)
{
    mf_compile_options o = options ? *options : (mf_compile_options){ 0 };
    const char *loss, *metrics;

    *out = (mf_compressed_trainer){ 0 };
    MF_TRY(mf_compressed_model(s, &out->model));
    mf_model_defaults(out->model, &loss, &metrics);
    o.loss = o.loss ? o.loss : loss;
    o.metrics = o.metrics ? o.metrics : metrics;
    MF_TRY(mf_model_compile(out->model, &o, &out->trainer));
    return give_weights(s, out);
}

void mf_compressed_trainer_free(mf_compressed_trainer *t)
{
    mf_trainer_free(t->trainer);
    mf_model_free(t->model);
    *t = (mf_compressed_trainer){ 0 };
}

mf_status mf_compressed_take(mf_compressed *s, const mf_compressed_trainer *t)
{
    for (int64_t i = 0; i < t->model->n_weights; i++) {
        const char *name = t->model->weights[i]->name;
        mf_tensor value = { 0 };
        mf_status st;

        MF_TRY(mf_variable_read(mf_trainer_find(t->trainer, name)->variable, &value));
        st = mf_compressed_set(s, name, &value);
        mf_tensor_clear(&value);
        MF_TRY(st);
    }
    return MF_OK;
}

/* ---- reading a checkpoint ---- */

static mf_status compressed_model_read_weights(mf_compressed *s, const char *checkpoint)
{
    mf_compressed_trainer t;
    mf_status st = mf_compressed_train(s, NULL, &t);

    if (st == MF_OK)
        st = mf_trainer_use(t.trainer, checkpoint);
    if (st == MF_OK)
        st = mf_compressed_take(s, &t);
    mf_compressed_trainer_free(&t);
    return st;
}

mf_status mf_compressed_init(mf_compressed *s, const char *text, const mf_dataset *data,
                             const char *checkpoint)
{
    mf_model *model = NULL;

    *s = (mf_compressed){ .arena = mf_arena_new(), .data = data, .changes = "", .quantize = "" };
    s->head = s->arena ? without_changes(s->arena, text) : NULL;
    if (!s->head)
        return MF_NOMEM("a model");
    MF_TRY(mf_model_zoo(text, data, &model));
    s->changes = mf_arena_strdup(s->arena, model->changes);
    mf_model_free(model);
    return s->changes ? compressed_model_read_weights(s, checkpoint) : MF_NOMEM("a model");
}

mf_status mf_compressed_copy(mf_compressed *to, const mf_compressed *from)
{
    *to = (mf_compressed){
        .arena = mf_arena_new(), .data = from->data, .changes = "", .quantize = ""
    };
    if (!to->arena)
        return MF_NOMEM("a model");
    to->head = mf_arena_strdup(to->arena, from->head);
    to->changes = mf_arena_strdup(to->arena, from->changes);
    to->quantize = mf_arena_strdup(to->arena, from->quantize);
    if (!to->head || !to->changes || !to->quantize)
        return MF_NOMEM("a model");
    for (int64_t i = 0; i < from->n; i++) {
        mf_tensor value = { 0 };
        mf_status st;

        mf_tensor_set(&value, &from->weights[i].value);
        st = mf_compressed_set(to, from->weights[i].name, &value);
        mf_tensor_clear(&value);
        MF_TRY(st);
    }
    return MF_OK;
}

void mf_compressed_deinit(mf_compressed *s)
{
    for (int64_t i = 0; i < s->n; i++)
        mf_tensor_clear(&s->weights[i].value);
    mf_free(s->weights);
    mf_arena_free(s->arena);
    *s = (mf_compressed){ 0 };
}
