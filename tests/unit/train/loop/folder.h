/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - a folder for a test, and what event files in it say. */
#ifndef MF_TESTS_TRAIN_FOLDER_H
#define MF_TESTS_TRAIN_FOLDER_H

#include "formats/events.h"
#include "mf_test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_PATH = 600 };

static inline void folder_new(char *dir)
{
    (void)snprintf(dir, 32, "/tmp/mf_train_XXXXXX");
    T_TRUE(mkdtemp(dir) != NULL);
}

static inline void folder_remove(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    char path[FOLDER_PATH];

    while (d && (e = readdir(d)) != NULL) {
        struct stat info;

        (void)snprintf(path, sizeof path, "%.300s/%.280s", dir, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode))
            folder_remove(path);
        else
            (void)unlink(path);
    }
    if (d)
        (void)closedir(d);
    (void)rmdir(dir);
}

static inline bool folder_has(const char *dir, const char *file)
{
    char path[FOLDER_PATH];

    (void)snprintf(path, sizeof path, "%.300s/%.280s", dir, file);
    return access(path, F_OK) == 0;
}

/* The events of one tag in a folder. */
typedef struct folder_tag {
    int64_t files, n, graphs, starts;
    int64_t steps[64]; /* of this tag's events, in the order of reading */
    int64_t start; /* step of the last START */
    double last;
} folder_tag;

static inline int folder_is_events(const struct dirent *e)
{
    return mf_events_is_name(e->d_name);
}

static inline void folder_take(folder_tag *t, const Tensorflow__Event *e, const char *tag)
{
    t->graphs += e->what_case == TENSORFLOW__EVENT__WHAT_GRAPH_DEF;
    if (e->what_case == TENSORFLOW__EVENT__WHAT_SESSION_LOG &&
        e->session_log->status == TENSORFLOW__SESSION_LOG__SESSION_STATUS__START) {
        t->starts++;
        t->start = e->step;
    }
    for (size_t i = 0; e->what_case == TENSORFLOW__EVENT__WHAT_SUMMARY && i < e->summary->n_value;
         i++) {
        if (strcmp(e->summary->value[i]->tag, tag) != 0)
            continue;
        t->steps[t->n++ % 64] = e->step;
        t->last = (double)e->summary->value[i]->simple_value;
    }
}

static inline folder_tag folder_events(const char *dir, const char *tag)
{
    folder_tag t = { 0 };
    struct dirent **list;
    const int n = scandir(dir, &list, folder_is_events, alphasort);

    for (int i = 0; i < n; i++) {
        char path[FOLDER_PATH];
        mf_events_reader *r;
        const Tensorflow__Event *event;

        (void)snprintf(path, sizeof path, "%.300s/%.280s", dir, list[i]->d_name);
        T_OK(mf_events_reader_open(path, &r));
        while (mf_events_next(r, &event) == MF_OK)
            folder_take(&t, event, tag);
        mf_events_reader_close(r);
        free(list[i]);
        t.files++;
    }
    if (n >= 0)
        free(list);
    return t;
}

#endif
