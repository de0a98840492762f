/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - writes safetensors files. */
#include "base/file.h"
#include "formats/safetensors.h"
#include "formats/safetensors_types.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 8, ALIGN = 8 };

/* A tensor and its index in the caller's list. */
typedef struct safetensors_write_item {
    const char *name;
    const mf_tensor *tensor;
    int64_t index;
} safetensors_write_item;

static const char *type_name(mf_dtype dtype)
{
    for (int i = 0; i < MF_COUNT(mf_safetensors_types); i++) {
        if (mf_safetensors_types[i].dtype == dtype)
            return mf_safetensors_types[i].name;
    }
    return NULL;
}

/* Large elements first, so every tensor is aligned to its element size. Then by name, so the bytes
 * do not depend on the order of the list. */
static int by_size_and_name(const void *a, const void *b)
{
    const safetensors_write_item *x = a, *y = b;
    const size_t x_size = mf_dtype_size(x->tensor->dtype), y_size = mf_dtype_size(y->tensor->dtype);

    if (x_size != y_size)
        return x_size > y_size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static mf_status not_text(const char *name)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "'%.200s' cannot be stored: it is not UTF-8 text", name);
}

/* Scalars are the only strings the format can hold: as text of the metadata. */
static mf_status add_text(json_t *metadata, const safetensors_write_item *it)
{
    const mf_string *s = it->tensor->data;
    json_t *text;

    if (it->tensor->shape.rank != 0)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "'%.200s' is a tensor of strings, which safetensors files cannot hold",
                       it->name);
    if (s->len > 0 && memchr(s->data, 0, s->len)) /* allowed in JSON, but not supported by its
                                                     readers */
        return not_text(it->name);
    text = json_stringn(s->data ? s->data : "", s->len);
    if (!text || json_object_set_new(metadata, it->name, text) != 0)
        return not_text(it->name);
    return MF_OK;
}

static mf_status safetensors_write_add_tensor(json_t *root, const safetensors_write_item *it,
                                              int64_t *offset)
{
    const mf_tensor *t = it->tensor;
    const int64_t end = *offset + t->count * (int64_t)mf_dtype_size(t->dtype);
    const char *type = type_name(t->dtype);
    json_t *entry, *shape;

    if (!type)
        return MF_FAIL(MF_UNIMPLEMENTED,
                       "'%.200s' is of type %s, which safetensors files do not "
                       "support",
                       it->name, mf_dtype_name(t->dtype));
    shape = json_array();
    for (int d = 0; d < t->shape.rank; d++)
        (void)json_array_append_new(shape, json_integer(t->shape.dims[d]));
    entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", shape, "data_offsets",
                      (json_int_t)*offset, (json_int_t)end);
    if (!entry || (int)json_array_size(shape) != t->shape.rank) {
        json_decref(entry);
        return MF_NOMEM("a safetensors header");
    }
    if (json_object_set_new(root, it->name, entry) != 0)
        return not_text(it->name);
    *offset = end;
    return MF_OK;
}

static mf_status add_items(json_t *root, json_t *metadata, const safetensors_write_item *items,
                           int64_t n, int64_t *order)
{
    int64_t offset = 0, placed = 0;

    for (int64_t i = 0; i < n; i++) {
        const safetensors_write_item *it = &items[i];
        const bool text = it->tensor->dtype == MF_DTYPE_STRING;

        if ((!text && strcmp(it->name, MF_SAFETENSORS_METADATA) == 0) ||
            json_object_get(root, it->name) || json_object_get(metadata, it->name))
            return MF_FAIL(MF_INVALID_ARGUMENT, "the name '%.200s' occurs twice or is reserved",
                           it->name);
        if (text) {
            MF_TRY(add_text(metadata, it));
            continue;
        }
        MF_TRY(safetensors_write_add_tensor(root, it, &offset));
        order[placed++] = it->index;
    }
    order[placed] = -1;
    return MF_OK;
}

/* The length, the JSON, and padding up to the elements. */
static mf_status put_header(const json_t *root, mf_buf *out)
{
    char *json = json_dumps(root, JSON_COMPACT);
    uint64_t len, padded;

    if (!json)
        return MF_NOMEM("a safetensors header");
    len = strlen(json);
    padded = (len + ALIGN - 1) / ALIGN * ALIGN;
    mf_buf_bytes(out, &padded, LENGTH);
    mf_buf_bytes(out, json, len);
    mf_buf_bytes(out, "        ", padded - len);
    free(json);
    return mf_buf_finish(out);
}

mf_status mf_safetensors_encode(const char *const *names, const mf_tensor *const *tensors,
                                int64_t n, mf_buf *out, int64_t **order)
{
    json_t *root = json_object(), *metadata = json_object();
    safetensors_write_item *items = mf_calloc(n + 1, sizeof *items);
    mf_status st;

    *order = mf_calloc(n + 1, sizeof **order);
    if (!root || !metadata || !items || !*order) {
        st = MF_NOMEM("a safetensors header");
        goto done;
    }
    for (int64_t i = 0; i < n; i++)
        items[i] = (safetensors_write_item){ names[i], tensors[i], i };
    if (n > 1)
        qsort(items, (size_t)n, sizeof *items, by_size_and_name);
    MF_TRY_TO(done, add_items(root, metadata, items, n, *order));
    if (json_object_size(metadata) > 0 &&
        json_object_set(root, MF_SAFETENSORS_METADATA, metadata) != 0) {
        st = MF_NOMEM("a safetensors header");
        goto done;
    }
    st = put_header(root, out);
done:
    json_decref(root);
    json_decref(metadata);
    mf_free(items);
    if (st != MF_OK) {
        mf_free(*order);
        *order = NULL;
    }
    return st;
}

mf_status mf_safetensors_write(const char *path, const char *const *names,
                               const mf_tensor *const *tensors, int64_t n)
{
    mf_file_part *parts = mf_calloc(n + 1, sizeof *parts);
    mf_buf header = { 0 };
    int64_t *order = NULL, i = 0;
    mf_status st = parts ? mf_safetensors_encode(names, tensors, n, &header, &order)
                         : MF_NOMEM("a safetensors file");

    if (st == MF_OK) {
        parts[0] = (mf_file_part){ header.data, header.len };
        for (; order[i] >= 0; i++) {
            const mf_tensor *t = tensors[order[i]];

            parts[i + 1] = (mf_file_part){ t->data, (size_t)t->count * mf_dtype_size(t->dtype) };
        }
        st = mf_file_write_parts(path, parts, i + 1);
    }
    mf_free(order);
    mf_buf_deinit(&header);
    mf_free(parts);
    return st;
}
