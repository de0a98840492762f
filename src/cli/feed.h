/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h - tensors of --feed and --save. */
#ifndef MF_CLI_FEED_H
#define MF_CLI_FEED_H

#include "cli/graph_file.h"
#include "tensor/tensor.h"

typedef struct mf_feeds {
    char **names; /* as on the command line */
    mf_tensor **values; /* one for each name */
    int64_t n, cap_names, cap_values;
} mf_feeds;

/* Loads all values of an option: NAME=FILE.npy, NAME=FILE.npz (member NAME), NAME=FILE.npz:MEMBER,
 * or NAME=VALUES in the format of mf_show_parse(). Checks type and shape against the graph; cut:
 * the values are fed in batches of rows, so the first dimension may differ. */
MF_MUST mf_status mf_feeds_load(mf_args *args, const char *option, bool cut, const mf_graph *graph,
                                mf_feeds *out);
void mf_feeds_deinit(mf_feeds *feeds);

/* The directory of a path, "." if it has none. Owns: free with mf_free(); NULL: no memory. */
char *mf_path_dir(const char *path);
/* The path of a feed's file, without the member; NULL if it is not a file. Owns: as above. */
char *mf_feed_path(const char *value);

MF_MUST mf_status mf_npy_save(const mf_tensor *t, const char *path);

#endif
