/* SPDX-License-Identifier: Apache-2.0 */
/* model_versions.c - the choice of the newest version of a model. */
#include "serving/model_versions.h"

#include "base/file.h"
#include "base/mem.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file with nothing in it: which checkpoint is the newest is seen from names. */
static void put(const char *dir, const char *name)
{
    char path[300];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    T_OK(mf_file_write(path, "", 0));
}

static void newest_is(const char *where, int64_t number, const char *end)
{
    mf_serve_version v;

    T_OK(mf_serve_newest(where, &v));
    T_EQ(v.number, number);
    T_TRUE(strlen(v.checkpoint) >= strlen(end));
    T_STREQ(v.checkpoint + strlen(v.checkpoint) - strlen(end), end);
    mf_free(v.checkpoint);
}

MF_TEST(serve_newest_is_the_highest_step_or_version)
{
    char dir[] = "/tmp/mf-versions-XXXXXX", sub[64], command[64];
    mf_serve_version v;

    T_TRUE(mkdtemp(dir) != NULL);
    T_FAILS(MF_NOT_FOUND, "named by versions", mf_serve_newest(dir, &v));
    for (int i = 9; i <= 11; i++) { /* 11 is still empty, 10 comes after 9 */
        (void)snprintf(sub, sizeof sub, "%s/%d", dir, i);
        T_EQ(mkdir(sub, 0700), 0);
        if (i < 11)
            put(sub, "model.ckpt-5.index");
    }
    newest_is(dir, 10, "/10/model.ckpt-5");
    put(dir, "model.ckpt-90.index");
    put(dir, "model.ckpt-200.index");
    newest_is(dir, 200, "/model.ckpt-200");
    newest_is("somewhere/model.ckpt-7", 7, "somewhere/model.ckpt-7");
    newest_is("weights.npz", 1, "weights.npz");
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    T_EQ(system(command), 0);
}
