/* SPDX-License-Identifier: Apache-2.0 */
/* locality.h - which files can be read quickly on this host: those on a local file system, and even
 * more so those in the page cache. */
#ifndef MF_DATA_LOCALITY_H
#define MF_DATA_LOCALITY_H

#include "data/file_slices.h"

/* By stream: the bytes of its files that are local; bytes in the page cache count twice. patterns,
 * separated by ':', replace the examination: matching files are local, all others are not
 * ("/data/part-0*"; a pattern without a slash matches the file name). NULL: examine. Files that
 * cannot be examined are not local. */
void mf_locality_of_streams(const mf_dataset *set, const mf_slices *slices, int64_t streams,
                            const char *patterns, double *out);

#endif
