/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - which features of a tf.Example become which columns:
 *
 *     image:uint8[28,28,1] label:int32        photo=image/encoded:image[32,32,3]
 *
 * name, perhaps another name in the record, type, shape. float takes a float list; int32, int64 and
 * bool an integer list; "image" a PNG or JPEG file in a bytes list; and any type the raw bytes of
 * its elements. */
#ifndef MF_DATA_COLUMNS_H
#define MF_DATA_COLUMNS_H

#include "data/dataset.h"
#include "formats/example.h"
#include "formats/image.h"

typedef struct mf_field {
    const char *column, *feature;
    mf_dtype dtype;
    mf_shape shape;
    bool image; /* to be decoded; the shape is [height,width,channels] */
    bool guessed; /* the picture of the first record tells the shape */
} mf_field;

/* Owns: names live in the arena. INVALID_ARGUMENT quoting the place. */
MF_MUST mf_status mf_fields_parse(const char *text, mf_arena *arena, mf_field *out, int *n);
/* What a record looks like: raw bytes are uint8, of the shape that an integer list NAME/shape says;
 * a single integer called label is int32. */
MF_MUST mf_status mf_fields_guess(const mf_example *e, mf_arena *arena, mf_field *out, int *n);
/* The column's elements out of a record. INVALID_ARGUMENT naming the feature. */
MF_MUST mf_status mf_field_read(const mf_field *f, const mf_example *e, void *to);

#endif
