/* SPDX-License-Identifier: Apache-2.0 */
/* string_number.c - numbers from text and text from numbers: StringToNumber, AsString,
 * StringFormat. */
#include "ops/string/tensor_text.h"

#include <complex.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- StringToNumber ---- */

enum { NUMBER_MAX = 400 }; /* maximum number of characters of a number */

static bool string_number_parse_float(const char *s, mf_dtype type, mf_tensor *out, int64_t i)
{
    const char *digits = s + (*s == '-' || *s == '+');
    char *end;

    if (strchr(s, '(') /* "nan(...)" is accepted only by C */ || isspace((unsigned char)*s) ||
        !*digits)
        return false;
    if (type == MF_DTYPE_F32)
        ((float *)out->data)[i] = strtof(s, &end);
    else
        ((double *)out->data)[i] = strtod(s, &end);
    return *end == '\0' && end != s;
}

static bool string_number_parse_int(const char *s, mf_dtype type, mf_tensor *out, int64_t i)
{
    const bool is_unsigned = type == MF_DTYPE_U32 || type == MF_DTYPE_U64;
    const char *digits = s + (*s == '-' || *s == '+');
    char *end;

    if (!isdigit((unsigned char)*digits) || (is_unsigned && *s == '-'))
        return false;
    errno = 0;
    const long long v = is_unsigned ? 0 : strtoll(s, &end, 10);
    const unsigned long long u = is_unsigned ? strtoull(s, &end, 10) : 0;

    if (errno != 0 || *end != '\0')
        return false;
    if ((type == MF_DTYPE_I32 && (v < INT32_MIN || v > INT32_MAX)) ||
        (type == MF_DTYPE_U32 && u > UINT32_MAX))
        return false;
    if (type == MF_DTYPE_I32)
        ((int32_t *)out->data)[i] = (int32_t)v;
    else if (type == MF_DTYPE_I64)
        ((int64_t *)out->data)[i] = v;
    else if (type == MF_DTYPE_U32)
        ((uint32_t *)out->data)[i] = (uint32_t)u;
    else
        ((uint64_t *)out->data)[i] = u;
    return true;
}

bool mf_text_number(const char *from, size_t len, mf_tensor *out, int64_t i)
{
    char text[NUMBER_MAX];

    for (; len > 0 && isspace((unsigned char)*from); from++)
        len--;
    while (len > 0 && isspace((unsigned char)from[len - 1]))
        len--;
    if (len == 0 || len >= sizeof text || memchr(from, '\0', len))
        return false;
    memcpy(text, from, len);
    text[len] = '\0';
    return mf_dtype_is_float(out->dtype) ? string_number_parse_float(text, out->dtype, out, i)
                                         : string_number_parse_int(text, out->dtype, out, i);
}

static mf_status to_number_run(mf_kernel *k)
{
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    for (int64_t i = 0; i < out->count; i++) {
        const mf_string *s = &mf_strings(k->in[0])[i];

        if (!mf_text_number(mf_string_data(s), s->len, out, i))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "StringToNumberOp could not correctly convert string: %.*s",
                           s->len > 200 ? 200 : (int)s->len, mf_string_data(s));
    }
    return MF_OK;
}

/* ---- AsString ---- */

typedef struct as_string_args {
    char format[64]; /* of one real number, or of a string */
} as_string_args;

enum { WIDTH_MAX = 100000 };

static mf_status check_format(const mf_node *node, mf_dtype type)
{
    const char *fill = mf_node_string(node, "fill");
    const bool scientific = mf_node_bool(node, "scientific"),
               shortest = mf_node_bool(node, "shortest");
    const bool real = mf_dtype_is_float(type) || mf_dtype_is_complex(type) ||
                      type == MF_DTYPE_STRING; /* precision and width do not apply */

    if (strlen(fill) > 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Fill string must be one or fewer characters");
    if (fill[0] && !strchr("0+- #", fill[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT, "Fill argument not supported: \"%s\"", fill);
    if (scientific && shortest)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Cannot select both scientific and shortest notation");
    if (!real && (scientific || shortest))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "scientific and shortest format not supported for datatype %s",
                       mf_dtype_name(type));
    if (!real && mf_node_int(node, "precision") > -1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "precision not supported for datatype %s",
                       mf_dtype_name(type));
    if (mf_node_int(node, "width") > WIDTH_MAX || mf_node_int(node, "precision") > WIDTH_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "width and precision may be at most %d", WIDTH_MAX);
    return MF_OK;
}

static mf_status as_string_prepare(mf_prepare *p)
{
    const mf_dtype type = mf_node_type(p->node, "T");
    const int width = (int)mf_node_int(p->node, "width");
    const int precision = (int)mf_node_int(p->node, "precision");
    as_string_args *args = MF_ARENA_NEW(p->arena, as_string_args);
    char width_text[16] = "", precision_text[16] = "";
    const char *letter = mf_dtype_is_int(type)     ? (type == MF_DTYPE_U64 ? "llu" : "lld")
                         : type == MF_DTYPE_STRING ? "s"
                         : mf_node_bool(p->node, "scientific") ? "e"
                         : mf_node_bool(p->node, "shortest")   ? "g"
                                                               : "f";

    if (!args)
        return MF_NOMEM("a format");
    MF_TRY(check_format(p->node, type));
    if (width > -1)
        (void)snprintf(width_text, sizeof width_text, "%d", width);
    if (precision > -1 && (type != MF_DTYPE_STRING || width > -1)) /* as TensorFlow */
        (void)snprintf(precision_text, sizeof precision_text, ".%d", precision);
    (void)snprintf(args->format, sizeof args->format, "%%%s%s%s%s", mf_node_string(p->node, "fill"),
                   width_text, precision_text, letter);
    p->state = args;
    return MF_OK;
}

/* The format was built and checked above. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void print_real(mf_buf *out, const char *format, double v)
{
    mf_buf_printf(out, format, v);
}

static void string_number_print_one(const as_string_args *args, const mf_tensor *in, int64_t i,
                                    mf_buf *out)
{
    if (in->dtype == MF_DTYPE_BOOL) {
        mf_buf_str(out, ((const uint8_t *)in->data)[i] ? "true" : "false");
    } else if (in->dtype == MF_DTYPE_STRING) {
        mf_buf_printf(out, args->format, mf_string_data(&mf_strings(in)[i]));
    } else if (in->dtype == MF_DTYPE_U64) {
        mf_buf_printf(out, args->format, (unsigned long long)((const uint64_t *)in->data)[i]);
    } else if (mf_dtype_is_int(in->dtype)) {
        mf_buf_printf(out, args->format, (long long)mf_tensor_int_at(in, i));
    } else if (mf_dtype_is_complex(in->dtype)) {
        const double im = in->dtype == MF_DTYPE_C64
                              ? (double)cimagf(((const float _Complex *)in->data)[i])
                              : cimag(((const double _Complex *)in->data)[i]);

        mf_buf_str(out, "(");
        print_real(out, args->format, mf_tensor_float_at(in, i));
        mf_buf_str(out, ",");
        print_real(out, args->format, im);
        mf_buf_str(out, ")");
    } else {
        print_real(out, args->format, mf_tensor_float_at(in, i));
    }
}

static mf_status as_string_run(mf_kernel *k)
{
    const mf_tensor *in = k->in[0];
    mf_buf buf = { 0 };
    mf_tensor *out;
    mf_status st = MF_OK;

    if (in->dtype == MF_DTYPE_VARIANT)
        return MF_FAIL(MF_UNIMPLEMENTED, "AsString of a variant is not supported");
    MF_TRY(mf_kernel_out(k, 0, &in->shape, &out));
    for (int64_t i = 0; st == MF_OK && i < in->count; i++) {
        string_number_print_one(k->state, in, i, &buf);
        st = mf_string_take(&((mf_string *)out->data)[i], &buf);
    }
    mf_buf_deinit(&buf);
    return st;
}

/* ---- StringFormat ---- */

static mf_status format_run(mf_kernel *k)
{
    const char *text = mf_node_string(k->node, "template");
    const char *mark = mf_node_string(k->node, "placeholder"), *next;
    const int64_t summarize = mf_node_int(k->node, "summarize");
    mf_buf buf = { 0 };
    mf_tensor *out;
    int n = 0;
    mf_status st;

    for (next = text; *mark && (next = strstr(next, mark)) != NULL; next += strlen(mark))
        n++;
    if (n != k->n_in)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "num placeholders in template and num inputs must match: %d vs. %d", n,
                       k->n_in);
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    for (int i = 0; i < n; i++) {
        next = strstr(text, mark);
        mf_buf_bytes(&buf, text, (size_t)(next - text));
        mf_text_grid(k->in[i], summarize, &buf);
        text = next + strlen(mark);
    }
    mf_buf_str(&buf, text);
    st = mf_string_take(out->data, &buf);
    mf_buf_deinit(&buf);
    return st;
}

const mf_op mf_ops_string_number[] = {
    { .name = "StringToNumber",
      .def = "(string_tensor:string) -> (output:out_type) {out_type:type=float in "
             "[float,double,int32,int64,uint32,uint64]}",
      .infer = mf_infer_same,
      .grad = mf_grad_none,
      .run = to_number_run,
      .samples = MF_SAMPLES("str[4]{1.5,-2,1e3,inf}", "str[2]{0.1,-7} ; out_type=double",
                            "str[2]{12,-7} ; out_type=int32", "str[]{99999999999} ; out_type=int64",
                            "str[0]", "str[1]{zz} !fails", "str[2]{1,} !fails",
                            "str[1]{99999999999} ; out_type=int32 !fails",
                            "str[1]{-1} ; out_type=uint32 !fails") },
    { .name = "AsString",
      .def = "(input:T) -> (output:string) {T:type in [float,double,int32,uint8,int16,int8,int64,"
             "bfloat16,uint16,half,uint32,uint64,complex64,complex128,bool,variant,string], "
             "precision:int=-1, scientific:bool=false, shortest:bool=false, width:int=-1, "
             "fill:string=''}",
      .infer = mf_infer_same,
      .grad = mf_grad_none,
      .prepare = as_string_prepare,
      .run = as_string_run,
      .samples =
          MF_SAMPLES("f32[3]{1.5,-2,0.25}", "f64[2]{0.5,1e20} ; precision=2",
                     "f32[2]{1.5,-2} ; scientific=true", "f32[2]{0.1,-2} ; shortest=true", "i32[4]",
                     "i8[] ; width=5 fill='0'", "bool[3]", "c64[2]{1,2} ; precision=1",
                     "str[2]{a,bc} ; width=4", "u64[2]", "f16[2]{0.5,2}", "f32[0]",
                     "f32[1] ; fill='ab' !fails", "i32[1] ; precision=2 !fails") },
    { .name = "StringFormat",
      .def = "(inputs:*T) -> (output:string) {T:list(type)>=0, template:string='%s', "
             "placeholder:string='%s', summarize:int=3}",
      .infer = mf_infer_scalar,
      .grad = mf_grad_missing,
      .run = format_run,
      .samples =
          MF_SAMPLES("i32[2]{1,2} ; template='v={}' placeholder='{}'",
                     "f32[2,3]{1,2,3,4,5,6} str[2]{a,b} ; template='{} and {}' placeholder='{}'",
                     "i32[20] ; summarize=2", "i32[7,2,2] ; summarize=-1", "bool[] ;", "f32[2,0] ;",
                     "bool[2,0] ;", "f32[] ; summarize=0", "bool[] ; summarize=0", "c64[2,3] ;",
                     "c64[2] ; summarize=-1", "f32[1] ; template='x' !fails") },
    { 0 },
};
