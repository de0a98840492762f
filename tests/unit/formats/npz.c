/* SPDX-License-Identifier: Apache-2.0 */
/* npz.c - .npz archives: round trips, foreign and damaged files, failed allocations. */
#include "formats/npz.h"

#include "base/file.h"
#include "base/mem.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `name` in a directory of this test. */
static const char *temp_path(const char *name)
{
    static char dir[] = "/tmp/mf_npz_XXXXXX", path[128];
    static bool made;

    if (!made)
        T_TRUE(mkdtemp(dir) != NULL);
    made = true;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void remove_temp(const char *path)
{
    char dir[128];

    (void)unlink(path);
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    (void)rmdir(dir);
}

static void write_two(const char *path, bool compress)
{
    mf_tensor a = { 0 }, b = { 0 };
    const char *const names[] = { "a", "dir/b" };
    const mf_tensor *const tensors[] = { &a, &b };

    T_OK(mf_tensor_alloc(&a, MF_DTYPE_I32, &MF_SHAPE(100)));
    T_OK(mf_tensor_alloc(&b, MF_DTYPE_F64, &MF_SCALAR));
    for (int64_t i = 0; i < 100; i++)
        mf_tensor_put(&a, i, (double)i);
    mf_tensor_put(&b, 0, 2.5);
    T_OK(mf_npz_write(path, names, tensors, 2, compress));
    mf_tensor_clear(&a);
    mf_tensor_clear(&b);
}

MF_TEST(npz_arrays_round_trip_by_name)
{
    const char *path = temp_path("two.npz");

    for (int compress = 0; compress < 2; compress++) {
        mf_npz *npz;
        mf_tensor t = { 0 };

        write_two(path, compress);
        T_OK(mf_npz_open(path, &npz));
        T_EQ(mf_npz_count(npz), 2);
        T_STREQ(mf_npz_name(npz, 1), "dir/b");
        T_OK(mf_npz_read(npz, "a", 0, &t));
        T_EQ(mf_tensor_int_at(&t, 99), 99);
        mf_tensor_clear(&t);
        T_OK(mf_npz_read(npz, "dir/b", 0, &t));
        T_EQ_F(mf_tensor_float_at(&t, 0), 2.5);
        mf_tensor_clear(&t);
        T_FAILS(MF_NOT_FOUND, "no array 'c'", mf_npz_read(npz, "c", 0, &t));
        T_FAILS(MF_RESOURCE_EXHAUSTED, "'a' has 528 bytes, more than the limit of 527",
                mf_npz_read(npz, "a", 527, &t));
        mf_npz_close(npz);
    }
    remove_temp(path);
}

MF_TEST(npz_the_same_arrays_give_the_same_bytes)
{
    const char *path = temp_path("same.npz");
    char *first, *second;
    size_t n, m;

    write_two(path, true);
    T_OK(mf_file_read(path, 1 << 20, &first, &n));
    write_two(path, true);
    T_OK(mf_file_read(path, 1 << 20, &second, &m));
    T_EQ(n, m);
    T_TRUE(memcmp(first, second, n) == 0);
    mf_free(first);
    mf_free(second);
    remove_temp(path);
}

MF_TEST(npz_without_arrays_is_a_valid_archive)
{
    const char *path = temp_path("none.npz");
    mf_npz *npz;

    T_OK(mf_npz_write(path, NULL, NULL, 0, false));
    T_OK(mf_npz_open(path, &npz));
    T_EQ(mf_npz_count(npz), 0);
    mf_npz_close(npz);
    remove_temp(path);
}

MF_TEST(npz_other_files_are_refused)
{
    const char *path = temp_path("bad.npz");
    mf_npz *npz;

    T_FAILS(MF_NOT_FOUND, "bad.npz", mf_npz_open(path, &npz));
    T_OK(mf_file_write(path, "not a zip archive", 17));
    T_FAILS(MF_INVALID_ARGUMENT, "as an archive", mf_npz_open(path, &npz));
    T_TRUE(npz == NULL);
    remove_temp(path);
}

/* Every byte changed, every truncation: an error or an array, never a crash. */
MF_TEST(npz_damaged_archives_do_no_harm)
{
    const char *path = temp_path("hurt.npz");
    char *good;
    size_t n;

    write_two(path, true);
    T_OK(mf_file_read(path, 1 << 20, &good, &n));
    for (size_t i = 0; i < 2 * n; i++) {
        mf_npz *npz;
        mf_tensor t = { 0 };
        const size_t len = i < n ? n : i - n;
        FILE *f = fopen(path, "wb");

        T_TRUE(f != NULL);
        if (i < n)
            good[i] ^= 0x55;
        T_EQ(fwrite(good, 1, len, f), len);
        T_EQ(fclose(f), 0);
        if (i < n)
            good[i] ^= 0x55;
        if (mf_npz_open(path, &npz) != MF_OK)
            continue;
        for (int64_t k = 0; k < mf_npz_count(npz); k++) {
            if (mf_npz_read(npz, mf_npz_name(npz, k), 1 << 20, &t) == MF_OK)
                mf_tensor_clear(&t);
        }
        mf_npz_close(npz);
    }
    mf_free(good);
    remove_temp(path);
}

MF_TEST(npz_a_changed_byte_of_data_is_detected)
{
    const char *path = temp_path("flip.npz");
    mf_npz *npz;
    mf_tensor t = { 0 };
    char *data;
    size_t n;

    write_two(path, false);
    T_OK(mf_file_read(path, 1 << 20, &data, &n));
    data[300] ^= 1; /* inside the numbers of "a", which is stored as it is */
    T_OK(mf_file_write(path, data, n));
    T_OK(mf_npz_open(path, &npz));
    T_FAILS(MF_DATA_LOSS, "cannot unpack 'a'", mf_npz_read(npz, "a", 0, &t));
    mf_npz_close(npz);
    mf_free(data);
    remove_temp(path);
}

MF_TEST(npz_survives_any_failing_allocation)
{
    const char *path = temp_path("nomem.npz");
    mf_status st = MF_RESOURCE_EXHAUSTED;

    write_two(path, true);
    for (int64_t nth = 1; st != MF_OK; nth++) {
        const char *const name = "a";
        mf_npz *npz = NULL;
        mf_tensor t = { 0 };
        const mf_tensor *const tensor = &t;

        mf_mem_fail_at(nth);
        st = mf_npz_open(path, &npz);
        if (st == MF_OK)
            st = mf_npz_read(npz, "a", 0, &t);
        if (st == MF_OK)
            st = mf_npz_write(path, &name, &tensor, 1, true);
        mf_mem_fail_at(0);
        T_TRUE(st == MF_OK || st == MF_RESOURCE_EXHAUSTED);
        mf_tensor_clear(&t);
        mf_npz_close(npz);
    }
    remove_temp(path);
}
