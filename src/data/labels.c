/* SPDX-License-Identifier: Apache-2.0 */
#include "data/labels.h"

#include "formats/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLAIN = 1000000, MAX_NAMES = 1 << 20 };

void mf_labels_deinit(mf_labels *l)
{
    for (int64_t i = 0; l->names && i < l->classes; i++)
        mf_free(l->names[i]);
    mf_free(l->names);
    mf_tensor_free(l->tensor);
    *l = (mf_labels){ 0 };
}

static mf_status as_floats(const char *const *texts, int64_t n, mf_labels *out)
{
    MF_TRY(mf_tensor_new(MF_DTYPE_F32, &n, 1, &out->tensor));
    for (int64_t i = 0; i < n; i++) {
        if (!mf_number_float(texts[i], strlen(texts[i]), (float *)out->tensor->data + i))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the label of sample %lld is no number: '%.60s'",
                           (long long)i, texts[i]);
    }
    return MF_OK;
}

/* All are 0, 1, 2 ...? */
static bool are_plain(const char *const *texts, int64_t n, int32_t *classes)
{
    int64_t v, most = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!mf_number_int(texts[i], strlen(texts[i]), &v) || v < 0 || v >= MAX_PLAIN)
            return false;
        classes[i] = (int32_t)v;
        most = v > most ? v : most;
    }
    return n > 0;
}

/* Numbers by value, then texts by their letters. */
static int by_value(const void *a, const void *b)
{
    const char *s = *(const char *const *)a, *t = *(const char *const *)b;
    float x, y;
    const bool p = mf_number_float(s, strlen(s), &x), q = mf_number_float(t, strlen(t), &y);

    if (p != q)
        return p ? -1 : 1;
    if (p && x != y)
        return x < y ? -1 : 1;
    return strcmp(s, t);
}

/* The different texts, sorted. */
static mf_status find_names(const char *const *texts, int64_t n, mf_labels *out)
{
    const char **sorted = mf_calloc(n, sizeof *sorted);
    int64_t kept = 0;
    mf_status st = MF_OK;

    if (!sorted)
        return MF_NOMEM("labels");
    memcpy(sorted, texts, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    for (int64_t i = 0; i < n; i++) {
        if (kept == 0 || strcmp(sorted[kept - 1], sorted[i]) != 0)
            sorted[kept++] = sorted[i];
    }
    out->names = mf_calloc(kept, sizeof *out->names);
    if (kept > MAX_NAMES)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "there are %lld different labels: say target=number?",
                     (long long)kept);
    else if (!out->names)
        st = MF_NOMEM("labels");
    for (int64_t i = 0; i < kept && st == MF_OK; i++) {
        out->names[i] = mf_strdup(sorted[i]);
        st = out->names[i] ? MF_OK : MF_NOMEM("labels");
        out->classes += out->names[i] != NULL;
    }
    mf_free(sorted);
    return st;
}

mf_status mf_labels_of_texts(const char *const *texts, int64_t n, bool as_numbers, mf_labels *out)
{
    int32_t *classes;

    *out = (mf_labels){ 0 };
    if (as_numbers)
        return as_floats(texts, n, out);
    MF_TRY(mf_tensor_new(MF_DTYPE_I32, &n, 1, &out->tensor));
    classes = out->tensor->data;
    if (are_plain(texts, n, classes)) {
        for (int64_t i = 0; i < n; i++)
            out->classes = classes[i] >= out->classes ? classes[i] + 1 : out->classes;
        return MF_OK;
    }
    MF_TRY(find_names(texts, n, out));
    for (int64_t i = 0; i < n; i++) {
        char *const *found =
            bsearch(&texts[i], out->names, (size_t)out->classes, sizeof *out->names, by_value);

        classes[i] = (int32_t)(found - out->names);
    }
    return MF_OK;
}

mf_status mf_labels_of_numbers(const float *values, int64_t n, bool as_numbers, mf_labels *out)
{
    enum { TEXT = 32 };
    const char **texts = mf_calloc(n, sizeof *texts);
    char *room = mf_calloc(n, TEXT);
    mf_status st = texts && room ? MF_OK : MF_NOMEM("labels");

    *out = (mf_labels){ 0 };
    for (int64_t i = 0; i < n && st == MF_OK; i++) {
        texts[i] = room + i * TEXT;
        (void)snprintf(room + i * TEXT, TEXT, "%.9g", (double)values[i]);
    }
    if (st == MF_OK)
        st = mf_labels_of_texts(texts, n, as_numbers, out);
    mf_free(texts);
    mf_free(room);
    return st;
}

mf_status mf_labels_apply(const mf_labels *l, mf_dataset *set)
{
    set->classes = l->classes;
    return l->names ? mf_dataset_set_classes(set, (const char *const *)l->names, l->classes)
                    : MF_OK;
}
