/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - files keep the permissions that their owner set. */
#include "base/file.h"

#include "formats/bundle.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static const char *in_dir(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static unsigned mode_of(const char *name)
{
    struct stat info;

    T_EQ(stat(in_dir(name), &info), 0);
    return info.st_mode & 0777;
}

static void write_bundle(void)
{
    mf_bundle_writer *w;

    T_OK(mf_bundle_writer_new(in_dir("model"), &w));
    T_OK(mf_bundle_writer_finish(w));
    mf_bundle_writer_free(w);
}

MF_TEST(file_modes_follow_the_umask_and_a_replaced_file_keeps_its_own)
{
    char command[96];

    (void)snprintf(dir, sizeof dir, "/tmp/meshflow-file-XXXXXX");
    T_TRUE(mkdtemp(dir) != NULL);
    (void)umask(027);
    T_OK(mf_file_write(in_dir("new"), "x", 1));
    T_EQ(mode_of("new"), 0640);
    write_bundle();
    T_EQ(mode_of("model.index"), 0640);
    T_EQ(mode_of("model.data-00000-of-00001"), 0640);
    (void)umask(022);
    T_EQ(chmod(in_dir("new"), 0600), 0);
    T_EQ(chmod(in_dir("model.data-00000-of-00001"), 0600), 0);
    T_OK(mf_file_write(in_dir("new"), "y", 1));
    T_EQ(mode_of("new"), 0600);
    write_bundle();
    T_EQ(mode_of("model.data-00000-of-00001"), 0600);
    T_OK(mf_file_write(in_dir("other"), "x", 1));
    T_EQ(mode_of("other"), 0644);
    (void)snprintf(command, sizeof command, "rm -r '%s'", dir);
    T_EQ(system(command), 0);
}
