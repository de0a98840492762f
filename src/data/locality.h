/* SPDX-License-Identifier: Apache-2.0 */
/* locality.h - which files can be read quickly from here: those on a file system of this machine,
 * and more so what of them is in memory already. */
#ifndef MF_DATA_LOCALITY_H
#define MF_DATA_LOCALITY_H

#include "data/file_slices.h"

/* By stream: how many bytes of its files are near; those in memory count twice. patterns, with ':'
 * between them, say it instead: what they fit to is near, all else is not ("/data/part-0*"; one
 * without a slash fits to the file's name). NULL: look. What cannot be looked at is not near. */
void mf_locality_of_streams(const mf_dataset *set, const mf_slices *slices, int64_t streams,
                            const char *patterns, double *out);

#endif
