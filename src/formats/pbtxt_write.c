/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt_write.c - messages to protobuf text, as Python's google.protobuf.text_format prints them.
 */
#include "formats/pbtxt.h"
#include "formats/pbtxt_internal.h"
#include "proto/wire.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT_TEXT = 40, DOUBLE_DIGITS = 17 };

static void write_message(const ProtobufCMessage *message, int indent, mf_buf *out);

/* ---- values ---- */

/* Digits and exponent of the shortest decimal that reads back as `d`, in the format of Python's
 * repr(): 0.1, 1e-05, 100.0, 1e+16. */
static void write_double(double d, mf_buf *out)
{
    char text[FLOAT_TEXT], digits[FLOAT_TEXT];
    int n = 0, exponent;

    if (isnan(d) || isinf(d)) {
        mf_buf_str(out, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
        return;
    }
    for (int p = 1; p <= DOUBLE_DIGITS; p++) {
        (void)snprintf(text, sizeof text, "%.*e", p - 1, d);
        if (strtod(text, NULL) == d)
            break;
    }
    for (const char *c = text; *c != 'e'; c++) {
        if (*c >= '0' && *c <= '9')
            digits[n++] = *c;
    }
    digits[n] = '\0';
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (signbit(d))
        mf_buf_str(out, "-");
    if (exponent < -4 || exponent >= 16)
        mf_buf_printf(out, "%c%s%se%+03d", digits[0], n > 1 ? "." : "", digits + 1, exponent);
    else if (exponent < 0)
        mf_buf_printf(out, "0.%.*s%s", -exponent - 1, "000", digits);
    else if (exponent >= n - 1)
        mf_buf_printf(out, "%s%.*s.0", digits, exponent - n + 1, "0000000000000000");
    else
        mf_buf_printf(out, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
}

/* Six digits, or as many as needed to read back the same float. */
static void write_float(float f, mf_buf *out)
{
    char text[FLOAT_TEXT];

    if (isnan(f) || isinf(f)) {
        write_double((double)f, out);
        return;
    }
    for (int p = 6; p <= 9; p++) {
        (void)snprintf(text, sizeof text, "%.*g", p, (double)f);
        if ((float)strtod(text, NULL) == f)
            break;
    }
    write_double(strtod(text, NULL), out);
}

/* Text keeps its UTF-8; bytes are escaped. */
static void write_quoted(const void *data, size_t len, bool is_text, mf_buf *out)
{
    const unsigned char *s = data;
    size_t plain = 0; /* start of the run not yet written */

    mf_buf_str(out, "\"");
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = s[i];
        const char *name = c == '\n'   ? "\\n"
                           : c == '\r' ? "\\r"
                           : c == '\t' ? "\\t"
                           : c == '"'  ? "\\\""
                           : c == '\'' ? "\\'"
                           : c == '\\' ? "\\\\"
                                       : NULL;

        if (!name && c >= 0x20 && c != 0x7f && (c < 0x80 || is_text))
            continue;
        mf_buf_bytes(out, s + plain, i - plain);
        plain = i + 1;
        if (name)
            mf_buf_str(out, name);
        else
            mf_buf_printf(out, "\\%03o", c);
    }
    if (len > plain)
        mf_buf_bytes(out, s + plain, len - plain);
    mf_buf_str(out, "\"");
}

static void write_int32(const ProtobufCMessageDescriptor *desc,
                        const ProtobufCFieldDescriptor *field, int32_t v, mf_buf *out)
{
    char name[PBTXT_DTYPE_TEXT];
    const ProtobufCEnumValue *value = NULL;

    if (field->type == PROTOBUF_C_TYPE_ENUM)
        value = protobuf_c_enum_descriptor_get_value(field->descriptor, v);
    if (value)
        mf_buf_str(out, value->name);
    else if (mf_pbtxt_is_dtype(desc, field) && mf_pbtxt_dtype_name(v, name))
        mf_buf_str(out, name);
    else
        mf_buf_printf(out, "%d", v);
}

static void write_scalar(const ProtobufCMessageDescriptor *desc,
                         const ProtobufCFieldDescriptor *field, const void *place, mf_buf *out)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        write_int32(desc, field, *(const int32_t *)place, out);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        mf_buf_printf(out, "%u", *(const uint32_t *)place);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        mf_buf_printf(out, "%lld", (long long)*(const int64_t *)place);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        mf_buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)place);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        write_float(*(const float *)place, out);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        write_double(*(const double *)place, out);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        mf_buf_str(out, *(const protobuf_c_boolean *)place ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *bytes = place;

        write_quoted(bytes->data, bytes->len, false, out);
        break;
    }
    default: { /* a string */
        const char *s = *(char *const *)place;

        write_quoted(s ? s : "", s ? strlen(s) : 0, true, out);
    }
    }
}

/* ---- fields ---- */

static void write_field(const ProtobufCMessageDescriptor *desc,
                        const ProtobufCFieldDescriptor *field, const void *place, int indent,
                        mf_buf *out)
{
    mf_buf_printf(out, "%*s%s", indent, "", field->name);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessage *child = *(ProtobufCMessage *const *)place;

        mf_buf_str(out, " {\n");
        if (child)
            write_message(child, indent + 2, out);
        mf_buf_printf(out, "%*s}\n", indent, "");
    } else {
        mf_buf_str(out, ": ");
        write_scalar(desc, field, place, out);
        mf_buf_str(out, "\n");
    }
}

/* Does a singular field differ from its default? */
static bool is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    static const char zeros[8];
    const char *base = (const char *)message;
    const void *place = base + field->offset;

    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(base + field->quantifier_offset) == field->id;
    if (field->label == PROTOBUF_C_LABEL_REQUIRED)
        return true;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)place != NULL;
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL) {
        if (field->type == PROTOBUF_C_TYPE_STRING)
            return *(char *const *)place != NULL && *(char *const *)place != field->default_value;
        return *(const protobuf_c_boolean *)(const void *)(base + field->quantifier_offset) != 0;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)place != NULL && **(char *const *)place != '\0';
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)place)->len > 0;
    return memcmp(place, zeros, mf_wire_element_size(field->type)) != 0; /* bitwise: -0.0 is
                                                                            present */
}

/* ---- maps ---- */

typedef struct map_item {
    const ProtobufCMessage *entry;
    size_t index; /* equal keys stay in order */
} map_item;

static int item_compare(const void *a, const void *b)
{
    const map_item *x = a, *y = b;
    const ProtobufCFieldDescriptor *key = &x->entry->descriptor->fields[0];
    const void *p = (const char *)x->entry + key->offset, *q = (const char *)y->entry + key->offset;
    int order = 0;

    if (key->type == PROTOBUF_C_TYPE_STRING) {
        order = strcmp(*(char *const *)p, *(char *const *)q);
    } else if (mf_wire_element_size(key->type) == 4) {
        const uint32_t m = *(const uint32_t *)p, n = *(const uint32_t *)q;

        order = (m > n) - (m < n);
    } else {
        const uint64_t m = *(const uint64_t *)p, n = *(const uint64_t *)q;

        order = (m > n) - (m < n);
    }
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* As any message, but a value that is a message is always written. */
static void write_map(const ProtobufCFieldDescriptor *field, ProtobufCMessage *const *entries,
                      size_t n, int indent, mf_buf *out)
{
    map_item *items = mf_calloc((int64_t)n, sizeof *items);

    if (!items) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        items[i] = (map_item){ .entry = entries[i], .index = i };
    qsort(items, n, sizeof *items, item_compare);
    for (size_t i = 0; i < n; i++) {
        const ProtobufCMessageDescriptor *desc = items[i].entry->descriptor;

        const ProtobufCFieldDescriptor *value = &desc->fields[1];

        mf_buf_printf(out, "%*s%s {\n", indent, "", field->name);
        if (is_present(items[i].entry, &desc->fields[0]))
            write_field(desc, &desc->fields[0],
                        (const char *)items[i].entry + desc->fields[0].offset, indent + 2, out);
        if (value->type == PROTOBUF_C_TYPE_MESSAGE || is_present(items[i].entry, value))
            write_field(desc, value, (const char *)items[i].entry + value->offset, indent + 2, out);
        mf_buf_printf(out, "%*s}\n", indent, "");
    }
    mf_free(items);
}

static void write_repeated(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                           int indent, mf_buf *out)
{
    const char *base = (const char *)message;
    const size_t n = *(const size_t *)(const void *)(base + field->quantifier_offset);
    const char *array = *(char *const *)(const void *)(base + field->offset);

    if (n == 0)
        return;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && mf_pbtxt_is_map_entry(field->descriptor)) {
        write_map(field, (ProtobufCMessage *const *)(const void *)array, n, indent, out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        write_field(message->descriptor, field, array + i * mf_wire_element_size(field->type),
                    indent, out);
}

/* Recursion is as deep as the message, which is limited for untrusted input. */
static void write_message(const ProtobufCMessage *message, int indent, mf_buf *out)
{
    const ProtobufCMessageDescriptor *desc = message->descriptor;

    for (unsigned i = 0; i < desc->n_fields && !out->failed; i++) {
        const ProtobufCFieldDescriptor *field = &desc->fields[i];

        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            write_repeated(message, field, indent, out);
        else if (is_present(message, field))
            write_field(desc, field, (const char *)message + field->offset, indent, out);
    }
}

mf_status mf_pbtxt_encode(const ProtobufCMessage *message, mf_buf *out)
{
    write_message(message, 0, out);
    return mf_buf_finish(out);
}
