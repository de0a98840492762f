/* SPDX-License-Identifier: Apache-2.0 */
/* compress_settings.h - how to compress: the settings of each method, parsed from text once, and
 * printed as mf_*_parse() reads them. `layers` is a pattern of layer names; it is in the arena. */
#ifndef MF_COMPRESS_COMPRESS_SETTINGS_H
#define MF_COMPRESS_COMPRESS_SETTINGS_H

#include "graph/settings.h"

/* "share=0.5 layers=conv*": remove this share of the filters and units. */
typedef struct mf_units_settings {
    double share; /* below 1 */
    const char *layers;
} mf_units_settings;
MF_MUST mf_status mf_units_settings_parse(const char *text, mf_arena *arena,
                                          mf_units_settings *out);
void mf_units_settings_text(const mf_units_settings *s, mf_buf *out);

/* "rank=16" or "16"; or "energy=0.95", of the sum of the squared singular values. */
typedef struct mf_rank_settings {
    int64_t rank; /* 0: by energy */
    double energy; /* up to 1; 0: by rank */
    const char *layers;
} mf_rank_settings;
MF_MUST mf_status mf_rank_settings_parse(const char *text, mf_arena *arena, mf_rank_settings *out);
void mf_rank_settings_text(const mf_rank_settings *s, mf_buf *out);

/* "bits=5 layers=dense*": the weights of a kernel share 2^bits values. */
typedef struct mf_share_settings {
    int64_t bits; /* 1 to 12 */
    const char *layers;
} mf_share_settings;
MF_MUST mf_status mf_share_settings_parse(const char *text, mf_arena *arena,
                                          mf_share_settings *out);
void mf_share_settings_text(const mf_share_settings *s, mf_buf *out);

/* "int8 per=channel samples=1024 range=max": compute in 8-bit integers. */
typedef struct mf_quantize_settings {
    bool per_channel; /* scales of kernels; else one for each kernel */
    bool mean; /* the range is the mean of the extremes of batches; else their extremes */
    bool aware; /* training continues with rounded values */
    int64_t samples; /* to find ranges with */
    const char *layers;
} mf_quantize_settings;
MF_MUST mf_status mf_quantize_settings_parse(const char *text, mf_arena *arena,
                                             mf_quantize_settings *out);
void mf_quantize_settings_text(const mf_quantize_settings *s, mf_buf *out);

#endif
