/* SPDX-License-Identifier: Apache-2.0 */
/* detections.c - prints detections (boxes, classes, scores) and draws them on images. */
#include "report/detections.h"

#include "base/file.h"
#include "data/dataset.h"
#include "formats/image.h"

#include <nettle/base64.h>
#include <stdio.h>
#include <string.h>

enum {
    FIELDS = 6, /* y0, x0, y1, x1, score, class */
    LABEL = 5, /* y0, x0, y1, x1, class; a negative class: no box */
    SHOWN = 12, /* samples in a drawing */
    ACROSS = 4,
    SIDE = 256, /* of a sample in it */
    GAP = 8,
};

static const float LIKELY = 0.5f;

/* Colours that colour-blind readers can distinguish. */
static const char *const colours[] = { "#e69f00", "#56b4e9", "#009e73", "#f0e442",
                                       "#0072b2", "#d55e00", "#cc79a7" };

bool mf_detections_are(const mf_model *model, const mf_tensor *found)
{
    const char *loss, *metrics;

    mf_model_defaults(model, &loss, &metrics);
    return loss && strcmp(loss, "detection") == 0 && found->shape.rank == 3 &&
           found->shape.dims[2] == FIELDS && found->dtype == MF_DTYPE_F32;
}

static const char *class_name(const mf_dataset *set, float class, char text[], size_t size)
{
    const char *const *names;
    const int64_t n = mf_dataset_classes(set, &names);

    if (names && class >= 0 && class < (float)n)
        return names[(int64_t) class];
    (void)snprintf(text, size, "class %d", (int)class);
    return text;
}

static void print_found(const mf_dataset *set, int64_t sample, const float *f, mf_buf *out)
{
    char text[32];

    mf_buf_printf(out, "%lld %.3f [%.3f,%.3f,%.3f,%.3f] %s\n", (long long)sample, (double)f[4],
                  (double)f[0], (double)f[1], (double)f[2], (double)f[3],
                  class_name(set, f[5], text, sizeof text));
}

static void detections_print_object(const mf_dataset *set, int64_t sample, const float *f,
                                    mf_buf *out)
{
    char text[32];
    const char *name = class_name(set, f[5], text, sizeof text);

    mf_buf_printf(out,
                  "{\"sample\":%lld,\"score\":%.6g,\"box\":[%.6g,%.6g,%.6g,%.6g],\"class\":%d,"
                  "\"name\":",
                  (long long)sample, (double)f[4], (double)f[0], (double)f[1], (double)f[2],
                  (double)f[3], (int)f[5]);
    mf_buf_json(out, name, strlen(name));
    mf_buf_str(out, "}");
}

void mf_detections_print(const mf_dataset *set, const mf_tensor *found, bool json, mf_buf *out)
{
    const int64_t most = found->shape.dims[1];
    const float *f = found->data;
    const char *between = "";

    mf_buf_str(out, json ? "{\"predictions\":[" : "");
    for (int64_t i = 0; i < found->shape.dims[0] * most; i++, f += FIELDS) {
        const int64_t sample = mf_dataset_sample_id(set, i / most);

        if (f[4] < LIKELY)
            continue;
        mf_buf_str(out, between);
        if (json)
            detections_print_object(set, sample, f, out);
        else
            print_found(set, sample, f, out);
        between = json ? "," : "";
    }
    mf_buf_str(out, json ? "]}\n" : "");
}

/* ---- drawing ---- */

typedef struct detections_drawing {
    const mf_dataset *set;
    int image, label; /* columns; label -1: the data has no boxes */
    mf_image size;
    mf_buf *out;
} detections_drawing;

static mf_status put_image(const detections_drawing *d, const unsigned char *pixels)
{
    mf_buf png = { 0 };
    char *room;
    mf_status st = mf_png_encode(pixels, &d->size, &png);

    mf_buf_printf(d->out,
                  "<image width=\"%d\" height=\"%d\" preserveAspectRatio=\"none\" "
                  "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,",
                  SIDE, SIDE);
    room = st == MF_OK ? mf_buf_room(d->out, BASE64_ENCODE_RAW_LENGTH(png.len)) : NULL;
    if (room)
        base64_encode_raw(room, png.len, (const uint8_t *)png.data);
    mf_buf_str(d->out, "\"/>\n");
    mf_buf_deinit(&png);
    return st;
}

static void put_box(const detections_drawing *d, const float *box, const char *colour,
                    const char *style)
{
    mf_buf_printf(d->out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
                  "stroke=\"%s\" %s/>\n",
                  (double)box[1] * SIDE, (double)box[0] * SIDE, (double)(box[3] - box[1]) * SIDE,
                  (double)(box[2] - box[0]) * SIDE, colour, style);
}

/* Names are data: escaped. */
static void detections_put_text(mf_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            mf_buf_printf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= 0x20)
            mf_buf_bytes(out, text, 1);
    }
}

static void put_found(const detections_drawing *d, const float *found)
{
    const char *colour = colours[(size_t)found[5] % MF_COUNT(colours)];
    const double y = (double)found[0] * SIDE;
    char text[32];

    put_box(d, found, colour, "stroke-width=\"2\"");
    mf_buf_printf(d->out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">", (double)found[1] * SIDE + 2,
                  y > 14 ? y - 3 : y + 12, colour);
    detections_put_text(d->out, class_name(d->set, found[5], text, sizeof text));
    mf_buf_printf(d->out, " %.2f</text>\n", (double)found[4]);
}

static mf_status put_sample(const detections_drawing *d, int64_t i, const mf_tensor *found,
                            char *memory)
{
    const int64_t most = found->shape.dims[1];
    const float *f = (const float *)found->data + i * most * FIELDS;
    void *columns[MF_DATASET_COLUMNS];

    (void)mf_dataset_lay_out(d->set, memory, columns);
    MF_TRY(mf_dataset_read(d->set, 0, i, columns));
    mf_buf_printf(d->out, "<g transform=\"translate(%lld,%lld)\">\n",
                  (long long)(GAP + i % ACROSS * (SIDE + GAP)),
                  (long long)(GAP + i / ACROSS * (SIDE + GAP)));
    MF_TRY(put_image(d, columns[d->image]));
    for (int64_t k = 0; d->label >= 0 && k < d->set->columns[d->label].dims[0]; k++) {
        const float *box = (const float *)columns[d->label] + k * LABEL;

        if (box[4] >= 0)
            put_box(d, box, "#fff", "stroke-dasharray=\"3 3\"");
    }
    for (int64_t k = 0; k < most; k++, f += FIELDS) {
        if (f[4] >= LIKELY)
            put_found(d, f);
    }
    mf_buf_str(d->out, "</g>\n");
    return MF_OK;
}

static mf_status detections_find_columns(detections_drawing *d)
{
    const mf_column *c;

    d->image = mf_dataset_find_column(d->set, "image");
    d->label = mf_dataset_find_column(d->set, "label");
    if (d->label >= 0) {
        c = &d->set->columns[d->label];
        if (c->rank != 2 || c->dims[1] != LABEL || c->dtype != MF_DTYPE_F32)
            d->label = -1;
    }
    c = d->image >= 0 ? &d->set->columns[d->image] : NULL;
    if (!c || c->dtype != MF_DTYPE_U8 || c->rank != 3 || (c->dims[2] != 1 && c->dims[2] != 3))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "nothing to draw on: the data has no column 'image' of bytes [h,w,1 or 3]");
    d->size = (mf_image){ c->dims[0], c->dims[1], c->dims[2] };
    return MF_OK;
}

static mf_status put_samples(const detections_drawing *d, const mf_tensor *found, int64_t n)
{
    char *memory = mf_calloc((int64_t)mf_dataset_sample_bytes(d->set), 1);
    mf_status st = memory ? MF_OK : MF_NOMEM("a drawing");

    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = put_sample(d, i, found, memory);
    mf_free(memory);
    return st;
}

mf_status mf_detections_draw(const mf_dataset *set, const mf_tensor *found, const char *path)
{
    const int64_t n = found->shape.dims[0] < SHOWN ? found->shape.dims[0] : SHOWN;
    mf_buf out = { 0 };
    detections_drawing d = { .set = set, .out = &out };
    mf_status st = detections_find_columns(&d);

    mf_buf_printf(&out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%lld\" "
                  "font-family=\"system-ui,sans-serif\" font-size=\"12\" "
                  "font-weight=\"600\">\n<style>text{paint-order:stroke;stroke:#000;stroke-width:"
                  "3px}</style>\n<title>detections "
                  "(solid) and labels (dashed)</title>\n",
                  GAP + ACROSS * (SIDE + GAP),
                  GAP + ((long long)n + ACROSS - 1) / ACROSS * (SIDE + GAP));
    if (st == MF_OK)
        st = put_samples(&d, found, n);
    mf_buf_str(&out, "</svg>\n");
    if (st == MF_OK)
        st = mf_buf_finish(&out);
    if (st == MF_OK)
        st = mf_file_write(path, out.data, out.len);
    mf_buf_deinit(&out);
    return st;
}
