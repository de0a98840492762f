/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt_names.c - names in protobuf text that our descriptors do not have. */
#include "formats/pbtxt_internal.h"

#include <stdio.h>
#include <string.h>

enum { REF = 100 }; /* DT_FLOAT_REF = DT_FLOAT + REF */

typedef struct field_name {
    const char *message, *field;
} field_name;

static const field_name dtype_fields[] = {
    { "tensorflow.AttrValue", "type" },
    { "tensorflow.AttrValue.ListValue", "type" },
    { "tensorflow.TensorProto", "dtype" },
    { "tensorflow.ResourceHandleProto.DtypeAndShape", "dtype" },
    { "tensorflow.OpDef.ArgDef", "type" },
    { "tensorflow.BundleEntryProto", "dtype" },
    { "tensorflow.TensorInfo", "dtype" },
    { "tensorflow.SavedSliceMeta", "type" },
};

static const field_name skipped_fields[] = {
    { "tensorflow.NodeDef", "experimental_debug_info" },
    { "tensorflow.NodeDef", "experimental_type" },
    { "tensorflow.GraphDef", "debug_info" },
    { "tensorflow.OpDef", "summary" },
    { "tensorflow.OpDef", "description" },
    { "tensorflow.OpDef", "deprecation" },
    { "tensorflow.OpDef.ArgDef", "description" },
    { "tensorflow.OpDef.ArgDef", "handle_data" },
    { "tensorflow.OpDef.ArgDef", "experimental_full_type" },
    { "tensorflow.OpDef.AttrDef", "description" },
    { "tensorflow.FunctionDefLibrary", "registered_gradients" },
};

/* TensorFlow's DataType by number. */
static const char *const dtype_names[] = {
    "DT_INVALID",
    "DT_FLOAT",
    "DT_DOUBLE",
    "DT_INT32",
    "DT_UINT8",
    "DT_INT16",
    "DT_INT8",
    "DT_STRING",
    "DT_COMPLEX64",
    "DT_INT64",
    "DT_BOOL",
    "DT_QINT8",
    "DT_QUINT8",
    "DT_QINT32",
    "DT_BFLOAT16",
    "DT_QINT16",
    "DT_QUINT16",
    "DT_UINT16",
    "DT_COMPLEX128",
    "DT_HALF",
    "DT_RESOURCE",
    "DT_VARIANT",
    "DT_UINT32",
    "DT_UINT64",
    "DT_FLOAT8_E5M2",
    "DT_FLOAT8_E4M3FN",
    "DT_FLOAT8_E4M3FNUZ",
    "DT_FLOAT8_E4M3B11FNUZ",
    "DT_FLOAT8_E5M2FNUZ",
    "DT_INT4",
    "DT_UINT4",
    "DT_INT2",
    "DT_UINT2",
    "DT_FLOAT4_E2M1FN",
};

static bool has_name(const field_name *names, int n, const char *message, const char *field)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i].field, field) == 0 && strcmp(names[i].message, message) == 0)
            return true;
    }
    return false;
}

bool mf_pbtxt_is_dtype(const ProtobufCMessageDescriptor *desc,
                       const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_INT32 &&
           has_name(dtype_fields, MF_COUNT(dtype_fields), desc->name, field->name);
}

bool mf_pbtxt_is_skipped(const ProtobufCMessageDescriptor *desc, const char *field)
{
    return has_name(skipped_fields, MF_COUNT(skipped_fields), desc->name, field);
}

bool mf_pbtxt_is_map_entry(const ProtobufCMessageDescriptor *desc)
{
    const size_t len = strlen(desc->short_name);

    return len >= 5 && strcmp(desc->short_name + len - 5, "Entry") == 0 && desc->n_fields == 2 &&
           strcmp(desc->fields[0].name, "key") == 0 && strcmp(desc->fields[1].name, "value") == 0;
}

bool mf_pbtxt_dtype_name(int32_t number, char text[PBTXT_DTYPE_TEXT])
{
    const bool ref = number > REF;
    const int32_t plain = ref ? number - REF : number;

    if (plain < 0 || plain >= MF_COUNT(dtype_names))
        return false;
    (void)snprintf(text, PBTXT_DTYPE_TEXT, "%s%s", dtype_names[plain], ref ? "_REF" : "");
    return true;
}

bool mf_pbtxt_dtype_find(const char *name, size_t len, int32_t *number)
{
    const bool ref = len > 4 && memcmp(name + len - 4, "_REF", 4) == 0;

    if (ref)
        len -= 4;
    for (int32_t i = ref; i < MF_COUNT(dtype_names); i++) {
        if (strlen(dtype_names[i]) == len && memcmp(dtype_names[i], name, len) == 0) {
            *number = ref ? i + REF : i;
            return true;
        }
    }
    return false;
}
