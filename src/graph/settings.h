/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - settings as text, parsed against a signature of attributes:
 *
 *     units=128 activation=relu     against     {units: int >= 1, activation: string = 'linear'}
 *
 * Layers, optimizers, schedules, data sets, augmentations and strategies have such settings. The
 * syntax is that of attributes (attr.h). A string needs quotes only if it contains a space, a comma
 * or a quote; a list of one element needs no brackets (strides=2). */
#ifndef MF_GRAPH_SETTINGS_H
#define MF_GRAPH_SETTINGS_H

#include "graph/opdef.h"

typedef struct mf_options {
    const char *subject; /* what has these settings, for messages */
    mf_named_attr *attrs; /* by setting, in the order of the signature; else its default */
    bool *given; /* by setting: it was in the text */
    int n;
} mf_options;

/* Owns: everything is in the arena. `text` may be NULL. Fails: INVALID_ARGUMENT naming the subject
 * and the setting: unknown (with the closest known name), missing without a default, of another
 * type, out of range, given twice. */
MF_MUST mf_status mf_options_parse(const char *subject, const char *signature, const char *text,
                                   mf_arena *arena, mf_options *out);
/* Settings in the text replace previously parsed settings of the same signature. Fails in the same
 * way. */
MF_MUST mf_status mf_options_change(mf_options *o, const char *signature, const char *text,
                                    mf_arena *arena);

/* All settings of a signature have a value; asking for another name is a bug of the caller. */
const mf_attr *mf_options_get(const mf_options *o, const char *name);
bool mf_options_given(const mf_options *o, const char *name);
/* True if the signature has this setting. */
bool mf_options_has(const mf_options *o, const char *name);
int64_t mf_options_int(const mf_options *o, const char *name);
double mf_options_float(const mf_options *o, const char *name);
bool mf_options_bool(const mf_options *o, const char *name);
const char *mf_options_string(const mf_options *o, const char *name);
const int64_t *mf_options_ints(const mf_options *o, const char *name, int64_t *n);

/* The settings that the text gave, as mf_options_parse() reads them. Owns: mf_buf_deinit(out). */
void mf_options_text(const mf_options *o, mf_buf *out);
/* The defaults of a signature; a setting without a default has no value (MF_ATTR_NONE). */
MF_MUST mf_status mf_options_defaults(const char *subject, const char *signature, mf_arena *arena,
                                      mf_options *out);

/* For printers of structs that were read from settings: each function appends " name=value" (no
 * space at the beginning of the buffer), unless that is the default. */
typedef struct mf_setting_printer {
    mf_buf *out;
    const mf_options *defaults; /* NULL: print defaults, too */
} mf_setting_printer;
void mf_setting_string(const mf_setting_printer *p, const char *name, const char *value);
void mf_setting_int(const mf_setting_printer *p, const char *name, int64_t value);
void mf_setting_float(const mf_setting_printer *p, const char *name, double value);
void mf_setting_bool(const mf_setting_printer *p, const char *name, bool value);

/* "adam learning_rate=0.001" -> "adam" in the arena, and the rest of the text. */
MF_MUST mf_status mf_options_head(const char *text, mf_arena *arena, const char **head,
                                  const char **rest);

/* The kinds of something: rows of a table, each a struct that begins with its name. */
typedef struct mf_kinds {
    const char *what; /* "optimizer", for messages */
    const void *rows; /* a row without a name is the last */
    size_t row; /* bytes of a row */
} mf_kinds;

/* "adam learning_rate=0.001" -> the row named adam, and the rest. Fails: NOT_FOUND with the closest
 * known name, or all names. */
MF_MUST mf_status mf_kinds_find(const mf_kinds *kinds, const char *text, mf_arena *arena,
                                const void **row, const char **rest);

#endif
