/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - maps features of a tf.Example to columns:
 *
 *     image:uint8[28,28,1] label:int32        photo=image/encoded:image[32,32,3]
 *
 * column name, optionally another feature name, type, shape. float reads a float list; int32, int64
 * and bool an integer list; "image" a PNG or JPEG file in a bytes list; any type the raw bytes of
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
    bool image; /* an encoded image; the shape is [height,width,channels] */
    bool guessed; /* the shape is that of the first record's image */
} mf_field;

/* Names are allocated in the arena. Fails: INVALID_ARGUMENT quoting the place. */
MF_MUST mf_status mf_fields_parse(const char *text, mf_arena *arena, mf_field *out, int *n);
/* Guesses columns from a record: raw bytes are uint8, with the shape of an integer list NAME/shape;
 * a single integer named label is int32. */
MF_MUST mf_status mf_fields_guess(const mf_example *e, mf_arena *arena, mf_field *out, int *n);
/* Reads the column's elements from a record. Fails: INVALID_ARGUMENT naming the feature. */
MF_MUST mf_status mf_field_read(const mf_field *f, const mf_example *e, void *to);

#endif
