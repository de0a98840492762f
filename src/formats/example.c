/* SPDX-License-Identifier: Apache-2.0 */
/* example.c - decodes and encodes tf.Example. */
#include "formats/example.h"

#include "proto/example.pb-c.h"
#include "proto/wire.h"

#include <stdlib.h>
#include <string.h>

static mf_status example_read_strings(const Tensorflow__BytesList *list, mf_arena *arena,
                                      mf_feature *f)
{
    mf_string *strings = MF_ARENA_ARRAY(arena, mf_string, (int64_t)list->n_value);

    if (list->n_value > 0 && !strings)
        return MF_NOMEM("an example");
    for (size_t i = 0; i < list->n_value; i++)
        strings[i] = (mf_string){ (char *)list->value[i].data, list->value[i].len };
    f->type = MF_DTYPE_STRING;
    f->n = (int64_t)list->n_value;
    f->strings = strings;
    return MF_OK;
}

static mf_status read_feature(const Tensorflow__FeatureEntry *entry, mf_arena *arena, mf_feature *f)
{
    const Tensorflow__Feature *v = entry->value;

    *f = (mf_feature){ .name = entry->key };
    if (!v)
        return MF_OK;
    switch (v->kind_case) {
    case TENSORFLOW__FEATURE__KIND_BYTES_LIST:
        return example_read_strings(v->bytes_list, arena, f);
    case TENSORFLOW__FEATURE__KIND_FLOAT_LIST:
        f->type = MF_DTYPE_F32;
        f->n = (int64_t)v->float_list->n_value;
        f->floats = v->float_list->value;
        return MF_OK;
    case TENSORFLOW__FEATURE__KIND_INT64_LIST:
        f->type = MF_DTYPE_I64;
        f->n = (int64_t)v->int64_list->n_value;
        f->ints = v->int64_list->value;
        return MF_OK;
    default:
        return MF_OK;
    }
}

static int example_by_name(const void *a, const void *b)
{
    return strcmp(((const mf_feature *)a)->name, ((const mf_feature *)b)->name);
}

static int by_name_and_place(const void *a, const void *b)
{
    const mf_feature *f = a, *g = b;
    const int order = example_by_name(a, b);

    return order != 0 ? order : f->place < g->place ? -1 : 1;
}

/* Sorts, and keeps only the last of equal names. */
static void sort_features(mf_example *e)
{
    int64_t kept = 0;

    qsort(e->features, (size_t)e->n, sizeof *e->features, by_name_and_place);
    for (int64_t i = 0; i < e->n; i++) {
        if (i + 1 == e->n || example_by_name(&e->features[i], &e->features[i + 1]) != 0)
            e->features[kept++] = e->features[i];
    }
    e->n = kept;
}

mf_status mf_example_decode(const void *data, size_t len, mf_arena *arena, mf_example *out)
{
    Tensorflow__Example *message;

    *out = (mf_example){ 0 };
    MF_TRY(mf_wire_decode(&tensorflow__example__descriptor, data, len, NULL, arena,
                          (ProtobufCMessage **)&message));
    if (!message->features || message->features->n_feature == 0)
        return MF_OK;
    out->n = (int64_t)message->features->n_feature;
    out->features = MF_ARENA_ARRAY(arena, mf_feature, out->n);
    if (!out->features)
        return MF_NOMEM("an example");
    for (int64_t i = 0; i < out->n; i++) {
        MF_TRY(read_feature(message->features->feature[i], arena, &out->features[i]));
        out->features[i].place = i;
    }
    sort_features(out);
    return MF_OK;
}

const mf_feature *mf_example_find(const mf_example *example, const char *name)
{
    const mf_feature key = { .name = name };

    return example->n > 0 ? bsearch(&key, example->features, (size_t)example->n,
                                    sizeof *example->features, example_by_name)
                          : NULL;
}

/* ---- writing ---- */

/* One feature as a message of its own; the pieces live in the arena. */
static mf_status feature_message(const mf_feature *f, mf_arena *arena, Tensorflow__Feature *out)
{
    Tensorflow__BytesList *bytes = MF_ARENA_NEW(arena, Tensorflow__BytesList);
    Tensorflow__FloatList *floats = MF_ARENA_NEW(arena, Tensorflow__FloatList);
    Tensorflow__Int64List *ints = MF_ARENA_NEW(arena, Tensorflow__Int64List);

    if (!bytes || !floats || !ints)
        return MF_NOMEM("an example");
    tensorflow__feature__init(out);
    if (f->type == MF_DTYPE_F32) {
        tensorflow__float_list__init(floats);
        floats->n_value = (size_t)f->n;
        floats->value = (float *)(uintptr_t)f->floats;
        out->kind_case = TENSORFLOW__FEATURE__KIND_FLOAT_LIST;
        out->float_list = floats;
    } else if (f->type == MF_DTYPE_I64) {
        tensorflow__int64_list__init(ints);
        ints->n_value = (size_t)f->n;
        ints->value = (int64_t *)(uintptr_t)f->ints;
        out->kind_case = TENSORFLOW__FEATURE__KIND_INT64_LIST;
        out->int64_list = ints;
    } else if (f->type == MF_DTYPE_STRING) {
        tensorflow__bytes_list__init(bytes);
        bytes->n_value = (size_t)f->n;
        bytes->value = MF_ARENA_ARRAY(arena, ProtobufCBinaryData, f->n);
        if (f->n > 0 && !bytes->value)
            return MF_NOMEM("an example");
        for (int64_t i = 0; i < f->n; i++)
            bytes->value[i] =
                (ProtobufCBinaryData){ f->strings[i].len, (uint8_t *)f->strings[i].data };
        out->kind_case = TENSORFLOW__FEATURE__KIND_BYTES_LIST;
        out->bytes_list = bytes;
    }
    return MF_OK;
}

static mf_status example_message(const mf_example *e, mf_arena *arena, Tensorflow__Features *out)
{
    Tensorflow__FeatureEntry *entries = MF_ARENA_ARRAY(arena, Tensorflow__FeatureEntry, e->n);
    Tensorflow__Feature *values = MF_ARENA_ARRAY(arena, Tensorflow__Feature, e->n);

    tensorflow__features__init(out);
    out->n_feature = (size_t)e->n;
    out->feature = MF_ARENA_ARRAY(arena, Tensorflow__FeatureEntry *, e->n);
    if (e->n > 0 && (!entries || !values || !out->feature))
        return MF_NOMEM("an example");
    for (int64_t i = 0; i < e->n; i++) {
        MF_TRY(feature_message(&e->features[i], arena, &values[i]));
        tensorflow__feature_entry__init(&entries[i]);
        entries[i].key = (char *)(uintptr_t)e->features[i].name;
        entries[i].value = &values[i];
        out->feature[i] = &entries[i];
    }
    return MF_OK;
}

mf_status mf_example_encode(const mf_example *example, mf_buf *out)
{
    mf_arena *arena = mf_arena_new();
    Tensorflow__Example message = TENSORFLOW__EXAMPLE__INIT;
    Tensorflow__Features features;
    mf_status st = arena ? example_message(example, arena, &features) : MF_NOMEM("an example");

    message.features = &features;
    if (st == MF_OK)
        st = mf_wire_encode(&message.base, out);
    mf_arena_free(arena);
    return st;
}
