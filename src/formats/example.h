/* SPDX-License-Identifier: Apache-2.0 */
/* example.h - tf.Example, the usual content of a record: named lists of bytes, floats or integers.
 */
#ifndef MF_FORMATS_EXAMPLE_H
#define MF_FORMATS_EXAMPLE_H

#include "base/buf.h"
#include "base/mem.h"
#include "tensor/tensor.h"

typedef struct mf_feature {
    const char *name;
    mf_dtype type; /* string, float or int64; INVALID: not set */
    int64_t n;
    const mf_string *strings; /* the member of the union for the type */
    const float *floats;
    const int64_t *ints;
    int64_t place; /* in the message */
} mf_feature;

typedef struct mf_example {
    mf_feature *features; /* sorted by name */
    int64_t n;
} mf_example;

/* Owns: everything is allocated in the arena and refers to nothing else. If a name occurs twice,
 * the last one is used. Fails: INVALID_ARGUMENT naming the position in the message,
 * RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_example_decode(const void *data, size_t len, mf_arena *arena, mf_example *out);
/* Returns NULL if there is no such feature. */
const mf_feature *mf_example_find(const mf_example *example, const char *name);
/* Append the message's bytes. */
MF_MUST mf_status mf_example_encode(const mf_example *example, mf_buf *out);

#endif
