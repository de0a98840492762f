/* SPDX-License-Identifier: Apache-2.0 */
/* source_idx.c - IDX files: a folder of the MNIST family, or images alone; and Fashion-MNIST as
 * packaged by Debian. */
#include "data/arrays.h"
#include "data/source.h"
#include "data/unpack_cache.h"
#include "formats/idx.h"

#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAZY_BYTES = 4 << 20 }; /* minimum size for reading in the background */

/* ---- a file as rows ---- */

/* State of the background job: the file, and the destination. */
typedef struct idx_job {
    mf_idx idx;
    char *path;
    void *data; /* of the tensor, which outlives the loading */
} idx_job;

static mf_status idx_job_read(void *ctx, void *to, size_t n)
{
    return mf_idx_next(&((idx_job *)ctx)->idx, to, n);
}

static mf_status idx_job_end(void *ctx)
{
    return mf_idx_end(&((idx_job *)ctx)->idx);
}

static void idx_job_keep(void *ctx)
{
    const idx_job *j = ctx;

    if (mf_path_ends(j->path, ".gz"))
        mf_unpack_cache_save(j->path, j->idx.dtype, &j->idx.shape, j->data, j->idx.bytes);
}

static void idx_job_release(void *ctx)
{
    idx_job *j = ctx;

    mf_idx_close(&j->idx);
    mf_free(j->path);
    mf_free(j);
}

/* Huge pages: faults of small pages took a third of the time to decompress a file. */
static void use_large_pages(void *data, size_t bytes)
{
    const uintptr_t page = 1 << 21, from = ((uintptr_t)data + page - 1) & ~(page - 1);
    const uintptr_t to = ((uintptr_t)data + bytes) & ~(page - 1);

    if (to > from)
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

static mf_status start_loading(const char *path, mf_idx *idx, mf_rows *rows)
{
    idx_job *j = mf_calloc(1, sizeof *j);
    const mf_loading_job job = { .read = idx_job_read,
                                 .end = idx_job_end,
                                 .after = idx_job_keep,
                                 .release = idx_job_release,
                                 .ctx = j };

    if (!j)
        return MF_NOMEM("loading a file");
    j->idx = *idx;
    idx->reader = NULL; /* moved */
    j->path = mf_strdup(path);
    j->data = rows->tensor->data;
    if (!j->path) {
        idx_job_release(j);
        return MF_NOMEM("loading a file");
    }
    use_large_pages(j->data, j->idx.bytes);
    return mf_loading_start(&job, j->data, j->idx.bytes, &rows->loading);
}

static mf_status load_rows(const char *path, mf_rows *rows)
{
    mf_idx idx;
    mf_status st;

    MF_TRY_TO(done, mf_idx_open(path, &idx));
    if (idx.bytes >= LAZY_BYTES && mf_path_ends(path, ".gz"))
        rows->tensor = mf_unpack_cache_find(path, idx.dtype, &idx.shape);
    if (rows->tensor)
        goto done;
    rows->tensor = mf_calloc(1, sizeof *rows->tensor);
    if (!rows->tensor) {
        st = MF_NOMEM("a tensor");
        goto done;
    }
    MF_TRY_TO(done, mf_tensor_alloc(rows->tensor, idx.dtype, &idx.shape));
    if (idx.bytes >= LAZY_BYTES) {
        MF_TRY_TO(done, start_loading(path, &idx, rows));
    } else {
        MF_TRY_TO(done, mf_idx_next(&idx, rows->tensor->data, idx.bytes));
        MF_TRY_TO(done, mf_idx_end(&idx));
    }
done:
    mf_idx_close(&idx);
    return st;
}

/* Images have a channel dimension, labels are int32. */
static mf_status shape_images(mf_tensor *t)
{
    if (t->shape.rank == 3) {
        t->shape.dims[3] = 1;
        t->shape.rank = 4;
    }
    return MF_OK;
}

static mf_status load_labels(const char *path, mf_rows *rows)
{
    mf_tensor t = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_idx_read(path, &t));
    if (t.shape.rank != 1) {
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' does not contain labels: its rank is %d", path,
                     t.shape.rank);
        goto done;
    }
    MF_TRY_TO(done, mf_arrays_to_int32(&t, &rows->tensor));
done:
    mf_tensor_clear(&t);
    return st;
}

static mf_status open_pair(const char *images, const char *labels, mf_dataset **out)
{
    mf_rows rows[2] = { { .name = "image" }, { .name = "label" } };
    mf_status st = MF_OK;

    if (labels)
        MF_TRY_TO(done, load_labels(labels, &rows[1]));
    MF_TRY_TO(done, load_rows(images, &rows[0]));
    MF_TRY_TO(done, shape_images(rows[0].tensor));
    MF_TRY_TO(done, mf_arrays_new(rows, labels ? 2 : 1, out));
    if (labels)
        st = mf_arrays_count_classes(*out, "label");
    if (st != MF_OK) {
        mf_dataset_unref(*out);
        *out = NULL;
    }
done:
    for (int i = 0; i < MF_COUNT(rows); i++) {
        mf_loading_free(rows[i].loading);
        mf_tensor_free(rows[i].tensor);
    }
    return st;
}

/* ---- a folder ---- */

static bool is_idx(const char *name, bool is_dir)
{
    return !is_dir && (strstr(name, "-idx") || strstr(name, ".idx"));
}

static bool is_of_part(const char *name, bool test)
{
    return test ? strstr(name, "t10k") || strstr(name, "test") : strstr(name, "train") != NULL;
}

/* The only file of a part whose name contains "images" or "labels". */
static mf_status source_idx_pick(const char *folder, const mf_paths *files, bool test,
                                 const char *what, const char **out)
{
    *out = NULL;
    for (int64_t i = 0; i < files->n; i++) {
        const char *name = mf_path_base(files->paths[i]);

        if (!is_of_part(name, test) || !strstr(name, what))
            continue;
        if (*out)
            return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' has two files of %s %s: %s and %s", folder,
                           test ? "test" : "training", what, mf_path_base(*out), name);
        *out = files->paths[i];
    }
    if (!*out)
        return MF_FAIL(MF_NOT_FOUND, "'%s' has no file like '%s-%s-idx*-ubyte.gz'", folder,
                       test ? "t10k" : "train", what);
    return MF_OK;
}

static mf_status source_idx_open_folder(const char *folder, const mf_options *o, mf_dataset **out)
{
    const bool test = strcmp(mf_options_string(o, "part"), "test") == 0;
    const char *images, *labels;
    mf_paths files;
    mf_status st;

    MF_TRY_TO(done, mf_paths_list(folder, is_idx, &files));
    MF_TRY_TO(done, source_idx_pick(folder, &files, test, "images", &images));
    MF_TRY_TO(done, source_idx_pick(folder, &files, test, "labels", &labels));
    MF_TRY_TO(done, open_pair(images, labels, out));
done:
    mf_paths_deinit(&files);
    return st;
}

static mf_status idx_open(const char *data, const mf_options *o, mf_dataset **out)
{
    const char *labels = mf_options_string(o, "labels");

    if (is_idx(mf_path_base(data), false))
        return open_pair(data, labels[0] ? labels : NULL, out);
    return source_idx_open_folder(data, o, out);
}

static bool idx_has_test(const char *data, const mf_options *o)
{
    const char *images;
    mf_paths files;
    bool found;

    (void)o;
    if (is_idx(mf_path_base(data), false))
        return false;
    found = mf_paths_list(data, is_idx, &files) == MF_OK &&
            source_idx_pick(data, &files, true, "images", &images) == MF_OK;
    mf_paths_deinit(&files);
    return found;
}

static const char *const idx_endings[] = { "-ubyte", "-ubyte.gz", ".idx", ".idx.gz", NULL };

const mf_source mf_source_idx = {
    .name = "idx",
    .summary = "folder or file of the MNIST family, gzipped or not",
    .settings = "{part: string in ['train','test'] = 'train', labels: string = ''}",
    .open = idx_open,
    .has_test = idx_has_test,
    .endings = idx_endings,
    .in_folder = is_idx,
};

/* ---- Fashion-MNIST ---- */

static mf_status fashion_open(const char *data, const mf_options *o, mf_dataset **out)
{
    static const char *const names[] = {
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
        "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"
    };
    const char *folder = mf_options_string(o, "dir");
    mf_status st;

    (void)data;
    if (access(folder, F_OK) != 0)
        return MF_FAIL(MF_NOT_FOUND,
                       "Fashion-MNIST is not in '%s': apt install dataset-fashion-mnist", folder);
    MF_TRY(source_idx_open_folder(folder, o, out));
    st = mf_dataset_set_classes(*out, names, MF_COUNT(names));
    if (st != MF_OK) {
        mf_dataset_unref(*out);
        *out = NULL;
    }
    return st;
}

const mf_source mf_source_fashion_mnist = {
    .name = "fashion-mnist",
    .summary = "70,000 images of clothes (Debian package dataset-fashion-mnist)",
    .settings = "{part: string in ['train','test'] = 'train', "
                "dir: string = '/usr/share/datasets/fashion-mnist'}",
    .open = fashion_open,
    .is_name = true,
};
