/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - where data sets come from: one mf_source per format or known name, in source_*.c. */
#ifndef MF_DATA_SOURCE_H
#define MF_DATA_SOURCE_H

#include "data/schema.h"
#include "graph/settings.h"

typedef struct mf_source {
    const char *name; /* of a set known by name, or of a format ("csv:FILE") */
    const char *summary;
    const char *settings; /* signature of its settings (graph/settings.h) */
    /* data: file, folder or pattern; NULL for a set known by name. */
    mf_status (*open)(const char *data, const mf_options *o, mf_dataset **out);
    /* Instead of open: what the data is opened for decides how it is read. Never NULL. */
    mf_status (*open_for)(const char *data, const mf_options *o, const mf_expected *e,
                          mf_dataset **out);
    /* Does this data have a test part (part=test)? NULL: data of this format never does. */
    bool (*has_test)(const char *data, const mf_options *o);
    bool is_name; /* needs no path; it has a test part */
    const char *const *endings; /* of files of this format, ended by NULL; or NULL */
    /* Does this entry make its folder one of this format? NULL: no folders. */
    bool (*in_folder)(const char *entry, bool is_dir);
} mf_source;

/* Ended by NULL. */
extern const mf_source *const mf_sources[];

/* How data is opened; all that is zero does not matter. */
typedef struct mf_opening {
    const char *settings; /* as the user gives them */
    /* Settings that hold where `settings` does not name them: those of the training, for data of
     * the same format. */
    const char *defaults, *format;
    bool test; /* its test part, where it has one and no setting names a part */
    mf_expected expected;
} mf_opening;

typedef struct mf_opened {
    mf_dataset *set; /* owned: mf_dataset_unref() */
    const char *format; /* name of its source */
    bool has_test; /* it has a test part of its own, and no setting names a part */
} mf_opened;

/* mf_dataset_open() in all of its ways. */
MF_MUST mf_status mf_source_open(const char *data, const mf_opening *how, mf_opened *out);

/* ---- what sources share (source.c) ---- */

/* Files that a path or a pattern ("train-*.csv") names, sorted. Owns: mf_paths_deinit(), also after
 * a failure. NOT_FOUND. */
typedef struct mf_paths {
    char **paths;
    int64_t n, cap;
} mf_paths;

MF_MUST mf_status mf_paths_glob(const char *pattern, mf_paths *out);
/* Entries of a folder for which `wanted` says yes (NULL: all but hidden ones), sorted by name. */
MF_MUST mf_status mf_paths_list(const char *folder, bool (*wanted)(const char *, bool is_dir),
                                mf_paths *out);
void mf_paths_deinit(mf_paths *p);

/* "a/b/train-x.idx.gz" -> "train-x.idx.gz" */
const char *mf_path_base(const char *path);
/* Put "'path': " before the message of a failure. */
mf_status mf_path_wrong(mf_status st, const char *path);
bool mf_path_ends(const char *path, const char *ending);

#endif
