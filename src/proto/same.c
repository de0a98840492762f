/* SPDX-License-Identifier: Apache-2.0 */
/* same.c - compares two protobuf messages regardless of the order of map entries. */
#include "proto/same.h"

#include <stdlib.h>
#include <string.h>

static bool is_entry(const ProtobufCMessageDescriptor *d)
{
    const size_t n = strlen(d->short_name);

    return n > 5 && strcmp(d->short_name + n - 5, "Entry") == 0;
}

/* An entry with its bytes, the sort key. */
typedef struct same_entry {
    ProtobufCMessage *message;
    mf_buf bytes;
} same_entry;

static int same_by_bytes(const void *x, const void *y)
{
    const same_entry *a = x, *b = y;
    const size_t n = a->bytes.len < b->bytes.len ? a->bytes.len : b->bytes.len;
    const int first = n > 0 ? memcmp(a->bytes.data, b->bytes.data, n) : 0;

    return first != 0 ? first : (a->bytes.len > b->bytes.len) - (a->bytes.len < b->bytes.len);
}

static mf_status sort_list(ProtobufCMessage **list, size_t n)
{
    same_entry *all = mf_calloc((int64_t)n, sizeof *all);
    mf_status st = all ? MF_OK : MF_NOMEM("messages to compare");

    for (size_t i = 0; st == MF_OK && i < n; i++) {
        all[i].message = list[i];
        st = mf_wire_encode(list[i], &all[i].bytes);
    }
    if (st == MF_OK) {
        qsort(all, n, sizeof *all, same_by_bytes);
        for (size_t i = 0; i < n; i++)
            list[i] = all[i].message;
    }
    for (size_t i = 0; all && i < n; i++)
        mf_buf_deinit(&all[i].bytes);
    mf_free(all);
    return st;
}

/* Recursion is as deep as messages are nested, which mf_wire_decode() limits. */
static mf_status sort_entries(ProtobufCMessage *m) // NOLINT(misc-no-recursion)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;

    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        char *at = (char *)m + f->offset;

        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            ProtobufCMessage **list = *(ProtobufCMessage ***)(void *)at;
            const size_t n =
                *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);

            for (size_t k = 0; k < n; k++)
                MF_TRY(sort_entries(list[k]));
            if (n > 1 && is_entry(f->descriptor))
                MF_TRY(sort_list(list, n));
        } else {
            const bool other =
                (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset) != f->id;
            ProtobufCMessage *inner = other ? NULL : *(ProtobufCMessage **)(void *)at;

            if (inner)
                MF_TRY(sort_entries(inner));
        }
    }
    return MF_OK;
}

mf_status mf_wire_same(ProtobufCMessage *a, ProtobufCMessage *b, bool *same)
{
    mf_buf x = { 0 }, y = { 0 };
    mf_status st = sort_entries(a);

    if (st == MF_OK)
        st = sort_entries(b);
    if (st == MF_OK)
        st = mf_wire_encode(a, &x);
    if (st == MF_OK)
        st = mf_wire_encode(b, &y);
    *same = st == MF_OK && x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
    mf_buf_deinit(&x);
    mf_buf_deinit(&y);
    return st;
}
