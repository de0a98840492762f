/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - settings as text, validated against a signature of attributes:
 *
 *     units=128 activation=relu     against     {units: int >= 1, activation: string = 'linear'}
 *
 * Layers, optimizers, schedules, data sets and augmentations all use it. The syntax is that of
 * attributes (attr.h); a string needs quotes only if it contains a space, a comma or a quote, and a
 * list of one element needs no brackets (strides=2). */
#ifndef MF_GRAPH_SETTINGS_H
#define MF_GRAPH_SETTINGS_H

#include "graph/opdef.h"

typedef struct mf_options {
    const char *subject; /* owner of the settings, for error messages */
    mf_named_attr *attrs; /* one per attribute of the signature, in its order; defaults filled in */
    bool *given; /* set explicitly */
    int n;
} mf_options;

/* Owns: everything is allocated in the arena. `text` may be NULL. Fails: INVALID_ARGUMENT naming
 * the subject and the setting: unknown (with the closest known name), missing without a default, of
 * another kind, out of range, duplicate. */
MF_MUST mf_status mf_options_parse(const char *subject, const char *signature, const char *text,
                                   mf_arena *arena, mf_options *out);
/* Settings in the text replace previously parsed ones, with the same signature. Fails in the same
 * way. */
MF_MUST mf_status mf_options_change(mf_options *o, const char *signature, const char *text,
                                    mf_arena *arena);

/* All settings of the signature exist; another name is an internal error. */
const mf_attr *mf_options_get(const mf_options *o, const char *name);
bool mf_options_given(const mf_options *o, const char *name);
int64_t mf_options_int(const mf_options *o, const char *name);
double mf_options_float(const mf_options *o, const char *name);
bool mf_options_bool(const mf_options *o, const char *name);
const char *mf_options_string(const mf_options *o, const char *name);
const int64_t *mf_options_ints(const mf_options *o, const char *name, int64_t *n);

/* "adam learning_rate=0.001" -> "adam" in the arena, and the rest. The rest may be empty. */
MF_MUST mf_status mf_options_head(const char *text, mf_arena *arena, const char **head,
                                  const char **rest);

/* A table of kinds: each row is a struct that begins with its name. */
typedef struct mf_kinds {
    const char *what; /* "optimizer", for error messages */
    const void *rows; /* terminated by a row without a name */
    size_t row; /* size of a row */
} mf_kinds;

/* "adam learning_rate=0.001" -> the row named adam, and the rest. Fails: NOT_FOUND with the closest
 * known name, or all names. */
MF_MUST mf_status mf_kinds_find(const mf_kinds *kinds, const char *text, mf_arena *arena,
                                const void **row, const char **rest);

#endif
