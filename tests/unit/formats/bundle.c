/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.c - tensor bundles: slices, merging, flipped bits, unfinished files. */
#include "formats/bundle.h"

#include "base/file.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/mf-bundle-XXXXXX";
static char prefix[64];

static void begin(void)
{
    T_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(prefix, sizeof prefix, "%s/x", dir);
}

static void end(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    T_EQ(system(command), 0);
}

/* first, first + 1, ... */
static mf_tensor iota(mf_shape shape, float first)
{
    mf_tensor t = { 0 };

    T_OK(mf_tensor_alloc(&t, MF_DTYPE_F32, &shape));
    for (int64_t i = 0; i < t.count; i++)
        ((float *)t.data)[i] = first + (float)i;
    return t;
}

static void add(mf_bundle_writer *w, const char *name, mf_tensor t, const char *spec)
{
    mf_shape full;
    mf_slice slice;

    if (spec)
        T_OK(mf_slice_parse(spec, strlen(spec), &full, &slice));
    T_OK(
        mf_bundle_writer_add(w, name, strlen(name), &t, spec ? &full : NULL, spec ? &slice : NULL));
    mf_tensor_clear(&t);
}

/* Element i of a tensor, or of a slice of it. */
static double get(const char *name, const char *spec, int64_t count, int64_t i)
{
    mf_tensor t = { 0 };
    mf_bundle *b;
    mf_shape full;
    mf_slice slice;
    double v;

    T_OK(mf_bundle_open(prefix, NULL, &b));
    if (spec)
        T_OK(mf_slice_parse(spec, strlen(spec), &full, &slice));
    T_OK(mf_bundle_read(b, name, strlen(name), spec ? &slice : NULL, &t));
    T_EQ(t.count, count);
    v = mf_tensor_float_at(&t, i);
    mf_tensor_clear(&t);
    mf_bundle_close(b);
    return v;
}

MF_TEST(bundle_keeps_tensors_strings_and_empty_ones)
{
    mf_tensor s = { 0 }, back = { 0 };
    mf_bundle_writer *w;
    mf_bundle *b;

    begin();
    T_OK(mf_bundle_writer_new(prefix, &w));
    add(w, "w", iota(MF_SHAPE(3, 4), 1), NULL);
    add(w, "empty", iota(MF_SHAPE(0, 4), 1), NULL);
    add(w, "scalar", iota(MF_SCALAR, 5), NULL);
    T_OK(mf_tensor_alloc(&s, MF_DTYPE_STRING, &MF_SHAPE(2)));
    T_OK(mf_string_set((mf_string *)s.data + 1, "a\0b", 3));
    T_OK(mf_bundle_writer_add(w, "s", 1, &s, NULL, NULL));
    T_OK(mf_bundle_writer_finish(w));
    mf_bundle_writer_free(w);
    T_EQ_F(get("w", NULL, 12, 11), 12);
    T_EQ_F(get("scalar", NULL, 1, 0), 5);
    T_EQ_F(get("w", "3 4 1,2:2,1", 2, 1), 11);
    T_OK(mf_bundle_open(prefix, NULL, &b));
    T_EQ(mf_bundle_count(b), 4);
    T_OK(mf_bundle_read(b, "s", 1, NULL, &back));
    T_EQ(((mf_string *)back.data)[1].len, 3);
    T_EQ(memcmp(((mf_string *)back.data)[1].data, "a\0b", 3), 0);
    T_FAILS(MF_NOT_FOUND, "Key nope not found in checkpoint",
            mf_bundle_read(b, "nope", 4, NULL, &back));
    mf_bundle_close(b);
    mf_tensor_clear(&s);
    mf_tensor_clear(&back);
    end();
}

MF_TEST(bundle_assembles_slices)
{
    mf_bundle_writer *w;

    begin();
    T_OK(mf_bundle_writer_new(prefix, &w));
    add(w, "w", iota(MF_SHAPE(2, 3), 0), "5 3 0,2:-");
    add(w, "w", iota(MF_SHAPE(3, 3), 6), "5 3 2,3:-");
    T_OK(mf_bundle_writer_finish(w));
    mf_bundle_writer_free(w);
    for (int i = 0; i < 15; i++)
        T_EQ_F(get("w", NULL, 15, i), i);
    T_EQ_F(get("w", "5 3 1,2:1,2", 4, 2), 7);
    end();
}

MF_TEST(bundle_without_finish_leaves_no_files)
{
    mf_bundle_writer *w;

    begin();
    T_OK(mf_bundle_writer_new(prefix, &w));
    add(w, "w", iota(MF_SHAPE(5), 0), NULL);
    mf_bundle_writer_free(w);
    T_EQ(rmdir(dir), 0);
}

MF_TEST(bundle_refuses_a_name_given_twice)
{
    mf_bundle_writer *w;

    begin();
    T_OK(mf_bundle_writer_new(prefix, &w));
    add(w, "w", iota(MF_SHAPE(5), 0), NULL);
    add(w, "w", iota(MF_SHAPE(5), 0), NULL);
    T_FAILS(MF_INVALID_ARGUMENT, "'w' occurs twice", mf_bundle_writer_finish(w));
    mf_bundle_writer_free(w);
    end();
}

MF_TEST(bundle_merges)
{
    char part[2][80];
    const char *parts[2] = { part[0], part[1] };

    begin();
    for (int i = 0; i < 2; i++) {
        mf_bundle_writer *w;
        char name[] = "w0";

        name[1] = (char)('0' + i);
        (void)snprintf(part[i], sizeof part[i], "%s/part%d", dir, i);
        T_OK(mf_bundle_writer_new(part[i], &w));
        add(w, name, iota(MF_SHAPE(2), (float)i), NULL);
        add(w, "p", iota(MF_SHAPE(2), (float)(2 * i)), i ? "4 2,2" : "4 0,2");
        T_OK(mf_bundle_writer_finish(w));
        mf_bundle_writer_free(w);
    }
    T_OK(mf_bundle_merge(parts, 2, prefix, NULL, true, false));
    T_EQ_F(get("w1", NULL, 2, 1), 2);
    for (int i = 0; i < 4; i++)
        T_EQ_F(get("p", NULL, 4, i), i);
    end();
}

/* The slices of a range are contiguous: each element of the range is in exactly one. */
MF_TEST(bundle_slices_of_a_range_cover_it)
{
    const mf_shape shapes[] = { MF_SHAPE(13), MF_SHAPE(4, 5), MF_SHAPE(3, 2, 4), MF_SHAPE(1, 3, 1),
                                MF_SCALAR };

    for (int s = 0; s < MF_COUNT(shapes); s++) {
        const int64_t total = mf_shape_span(&shapes[s], 0, shapes[s].rank);

        for (int64_t from = 0; from < total; from++) {
            for (int64_t to = from + 1; to <= total; to++) {
                int64_t at = from;

                for (int n = 0; at < to; n++) {
                    mf_slice slice;
                    mf_shape shape, same;
                    int64_t first = 0;
                    const int64_t count = mf_slice_of_range(&shapes[s], at, to, &slice, &shape);

                    T_OK(mf_slice_shape(&slice, &shapes[s], &same));
                    T_TRUE(mf_shape_equal(&shape, &same) && count > 0);
                    T_EQ(mf_shape_span(&shape, 0, shape.rank), count);
                    for (int d = 0; d < slice.rank; d++)
                        first = first * shapes[s].dims[d] + slice.start[d];
                    T_EQ(first, at);
                    at += count;
                    T_TRUE(n < 2 * MF_MAX_RANK);
                }
                T_EQ(at, to);
            }
        }
    }
}

/* A change of any byte of both files is refused or changes no tensor. */
MF_TEST(bundle_detects_flipped_bits)
{
    const char *const files[] = { ".index", ".data-00000-of-00001" };
    char path[96];
    mf_bundle_writer *w;

    begin();
    T_OK(mf_bundle_writer_new(prefix, &w));
    add(w, "w", iota(MF_SHAPE(3, 4), 1), NULL);
    T_OK(mf_bundle_writer_finish(w));
    mf_bundle_writer_free(w);
    for (int f = 0; f < 2; f++) {
        char *data;
        size_t len;

        (void)snprintf(path, sizeof path, "%s%s", prefix, files[f]);
        T_OK(mf_file_read(path, 1 << 20, &data, &len));
        for (size_t i = 0; i < len; i++) {
            mf_tensor t = { 0 };
            mf_bundle *b = NULL;
            mf_status st;

            data[i] ^= 4;
            T_OK(mf_file_write(path, data, len));
            st = mf_bundle_open(prefix, NULL, &b);
            if (st == MF_OK)
                st = mf_bundle_read(b, "w", 1, NULL, &t);
            if (st == MF_OK) { /* padding of the footer, or the unused metaindex */
                T_EQ(f, 0);
                T_EQ_F(mf_tensor_float_at(&t, 11), 12);
            }
            mf_tensor_clear(&t);
            mf_bundle_close(b);
            data[i] ^= 4;
        }
        T_OK(mf_file_write(path, data, len));
        mf_free(data);
    }
    end();
}

MF_TEST(bundle_slice_texts)
{
    const char *const bad[] = { "4",
                                "4 ",
                                "4 0,2:",
                                "4 0,5",
                                "4 2 0,2",
                                "4 -1,2",
                                "x",
                                "4 0,2 ",
                                "99999999999999999999 -",
                                "1 1 1 1 1 1 1 1 1 -:-:-:-:-:-:-:-:-" };
    mf_shape full, part;
    mf_slice slice;

    T_OK(mf_slice_parse("4 2 1,3:-", 9, &full, &slice));
    T_OK(mf_slice_shape(&slice, &full, &part));
    T_TRUE(mf_shape_equal(&part, &MF_SHAPE(3, 2)));
    T_TRUE(!mf_slice_is_full(&slice, &full));
    T_OK(mf_slice_parse("4 2 0,4:-", 9, &full, &slice));
    T_TRUE(mf_slice_is_full(&slice, &full));
    for (int i = 0; i < MF_COUNT(bad); i++)
        T_FAILS(MF_INVALID_ARGUMENT, "", mf_slice_parse(bad[i], strlen(bad[i]), &full, &slice));
}
