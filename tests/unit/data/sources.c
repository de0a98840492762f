/* SPDX-License-Identifier: Apache-2.0 */
/* sources.c - files of every format are read as samples, or the error names what is wrong. */
#include "base/file.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "formats/example.h"
#include "formats/npz.h"
#include "formats/record.h"
#include "mf_test.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[32];

static const char *in_dir(const char *name)
{
    static char path[4][256];
    static int next;
    char *p = path[next++ % 4];

    if (!dir[0]) {
        (void)snprintf(dir, sizeof dir, "/tmp/mf_data_XXXXXX");
        T_TRUE(mkdtemp(dir) != NULL);
    }
    (void)snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static void done(void)
{
    char command[64];

    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    T_EQ(system(command), 0);
}

static const char *write_text(const char *name, const char *text)
{
    const char *path = in_dir(name);

    T_OK(mf_file_write(path, text, strlen(text)));
    return path;
}

MF_TEST(data_csv_with_text_labels)
{
    const char *path =
        write_text("iris.csv", "length,width,class\n1.5,2,rose\n3,4,daisy\n5,-6,rose");
    const mf_column *columns;
    const char *const *names;
    mf_dataset *set;
    float x[2];
    int32_t label;

    T_OK(mf_dataset_open(path, NULL, &set));
    T_EQ(mf_dataset_count(set), 3);
    T_EQ(mf_dataset_columns(set, &columns), 2);
    T_STREQ(columns[0].name, "x");
    T_EQ(columns[0].dims[0], 2);
    T_EQ(mf_dataset_classes(set, &names), 2);
    T_STREQ(names[0], "daisy");
    T_OK(mf_dataset_read(set, 0, 2, (void *[]){ x, &label }));
    T_TRUE(x[0] == 5 && x[1] == -6 && label == 1);
    mf_dataset_unref(set);
    T_FAILS(MF_DATA_LOSS, "line 2, column 3 ('class'): not a number: 'rose'",
            mf_dataset_open(path, "label=none", &set));
    T_FAILS(MF_INVALID_ARGUMENT, "has no column 'colour'",
            mf_dataset_open(path, "label=colour", &set));
    done();
}

/* Without this error the first sample would silently be read as a header. */
MF_TEST(data_csv_without_a_header_needs_a_setting)
{
    const char *path = write_text("a.csv", "1.5,2,rose\n3,4,daisy\n");
    mf_dataset *set;

    T_FAILS(MF_INVALID_ARGUMENT, "the first row has numbers: '1.5' ...; set header=false",
            mf_dataset_open(path, "label=-1", &set));
    T_FAILS(MF_INVALID_ARGUMENT, "if the first row is not a header, set header=false",
            mf_dataset_open(path, "label=species", &set));
    T_OK(mf_dataset_open(path, "label=-1 header=false", &set));
    T_EQ(mf_dataset_count(set), 2);
    mf_dataset_unref(set);
    T_OK(mf_dataset_open(path, "label=-1 header=true", &set));
    T_EQ(mf_dataset_count(set), 1);
    mf_dataset_unref(set);
    (void)write_text("a.csv", "400.5,410,class\n3,4,daisy\n"); /* wavelengths, and a label's name */
    T_OK(mf_dataset_open(path, NULL, &set));
    mf_dataset_unref(set);
    (void)write_text("a.csv", "0,1,2\n3,4,daisy\n"); /* as programs number columns */
    T_OK(mf_dataset_open(path, "label=-1", &set));
    mf_dataset_unref(set);
    done();
}

MF_TEST(data_csv_errors_suggest_delimiter_and_encoding)
{
    const char *path = write_text("a.csv", "a;b;class\n1;2;x\n");
    const mf_buf nul = { .data = (char[]){ "a,class\n1,\0\n" }, .len = 12 };
    mf_dataset *set;

    T_FAILS(MF_INVALID_ARGUMENT, "a.csv' has one column, 'a;b;class'; if ';' separates",
            mf_dataset_open(path, NULL, &set));
    T_FAILS(MF_INVALID_ARGUMENT, "its columns are a;b;class; if ';' separates its columns, set",
            mf_dataset_open(path, "label=class", &set));
    T_OK(mf_dataset_open(path, "delimiter=;", &set));
    mf_dataset_unref(set);
    (void)write_text("a.csv", "a\tclass\n1\tx\n");
    T_FAILS(MF_INVALID_ARGUMENT, "set delimiter=tab", mf_dataset_open(path, NULL, &set));
    (void)write_text("a.csv", "\xff\xfe"
                              "a");
    T_FAILS(MF_INVALID_ARGUMENT, "a.csv' is UTF-16: save it as UTF-8",
            mf_dataset_open(path, NULL, &set));
    (void)write_text("a.csv", "a,class\n1,x\n2,Z\xfcrich\n");
    T_FAILS(MF_INVALID_ARGUMENT, "a.csv', line 3: this is not UTF-8: save the file as UTF-8",
            mf_dataset_open(path, NULL, &set));
    T_OK(mf_file_write(path, nul.data, nul.len));
    T_FAILS(MF_INVALID_ARGUMENT, "line 2: there is a NUL byte", mf_dataset_open(path, NULL, &set));
    done();
}

MF_TEST(data_csv_recognizes_common_missing_values)
{
    const char *path = write_text("a.csv", "a,b,class\n1,NA,x\nnull,2,y\n");
    mf_dataset *set;
    float x[2];
    int32_t label;

    T_FAILS(MF_DATA_LOSS, "line 2, column 2 ('b'): the number is missing: NA; set missing=0",
            mf_dataset_open(path, NULL, &set));
    T_OK(mf_dataset_open(path, "missing=-3", &set));
    T_OK(mf_dataset_read(set, 0, 1, (void *[]){ x, &label }));
    T_TRUE(x[0] == -3 && x[1] == 2);
    mf_dataset_unref(set);
    (void)write_text("a.csv", "a,b,class\n1,nancy,x\n");
    T_FAILS(MF_DATA_LOSS, "not a number: 'nancy'", mf_dataset_open(path, "missing=0", &set));
    done();
}

MF_TEST(data_csv_with_numbers_gaps_and_several_files)
{
    const char *pattern = in_dir("part-*.csv");
    const mf_column *columns;
    mf_dataset *set;
    float x[1], y;

    (void)write_text("part-1.csv", "0.5;10\n;20\n");
    (void)write_text("part-2.csv", "7;30\n");
    T_OK(mf_dataset_open(pattern, "header=false delimiter=; label=-1 target=number missing=-1",
                         &set));
    T_EQ(mf_dataset_count(set), 3);
    (void)mf_dataset_columns(set, &columns);
    T_EQ(columns[1].dtype, MF_DTYPE_F32);
    T_OK(mf_dataset_read(set, 0, 1, (void *[]){ x, &y }));
    T_TRUE(x[0] == -1 && y == 20);
    T_OK(mf_dataset_read(set, 0, 2, (void *[]){ x, &y }));
    T_TRUE(x[0] == 7 && y == 30);
    mf_dataset_unref(set);
    T_FAILS(MF_DATA_LOSS, "line 2, column 1: the cell is empty; set missing=0 to read",
            mf_dataset_open(pattern, "header=false delimiter=; label=1", &set));
    (void)write_text("part-2.csv", "7;30;1\n");
    T_FAILS(MF_DATA_LOSS, "line 1: 3 cells instead of 2",
            mf_dataset_open(pattern, "header=false delimiter=; missing=0", &set));
    T_FAILS(MF_NOT_FOUND, "there is no file", mf_dataset_open("csv:/tmp/no-*.csv", NULL, &set));
    done();
}

MF_TEST(data_libsvm_is_padded)
{
    const char *path = write_text("a.svm", "+1 1:0.5 4:2\n-1 2:1\n-1\n");
    const char *const *names;
    mf_dataset *set;
    int32_t ids[2], label;
    float values[2];

    T_OK(mf_dataset_open(path, NULL, &set));
    T_EQ(mf_dataset_count(set), 3);
    T_EQ(mf_dataset_classes(set, &names), 2);
    T_STREQ(names[0], "-1");
    T_OK(mf_dataset_read(set, 0, 0, (void *[]){ ids, values, &label }));
    T_TRUE(ids[0] == 0 && ids[1] == 3 && values[1] == 2 && label == 1);
    T_OK(mf_dataset_read(set, 0, 1, (void *[]){ ids, values, &label }));
    T_TRUE(ids[0] == 1 && ids[1] == -1 && values[1] == 0 && label == 0);
    mf_dataset_unref(set);
    T_FAILS(MF_INVALID_ARGUMENT, "more than width=1", mf_dataset_open(path, "width=1", &set));
    (void)write_text("a.svm", "1 0:1\n");
    T_FAILS(MF_INVALID_ARGUMENT, "set base=0", mf_dataset_open(path, NULL, &set));
    T_OK(mf_dataset_open(path, "base=0", &set));
    mf_dataset_unref(set);
    done();
}

static void write_cifar(const char *name, int records, int labels)
{
    unsigned char *bytes = calloc((size_t)records, 3074);
    unsigned char *p = bytes;

    for (int r = 0; r < records; r++) {
        for (int l = 0; l < labels; l++)
            *p++ = (unsigned char)(r + l);
        for (int i = 0; i < 3072; i++)
            *p++ = (unsigned char)(i / 1024 * 50 + r);
    }
    T_OK(mf_file_write(in_dir(name), bytes, (size_t)(p - bytes)));
    free(bytes);
}

MF_TEST(data_cifar_from_a_folder)
{
    const char *const *names;
    unsigned char image[3072];
    char settings[64];
    mf_dataset *set;
    int32_t label;

    write_cifar("data_batch_1.bin", 3, 1);
    write_cifar("data_batch_2.bin", 2, 1);
    write_cifar("test_batch.bin", 1, 1);
    (void)write_text("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
    T_OK(mf_dataset_open(dir, NULL, &set));
    T_EQ(mf_dataset_count(set), 5);
    T_EQ(mf_dataset_classes(set, &names), 10);
    T_STREQ(names[9], "j");
    T_OK(mf_dataset_read(set, 0, 4, (void *[]){ image, &label }));
    T_TRUE(label == 1 && image[0] == 1 && image[1] == 51 && image[2] == 101 && image[3] == 1);
    mf_dataset_unref(set);
    (void)snprintf(settings, sizeof settings, "part=test dir=%s", dir);
    T_OK(mf_dataset_open("cifar10", settings, &set));
    T_EQ(mf_dataset_count(set), 1);
    mf_dataset_unref(set);
    T_FAILS(MF_NOT_FOUND, "kriz/cifar.html", mf_dataset_open("cifar10", "dir=/nowhere", &set));
    write_cifar("train.bin", 4, 2);
    T_OK(mf_dataset_open(in_dir("train.bin"), "labels=fine", &set));
    T_OK(mf_dataset_read(set, 0, 3, (void *[]){ NULL, &label }));
    T_EQ(label, 4);
    T_EQ(mf_dataset_classes(set, &names), 100);
    mf_dataset_unref(set);
    (void)write_text("data_batch_3.bin", "short");
    T_FAILS(MF_DATA_LOSS, "has 5 bytes, which is not a multiple", mf_dataset_open(dir, NULL, &set));
    done();
}

MF_TEST(data_npz_arrays_are_columns)
{
    static const char *const names[] = { "x_train", "y_train", "other" };
    mf_tensor *x, *y;
    const mf_column *columns;
    const char *path = in_dir("a.npz");
    mf_dataset *set;
    int32_t label;

    T_OK(mf_tensor_new(MF_DTYPE_U8, (int64_t[]){ 3, 4, 5 }, 3, &x));
    T_OK(mf_tensor_new(MF_DTYPE_I64, (int64_t[]){ 3 }, 1, &y));
    ((int64_t *)mf_tensor_data(y))[2] = 6;
    T_OK(mf_npz_write(path, names, (const mf_tensor *const[]){ x, y, y }, 3, true));
    T_OK(mf_dataset_open(path, NULL, &set));
    T_EQ(mf_dataset_columns(set, &columns), 2);
    T_STREQ(columns[0].name, "image");
    T_TRUE(columns[0].rank == 3 && columns[0].dims[2] == 1);
    T_EQ(mf_dataset_classes(set, NULL), 7);
    T_OK(mf_dataset_read(set, 0, 2, (void *[]){ NULL, &label }));
    T_EQ(label, 6);
    mf_dataset_unref(set);
    T_OK(mf_dataset_open(path, "columns=['label=other','x_train']", &set));
    T_EQ(mf_dataset_columns(set, &columns), 2);
    T_EQ(columns[0].dtype, MF_DTYPE_I32);
    T_STREQ(columns[1].name, "x_train");
    mf_dataset_unref(set);
    T_FAILS(MF_NOT_FOUND, "z", mf_dataset_open(path, "columns=['z']", &set));
    mf_tensor_free(x);
    mf_tensor_free(y);
    done();
}

/* x and the label as they are; both are freed. */
static const char *write_npz(const char *name, mf_tensor *x, mf_tensor *label)
{
    static const char *const names[] = { "x", "label" };
    const char *path = in_dir(name);

    T_OK(mf_npz_write(path, names, (const mf_tensor *const[]){ x, label }, 2, true));
    mf_tensor_free(x);
    mf_tensor_free(label);
    return path;
}

static mf_tensor *new_tensor(mf_dtype dtype, int64_t n, int64_t columns)
{
    mf_tensor *t;

    T_OK(mf_tensor_new(dtype, (int64_t[]){ n, columns }, columns > 0 ? 2 : 1, &t));
    return t;
}

MF_TEST(data_npz_labels_may_be_a_column_or_booleans)
{
    mf_tensor *column = new_tensor(MF_DTYPE_I64, 3, 1), *truths = new_tensor(MF_DTYPE_BOOL, 3, 0);
    const mf_column *columns;
    const char *path;
    mf_dataset *set;
    int32_t label;

    ((int64_t *)mf_tensor_data(column))[1] = 2;
    ((bool *)mf_tensor_data(truths))[1] = true;
    path = write_npz("a.npz", new_tensor(MF_DTYPE_F32, 3, 2), column); /* as Keras's CIFAR is */
    T_OK(mf_dataset_open(path, NULL, &set));
    (void)mf_dataset_columns(set, &columns);
    T_EQ(columns[1].rank, 0);
    T_EQ(mf_dataset_classes(set, NULL), 3);
    mf_dataset_unref(set);
    path = write_npz("a.npz", new_tensor(MF_DTYPE_F32, 3, 2), truths);
    T_OK(mf_dataset_open(path, NULL, &set));
    T_EQ(mf_dataset_classes(set, NULL), 2);
    T_OK(mf_dataset_read(set, 0, 1, (void *[]){ NULL, &label }));
    T_EQ(label, 1);
    mf_dataset_unref(set);
    done();
}

MF_TEST(data_npz_errors_name_the_file)
{
    mf_tensor *label = new_tensor(MF_DTYPE_I64, 3, 0);
    mf_dataset *set;

    ((int64_t *)mf_tensor_data(label))[1] = -1;
    T_FAILS(MF_INVALID_ARGUMENT, "a.npz': sample 1 has the label -1, but labels start at 0",
            mf_dataset_open(write_npz("a.npz", new_tensor(MF_DTYPE_F32, 3, 2), label), NULL, &set));
    label = new_tensor(MF_DTYPE_I64, 3, 0);
    ((int64_t *)mf_tensor_data(label))[1] = 250000;
    T_FAILS(MF_INVALID_ARGUMENT, "whole numbers up to 250000, which would be as many classes",
            mf_dataset_open(write_npz("a.npz", new_tensor(MF_DTYPE_F32, 3, 2), label), NULL, &set));
    done();
}

/* ---- records ---- */

static void write_examples(const char *path, mf_compression c, int n)
{
    unsigned char pixels[6];
    mf_writer *w;
    mf_buf bytes = { 0 };

    T_OK(mf_writer_open(path, c, false, &w));
    for (int i = 0; i < n; i++) {
        const mf_string raw = { (char *)pixels, sizeof pixels };
        const float f[] = { (float)i, 0.5f };
        const int64_t label = i % 3, shape[] = { 2, 3, 1 };
        mf_feature features[] = {
            { .name = "image", .type = MF_DTYPE_STRING, .n = 1, .strings = &raw },
            { .name = "image/shape", .type = MF_DTYPE_I64, .n = 3, .ints = shape },
            { .name = "label", .type = MF_DTYPE_I64, .n = 1, .ints = &label },
            { .name = "v", .type = MF_DTYPE_F32, .n = 2, .floats = f },
        };

        memset(pixels, i, sizeof pixels);
        mf_buf_clear(&bytes);
        T_OK(mf_example_encode(&(mf_example){ features, 4 }, &bytes));
        T_OK(mf_record_write(w, bytes.data, bytes.len));
    }
    T_OK(mf_writer_close(w));
    mf_buf_deinit(&bytes);
}

MF_TEST(data_records_have_random_access)
{
    const mf_column *columns;

    for (mf_compression c = MF_PLAIN; c <= MF_ZLIB; c++) {
        const char *path = in_dir("a.tfrecord");
        unsigned char image[6];
        float v[2];
        int32_t label;
        mf_dataset *set;

        write_examples(path, c, 10);
        T_OK(mf_dataset_open(path, "classes=3", &set)); /* the record determines the columns */
        T_EQ(mf_dataset_count(set), 10);
        T_EQ(mf_dataset_columns(set, &columns), 3);
        T_STREQ(columns[0].name, "image");
        T_TRUE(columns[0].rank == 3 && columns[0].dims[1] == 3);
        for (int i = 9; i >= 0; i--) {
            T_OK(mf_dataset_read(set, 0, i, (void *[]){ image, &label, v }));
            T_TRUE(image[5] == i && label == i % 3 && v[0] == (float)i);
        }
        mf_dataset_unref(set);
        T_OK(mf_dataset_open(path, "columns='y=label:int64 v:float[2]'", &set));
        T_EQ(mf_dataset_columns(set, &columns), 2);
        T_STREQ(columns[0].name, "y");
        mf_dataset_unref(set);
        T_OK(mf_dataset_open(path, "columns='v:float[3]'", &set));
        T_FAILS(MF_INVALID_ARGUMENT, "record 4: feature 'v' has 2 floats, which are no float [3]",
                mf_dataset_read(set, 0, 4, (void *[]){ v }));
        mf_dataset_unref(set);
    }
    done();
}

MF_TEST(data_invalid_columns_are_quoted_in_the_error)
{
    static const char *const wrong[] = { "columns='v'",         "columns='v:strange'",
                                         "columns='v:float[2'", "columns=':float'",
                                         "columns='v:string'",  "columns='v:float[-1]'" };
    const char *path = in_dir("a.tfrecord");
    mf_dataset *set;

    write_examples(path, MF_PLAIN, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        T_FAILS(MF_INVALID_ARGUMENT, "columns: expected", mf_dataset_open(path, wrong[i], &set));
    T_FAILS(MF_INVALID_ARGUMENT, "needs [height,width,1]",
            mf_dataset_open(path, "columns='image:image'", &set));
    T_FAILS(MF_INVALID_ARGUMENT, "unknown compression 'LZ4'",
            mf_dataset_open(path, "compression=LZ4", &set));
    done();
}

/* Each byte of a small file is changed: the samples are unchanged, or DATA_LOSS. */
MF_TEST(data_damaged_records_are_reported)
{
    const char *path = in_dir("a.tfrecord");
    char *bytes;
    size_t len;

    for (mf_compression c = MF_PLAIN; c <= MF_ZLIB; c++) {
        write_examples(path, c, 3);
        T_OK(mf_file_read(path, 1 << 20, &bytes, &len));
        for (size_t at = 0; at < len; at++) {
            mf_dataset *set;
            mf_status st;

            bytes[at] ^= 0x41;
            T_OK(mf_file_write(path, bytes, len));
            bytes[at] ^= 0x41;
            st = mf_dataset_open(path, NULL, &set);
            for (int64_t i = 0; st == MF_OK && i < mf_dataset_count(set); i++) {
                unsigned char image[6];

                st = mf_dataset_read(set, 0, i, (void *[]){ image, NULL, NULL });
                T_TRUE(st != MF_OK || image[0] == i);
            }
            T_TRUE(st == MF_DATA_LOSS || (c != MF_PLAIN && st == MF_OK));
            mf_dataset_unref(set);
        }
        free(bytes);
    }
    done();
}

/* ---- pictures ---- */

static void write_png(const char *name, int height, int width, int value)
{
    unsigned char pixels[64 * 64 * 3];
    png_image i = { .version = PNG_IMAGE_VERSION,
                    .width = (uint32_t)width,
                    .height = (uint32_t)height,
                    .format = PNG_FORMAT_RGB };

    memset(pixels, value, sizeof pixels);
    T_TRUE(png_image_write_to_file(&i, in_dir(name), 0, pixels, 0, NULL) != 0);
}

MF_TEST(data_images_by_class_folder)
{
    const char *const *names;
    const mf_column *columns;
    unsigned char image[8 * 6 * 3];
    mf_dataset *set;
    int32_t label;

    T_EQ(mkdir(in_dir("dogs"), 0777), 0);
    T_EQ(mkdir(in_dir("cats"), 0777), 0);
    write_png("cats/b.png", 8, 6, 30);
    write_png("cats/a.PNG", 8, 6, 20);
    write_png("dogs/a.png", 8, 6, 10);
    (void)write_text("dogs/notes.txt", "no picture");
    T_OK(mf_dataset_open(dir, NULL, &set));
    T_EQ(mf_dataset_count(set), 3);
    T_EQ(mf_dataset_classes(set, &names), 2);
    T_STREQ(names[0], "cats");
    (void)mf_dataset_columns(set, &columns);
    T_TRUE(columns[0].dims[0] == 8 && columns[0].dims[1] == 6 && columns[0].dims[2] == 3);
    T_OK(mf_dataset_read(set, 0, 1, (void *[]){ image, &label }));
    T_TRUE(image[0] == 30 && label == 0);
    T_OK(mf_dataset_read(set, 0, 2, (void *[]){ image, &label }));
    T_TRUE(image[143] == 10 && label == 1);
    write_png("dogs/a.png", 4, 4, 11);
    T_FAILS(MF_INVALID_ARGUMENT, "dogs/a.png' is 4 x 4, others are 8 x 6: set size=[HEIGHT,WIDTH]",
            mf_dataset_read(set, 0, 2, (void *[]){ image, &label }));
    mf_dataset_unref(set);
    T_OK(mf_dataset_open(dir, "size=[2,3] channels=1", &set));
    T_OK(mf_dataset_read(set, 0, 2, (void *[]){ image, &label }));
    T_TRUE(image[0] == 11 && image[5] == 11);
    (void)write_text("dogs/a.png", "\x89PNG\r\n\x1a\nrubbish");
    T_FAILS(MF_DATA_LOSS, "dogs/a.png': damaged PNG file",
            mf_dataset_read(set, 0, 2, (void *[]){ image, &label }));
    mf_dataset_unref(set);
    done();
}

static void write_grey(const char *name, int value)
{
    unsigned char pixels[8 * 6];
    png_image i = {
        .version = PNG_IMAGE_VERSION, .width = 6, .height = 8, .format = PNG_FORMAT_GRAY
    };

    memset(pixels, value, sizeof pixels);
    T_TRUE(png_image_write_to_file(&i, in_dir(name), 0, pixels, 0, NULL) != 0);
}

static void make_two_classes(void)
{
    T_EQ(mkdir(in_dir("cats"), 0777), 0);
    T_EQ(mkdir(in_dir("dogs"), 0777), 0);
    write_png("cats/b.png", 8, 6, 30);
    write_png("dogs/a.png", 8, 6, 10);
}

/* If the first image by name is grey, the others keep their colours. */
MF_TEST(data_images_keep_their_colours_whatever_the_order)
{
    const mf_column *columns;
    unsigned char image[8 * 6 * 3];
    mf_dataset *set;

    make_two_classes();
    write_grey("cats/a.png", 7);
    T_OK(mf_dataset_open(dir, NULL, &set));
    T_OK(mf_dataset_read(set, 0, 0, (void *[]){ image, NULL }));
    T_FAILS(MF_INVALID_ARGUMENT,
            "cats/b.png' has colours, the first image has none: set channels=1 to drop them",
            mf_dataset_read(set, 0, 1, (void *[]){ image, NULL }));
    mf_dataset_unref(set);
    T_OK(mf_dataset_open(dir, "channels=1", &set));
    T_OK(mf_dataset_read(set, 0, 1, (void *[]){ image, NULL }));
    mf_dataset_unref(set);
    T_OK(mf_dataset_open(dir, "channels=3", &set));
    (void)mf_dataset_columns(set, &columns);
    T_EQ(columns[0].dims[2], 3);
    T_OK(mf_dataset_read(set, 0, 0, (void *[]){ image, NULL }));
    T_TRUE(image[0] == 7 && image[1] == 7 && image[143] == 7);
    mf_dataset_unref(set);
    done();
}

MF_TEST(data_images_that_cannot_be_read_are_named)
{
    mf_dataset *set;

    make_two_classes();
    (void)write_text("dogs/b.bmp", "BM");
    T_FAILS(MF_INVALID_ARGUMENT, "dogs/b.bmp' is neither PNG nor JPEG: convert it",
            mf_dataset_open(dir, NULL, &set));
    T_EQ(unlink(in_dir("dogs/b.bmp")), 0);
    T_EQ(mkdir(in_dir("dogs/small"), 0777), 0);
    T_OK(mf_dataset_open(dir, NULL, &set)); /* which holds no pictures */
    mf_dataset_unref(set);
    write_png("dogs/small/a.png", 8, 6, 10);
    T_FAILS(MF_INVALID_ARGUMENT, "dogs/small' contains images, but folders within a class",
            mf_dataset_open(dir, NULL, &set));
    T_EQ(rename(in_dir("dogs/small"), in_dir("owls")), 0);
    T_EQ(unlink(in_dir("owls/a.png")), 0);
    T_FAILS(MF_INVALID_ARGUMENT, "owls' has no PNG or JPEG files, so it is not a class",
            mf_dataset_open(dir, NULL, &set));
    done();
}

MF_TEST(data_images_may_have_a_class_called_train)
{
    const char *const *names;
    mf_dataset *set;

    make_two_classes();
    T_EQ(mkdir(in_dir("train"), 0777), 0);
    write_png("train/a.png", 8, 6, 10);
    T_OK(mf_dataset_open(dir, NULL, &set));
    T_EQ(mf_dataset_classes(set, &names), 3);
    T_STREQ(names[2], "train");
    mf_dataset_unref(set);
    T_OK(mf_dataset_open(dir, "part=train", &set)); /* here "train" is a part */
    T_EQ(mf_dataset_count(set), 1);
    mf_dataset_unref(set);
    done();
}

/* Records of encoded images; the first one is grey. */
static const char *write_picture_records(void)
{
    static const char *const files[] = { "cats/a.png", "cats/b.png" };
    mf_writer *w;

    make_two_classes();
    write_grey(files[0], 7);
    T_OK(mf_writer_open(in_dir("a.tfrecord"), MF_PLAIN, false, &w));
    for (int i = 0; i < 2; i++) {
        mf_buf bytes = { 0 };
        mf_string picture;
        char *file;
        mf_feature f = { .name = "image", .type = MF_DTYPE_STRING, .n = 1, .strings = &picture };

        T_OK(mf_file_read(in_dir(files[i]), 1 << 20, &file, &picture.len));
        picture.data = file;
        T_OK(mf_example_encode(&(mf_example){ &f, 1 }, &bytes));
        T_OK(mf_record_write(w, bytes.data, bytes.len));
        mf_buf_deinit(&bytes);
        free(file);
    }
    T_OK(mf_writer_close(w));
    return in_dir("a.tfrecord");
}

MF_TEST(data_records_of_images_keep_their_colours)
{
    const char *path = write_picture_records();
    unsigned char image[8 * 6 * 3];
    mf_dataset *set;

    T_OK(mf_dataset_open(path, NULL, &set));
    T_OK(mf_dataset_read(set, 0, 0, (void *[]){ image }));
    T_FAILS(MF_INVALID_ARGUMENT, "record 1: the image is in colour, but the first record",
            mf_dataset_read(set, 0, 1, (void *[]){ image }));
    mf_dataset_unref(set);
    T_OK(mf_dataset_open(path, "columns='image:image[8,6,1]'", &set));
    T_OK(mf_dataset_read(set, 0, 1, (void *[]){ image }));
    mf_dataset_unref(set);
    done();
}

/* ---- IDX ---- */

/* For damage anywhere: an error, or only the changed image differs. */
MF_TEST(data_damaged_idx_files_are_reported)
{
    unsigned char images[16 + 12] = { 0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2 };
    const unsigned char labels[8 + 3] = { 0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 2 };
    const char *path = in_dir("train-images-idx3-ubyte");
    mf_dataset *set;
    unsigned char got[4];

    T_OK(mf_file_write(in_dir("train-labels-idx1-ubyte"), labels, sizeof labels));
    T_OK(mf_file_write(path, images, sizeof images));
    T_OK(mf_dataset_open(dir, NULL, &set));
    T_EQ(mf_dataset_classes(set, NULL), 3);
    mf_dataset_unref(set);
    T_FAILS(MF_NOT_FOUND, "no file like 't10k-images-idx", mf_dataset_open(dir, "part=test", &set));
    for (size_t at = 0; at < sizeof images; at++) {
        mf_status st;

        images[at] ^= 0x81;
        T_OK(mf_file_write(path, images, sizeof images));
        images[at] ^= 0x81;
        st = mf_dataset_open(dir, NULL, &set);
        T_TRUE(at < 16 ? st == MF_DATA_LOSS || st == MF_INVALID_ARGUMENT : st == MF_OK);
        if (st == MF_OK)
            T_OK(mf_dataset_read(set, 0, 0, (void *[]){ got, NULL }));
        mf_dataset_unref(set);
    }
    for (size_t n = 0; n < sizeof images; n++) {
        T_OK(mf_file_write(path, images, n));
        T_FAILS(MF_DATA_LOSS, "ends too soon", mf_dataset_open(dir, NULL, &set));
    }
    done();
}

/* A file large enough to be read in the background, damaged near its end: early rows are returned,
 * late rows fail. */
MF_TEST(data_damage_of_a_file_read_in_the_background_reaches_readers)
{
    enum { N = 12000, ROW = 512 };
    unsigned char head[16] = { 0, 0, 8, 3, 0, 0, N >> 8, N & 255, 0, 0, 0, 16, 0, 0, 0, 32 };
    const char *path = in_dir("x-idx3-ubyte.gz");
    unsigned char row[ROW];
    mf_dataset *set;
    mf_writer *w;
    char *bytes;
    size_t len;
    mf_status st = MF_OK;

    (void)setenv("MESHFLOW_DATA_CACHE_MIB", "0", 1);
    T_OK(mf_writer_open(path, MF_GZIP, false, &w));
    T_OK(mf_writer_write(w, head, sizeof head));
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < ROW; k++)
            row[k] = (unsigned char)((unsigned)i * 31 + (unsigned)(k * k) * (unsigned)i);
        T_OK(mf_writer_write(w, row, sizeof row));
    }
    T_OK(mf_writer_close(w));
    T_OK(mf_dataset_open(path, NULL, &set));
    T_OK(mf_dataset_read(set, 0, N - 1, (void *[]){ row }));
    T_EQ(row[1], (unsigned char)((N - 1) * 31 + (N - 1)));
    mf_dataset_unref(set);
    T_OK(mf_file_read(path, 1 << 24, &bytes, &len));
    bytes[len * 3 / 4] ^= 0x55;
    T_OK(mf_file_write(path, bytes, len));
    T_OK(mf_dataset_open(path, NULL, &set));
    T_OK(mf_dataset_read(set, 0, 0, (void *[]){ row }));
    for (int64_t i = 0; i < N && st == MF_OK; i++)
        st = mf_dataset_read(set, 0, i, (void *[]){ row });
    T_EQ(st, MF_DATA_LOSS);
    mf_dataset_unref(set);
    free(bytes);
    done();
}

/* ---- generated ---- */

MF_TEST(data_generated_sets_are_functions_of_seed_and_id)
{
    static const char *const names[] = { "synthetic-ctr", "synthetic-text", "synthetic-sequence",
                                         "synthetic-language" };

    for (int k = 0; k < 4; k++) {
        mf_dataset *a, *b, *test, *other;
        char x[2][1024], y[2][1024];
        int same = 0;

        T_OK(mf_dataset_open(names[k], NULL, &a));
        T_OK(mf_dataset_open(names[k], "count=100", &b));
        T_OK(mf_dataset_open(names[k], "part=test", &test));
        T_OK(mf_dataset_open(names[k], "seed=1", &other));
        T_EQ(mf_dataset_count(b), 100);
        T_EQ(mf_dataset_count(test), mf_dataset_count(a) / 10);
        for (int64_t i = 0; i < 100; i++) {
            memset(x, 0, sizeof x);
            memset(y, 0, sizeof y);
            T_OK(mf_dataset_read(a, 0, i, (void *[]){ x[0], x[1], NULL }));
            T_OK(mf_dataset_read(b, 7, i, (void *[]){ y[0], y[1], NULL }));
            T_TRUE(memcmp(x, y, sizeof x) == 0);
            T_OK(mf_dataset_read(test, 0, i, (void *[]){ y[0], y[1], NULL }));
            same += memcmp(x, y, sizeof x) == 0;
            T_OK(mf_dataset_read(other, 0, i, (void *[]){ y[0], y[1], NULL }));
            same += memcmp(x, y, sizeof x) == 0;
        }
        T_TRUE(same < 10);
        mf_dataset_unref(a);
        mf_dataset_unref(b);
        mf_dataset_unref(test);
        mf_dataset_unref(other);
    }
}

MF_TEST(data_generated_labels_follow_their_rule)
{
    int32_t tokens[64], next[64], ids[8], label, counts[3] = { 0 };
    float dense[4];
    mf_dataset *set;

    T_OK(mf_dataset_open("synthetic-sequence", "count=500 task=more", &set));
    for (int64_t i = 0; i < 500; i++) {
        int ones = 0, twos = 0;

        T_OK(mf_dataset_read(set, 0, i, (void *[]){ tokens, &label }));
        for (int k = 0; k < 32; k++) {
            T_TRUE(tokens[k] > 0 && tokens[k] < 10);
            ones += tokens[k] == 1;
            twos += tokens[k] == 2;
        }
        T_TRUE(ones != twos && label == (twos > ones));
    }
    mf_dataset_unref(set);
    T_OK(mf_dataset_open("synthetic-language", "count=100", &set));
    T_EQ(mf_dataset_classes(set, NULL), 33);
    for (int64_t i = 0; i < 100; i++) {
        T_OK(mf_dataset_read(set, 0, i, (void *[]){ tokens, next }));
        for (int k = 0; k < 64; k++)
            T_TRUE(next[k] >= 0 && next[k] < 33 && (k == 63 || next[k] == tokens[k + 1]));
    }
    mf_dataset_unref(set);
    T_OK(mf_dataset_open("synthetic-text", "count=3000", &set));
    for (int64_t i = 0; i < 3000; i++) {
        T_OK(mf_dataset_read(set, 0, i, (void *[]){ tokens, &label }));
        T_EQ(tokens[63], 0); /* no text is cut */
        counts[label]++;
    }
    T_TRUE(counts[0] > 900 && counts[1] > 400 && counts[2] > 900);
    mf_dataset_unref(set);
    counts[1] = 0;
    T_OK(mf_dataset_open("synthetic-ctr", "count=3000", &set));
    for (int64_t i = 0; i < 3000; i++) {
        T_OK(mf_dataset_read(set, 0, i, (void *[]){ ids, dense, &label }));
        T_TRUE(ids[0] < 2 && ids[7] >= 2683 && ids[7] < 12683);
        counts[1] += label;
    }
    T_TRUE(counts[1] > 600 && counts[1] < 1500);
    mf_dataset_unref(set);
}

/* ---- disk cache ---- */

static void write_large_idx(const char *path, unsigned char add)
{
    enum { N = 12000, ROW = 512 };
    const unsigned char head[16] = { 0, 0, 8, 3, 0, 0, N >> 8, N & 255, 0, 0, 0, 16, 0, 0, 0, 32 };
    unsigned char row[ROW];
    mf_writer *w;

    T_OK(mf_writer_open(path, MF_GZIP, false, &w));
    T_OK(mf_writer_write(w, head, sizeof head));
    for (int i = 0; i < N; i++) {
        memset(row, i + add, sizeof row);
        T_OK(mf_writer_write(w, row, sizeof row));
    }
    T_OK(mf_writer_close(w));
}

static void expect_rows(const char *path, unsigned char add)
{
    unsigned char row[512];
    mf_dataset *set;

    T_OK(mf_dataset_open(path, NULL, &set));
    for (int64_t i = 0; i < 12000; i += 37) {
        T_OK(mf_dataset_read(set, 0, i, (void *[]){ row }));
        T_EQ(row[7], (unsigned char)(i + add));
    }
    T_OK(mf_dataset_read(set, 0, 11999, (void *[]){ row }));
    mf_dataset_unref(set);
}

/* The only file in the cache after the background thread has written it; NULL: none. */
static const char *only_copy(char *path)
{
    char command[128];
    FILE *p;

    path[0] = 0;
    for (int i = 0; i < 100 && !path[0]; i++) {
        (void)snprintf(command, sizeof command, "ls %s/cache/meshflow/*.rows 2>/dev/null", dir);
        p = popen(command, "r");
        T_TRUE(p && (fgets(path, 256, p) || !path[0]));
        T_TRUE(pclose(p) >= 0);
        usleep(10000);
    }
    path[strcspn(path, "\n")] = 0;
    return path[0] ? path : NULL;
}

/* Keep the set open until the background has written the copy. */
static void open_and_wait(const char *path, char *copy)
{
    mf_dataset *set;

    T_OK(mf_dataset_open(path, NULL, &set));
    T_TRUE(only_copy(copy) != NULL);
    mf_dataset_unref(set);
}

MF_TEST(data_unpacked_copies_are_used_only_when_valid)
{
    char path[64], copy[256];
    char *bytes;
    size_t len;

    (void)snprintf(path, sizeof path, "%s", in_dir("x-idx3-ubyte.gz"));
    (void)setenv("XDG_CACHE_HOME", in_dir("cache"), 1);
    T_EQ(mkdir(in_dir("cache"), 0700), 0);
    write_large_idx(path, 0);
    open_and_wait(path, copy);
    expect_rows(path, 0); /* from the copy */
    write_large_idx(path, 5); /* another file under the same name */
    expect_rows(path, 5);
    unlink(copy);
    open_and_wait(path, copy);
    T_OK(mf_file_read(copy, 1 << 24, &bytes, &len));
    for (size_t at = 0; at < 140; at++) { /* a damaged header, and a damaged element */
        const size_t where = at < 136 ? at : len - at;

        bytes[where] ^= 4;
        T_OK(mf_file_write(copy, bytes, len));
        bytes[where] ^= 4;
        if (at % 15 == 0 || at > 130)
            expect_rows(path, 5);
    }
    T_OK(mf_file_write(copy, bytes, len / 2));
    expect_rows(path, 5);
    free(bytes);
    done();
}

/* ---- failed allocations ---- */

static mf_status use_all(const char *table, const char *records)
{
    mf_dataset *a = NULL, *b = NULL, *c = NULL, *d = NULL, *e = NULL;
    mf_iterator *it = NULL;
    const mf_batch *batch;
    mf_status st;

    st = mf_dataset_open(table, NULL, &a);
    if (st == MF_OK)
        st = mf_dataset_open(records, NULL, &b);
    if (st == MF_OK)
        st = mf_dataset_cache(b, 0, &c);
    if (st == MF_OK)
        st = mf_dataset_augment(c, "flip=true mean=[0.5]", 1, &d);
    if (st == MF_OK)
        st = mf_dataset_interleave(&d, 1, 2, &e);
    if (st == MF_OK)
        st = mf_iterator_new(e, &(mf_iterator_options){ .batch = 2 }, &it);
    for (int i = 0; i < 5 && st == MF_OK; i++)
        st = mf_iterator_next(it, &batch);
    mf_iterator_free(it);
    mf_dataset_unref(a);
    mf_dataset_unref(b);
    mf_dataset_unref(c);
    mf_dataset_unref(d);
    mf_dataset_unref(e);
    return st;
}

/* For every failing allocation: an error status, and (under the sanitizer) no leak. */
MF_TEST(data_any_allocation_may_fail)
{
    char table[64], records[64];
    int failures = 0;

    (void)snprintf(table, sizeof table, "%s", write_text("a.csv", "a,label\n1,x\n2,y\n"));
    (void)snprintf(records, sizeof records, "%s", in_dir("a.tfrecord"));
    write_examples(records, MF_GZIP, 4);
    for (int64_t n = 1; n < 500; n++) {
        mf_status st;

        mf_mem_fail_at(n);
        st = use_all(table, records);
        mf_mem_fail_at(0);
        if (st != MF_OK && st != MF_RESOURCE_EXHAUSTED)
            T_FAIL("allocation %lld: %s", (long long)n, mf_error_message());
        failures += st != MF_OK;
    }
    T_TRUE(failures > 40);
    done();
}
