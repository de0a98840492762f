/* SPDX-License-Identifier: Apache-2.0 */
/* opdef.h - the signature of an op, parsed from the line TensorFlow's registry would print:
 *
 *   (x: T, y: T) -> (z: T) {T: type in [float,double], N: int >= 1, keep: bool = false} is_stateful
 *
 * Arguments: T (an attribute or a type), N*T (N of them), *Tl (one per type in the list Tl), "ref
 * T" (a reference). {numbers}, {reals}, {floats} and {any} abbreviate TensorFlow's type sets. */
#ifndef MF_GRAPH_OPDEF_H
#define MF_GRAPH_OPDEF_H

#include "graph/attr.h"

typedef struct mf_argdef {
    const char *name;
    mf_dtype type; /* fixed type, or INVALID */
    const char *type_attr; /* attribute giving the type */
    const char *number_attr;
    const char *list_attr; /* attribute giving all types */
    bool is_ref;
} mf_argdef;

typedef struct mf_attrdef {
    const char *name;
    mf_attr_kind kind;
    bool is_list;
    bool has_default, has_minimum;
    mf_attr default_value;
    int64_t minimum; /* of an int, or of the length of a list */
    uint32_t allowed_types; /* bit set; 0: all */
    const char **allowed_strings;
    int n_allowed_strings; /* 0: all */
} mf_attrdef;

typedef struct mf_opdef {
    const char *name;
    mf_argdef *in, *out;
    mf_attrdef *attrs;
    int n_in, n_out, n_attrs;
    bool is_stateful, is_commutative, is_aggregate, allows_uninitialized, is_distributed;
} mf_opdef;

/* Fails: INVALID_ARGUMENT with the position in `text`. */
MF_MUST mf_status mf_opdef_parse(const char *name, const char *text, mf_arena *arena,
                                 mf_opdef *out);
/* The canonical text, without the name; parse(print(d)) equals d. */
void mf_opdef_print(const mf_opdef *def, mf_buf *out);
const mf_attrdef *mf_opdef_find_attr(const mf_opdef *def, const char *name);

#endif
