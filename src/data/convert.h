/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - writes samples as tf.Examples. */
#ifndef MF_DATA_CONVERT_H
#define MF_DATA_CONVERT_H

#include "formats/stream.h"

#include <meshflow/data.h>

/* Writes every sample in order as a record: floats as a float list, integers and booleans as an
 * integer list; bytes and other types raw, with their shape as NAME/shape, so that reading the file
 * gives the same columns (types other than uint8 need columns=...). The file appears under its name
 * only when it is complete. */
MF_MUST mf_status mf_dataset_to_records(const mf_dataset *set, const char *path,
                                        mf_compression compression);

#endif
