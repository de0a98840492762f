/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - what the data of a trained model was like: its columns, the names of the fields of a
 * table, and the classes of the label in the order in which the model counts them.
 *
 * Data that is opened for a trained model is read as its schema says: a class keeps its number even
 * if the file does not have all classes, and the fields of a table may stand in another order. */
#ifndef MF_DATA_SCHEMA_H
#define MF_DATA_SCHEMA_H

#include "data/dataset.h"

typedef struct mf_schema_column {
    mf_column is;
    bool is_label;
    int64_t classes; /* of a label: how many there are; 0: it is a number to predict */
    const char *const *class_names; /* by class; NULL: the classes are 0, 1, 2 ... */
    const char *const *fields; /* names of the elements of a vector; NULL: they have none */
    int64_t n_fields;
} mf_schema_column;

typedef struct mf_schema {
    mf_schema_column *columns;
    int n;
} mf_schema;

/* What data is opened for. */
typedef struct mf_expected {
    const mf_schema *schema; /* NULL: nothing is known */
    bool label_optional; /* the data is only predicted */
} mf_expected;

/* NULL when there is none. `schema` may be NULL. */
const mf_schema_column *mf_schema_find(const mf_schema *schema, const char *name);
const mf_schema_column *mf_schema_label(const mf_schema *schema);
/* The schema of a data set, in the arena; names are those of the set, which must live as long. */
MF_MUST mf_status mf_schema_of(const mf_dataset *set, mf_arena *arena, mf_schema *out);
/* The class that a text means, by its name or, where names are numbers, by its value. Fails:
 * INVALID_ARGUMENT naming the text and the known classes. */
MF_MUST mf_status mf_schema_class(const mf_schema_column *label, const char *text, int32_t *out);
/* Is the column one number for each sample, which may say a class? And which one, of a value. */
bool mf_schema_is_class_number(const mf_column *c);
double mf_schema_class_number(const mf_column *c, const void *value);
/* Do the columns and classes of a data set fit? A label may be absent. Fails: INVALID_ARGUMENT
 * naming what differs; `data` is what the user calls the data. */
MF_MUST mf_status mf_schema_check(const mf_schema *schema, const mf_dataset *set, const char *data);

#endif
