/* SPDX-License-Identifier: Apache-2.0 */
/* source_images.c - PNG and JPEG files, a folder for each class. They are decoded when they are
 * read; mf_dataset_cache() keeps them where that takes too long. */
#include "base/file.h"
#include "data/source.h"
#include "formats/image.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 28 };

typedef struct images {
    mf_dataset base;
    mf_paths files; /* sorted by class, then name */
    int32_t *labels; /* by file */
    int64_t cap_labels;
    mf_image size;
    bool resize;
} images;

static bool is_image_name(const char *name, bool is_dir)
{
    const char *dot = strrchr(name, '.');

    return !is_dir && dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
            strcasecmp(dot, ".jpeg") == 0);
}

static bool is_folder(const char *name, bool is_dir)
{
    (void)name;
    return is_dir;
}

static mf_status fit(const images *s, const char *path, const mf_buf *pixels, const mf_image *size,
                     void *to)
{
    const bool same = size->height == s->size.height && size->width == s->size.width;

    if (!same && !s->resize)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%s' is %lld x %lld, others are %lld x %lld: say size=[HEIGHT,WIDTH]", path,
                       (long long)size->height, (long long)size->width, (long long)s->size.height,
                       (long long)s->size.width);
    if (same)
        memcpy(to, pixels->data, pixels->len);
    else
        mf_image_resize((const unsigned char *)pixels->data, size, to, &s->size);
    return MF_OK;
}

static mf_status images_read(const mf_dataset *set, uint64_t epoch, int64_t index,
                             void *const *columns)
{
    const images *s = (const images *)set;
    const char *path = s->files.paths[index];
    mf_buf pixels = { 0 };
    char *file = NULL;
    mf_image size;
    mf_status st = MF_OK;
    size_t len;

    (void)epoch;
    if (columns[1])
        memcpy(columns[1], &s->labels[index], sizeof s->labels[index]);
    if (!columns[0])
        return MF_OK;
    MF_TRY_TO(done, mf_file_read(path, MAX_FILE, &file, &len));
    st = mf_image_decode(file, len, (int)s->size.channels, &pixels, &size);
    if (st != MF_OK) {
        (void)mf_path_wrong(st, path);
        goto done;
    }
    MF_TRY_TO(done, fit(s, path, &pixels, &size, columns[0]));
done:
    mf_buf_deinit(&pixels);
    mf_free(file);
    return st;
}

static int64_t images_file(const mf_dataset *set, int64_t index)
{
    (void)set;
    return index; /* each is a file of its own */
}

static void images_deinit(mf_dataset *set)
{
    images *s = (images *)set;

    mf_paths_deinit(&s->files);
    mf_free(s->labels);
}

static const mf_dataset_ops images_ops = { .read = images_read,
                                           .file = images_file,
                                           .deinit = images_deinit };

static mf_status add_class(images *s, const char *folder, int32_t label)
{
    mf_paths files;
    mf_status st;

    MF_TRY_TO(done, mf_paths_list(folder, is_image_name, &files));
    for (int64_t i = 0; i < files.n; i++) {
        MF_TRY_TO(done, mf_grow(&s->files.paths, &s->files.cap, s->files.n + 1, sizeof(char *)));
        MF_TRY_TO(done, mf_grow(&s->labels, &s->cap_labels, s->files.n + 1, sizeof *s->labels));
        s->labels[s->files.n] = label;
        s->files.paths[s->files.n++] = files.paths[i];
        files.paths[i] = NULL; /* moved */
    }
done:
    mf_paths_deinit(&files);
    return st;
}

static mf_status list_classes(images *s, const char *folder)
{
    mf_paths classes;
    const char **names = NULL;
    mf_status st;

    MF_TRY_TO(done, mf_paths_list(folder, is_folder, &classes));
    names = mf_calloc(classes.n, sizeof *names);
    if (!names) {
        st = MF_NOMEM("class names");
        goto done;
    }
    for (int64_t i = 0; i < classes.n; i++) {
        names[i] = mf_path_base(classes.paths[i]);
        MF_TRY_TO(done, add_class(s, classes.paths[i], (int32_t)i));
    }
    if (s->files.n == 0) {
        st = MF_FAIL(MF_NOT_FOUND, "the folders in '%s' hold no PNG or JPEG files", folder);
        goto done;
    }
    MF_TRY_TO(done, mf_dataset_set_classes(&s->base, names, classes.n));
done:
    mf_free(names);
    mf_paths_deinit(&classes);
    return st;
}

/* As the settings say, or as the first picture is. */
static mf_status find_size(images *s, const mf_options *o)
{
    const char *path = s->files.paths[0];
    const int64_t *wanted, channels = mf_options_int(o, "channels");
    char *file;
    size_t len;
    int64_t n;
    mf_status st;

    MF_TRY(mf_file_read(path, MAX_FILE, &file, &len));
    st = mf_image_info(file, len, &s->size);
    mf_free(file);
    if (st != MF_OK)
        return mf_path_wrong(st, path);
    wanted = mf_options_ints(o, "size", &n);
    if (n != 0 && n != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "images: size is [HEIGHT,WIDTH]");
    if (n == 2) {
        s->size.height = wanted[0];
        s->size.width = wanted[1];
        s->resize = true;
        MF_TRY(mf_image_check(&s->size));
    }
    /* opacity is left out: pictures with and without it shall go together */
    s->size.channels = channels == 1 || channels == 3 ? channels : s->size.channels < 3 ? 1 : 3;
    return MF_OK;
}

static mf_status fill(images *s, const char *folder, const mf_options *o)
{
    MF_TRY(list_classes(s, folder));
    MF_TRY(find_size(s, o));
    s->base.count = s->base.id_count = s->base.n_files = s->files.n;
    s->base.files = (const char *const *)s->files.paths;
    MF_TRY(mf_dataset_set_column(&s->base, 0, "image", MF_DTYPE_U8,
                                 &MF_SHAPE(s->size.height, s->size.width, s->size.channels)));
    return mf_dataset_set_column(&s->base, 1, "label", MF_DTYPE_I32, &MF_SCALAR);
}

static mf_status images_open(const char *data, const mf_options *o, mf_dataset **out)
{
    char part[4096];
    images *s;
    mf_status st;

    if (snprintf(part, sizeof part, "%s/%s", data, mf_options_string(o, "part")) <
            (int)sizeof part &&
        access(part, F_OK) == 0)
        data = part; /* train/CLASS/..., test/CLASS/... */
    MF_TRY(mf_dataset_new(&images_ops, sizeof *s, 2, &s));
    st = fill(s, data, o);
    if (st != MF_OK) {
        mf_dataset_unref(&s->base);
        return st;
    }
    *out = &s->base;
    return MF_OK;
}

const mf_source mf_source_images = {
    .name = "images",
    .summary = "folder of PNG and JPEG files, in a folder for each class",
    .settings = "{part: string = 'train', size: list(int) = [], channels: int = 0}",
    .open = images_open,
    .in_folder = is_folder,
};
