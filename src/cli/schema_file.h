/* SPDX-License-Identifier: Apache-2.0 */
/* schema_file.h - the schema of a model's data as JSON; the format is in model_note.h. */
#ifndef MF_CLI_SCHEMA_FILE_H
#define MF_CLI_SCHEMA_FILE_H

#include "base/buf.h"
#include "data/schema.h"

#include <jansson.h>

void mf_schema_print(const mf_schema *schema, mf_buf *out);
/* Owns: allocated in the arena. Fails: DATA_LOSS naming the column. */
MF_MUST mf_status mf_schema_decode(const json_t *root, mf_arena *arena, mf_schema *out);

#endif
