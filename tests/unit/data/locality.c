/* SPDX-License-Identifier: Apache-2.0 */
/* locality.c - the locality of files: on this machine, and in its page cache. */
#include "data/locality.h"

#include "mf_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 3, BYTES = 40960 };

static char dir[32], paths[FILES][64];

static int64_t file_of(const mf_dataset *set, int64_t index)
{
    (void)set;
    return index % FILES;
}

/* Three samples from three files, one of which does not exist. */
static mf_dataset *begin(void)
{
    static const mf_dataset_ops ops = { .file = file_of };
    static const char *names[FILES];
    mf_dataset *set;

    (void)snprintf(dir, sizeof dir, "/tmp/mf_near_XXXXXX");
    T_TRUE(mkdtemp(dir) != NULL);
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/part-%d", dir, i);
        names[i] = paths[i];
        if (i == 2)
            continue;
        const int fd = open(paths[i], O_WRONLY | O_CREAT, 0600);

        T_TRUE(fd >= 0 && write(fd, (char[BYTES]){ 1 }, BYTES) == BYTES);
        close(fd);
    }
    T_OK(mf_dataset_new(&ops, sizeof *set, 1, &set));
    T_OK(mf_dataset_set_column(set, 0, "x", MF_DTYPE_I64, &MF_SCALAR));
    set->count = set->id_count = set->n_files = FILES;
    set->files = names;
    return set;
}

static void end(mf_dataset *set)
{
    for (int i = 0; i < FILES; i++)
        unlink(paths[i]);
    rmdir(dir);
    mf_dataset_unref(set);
}

MF_TEST(locality_counts_files_on_this_host_and_in_its_page_cache)
{
    mf_dataset *set = begin();
    double near[FILES];
    mf_slices *s;

    T_OK(mf_slices_new(set, FILES, &s));
    mf_locality_of_streams(set, s, FILES, NULL, near);
    for (int i = 0; i < 2;
         i++) /* a file that was just written is in the page cache, unless memory is short */
        T_TRUE(near[i] >= BYTES && near[i] <= 2 * BYTES);
    T_EQ_F(near[2], 0);
    mf_slices_free(s);
    end(set);
}

MF_TEST(locality_follows_patterns)
{
    mf_dataset *set = begin();
    const char *const patterns[] = {
        "part-1", "part-[12]", "other:part-1", "*", "*/part-1:x", "/tmp/part-*", ":", ""
    };
    const double expected[][2] = { { 0, 1 }, { 0, 1 }, { 0, 1 }, { 1, 1 },
                                   { 0, 1 }, { 0, 0 }, { 0, 0 }, { 0, 0 } };
    mf_slices *s;

    T_OK(mf_slices_new(set, FILES, &s));
    for (int i = 0; i < MF_COUNT(patterns); i++) {
        double near[FILES];

        mf_locality_of_streams(set, s, FILES, patterns[i], near);
        T_EQ_F(near[0], expected[i][0] * BYTES);
        T_EQ_F(near[1], expected[i][1] * BYTES);
        T_EQ_F(near[2], 0);
    }
    mf_slices_free(s);
    end(set);
}

MF_TEST(locality_of_a_set_in_memory_is_zero)
{
    mf_dataset *set = begin();
    double near[2] = { 1, 1 };
    mf_slices *s;

    set->n_files = 0;
    set->count = 1;
    T_OK(mf_slices_new(set, 2, &s));
    mf_locality_of_streams(set, s, 2, "*", near);
    T_TRUE(near[0] == 0.0 && near[1] == 0.0);
    mf_slices_free(s);
    end(set);
}
