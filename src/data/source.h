/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - data sources: one mf_source per format or known name, in source_*.c. */
#ifndef MF_DATA_SOURCE_H
#define MF_DATA_SOURCE_H

#include "data/schema.h"
#include "graph/settings.h"

typedef struct mf_source {
    const char *name; /* of a named data set, or of a format ("csv:FILE") */
    const char *summary;
    const char *settings; /* signature of its settings (graph/settings.h) */
    /* data: file, folder or pattern; NULL for a named data set. */
    mf_status (*open)(const char *data, const mf_options *o, mf_dataset **out);
    /* Instead of open, for sources that depend on the model the data is opened for. Never NULL. */
    mf_status (*open_for)(const char *data, const mf_options *o, const mf_expected *e,
                          mf_dataset **out);
    /* True if this data has a test part (part=test). NULL: never. */
    bool (*has_test)(const char *data, const mf_options *o);
    bool is_name; /* a named data set without a path; it has a test part */
    const char *const *endings; /* file name suffixes of this format, terminated by NULL; or NULL */
    /* True if this entry marks its folder as this format. NULL: folders are not supported. */
    bool (*in_folder)(const char *entry, bool is_dir);
} mf_source;

/* Terminated by NULL. */
extern const mf_source *const mf_sources[];

/* How data is opened. Zero means default. */
typedef struct mf_opening {
    const char *settings; /* as given by the user */
    /* Defaults for what `settings` does not set: the settings of the training, for data of the same
     * format. */
    const char *defaults, *format;
    bool test; /* opens the test part if there is one and no setting selects a part */
    mf_expected expected;
} mf_opening;

typedef struct mf_opened {
    mf_dataset *set; /* owned: mf_dataset_unref() */
    const char *format; /* name of its source */
    bool has_test; /* it has a test part, and no setting selects a part */
} mf_opened;

/* All variants of mf_dataset_open(). */
MF_MUST mf_status mf_source_open(const char *data, const mf_opening *how, mf_opened *out);

/* ---- shared by sources (source.c) ---- */

/* Files of a path or a pattern ("train-*.csv"), sorted. Owns: mf_paths_deinit(), even after a
 * failure.
 * Fails: NOT_FOUND. */
typedef struct mf_paths {
    char **paths;
    int64_t n, cap;
} mf_paths;

MF_MUST mf_status mf_paths_glob(const char *pattern, mf_paths *out);
/* Entries of a folder that `wanted` accepts (NULL: all but hidden ones), sorted by name. */
MF_MUST mf_status mf_paths_list(const char *folder, bool (*wanted)(const char *, bool is_dir),
                                mf_paths *out);
void mf_paths_deinit(mf_paths *p);

/* "a/b/train-x.idx.gz" -> "train-x.idx.gz" */
const char *mf_path_base(const char *path);
/* Prepends "'path': " to the message of a failure. */
mf_status mf_path_wrong(mf_status st, const char *path);
bool mf_path_ends(const char *path, const char *ending);

#endif
