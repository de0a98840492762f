/* SPDX-License-Identifier: Apache-2.0 */
/* string_code.c - encodings: URL-safe base64, and raw numbers. */
#include "ops/string/tensor_text.h"

/* ---- base64, with '-' and '_' ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static mf_status string_code_encode(const mf_kernel *k, const mf_string *in, mf_string *out)
{
    const bool pad = mf_node_bool(k->node, "pad");
    mf_buf buf = { 0 };
    mf_status st;

    for (size_t i = 0; i < in->len; i += 3) {
        const size_t n = in->len - i < 3 ? in->len - i : 3;
        uint32_t bits = 0;
        char text[4];

        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < n ? (uint8_t)in->data[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            text[j] = j <= n ? digits[bits >> (18 - 6 * j) & 63] : '=';
        mf_buf_bytes(&buf, text, pad ? 4 : n + 1);
    }
    st = mf_string_take(out, &buf);
    mf_buf_deinit(&buf);
    return st;
}

static mf_status decode_into(const mf_string *in, mf_buf *buf)
{
    size_t n = in->len;
    uint32_t bits = 0;

    for (int i = 0; i < 2 && in->len % 4 == 0 && n > 0 && in->data[n - 1] == '='; i++)
        n--;
    if (n % 4 == 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Base64 string length cannot be 1 modulo 4.");
    for (size_t i = 0; i < n; i++) {
        const char *digit = in->data[i] ? strchr(digits, in->data[i]) : NULL;
        char byte;

        if (!digit)
            return MF_FAIL(MF_INVALID_ARGUMENT, "Invalid character found in base64.");
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4 == 0)
            continue;
        byte = (char)(bits >> (6 - 2 * (i % 4)));
        mf_buf_bytes(buf, &byte, 1);
    }
    return MF_OK;
}

static mf_status string_code_decode(const mf_kernel *k, const mf_string *in, mf_string *out)
{
    mf_buf buf = { 0 };
    mf_status st = decode_into(in, &buf);

    (void)k;
    if (st == MF_OK)
        st = mf_string_take(out, &buf);
    mf_buf_deinit(&buf);
    return st;
}

static mf_status encode_run(mf_kernel *k)
{
    return mf_string_map(k, string_code_encode);
}
static mf_status string_code_decode_run(mf_kernel *k)
{
    return mf_string_map(k, string_code_decode);
}

/* ---- DecodeRaw ---- */

static mf_status raw_infer(mf_infer *in)
{
    in->out[0] = in->in[0];
    if (in->in[0].rank >= MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the output would have rank %d", MF_MAX_RANK + 1);
    if (in->in[0].rank >= 0)
        in->out[0].dims[in->out[0].rank++] = MF_UNKNOWN_DIM;
    return MF_OK;
}

static void copy_reversed(char *to, const char *from, size_t bytes, size_t unit)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i / unit * unit + unit - 1 - i % unit];
}

static mf_status raw_run(mf_kernel *k)
{
    const mf_tensor *in = k->in[0];
    const mf_dtype type = mf_node_type(k->node, "out_type");
    const size_t item = mf_dtype_size(type), unit = mf_dtype_is_complex(type) ? item / 2 : item;
    const size_t bytes = in->count > 0 ? mf_strings(in)[0].len : 0;
    const bool little = mf_node_bool(k->node, "little_endian");
    mf_shape shape = in->shape;
    mf_tensor *out;

    for (int64_t i = 1; i < in->count; i++) {
        if (mf_strings(in)[i].len != bytes)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "DecodeRaw requires input strings to all be the same size, but element "
                           "%lld has size %zu != %zu",
                           (long long)i, mf_strings(in)[i].len, bytes);
    }
    if (shape.rank >= MF_MAX_RANK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the output would have rank %d", MF_MAX_RANK + 1);
    if (bytes % item != 0)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "Input to DecodeRaw has length %zu that is not a multiple of %zu, the size of "
            "%s",
            bytes, item, mf_dtype_name(type));
    shape.dims[shape.rank++] = (int64_t)(bytes / item);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t i = 0; bytes > 0 && i < in->count; i++) {
        char *to = (char *)out->data + (size_t)i * bytes;

        if (little || item == 1)
            memcpy(to, mf_strings(in)[i].data, bytes);
        else
            copy_reversed(to, mf_strings(in)[i].data, bytes, unit);
    }
    for (int64_t i = 0; type == MF_DTYPE_BOOL && i < out->count;
         i++) /* only 0 and 1 are booleans */
        ((uint8_t *)out->data)[i] = ((uint8_t *)out->data)[i] != 0;
    return MF_OK;
}

const mf_op mf_ops_string_code[] = {
    { .name = "EncodeBase64",
      .def = "(input:string) -> (output:string) {pad:bool=false}",
      .infer = mf_infer_same,
      .grad = mf_grad_none,
      .run = encode_run,
      .samples =
          MF_SAMPLES("str[5]{a,ab,abc,abcd,}", "str[3]{a,ab,abc} ; pad=true", "str[]", "str[0]") },
    { .name = "DecodeBase64",
      .def = "(input:string) -> (output:string) {}",
      .infer = mf_infer_same,
      .grad = mf_grad_none,
      .run = string_code_decode_run,
      .samples = MF_SAMPLES("str[4]{YQ,YWI=,YWJj,}", "str[1]{-_8}", "str[1]{Y} !fails",
                            "str[1]{+/8} !fails", "str[0]") },
    { .name = "DecodeRaw",
      .def =
          "(bytes:string) -> (output:out_type) {out_type:type in [half,float,double,int32,uint16,"
          "uint8,int16,int8,int64,complex64,complex128,bool,bfloat16], little_endian:bool=true}",
      .infer = raw_infer,
      .grad = mf_grad_none,
      .run = raw_run,
      .samples = MF_SAMPLES(
          "str[2]{abcd,efgh} ; out_type=int16",
          "str[2]{abcd,efgh} ; out_type=int32 little_endian=false", "str[]{ab} ; out_type=uint8",
          "str[0] ; out_type=float", "str[1]{abcdefgh} ; out_type=complex64 little_endian=false",
          "str[1]{abc} ; out_type=int16 !fails", "str[2]{ab,abcd} ; out_type=int16 !fails") },
    { 0 },
};
