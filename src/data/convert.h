/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - samples out as tf.Examples. */
#ifndef MF_DATA_CONVERT_H
#define MF_DATA_CONVERT_H

#include "formats/stream.h"

#include <meshflow/data.h>

/* Every sample in order as a record: floats as a float list, integers and booleans as an integer
 * list; bytes and other types raw, with their shape beside them as NAME/shape, so that reading the
 * file gives the same columns (types other than uint8 need columns=...). The file comes into place
 * when it is whole. */
MF_MUST mf_status mf_dataset_to_records(const mf_dataset *set, const char *path,
                                        mf_compression compression);

#endif
