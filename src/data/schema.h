/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - the schema of the data of a trained model: its columns, the field names of a table,
 * and the classes of the label in the model's order.
 *
 * Data that is opened for a trained model is read by its schema: a class keeps its number even if
 * the file does not have all classes, and the fields of a table may be in another order. */
#ifndef MF_DATA_SCHEMA_H
#define MF_DATA_SCHEMA_H

#include "data/dataset.h"

typedef struct mf_schema_column {
    mf_column is;
    bool is_label;
    int64_t classes; /* of a label: number of classes; 0: a number to predict */
    const char *const *class_names; /* by class; NULL: the classes are 0, 1, 2 ... */
    const char *const *fields; /* names of the elements of a vector; NULL: none */
    int64_t n_fields;
} mf_schema_column;

typedef struct mf_schema {
    mf_schema_column *columns;
    int n;
} mf_schema;

/* The model that data is opened for. */
typedef struct mf_expected {
    const mf_schema *schema; /* NULL: unknown */
    bool label_optional; /* for prediction only */
} mf_expected;

/* NULL: not found. `schema` may be NULL. */
const mf_schema_column *mf_schema_find(const mf_schema *schema, const char *name);
const mf_schema_column *mf_schema_label(const mf_schema *schema);
/* The schema of a data set, in the arena; names are borrowed from the set, which must live as long.
 */
MF_MUST mf_status mf_schema_of(const mf_dataset *set, mf_arena *arena, mf_schema *out);
/* The class of a text: by its name or, if names are numbers, by its value. Fails: INVALID_ARGUMENT
 * naming the text and the known classes. */
MF_MUST mf_status mf_schema_class(const mf_schema_column *label, const char *text, int32_t *out);
/* True if the column is one number per sample, which can be a class; and the class of a value. */
bool mf_schema_is_class_number(const mf_column *c);
double mf_schema_class_number(const mf_column *c, const void *value);
/* Checks the columns and classes of a data set. The label may be absent. Fails: INVALID_ARGUMENT
 * naming the difference; `data` is the user's name of the data. */
MF_MUST mf_status mf_schema_check(const mf_schema *schema, const mf_dataset *set, const char *data);

#endif
