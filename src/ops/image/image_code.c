/* SPDX-License-Identifier: Apache-2.0 */
/* image_code.c - image files in strings: DecodePng, DecodeJpeg, DecodeBmp, DecodeImage,
 * ExtractJpegShape, EncodePng, EncodeJpeg, EncodeJpegVariableQuality. */
#include "formats/image.h"
#include "ops/array/array_util.h"
#include "ops/string/tensor_text.h"

#include <stdio.h>
#include <string.h>

/* ---- decoding ---- */

static bool image_code_is_op(const mf_kernel *k, const char *name)
{
    return strcmp(k->node->op_name, name) == 0;
}

static mf_status read_contents(const mf_kernel *k, const mf_string **out)
{
    char text[MF_SHAPE_TEXT];

    if (k->in[0]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "contents must be scalar, got shape %s",
                       mf_shape_text(&k->in[0]->shape, text));
    *out = mf_strings(k->in[0]);
    return MF_OK;
}

static mf_status set_how(const mf_kernel *k, mf_image_how *how)
{
    const int64_t channels = mf_node_int(k->node, "channels");
    const bool jpeg = image_code_is_op(k, "DecodeJpeg");
    const int64_t ratio = jpeg ? mf_node_int(k->node, "ratio") : 1;
    const char *dct = jpeg ? mf_node_string(k->node, "dct_method") : "";

    if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
        return MF_FAIL(MF_INVALID_ARGUMENT, "channels must be 0, 1, 3, or 4, got %" PRId64,
                       channels);
    if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8)
        return MF_FAIL(MF_INVALID_ARGUMENT, "ratio must be 1, 2, 4, or 8, got %" PRId64, ratio);
    if (*dct && strcmp(dct, "INTEGER_FAST") != 0 && strcmp(dct, "INTEGER_ACCURATE") != 0)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}, got '%s'", dct);
    *how = (mf_image_how){ .channels = (int)channels,
                           .wide = mf_out_type(k->node, 0) != MF_DTYPE_U8,
                           .ratio = (int)ratio,
                           .plain = jpeg && !mf_node_bool(k->node, "fancy_upscaling"),
                           .fast = strcmp(dct, "INTEGER_ACCURATE") != 0, /* as in TensorFlow */
                           .cut = jpeg && mf_node_bool(k->node, "try_recover_truncated"),
                           .tensorflow = true };
    return MF_OK;
}

/* Only PNG has 16-bit samples; 8-bit samples of other formats are scaled by the caller. */
static mf_status image_code_decode(const mf_kernel *k, const mf_string *file, mf_image_how *how,
                                   mf_buf *pixels, mf_image *out)
{
    const mf_image_format format = mf_image_format_of(mf_string_data(file), file->len);

    if (how->channels == 4 && format == MF_IMAGE_JPEG)
        return MF_FAIL(MF_INVALID_ARGUMENT, "channels must be 0, 1, or 3 for JPEG, got 4");
    if (format == MF_IMAGE_PNG)
        return mf_png_decode(mf_string_data(file), file->len, how, pixels, out);
    how->wide = false;
    if (format == MF_IMAGE_JPEG)
        return mf_jpeg_decode(mf_string_data(file), file->len, how, pixels, out);
    if (format != MF_IMAGE_BMP)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Unknown image file format: neither JPEG, PNG nor BMP "
                       "(%s)",
                       k->node->op_name);
    MF_TRY(mf_bmp_decode(mf_string_data(file), file->len, pixels, out));
    if (how->channels != 0 && how->channels != out->channels)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "channels attribute %d does not match bits per pixel from file %" PRId64,
                       how->channels, out->channels * 8);
    return MF_OK;
}

/* Converts 8-bit or 16-bit samples to the output's type. */
static void image_code_store(const mf_buf *pixels, bool wide, mf_tensor *out)
{
    const unsigned char *narrow = (const unsigned char *)pixels->data;

    if (out->dtype == MF_DTYPE_U8 || (out->dtype == MF_DTYPE_U16 && wide)) {
        memcpy(out->data, pixels->data, pixels->len);
        return;
    }
    for (int64_t i = 0; i < out->count; i++) {
        uint16_t v = narrow[wide ? 0 : i];

        if (wide)
            memcpy(&v, pixels->data + 2 * i, sizeof v);
        if (out->dtype == MF_DTYPE_U16)
            ((uint16_t *)out->data)[i] = (uint16_t)(v * 256);
        else
            ((float *)out->data)[i] = (float)v * (1.0f / (wide ? 65535.0f : 255.0f));
    }
}

/* A damaged file is INVALID_ARGUMENT, as in TensorFlow. */
static mf_status as_argument(mf_status st)
{
    char text[256];

    if (st != MF_DATA_LOSS && st != MF_UNIMPLEMENTED)
        return st;
    (void)snprintf(text, sizeof text, "%s", mf_error_message());
    return MF_FAIL(MF_INVALID_ARGUMENT, "%s", text);
}

static mf_status image_code_decode_run(mf_kernel *k)
{
    const mf_string *file;
    mf_image_how how;
    mf_image size = { 0 };
    mf_buf pixels = { 0 };
    mf_tensor *out;
    mf_status st;

    MF_TRY(read_contents(k, &file));
    MF_TRY(set_how(k, &how));
    MF_TRY_TO(done, as_argument(image_code_decode(k, file, &how, &pixels, &size)));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &MF_SHAPE(size.height, size.width, size.channels), &out));
    image_code_store(&pixels, how.wide, out);
done:
    mf_buf_deinit(&pixels);
    return st;
}

static mf_status decode_infer(mf_infer *in)
{
    const int64_t channels = mf_node_int(in->node, "channels");

    MF_TRY(mf_infer_rank(in, 0, 0));
    in->out[0] = MF_SHAPE(-1, -1, channels > 0 ? channels : -1);
    return MF_OK;
}

static mf_status image_code_shape_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 0));
    in->out[0] = MF_SHAPE(3);
    return MF_OK;
}

static mf_status image_code_shape_run(mf_kernel *k)
{
    const mf_image_how how = { 0 };
    const mf_string *file;
    mf_image size = { 0 };
    mf_tensor *out;

    MF_TRY(read_contents(k, &file));
    MF_TRY(as_argument(mf_jpeg_decode(mf_string_data(file), file->len, &how, NULL, &size)));
    MF_TRY(mf_kernel_out(k, 0, &MF_SHAPE(3), &out));
    mf_index_put(out, 0, size.height);
    mf_index_put(out, 1, size.width);
    mf_index_put(out, 2, size.channels);
    return MF_OK;
}

/* ---- encoding ---- */

static mf_status image_size(const mf_kernel *k, bool many, mf_image *out)
{
    const mf_shape *s = &k->in[0]->shape;
    char text[MF_SHAPE_TEXT];

    if (s->rank < 3 || (!many && s->rank > 3))
        return MF_FAIL(MF_INVALID_ARGUMENT, "image must be 3-dimensional%s, got shape %s",
                       many ? " or higher rank" : "", mf_shape_text(s, text));
    *out = (mf_image){ s->dims[s->rank - 3], s->dims[s->rank - 2], s->dims[s->rank - 1] };
    return MF_OK;
}

static mf_status png_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 3));
    in->out[0] = in->in[0];
    in->out[0].rank -= in->in[0].rank < 0 ? 0 : 3;
    return MF_OK;
}

static mf_status png_run(mf_kernel *k)
{
    const mf_tensor *t = k->in[0];
    const int bits = t->dtype == MF_DTYPE_U8 ? 8 : 16;
    const int64_t level = mf_node_int(k->node, "compression");
    mf_shape shape = t->shape;
    mf_buf file = { 0 };
    mf_tensor *out;
    mf_image size = { 0 };
    mf_status st = MF_OK;

    MF_TRY(image_size(k, true, &size));
    if (level < -1 || level > 9)
        return MF_FAIL(MF_INVALID_ARGUMENT, "compression should be in [-1,9], got %" PRId64, level);
    shape.rank -= 3;
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    for (int64_t i = 0; i < out->count; i++) {
        const char *pixels =
            (const char *)t->data + i * size.height * size.width * size.channels * (bits / 8);

        mf_buf_clear(&file);
        MF_TRY_TO(done, mf_png_encode_as(pixels, &size, bits, (int)level, &file));
        MF_TRY_TO(done, mf_string_set((mf_string *)out->data + i, file.data, file.len));
    }
done:
    mf_buf_deinit(&file);
    return st;
}

static mf_status jpeg_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank(in, 0, 3));
    in->out[0] = MF_SCALAR;
    return MF_OK;
}

/* The attributes of EncodeJpeg. */
static mf_status set_jpeg(const mf_kernel *k, mf_jpeg_how *how, const mf_image *size)
{
    const char *format = mf_node_string(k->node, "format");
    const int64_t channels = strcmp(format, "grayscale") == 0 ? 1 : *format ? 3 : size->channels;
    const mf_attr *xmp = mf_node_attr(k->node, "xmp_metadata");

    if (channels != size->channels)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "format '%s' expects %" PRId64 " channels, got %" PRId64, format, channels,
                       size->channels);
    how->quality = (int)mf_node_int(k->node, "quality");
    how->progressive = mf_node_bool(k->node, "progressive");
    how->optimize = mf_node_bool(k->node, "optimize_size");
    how->full_chroma = !mf_node_bool(k->node, "chroma_downsampling");
    how->density_unit = strcmp(mf_node_string(k->node, "density_unit"), "in") == 0 ? 1 : 2;
    how->x_density = (int)mf_node_int(k->node, "x_density");
    how->y_density = (int)mf_node_int(k->node, "y_density");
    if (xmp && xmp->kind == MF_ATTR_STRING) {
        how->xmp = xmp->s.data;
        how->xmp_len = xmp->s.len;
    }
    return MF_OK;
}

static mf_status jpeg_run(mf_kernel *k)
{
    mf_jpeg_how how = { .density_unit = 1, .x_density = 300, .y_density = 300 };
    mf_image size = { 0 };
    mf_buf file = { 0 };
    mf_tensor *out;
    int64_t quality = 95;
    mf_status st;

    MF_TRY(image_size(k, false, &size));
    if (k->n_in == 2) {
        MF_TRY(mf_int_read(k->in[1], "quality", &quality));
        how.quality = quality >= 0 && quality <= 100 ? (int)quality : -1;
    } else {
        MF_TRY(set_jpeg(k, &how, &size));
    }
    if (how.quality < 0 || how.quality > 100)
        return MF_FAIL(MF_INVALID_ARGUMENT, "quality must be in [0,100], got %d", how.quality);
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    MF_TRY_TO(done, mf_jpeg_encode(k->in[0]->data, &size, &how, &file));
    st = mf_string_set(out->data, file.data, file.len);
done:
    mf_buf_deinit(&file);
    return st;
}

#define CODE_OP(NAME, DEF, INFER, RUN, ...)                                                        \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = INFER, .grad = mf_grad_none, .run = RUN,                \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
#define JPEG                                                                                       \
    "channels:int=0, ratio:int=1, fancy_upscaling:bool=true, try_recover_truncated:bool=false, "   \
    "acceptable_fraction:float=1, dct_method:string=''}"

const mf_op mf_ops_image_code[] = {
    CODE_OP("DecodePng",
            "(contents:string) -> (image:dtype) {channels:int=0, dtype:type=uint8 in "
            "[uint8,uint16]}",
            decode_infer, image_code_decode_run, "str[]{none} !fails", "str[2]{a,b} !fails",
            "str[]{none} ; channels=2 !fails"),
    CODE_OP("DecodeJpeg", "(contents:string) -> (image:uint8) {" JPEG, decode_infer,
            image_code_decode_run, "str[]{none} !fails", "str[]{none} ; ratio=3 !fails",
            "str[]{none} ; dct_method='SLOW' !fails"),
    CODE_OP("DecodeBmp", "(contents:string) -> (image:uint8) {channels:int=0}", decode_infer,
            image_code_decode_run, "str[]{none} !fails"),
    CODE_OP("DecodeImage",
            "(contents:string) -> (image:dtype) {channels:int=0, dtype:type=uint8 in "
            "[uint8,uint16,float], expand_animations:bool=true}",
            decode_infer, image_code_decode_run, "str[]{none} !fails"),
    CODE_OP("ExtractJpegShape",
            "(contents:string) -> (image_shape:output_type) {output_type:type=int32 in index}",
            image_code_shape_infer, image_code_shape_run, "str[]{none} !fails"),
    CODE_OP("EncodePng",
            "(image:T) -> (contents:string) {compression:int=-1, T:type=uint8 in [uint8,uint16]}",
            png_infer, png_run, "u8[4,5,3]@0:255 !unordered", "u16[2,4,5,1]@0:65535 !unordered",
            "u8[4,5,5] !fails", "u8[4,5] !fails", "u8[4,5,3] ; compression=10 !fails"),
    CODE_OP("EncodeJpeg",
            "(image:uint8) -> (contents:string) {format:string='' in ['','grayscale','rgb'], "
            "quality:int=95, progressive:bool=false, optimize_size:bool=false, "
            "chroma_downsampling:bool=true, density_unit:string='in' in ['in','cm'], "
            "x_density:int=300, y_density:int=300, xmp_metadata:string=''}",
            jpeg_infer, jpeg_run, "u8[4,5,3]@0:255 !unordered",
            "u8[4,5,1]@0:255 ; format='grayscale' quality=50 !unordered", "u8[4,5,2] !fails",
            "u8[4,5,3] ; format='grayscale' !fails", "u8[4,5,3] ; quality=101 !fails",
            "u8[2,4,5,3] !fails"),
    CODE_OP("EncodeJpegVariableQuality", "(images:uint8, quality:int32) -> (contents:string) {}",
            jpeg_infer, jpeg_run, "u8[4,5,3]@0:255 i32[]{70} !unordered",
            "u8[4,5,3] i32[]{-1} !fails"),
    { 0 },
};
