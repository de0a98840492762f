/* SPDX-License-Identifier: Apache-2.0 */
/* step_file.c - which files graph ops may open. */
#include "graph/step_file.h"

#include "base/file.h"
#include "mf_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64]; /* has allowed/ and secret/ */

static const char *in_root(const char *name)
{
    static char paths[4][160];
    static int next;
    char *path = paths[next++ % 4];

    (void)snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void link_to(const char *target, const char *name)
{
    T_EQ(symlink(target, in_root(name)), 0);
}

static void begin(void)
{
    (void)snprintf(root, sizeof root, "/tmp/meshflow-allow-XXXXXX");
    T_TRUE(mkdtemp(root) != NULL);
    T_EQ(mkdir(in_root("allowed"), 0700), 0);
    T_EQ(mkdir(in_root("allowed/sub"), 0700), 0);
    T_EQ(mkdir(in_root("secret"), 0700), 0);
    T_OK(mf_file_write(in_root("allowed/a"), "inside", 6));
    T_OK(mf_file_write(in_root("allowed/sub/b"), "inside", 6));
    T_OK(mf_file_write(in_root("secret/a"), "secret", 6));
}

static void finish(void)
{
    char command[96];

    (void)snprintf(command, sizeof command, "rm -r '%s'", root);
    T_EQ(system(command), 0);
}

static mf_status try(const char *path, int flags)
{
    static char allowed[80];
    const char *const dirs[] = { allowed };
    const mf_step step = { .allow_dirs = dirs, .n_allow_dirs = 1 };
    mf_status st;
    int fd;

    (void)snprintf(allowed, sizeof allowed, "%s/allowed", root);
    st = mf_step_open(&step, path, flags, &fd);
    if (fd >= 0)
        (void)close(fd);
    return st;
}

MF_TEST(step_file_outside_is_refused_equally_if_it_exists_or_not)
{
    begin();
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("secret/a"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("secret/missing"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("missing/missing"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try("/missing", O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try("/missing/../x", O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try("missing", O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("allowed/../secret/a"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("allowed/../missing/x"), O_RDONLY));
    T_FAILS(MF_NOT_FOUND, "No such file", try(in_root("allowed/missing"), O_RDONLY));
    T_FAILS(MF_NOT_FOUND, "No such file", try(in_root("allowed/missing/x"), O_RDONLY));
    T_OK(try(in_root("allowed/a"), O_RDONLY));
    T_OK(try(in_root("allowed/sub/../a"), O_RDONLY));
    T_OK(try(in_root("allowed/new"), O_WRONLY | O_CREAT));
    finish();
}

/* Reading a pipe would wait for its other end, past any deadline. */
MF_TEST(step_file_that_is_a_pipe_is_refused_at_once)
{
    begin();
    T_EQ(mkfifo(in_root("allowed/pipe"), 0600), 0);
    T_FAILS(MF_INVALID_ARGUMENT, "a pipe", try(in_root("allowed/pipe"), O_RDONLY));
    T_TRUE(try(in_root("allowed/pipe"), O_WRONLY | O_APPEND | O_CREAT) != MF_OK);
    T_OK(try(in_root("allowed/sub"), O_RDONLY | O_DIRECTORY));
    finish();
}

MF_TEST(step_file_links_lead_only_to_allowed_directories)
{
    begin();
    link_to("sub/b", "allowed/near");
    link_to(in_root("allowed/sub"), "allowed/folder");
    link_to(in_root("secret/a"), "allowed/far");
    link_to(in_root("secret"), "allowed/away");
    link_to(in_root("secret/new"), "allowed/nowhere");
    T_OK(try(in_root("allowed/near"), O_RDONLY));
    T_OK(try(in_root("allowed/folder/b"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("allowed/far"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("allowed/away/a"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", try(in_root("allowed/away/missing"), O_RDONLY));
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir",
            try(in_root("allowed/nowhere"), O_WRONLY | O_CREAT));
    T_TRUE(access(in_root("secret/new"), F_OK) != 0);
    finish();
}

static atomic_bool over;

/* allowed/x is a folder, then a link to secret/, then a folder again. */
static void *swap(void *unused)
{
    char x[160], folder[160], link[160];

    (void)unused;
    (void)strcpy(x, in_root("allowed/x"));
    (void)strcpy(folder, in_root("allowed/folder"));
    (void)strcpy(link, in_root("allowed/link"));
    while (!atomic_load(&over)) {
        (void)rename(x, folder);
        (void)rename(link, x);
        (void)rename(x, link);
        (void)rename(folder, x);
    }
    return NULL;
}

static void read_once(const mf_step *step, const char *path, int *opened)
{
    char text[8] = "";
    int fd;

    if (mf_step_open(step, path, O_RDONLY, &fd) != MF_OK)
        return;
    T_EQ(read(fd, text, 6), 6);
    T_STREQ(text, "inside");
    (void)close(fd);
    ++*opened;
}

MF_TEST(step_file_is_not_reached_through_a_link_that_appears_after_the_check)
{
    char allowed[80], path[160];
    const char *const dirs[] = { allowed };
    const mf_step step = { .allow_dirs = dirs, .n_allow_dirs = 1 };
    pthread_t thread;
    int opened = 0;

    begin();
    (void)snprintf(allowed, sizeof allowed, "%s/allowed", root);
    T_EQ(mkdir(in_root("allowed/x"), 0700), 0);
    T_OK(mf_file_write(in_root("allowed/x/a"), "inside", 6));
    link_to(in_root("secret"), "allowed/link");
    (void)strcpy(path, in_root("allowed/x/a"));
    T_EQ(pthread_create(&thread, NULL, swap, NULL), 0);
    for (int i = 0; i < 20000 || opened == 0; i++)
        read_once(&step, path, &opened);
    atomic_store(&over, true);
    T_EQ(pthread_join(thread, NULL), 0);
    finish();
}

MF_TEST(step_file_that_is_written_is_pinned_to_its_folder)
{
    char allowed[80], path[160];
    const char *const dirs[] = { allowed };
    const mf_step step = { .allow_dirs = dirs, .n_allow_dirs = 1 };
    mf_step_pin pin;

    begin();
    (void)snprintf(allowed, sizeof allowed, "%s/allowed", root);
    (void)strcpy(path, in_root("allowed/sub/new"));
    T_OK(mf_step_pin_file(&step, path, &pin));
    T_EQ(rename(in_root("allowed/sub"), in_root("allowed/moved")), 0);
    link_to(in_root("secret"), "allowed/sub"); /* as another process might */
    T_OK(mf_step_unpin(&pin, mf_file_write(pin.path, "x", 1)));
    T_TRUE(access(in_root("secret/new"), F_OK) != 0);
    T_EQ(access(in_root("allowed/moved/new"), F_OK), 0);
    T_FAILS(MF_PERMISSION_DENIED, "--allow-dir", mf_step_pin_file(&step, path, &pin));
    finish();
}
