/* SPDX-License-Identifier: Apache-2.0 */
/* fetches.h - outputs to compute, print and save: --fetch, --save, --save-all. */
#ifndef MF_CLI_FETCHES_H
#define MF_CLI_FETCHES_H

#include "cli/feed.h"

typedef struct mf_strings {
    char **s;
    int64_t n, cap;
} mf_strings;

/* Ownership of `s` is transferred, also on failure. NULL: the caller had no memory for it. */
MF_MUST mf_status mf_strings_add(mf_strings *list, char *s);
void mf_strings_deinit(mf_strings *list);

typedef struct mf_save {
    int64_t fetch; /* index of the fetch */
    const char *path;
} mf_save;

typedef struct mf_fetches {
    mf_strings names; /* "node:port"; the first n_shown are printed, the others only saved */
    int64_t n_shown;
    mf_save *saves;
    int64_t n_saves, cap_saves;
} mf_fetches;

/* Rows of an option table. */
#define MF_FETCH_OPTIONS                                                                           \
    { .name = "fetch",                                                                             \
      .value = "NODE:PORT",                                                                        \
      .help = "compute and print this output",                                                     \
      .many = true },                                                                              \
        { .name = "save",                                                                          \
          .value = "NODE:PORT=FILE",                                                               \
          .help = "compute this output and write it as FILE.npy",                                  \
          .many = true },                                                                          \
    {                                                                                              \
        .name = "save-all", .value = "FILE", .help = "write all fetched outputs into one FILE.npz" \
    }

/* Fails as invalid usage, with a hint. Owns: mf_fetches_deinit(), also after a failure. */
MF_MUST mf_status mf_fetches_read(mf_args *args, mf_graph *graph, mf_fetches *out);
void mf_fetches_deinit(mf_fetches *f);
/* Directories that the graph's ops may access: the working directory, those of the named files, and
 * --allow-dir. */
MF_MUST mf_status mf_fetches_dirs(mf_args *args, const mf_fetches *f, mf_strings *out);

/* results: one for each name. */
MF_MUST mf_status mf_fetches_save(const mf_args *args, const mf_fetches *f,
                                  mf_tensor *const *results);
void mf_fetches_text(const mf_fetches *f, mf_tensor *const *results, mf_buf *out);
void mf_fetches_json(const mf_fetches *f, mf_tensor *const *results, mf_buf *out);

#endif
