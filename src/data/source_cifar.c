/* SPDX-License-Identifier: Apache-2.0 */
/* source_cifar.c - the binary versions of CIFAR-10 and CIFAR-100, a folder or a file. */
#include "base/file.h"
#include "data/arrays.h"
#include "data/source.h"
#include "formats/cifar.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 64, NAMES_BYTES = 1 << 16 };

/* CIFAR-100 has one file per part, and two labels per record. */
static bool is_of_hundred(const char *name)
{
    return strncmp(name, "train.bin", 9) == 0 || strncmp(name, "test.bin", 8) == 0;
}

static bool is_cifar(const char *name, bool is_dir)
{
    return !is_dir && (is_of_hundred(name) || strncmp(name, "data_batch_", 11) == 0 ||
                       strncmp(name, "test_batch.bin", 14) == 0);
}

static bool is_test(const char *path)
{
    return strncmp(mf_path_base(path), "test", 4) == 0;
}

static mf_status source_cifar_open_file(const char *path, bool coarse, mf_dataset **out)
{
    const bool hundred = is_of_hundred(mf_path_base(path));
    mf_rows rows[2] = { { .name = "image" }, { .name = "label" } };
    mf_tensor images = { 0 }, labels = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_cifar_read(path, hundred ? 2 : 1, hundred && !coarse, &images, &labels));
    MF_TRY_TO(done, mf_tensor_copy(&images, &rows[0].tensor));
    MF_TRY_TO(done, mf_tensor_copy(&labels, &rows[1].tensor));
    MF_TRY_TO(done, mf_arrays_new(rows, 2, out));
    (*out)->classes = !hundred ? 10 : coarse ? 20 : 100;
done:
    mf_tensor_clear(&images);
    mf_tensor_clear(&labels);
    for (int i = 0; i < MF_COUNT(rows); i++)
        mf_tensor_free(rows[i].tensor);
    return st;
}

/* One name per line. Without such a file, classes have no names. */
static mf_status read_names(const char *folder, const char *file, mf_dataset *set)
{
    const char *names[100];
    char path[4096], *text, *at;
    size_t len;
    int64_t n = 0;
    mf_status st = MF_OK;

    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path ||
        access(path, R_OK) != 0)
        return MF_OK;
    MF_TRY(mf_file_read(path, NAMES_BYTES, &text, &len));
    for (at = text; at && *at && n < MF_COUNT(names) && n < set->classes;) {
        char *line = strsep(&at, "\r\n");

        if (*line)
            names[n++] = line;
    }
    if (n == set->classes)
        st = mf_dataset_set_classes(set, names, n);
    mf_free(text);
    return st;
}

static mf_status source_cifar_join_files(const mf_paths *files, bool test, bool coarse,
                                         mf_dataset **out)
{
    mf_dataset *sets[MAX_FILES] = { NULL };
    mf_status st = MF_OK;
    int n = 0;

    for (int64_t i = 0; i < files->n && n < MAX_FILES && st == MF_OK; i++) {
        if (is_test(files->paths[i]) == test)
            st = source_cifar_open_file(files->paths[i], coarse, &sets[n++]);
    }
    if (st == MF_OK)
        st = n > 0 ? mf_dataset_interleave(sets, n, 0, out)
                   : MF_FAIL(MF_NOT_FOUND, "there is no file like %s_batch*.bin",
                             test ? "test" : "data");
    for (int i = 0; i < n; i++)
        mf_dataset_unref(sets[i]);
    return st;
}

static mf_status source_cifar_open_folder(const char *folder, const mf_options *o, mf_dataset **out)
{
    const bool test = strcmp(mf_options_string(o, "part"), "test") == 0;
    const bool coarse = strcmp(mf_options_string(o, "labels"), "coarse") == 0;
    mf_paths files;
    mf_status st;

    MF_TRY_TO(done, mf_paths_list(folder, is_cifar, &files));
    MF_TRY_TO(done, source_cifar_join_files(&files, test, coarse, out));
    MF_TRY_TO(done, read_names(folder,
                               (*out)->classes == 10 ? "batches.meta.txt"
                               : coarse              ? "coarse_label_names.txt"
                                                     : "fine_label_names.txt",
                               *out));
done:
    mf_paths_deinit(&files);
    if (st != MF_OK) {
        mf_dataset_unref(*out);
        *out = NULL;
    }
    return st;
}

static mf_status cifar_open(const char *data, const mf_options *o, mf_dataset **out)
{
    struct stat s;

    if (stat(data, &s) == 0 && S_ISDIR(s.st_mode))
        return source_cifar_open_folder(data, o, out);
    return source_cifar_open_file(data, strcmp(mf_options_string(o, "labels"), "coarse") == 0, out);
}

static bool cifar_has_test(const char *data, const mf_options *o)
{
    mf_paths files;
    struct stat s;
    bool found = false;

    (void)o;
    if (stat(data, &s) != 0 || !S_ISDIR(s.st_mode))
        return false;
    if (mf_paths_list(data, is_cifar, &files) == MF_OK) {
        for (int64_t i = 0; i < files.n; i++)
            found |= is_test(files.paths[i]);
    }
    mf_paths_deinit(&files);
    return found;
}

static const char *const cifar_endings[] = { ".bin", ".bin.gz", NULL };

#define SETTINGS                                                                                   \
    "part: string in ['train','test'] = 'train', labels: string in ['fine','coarse'] = 'fine'"

const mf_source mf_source_cifar = {
    .name = "cifar",
    .summary = "binary files of CIFAR-10 or CIFAR-100, or a folder of them",
    .settings = "{" SETTINGS "}",
    .open = cifar_open,
    .has_test = cifar_has_test,
    .endings = cifar_endings,
    .in_folder = is_cifar,
};

/* ---- named data sets ---- */

static mf_status open_named(const mf_options *o, const char *name, mf_dataset **out)
{
    const char *folder = mf_options_string(o, "dir");

    if (access(folder, F_OK) != 0)
        return MF_FAIL(MF_NOT_FOUND,
                       "%s is not in '%s': unpack the binary version from "
                       "https://www.cs.toronto.edu/~kriz/cifar.html there, or set dir=FOLDER",
                       name, folder);
    return source_cifar_open_folder(folder, o, out);
}

static mf_status cifar10_open(const char *data, const mf_options *o, mf_dataset **out)
{
    (void)data;
    return open_named(o, "CIFAR-10", out);
}

static mf_status cifar100_open(const char *data, const mf_options *o, mf_dataset **out)
{
    (void)data;
    return open_named(o, "CIFAR-100", out);
}

const mf_source mf_source_cifar10 = {
    .name = "cifar10",
    .summary = "60,000 small images in 10 classes, from a folder",
    .settings = "{" SETTINGS ", dir: string = 'cifar-10-batches-bin'}",
    .open = cifar10_open,
    .is_name = true,
};

const mf_source mf_source_cifar100 = {
    .name = "cifar100",
    .summary = "60,000 small images in 100 classes, from a folder",
    .settings = "{" SETTINGS ", dir: string = 'cifar-100-binary'}",
    .open = cifar100_open,
    .is_name = true,
};
