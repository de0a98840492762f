/* SPDX-License-Identifier: Apache-2.0 */
/* store_folder.h - a folder for the store of a test. It is in memory: no disk delays the test. */
#ifndef MF_TEST_STORE_FOLDER_H
#define MF_TEST_STORE_FOLDER_H

#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct store_folder {
    char base[64], dir[80], url[96];
} store_folder;

static inline void store_folder_begin(store_folder *f)
{
    (void)snprintf(f->base, sizeof f->base, "%s/meshflow-store-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    T_TRUE(mkdtemp(f->base) != NULL);
    (void)snprintf(f->dir, sizeof f->dir, "%s/a/store", f->base);
    (void)snprintf(f->url, sizeof f->url, "file:%s", f->dir);
}

static inline void store_folder_end(const store_folder *f)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -r '%s'", f->base);
    T_EQ(system(command), 0);
}

#endif
