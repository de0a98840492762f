/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - variables by name, and a hash of all weights: SHA-256 over names, types, shapes and
 * bytes. */
#include "base/did_you_mean.h"
#include "base/host_state.h"
#include "train/step/trainer.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- by name ---- */

const char *mf_trainer_variable(const mf_trainer *t, int64_t i)
{
    return t && i >= 0 && i < t->n_trained ? t->trained[i].name : NULL;
}

static mf_status weights_get(const mf_trainer *t, const char *name, mf_train_var **out)
{
    mf_did_you_mean close = mf_did_you_mean_to(name);

    *out = mf_trainer_find(t, name);
    if (*out)
        return MF_OK;
    for (int64_t i = 0; i < t->n_trained; i++)
        mf_did_you_mean_try(&close, t->trained[i].name);
    return MF_FAIL(MF_NOT_FOUND, "there is no variable '%.200s'%s%s%s", name,
                   close.best ? "; did you mean '" : "", close.best ? close.best : "",
                   close.best ? "'?" : "");
}

mf_status mf_trainer_get(const mf_trainer *t, const char *name, mf_tensor **value)
{
    MF_ENTRY;
    MF_NEED(t, name, value);

    MF_SHARE((mf_trainer_lock *)&t->turns);
    mf_tensor now = { 0 };
    mf_train_var *v;
    mf_status st;

    *value = NULL;
    MF_TRY(weights_get(t, name, &v));
    MF_TRY(mf_trainer_read(t, v, &now));
    st = mf_tensor_copy(&now, value);
    mf_tensor_clear(&now);
    return st;
}

mf_status mf_trainer_set(mf_trainer *t, const char *name, const mf_tensor *value)
{
    MF_ENTRY;
    MF_NEED(t, name, value);

    MF_ALONE(&t->turns);
    mf_train_var *v;

    MF_TRY(weights_get(t, name, &v));
    MF_TRY(mf_variable_assign(v->variable, value, true));
    if (strcmp(name, "global_step") == 0)
        t->step = ((const int64_t *)value->data)[0];
    return MF_OK;
}

/* ---- one number ---- */

static int weights_by_name(const void *a, const void *b)
{
    const mf_train_var *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* "name dtype d0,d1,...\n", then the little-endian bytes. */
static mf_status weights_add_weight(const mf_trainer *t, struct sha256_ctx *sha,
                                    const mf_train_var *w)
{
    mf_tensor value = { 0 };
    char line[600];
    int n;

    MF_TRY(mf_trainer_read(t, w, &value));
    n = snprintf(line, sizeof line, "%.400s %s ", w->name, mf_dtype_name(value.dtype));
    for (int i = 0; i < value.shape.rank; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s%lld", i ? "," : "",
                      (long long)value.shape.dims[i]);
    line[n++] = '\n';
    sha256_update(sha, (size_t)n, (const uint8_t *)line);
    sha256_update(sha, mf_tensor_bytes(&value), value.data);
    mf_tensor_clear(&value);
    return MF_OK;
}

mf_status mf_trainer_sha256(mf_trainer *t, char digits[65])
{
    MF_ENTRY;
    MF_NEED(t, digits);

    MF_SHARE(&t->turns);
    const mf_train_var **weights = mf_calloc(t->n_trained, sizeof(*weights));
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx sha;
    int64_t n = 0;
    mf_status st = weights ? MF_OK : MF_NOMEM("a hash");

    digits[0] = '\0';
    for (int64_t i = 0; st == MF_OK && i < t->n_trained; i++) {
        if (t->trained[i].is_weight)
            weights[n++] = &t->trained[i];
    }
    if (st == MF_OK) {
        qsort(weights, (size_t)n, sizeof(*weights), weights_by_name);
        sha256_init(&sha);
    }
    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = weights_add_weight(t, &sha, weights[i]);
    if (st == MF_OK) {
        sha256_digest(&sha, sizeof digest, digest);
        for (int i = 0; i < SHA256_DIGEST_SIZE; i++)
            (void)snprintf(digits + 2 * i, 3, "%02x", digest[i]);
    }
    mf_free(weights);
    return st;
}
