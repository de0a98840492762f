/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h - tensors between the command line and the run: --feed, --save. */
#ifndef MF_CLI_FEED_H
#define MF_CLI_FEED_H

#include "cli/graph_file.h"
#include "tensor/tensor.h"

typedef struct mf_feeds {
    char **names; /* as given */
    mf_tensor **values; /* as many */
    int64_t n, cap_names, cap_values;
} mf_feeds;

/* All values of an option: NAME=FILE.npy, NAME=FILE.npz (member NAME), NAME=FILE.npz:MEMBER, or
 * NAME=VALUES, as mf_show_parse() reads them. Checked against the type and shape the graph
 * declares; cut: they are fed some rows at a time, so the first dimension may be another. */
MF_MUST mf_status mf_feeds_load(mf_args *args, const char *option, bool cut, const mf_graph *graph,
                                mf_feeds *out);
void mf_feeds_deinit(mf_feeds *feeds);

/* The directory part of a path, "." when it has none. Owns: free with mf_free(); NULL: no memory.
 */
char *mf_path_dir(const char *path);
/* The path of a feed's file, without a member; NULL when it is no file. Owns: as above. */
char *mf_feed_path(const char *value);

MF_MUST mf_status mf_npy_save(const mf_tensor *t, const char *path);

#endif
