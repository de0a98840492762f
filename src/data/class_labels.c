/* SPDX-License-Identifier: Apache-2.0 */
/* class_labels.c - maps labels of a file to class numbers. */
#include "data/class_labels.h"

#include "formats/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MAX_PLAIN = 1000000,
    MAX_NAMES = 1 << 20,
    MANY = 1000, /* maximum number of classes for which the number of rows does not matter */
    FEW = 20, /* maximum number of rows in which every row may have a class of its own */
};

void mf_labels_deinit(mf_labels *l)
{
    for (int64_t i = 0; l->names && i < l->classes; i++)
        mf_free(l->names[i]);
    mf_free(l->names);
    mf_tensor_free(l->tensor);
    *l = (mf_labels){ 0 };
}

mf_target mf_target_of(const char *setting, const mf_schema_column *known)
{
    if (known)
        return known->classes > 0 ? MF_TARGET_CLASS : MF_TARGET_NUMBER;
    return strcmp(setting, "class") == 0    ? MF_TARGET_CLASS
           : strcmp(setting, "number") == 0 ? MF_TARGET_NUMBER
                                            : MF_TARGET_AUTO;
}

/* A finite number, so not "inf" or "nan". */
static bool class_labels_is_finite(const char *text, float *out)
{
    return mf_number_float(text, strlen(text), out) && isfinite(*out);
}

static bool class_labels_is_missing(const char *text)
{
    return !text[0] || strcasecmp(text, "nan") == 0;
}

static mf_status check_present(const char *const *texts, int64_t n, mf_labels *out)
{
    for (int64_t i = 0; i < n; i++) {
        if (!class_labels_is_missing(texts[i]))
            continue;
        out->wrong = i;
        return MF_FAIL(MF_INVALID_ARGUMENT, "the label is missing: '%.60s'", texts[i]);
    }
    return MF_OK;
}

/* Written with a decimal point or an exponent. */
static bool is_fraction(const char *text)
{
    float value;

    return class_labels_is_finite(text, &value) && strpbrk(text, ".eE") != NULL;
}

/* Labels are numbers to predict if all are numbers and one is a fraction. If there are more
 * fractions than texts that are not numbers, those texts are mistakes: silently making classes of
 * them would hide that. */
static mf_status find_fractions(const char *const *texts, int64_t n, bool *found, mf_labels *out)
{
    int64_t fractions = 0, others = 0, first = 0;
    float value;

    for (int64_t i = 0; i < n; i++) {
        fractions += is_fraction(texts[i]);
        if (!class_labels_is_finite(texts[i], &value) && others++ == 0)
            first = i;
    }
    *found = fractions > 0 && others == 0;
    if (others == 0 || fractions <= others)
        return MF_OK;
    out->wrong = first;
    return MF_FAIL(
        MF_INVALID_ARGUMENT,
        "the label is not a number: '%.60s', but %lld others have a decimal point: correct "
        "it, or set target=class if these are classes",
        texts[first], (long long)fractions);
}

static mf_status as_floats(const char *const *texts, int64_t n, mf_labels *out)
{
    MF_TRY(mf_tensor_new(MF_DTYPE_F32, &n, 1, &out->tensor));
    for (int64_t i = 0; i < n; i++) {
        if (class_labels_is_finite(texts[i], (float *)out->tensor->data + i))
            continue;
        out->wrong = i;
        return MF_FAIL(MF_INVALID_ARGUMENT, "the label is not a number: '%.60s'", texts[i]);
    }
    return MF_OK;
}

/* True if all labels are 0, 1, 2 ... */
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

/* Numbers by value, then texts lexicographically. */
static int class_labels_by_value(const void *a, const void *b)
{
    const char *s = *(const char *const *)a, *t = *(const char *const *)b;
    float x, y;
    const bool p = class_labels_is_finite(s, &x), q = class_labels_is_finite(t, &y);

    if (p != q)
        return p ? -1 : 1;
    if (p && x != y)
        return x < y ? -1 : 1;
    return strcmp(s, t);
}

static bool are_numbers(char *const *texts, int64_t n)
{
    float value;

    for (int64_t i = 0; i < n; i++) {
        if (!class_labels_is_finite(texts[i], &value))
            return false;
    }
    return true;
}

static int by_class(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* Numbers that are different in most rows are not classes. */
static mf_status refuse_numbers(int64_t n, int64_t different)
{
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "the labels of %lld samples are %lld different numbers: set target=number to "
                   "predict numbers, or target=class if these are classes",
                   (long long)n, (long long)different);
}

/* The distinct texts, sorted. */
static mf_status find_names(const char *const *texts, int64_t n, mf_labels *out)
{
    const char **sorted = mf_calloc(n, sizeof *sorted);
    int64_t kept = 0;
    mf_status st = MF_OK;

    if (!sorted)
        return MF_NOMEM("labels");
    memcpy(sorted, texts, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, class_labels_by_value);
    for (int64_t i = 0; i < n; i++) {
        if (kept == 0 || strcmp(sorted[kept - 1], sorted[i]) != 0)
            sorted[kept++] = sorted[i];
    }
    out->names = mf_calloc(kept, sizeof *out->names);
    if (kept > MAX_NAMES)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "there are %lld different labels: numbers to predict need target=number",
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

static mf_status as_known(const char *const *texts, int64_t n, const mf_schema_column *known,
                          mf_labels *out)
{
    int32_t *classes = out->tensor->data;

    for (int64_t i = 0; i < n; i++) {
        const bool again = i > 0 && strcmp(texts[i], texts[i - 1]) == 0;

        out->wrong = i;
        if (again)
            classes[i] = classes[i - 1];
        else
            MF_TRY(mf_schema_class(known, texts[i], &classes[i]));
    }
    out->wrong = -1;
    out->classes = known->classes;
    if (!known->class_names)
        return MF_OK;
    out->names = mf_calloc(known->classes, sizeof *out->names);
    for (int64_t i = 0; out->names && i < known->classes; i++) {
        out->names[i] = mf_strdup(known->class_names[i]);
        if (!out->names[i])
            return MF_NOMEM("labels");
    }
    return out->names ? MF_OK : MF_NOMEM("labels");
}

static mf_status count_different(const int32_t *classes, int64_t n, int64_t *out)
{
    int32_t *sorted = mf_calloc(n, sizeof *sorted);

    if (!sorted)
        return MF_NOMEM("labels");
    memcpy(sorted, classes, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_class);
    *out = n > 0;
    for (int64_t i = 1; i < n; i++)
        *out += sorted[i] != sorted[i - 1];
    mf_free(sorted);
    return MF_OK;
}

static mf_status check_plain(int64_t n, mf_target target, mf_labels *out)
{
    const int32_t *classes = out->tensor->data;
    int64_t different;

    for (int64_t i = 0; i < n; i++)
        out->classes = classes[i] >= out->classes ? classes[i] + 1 : out->classes;
    if (target != MF_TARGET_AUTO)
        return MF_OK;
    MF_TRY(count_different(classes, n, &different));
    if (n > FEW && different > n / 2)
        return refuse_numbers(n, different);
    if (out->classes > MANY && out->classes > 2 * n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the labels of %lld samples are whole numbers up to %lld: set target=number "
                       "to predict numbers, or target=class if these are classes",
                       (long long)n, (long long)out->classes - 1);
    return MF_OK;
}

static mf_status as_classes(const char *const *texts, int64_t n, mf_target target, mf_labels *out)
{
    int32_t *classes = out->tensor->data;

    if (are_plain(texts, n, classes))
        return check_plain(n, target, out);
    MF_TRY(find_names(texts, n, out));
    if (target == MF_TARGET_AUTO && n > FEW && out->classes > n / 2 &&
        are_numbers(out->names, out->classes))
        return refuse_numbers(n, out->classes);
    for (int64_t i = 0; i < n; i++) {
        char *const *found = bsearch(&texts[i], out->names, (size_t)out->classes,
                                     sizeof *out->names, class_labels_by_value);

        classes[i] = (int32_t)(found - out->names);
    }
    return MF_OK;
}

mf_status mf_labels_of_texts(const char *const *texts, int64_t n, mf_target target,
                             const mf_schema_column *known, mf_labels *out)
{
    bool fractions = false;

    *out = (mf_labels){ .wrong = -1 };
    MF_TRY(check_present(texts, n, out));
    if (target == MF_TARGET_AUTO)
        MF_TRY(find_fractions(texts, n, &fractions, out));
    if (target == MF_TARGET_NUMBER || fractions)
        return as_floats(texts, n, out);
    MF_TRY(mf_tensor_new(MF_DTYPE_I32, &n, 1, &out->tensor));
    return known ? as_known(texts, n, known, out) : as_classes(texts, n, target, out);
}

mf_status mf_labels_of_numbers(const float *values, int64_t n, mf_target target,
                               const mf_schema_column *known, mf_labels *out)
{
    enum { TEXT = 32 };
    const char **texts = mf_calloc(n, sizeof *texts);
    char *room = mf_calloc(n, TEXT);
    mf_status st = texts && room ? MF_OK : MF_NOMEM("labels");

    *out = (mf_labels){ .wrong = -1 };
    for (int64_t i = 0; i < n && st == MF_OK; i++) {
        texts[i] = room + i * TEXT;
        (void)snprintf(room + i * TEXT, TEXT,
                       values[i] == floorf(values[i]) && fabsf(values[i]) < 1e9f ? "%.0f" : "%.9g",
                       (double)values[i]);
    }
    if (st == MF_OK)
        st = mf_labels_of_texts(texts, n, target, known, out);
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
