/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - compressed gradients. One codec per file; docs/guides/codecs.md.
 *
 * A codec encodes the gradient of one weight, summed over one *grain*: a fixed number of
 * neighbouring shards, a complete branch of the reduction tree (tensor/reduction_tree.h). Grains do
 * not depend on the worker that computes them, so neither does the encoded result: the bits are the
 * same for any number of workers.
 *
 * A codec is of one of two kinds. Most make a message of every grain, usually of a length that is
 * known beforehand; all workers get all messages, decode them and sum them in the tree. A linear
 * codec (power_sgd) has rounds instead: in each round every grain contributes numbers, and all
 * workers get their sum. */
#ifndef MF_DIST_CODEC_CODEC_H
#define MF_DIST_CODEC_CODEC_H

#include "graph/settings.h"

typedef struct mf_codec_kind mf_codec_kind;

/* A codec with its settings. */
typedef struct mf_codec {
    const mf_codec_kind *kind;
    mf_options settings;
} mf_codec;

/* The tensor that is encoded, and the step. */
typedef struct mf_codec_item {
    int64_t count; /* elements, floats */
    int64_t rows, columns; /* as a matrix: all dimensions but the last, and the last */
    uint64_t seed; /* of the training, and of the weight's name */
    int64_t step;
    int64_t grain; /* which one of the batch */
} mf_codec_item;

/* In rounds. `shared`: state that is equal on all workers. */
typedef struct mf_codec_rounds {
    int n;
    int64_t (*shared)(const mf_codec *c, const mf_codec_item *item); /* its number of floats */
    void (*start)(const mf_codec *c, const mf_codec_item *item, float *shared);
    int64_t (*length)(const mf_codec *c, const mf_codec_item *item, int round); /* of a sum */
    /* A grain's contribution. values: its gradient, which the codec may change. */
    void (*give)(const mf_codec *c, const mf_codec_item *item, int round, float *values,
                 float *memory, const float *shared, float *out);
    /* The sum over all grains is complete. result: the gradient, to be set in the last round. */
    void (*take)(const mf_codec *c, const mf_codec_item *item, int round, const float *sum,
                 float *shared, float *result);
} mf_codec_rounds;

struct mf_codec_kind {
    const char *name, *settings, *about; /* settings: a signature, see graph/settings.h */
    /* Checks of settings that a signature cannot express; NULL: none. */
    mf_status (*check)(const mf_options *settings);
    /* Is encoding this item worthwhile? Otherwise the item travels exactly. NULL: always. */
    bool (*suits)(const mf_codec *c, const mf_codec_item *item);
    /* Floats of state that each grain has from step to step, initially zero; they are part of
     * checkpoints. NULL: none. */
    int64_t (*memory)(const mf_codec *c, const mf_codec_item *item);
    /* -- messages -- */
    int64_t (*bytes)(const mf_codec *c, const mf_codec_item *item); /* of one */
    /* `values` is the codec's to change. A gradient with numbers that are not finite must arrive as
     * one, and leave the memory alone: the step will not be used. */
    void (*encode)(const mf_codec *c, const mf_codec_item *item, float *values, float *memory,
                   uint8_t *out);
    /* Of bytes() bytes, which a peer has sent. DATA_LOSS: they are no such message. */
    mf_status (*decode)(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                        float *values);
    /* -- or messages whose length depends on the numbers: bytes() is the most -- */
    int64_t (*pack)(const mf_codec *c, const mf_codec_item *item, const float *values,
                    uint8_t *out); /* their length */
    /* Of `size` bytes, which a peer has sent. DATA_LOSS: they are no such message. */
    mf_status (*unpack)(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                        int64_t size, float *values);
    /* -- or rounds -- */
    const mf_codec_rounds *rounds;
};

extern const mf_codec_kind mf_codec_lossless, mf_codec_fp16, mf_codec_bf16, mf_codec_int8,
    mf_codec_top_k, mf_codec_power_sgd;
extern const mf_codec_kind *const mf_codec_kinds[]; /* ends with NULL */

/* "top_k ratio=0.01". Owns: all of it is the arena's. NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_codec_parse(const char *text, mf_arena *arena, mf_codec *out);

/* As mf_codec_parse() reads it. */
void mf_codec_text(const mf_codec *c, mf_buf *out);

/* A message with a checksum behind it, and its length before it where that is not known. */
int64_t mf_codec_bytes(const mf_codec *c, const mf_codec_item *item); /* the most that one has */
/* Returns how many it has. */
int64_t mf_codec_encode(const mf_codec *c, const mf_codec_item *item, float *values, float *memory,
                        uint8_t *out);
/* How many bytes has the message that begins here? DATA_LOSS: more than `left`. */
MF_MUST mf_status mf_codec_size(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                                int64_t left, int64_t *size);
/* DATA_LOSS: another length, a wrong checksum, or no such message. */
MF_MUST mf_status mf_codec_decode(const mf_codec *c, const mf_codec_item *item, const uint8_t *in,
                                  int64_t size, float *values);

/* ---- which codec for which weight ---- */

typedef struct mf_codecs mf_codecs;

enum { MF_CODEC_LEAST = 1024 }; /* elements: smaller items travel exactly */

/* Rules, separated by semicolons, the first that matches counts:
 *
 *     grain=4; *bias*: none; dense*: int8; top_k ratio=0.01
 *
 * A rule is a pattern of names, a colon, and a codec; without a pattern it is for all names, and
 * the last one. Items without a matching rule travel exactly, as with the codec `none`. grain=:
 * shards that are encoded together, default: 1. Fails: NOT_FOUND, INVALID_ARGUMENT. */
MF_MUST mf_status mf_codecs_parse(const char *text, mf_codecs **out);
void mf_codecs_free(mf_codecs *c);
/* As mf_codecs_parse() reads it. */
void mf_codecs_text(const mf_codecs *c, mf_buf *out);
int64_t mf_codecs_grain(const mf_codecs *c);
/* NULL: it travels exactly. */
const mf_codec *mf_codecs_find(const mf_codecs *c, const char *name, mf_dtype dtype,
                               const mf_codec_item *item);
/* The first codec that keeps something from step to step; NULL: none does. */
const mf_codec *mf_codecs_with_memory(const mf_codecs *c);

#endif
