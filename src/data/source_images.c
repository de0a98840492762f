/* SPDX-License-Identifier: Apache-2.0 */
/* source_images.c - PNG and JPEG files, one folder per class. They are decoded when they are read;
 * mf_dataset_cache() keeps them if that is too slow. */
#include "base/file.h"
#include "data/source.h"
#include "formats/image.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 28 };

typedef struct images {
    mf_dataset base;
    mf_paths files; /* sorted by class, then name */
    int32_t *labels; /* by file; NULL: none */
    int64_t cap_labels;
    mf_image size;
    bool resize;
    bool any_colours; /* channels= is set: images are converted */
    bool of_model; /* the size is that of the model's training images */
} images;

static bool ends_with_one_of(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');

    for (int i = 0; dot && endings[i]; i++) {
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    }
    return false;
}

static bool is_image_name(const char *name, bool is_dir)
{
    static const char *const endings[] = { ".png", ".jpg", ".jpeg", NULL };

    return !is_dir && ends_with_one_of(name, endings);
}

/* Entries that must not be skipped silently: images of other formats, and folders. */
static bool is_unsupported_entry(const char *name, bool is_dir)
{
    static const char *const endings[] = { ".bmp",  ".gif",  ".tif", ".tiff", ".webp", ".heic",
                                           ".avif", ".jfif", ".pgm", ".ppm",  NULL };

    return is_dir || ends_with_one_of(name, endings);
}

static bool is_folder(const char *name, bool is_dir)
{
    (void)name;
    return is_dir;
}

static bool is_class_or_image(const char *name, bool is_dir)
{
    return is_dir || is_image_name(name, is_dir);
}

static mf_status other_size(const images *s, const char *path, const mf_image *size)
{
    char fix[64] = "[HEIGHT,WIDTH]";

    if (s->of_model)
        (void)snprintf(fix, sizeof fix, "[%lld,%lld]", (long long)s->size.height,
                       (long long)s->size.width);
    return MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is %lld x %lld, %s %lld x %lld: set size=%s", path,
                   (long long)size->height, (long long)size->width,
                   s->of_model ? "the model was trained on" : "others are",
                   (long long)s->size.height, (long long)s->size.width, fix);
}

/* Whether colours are kept must not depend on the first image. */
static mf_status source_images_check_colours(const images *s, const char *path, const char *file,
                                             size_t len)
{
    mf_image own;

    if (s->any_colours || s->size.channels != 1 || mf_image_info(file, len, &own) != MF_OK ||
        own.channels < 3)
        return MF_OK; /* damaged images are reported by the decoder */
    return MF_FAIL(
        MF_INVALID_ARGUMENT, "'%s' has colours, %s none: set channels=1 to drop them%s", path,
        s->of_model ? "the images that the model was trained on have" : "the first image has",
        s->of_model ? "" : ", or channels=3");
}

static mf_status source_images_fit(const images *s, const char *path, const mf_buf *pixels,
                                   const mf_image *size, void *to)
{
    const bool same = size->height == s->size.height && size->width == s->size.width;

    if (!same && !s->resize)
        return other_size(s, path, size);
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
    if (s->labels && columns[1])
        memcpy(columns[1], &s->labels[index], sizeof s->labels[index]);
    if (!columns[0])
        return MF_OK;
    MF_TRY_TO(done, mf_file_read(path, MAX_FILE, &file, &len));
    MF_TRY_TO(done, source_images_check_colours(s, path, file, len));
    st = mf_image_decode(file, len, (int)s->size.channels, &pixels, &size);
    if (st != MF_OK) {
        (void)mf_path_wrong(st, path);
        goto done;
    }
    MF_TRY_TO(done, source_images_fit(s, path, &pixels, &size, columns[0]));
done:
    mf_buf_deinit(&pixels);
    mf_free(file);
    return st;
}

static int64_t images_file(const mf_dataset *set, int64_t index)
{
    (void)set;
    return index; /* each image is one file */
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

/* A folder within a class is an error if it contains images. */
static mf_status check_inner_folder(const char *folder)
{
    mf_paths files;
    mf_status st = mf_paths_list(folder, is_image_name, &files);

    if (st == MF_OK && files.n > 0)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "'%s' contains images, but folders within a class are not read: move them "
                     "into the folder of the class",
                     folder);
    mf_paths_deinit(&files);
    return st;
}

static mf_status check_all_are_read(const char *folder)
{
    mf_paths strange;
    struct stat is;
    mf_status st = mf_paths_list(folder, is_unsupported_entry, &strange);

    for (int64_t i = 0; i < strange.n && st == MF_OK; i++) {
        if (stat(strange.paths[i], &is) == 0 && S_ISDIR(is.st_mode))
            st = check_inner_folder(strange.paths[i]);
        else
            st = MF_FAIL(MF_INVALID_ARGUMENT,
                         "'%s' is neither PNG nor JPEG: convert it, or move it away",
                         strange.paths[i]);
    }
    mf_paths_deinit(&strange);
    return st;
}

static mf_status add_class(images *s, const char *folder, int32_t label)
{
    mf_paths files = { 0 };
    mf_status st;

    MF_TRY_TO(done, check_all_are_read(folder));
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

/* A folder unknown to the model is an error if it contains images. */
static mf_status add_known_class(images *s, const char *folder, const mf_schema_column *known)
{
    const int64_t before = s->files.n;
    int32_t label;
    mf_status st = mf_schema_class(known, mf_path_base(folder), &label);
    mf_error why;

    if (st == MF_OK)
        return add_class(s, folder, label);
    (void)mf_path_wrong(st, folder);
    mf_error_save(st, &why);
    MF_TRY(add_class(s, folder, 0));
    return s->files.n > before ? mf_error_restore(&why) : MF_OK;
}

static mf_status list_known(images *s, const mf_paths *classes, const mf_schema_column *known)
{
    for (int64_t i = 0; i < classes->n; i++)
        MF_TRY(add_known_class(s, classes->paths[i], known));
    s->base.classes = known->classes;
    return known->class_names ? mf_dataset_set_classes(&s->base, known->class_names, known->classes)
                              : MF_OK;
}

/* A class without images is an error if others have some: it could not be learned. */
static mf_status check_all_have_pictures(const images *s, const mf_paths *classes)
{
    int64_t at = 0;

    for (int64_t i = 0; s->files.n > 0 && i < classes->n; i++) {
        if (at == s->files.n || s->labels[at] != i)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "the folder '%s' has no PNG or JPEG files, so it is not a class: "
                           "remove it, or add images",
                           classes->paths[i]);
        while (at < s->files.n && s->labels[at] == i)
            at++;
    }
    return MF_OK;
}

static mf_status list_own(images *s, const mf_paths *classes)
{
    const char **names = mf_calloc(classes->n, sizeof *names);
    mf_status st = names ? MF_OK : MF_NOMEM("class names");

    for (int64_t i = 0; st == MF_OK && i < classes->n; i++) {
        names[i] = mf_path_base(classes->paths[i]);
        st = add_class(s, classes->paths[i], (int32_t)i);
    }
    if (st == MF_OK)
        st = check_all_have_pictures(s, classes);
    if (st == MF_OK)
        st = mf_dataset_set_classes(&s->base, names, classes->n);
    mf_free(names);
    return st;
}

/* One folder per class; or images alone, without labels. */
static mf_status list_files(images *s, const char *folder, const mf_expected *e)
{
    const mf_schema_column *known = mf_schema_label(e->schema);
    mf_paths classes;
    mf_status st;

    MF_TRY_TO(done, mf_paths_list(folder, is_folder, &classes));
    MF_TRY_TO(done,
              known && known->classes > 0 ? list_known(s, &classes, known) : list_own(s, &classes));
    if (s->files.n == 0) {
        MF_TRY_TO(done, mf_paths_list(folder, is_image_name, &s->files));
        s->base.classes = 0;
        s->base.class_names = NULL;
    }
    if (s->files.n == 0)
        st = MF_FAIL(MF_NOT_FOUND, "the folders in '%s' have no PNG or JPEG files", folder);
done:
    mf_paths_deinit(&classes);
    return st;
}

/* The size of the model's images; otherwise that of the first image. */
static mf_status find_usual_size(images *s, const mf_schema_column *known)
{
    const char *path = s->files.paths[0];
    char *file;
    size_t len;
    mf_status st;

    s->of_model = known && known->is.rank == 3;
    if (s->of_model) {
        s->size = (mf_image){ known->is.dims[0], known->is.dims[1], known->is.dims[2] };
        return MF_OK;
    }
    MF_TRY(mf_file_read(path, MAX_FILE, &file, &len));
    st = mf_image_info(file, len, &s->size);
    mf_free(file);
    return st == MF_OK ? MF_OK : mf_path_wrong(st, path);
}

/* The setting takes precedence. */
static mf_status find_size(images *s, const mf_options *o, const mf_expected *e)
{
    const int64_t *wanted, channels = mf_options_int(o, "channels");
    int64_t n;

    MF_TRY(find_usual_size(s, mf_schema_find(e->schema, "image")));
    wanted = mf_options_ints(o, "size", &n);
    if (n != 0 && n != 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "images: size must be [HEIGHT,WIDTH]");
    if (n == 2) {
        s->size.height = wanted[0];
        s->size.width = wanted[1];
        s->resize = true;
        MF_TRY(mf_image_check(&s->size));
    }
    /* alpha is dropped, so that images with and without it can be mixed */
    s->any_colours = channels == 1 || channels == 3;
    s->size.channels = s->any_colours ? channels : s->size.channels < 3 ? 1 : 3;
    return MF_OK;
}

static mf_status source_images_fill(images *s, const char *folder, const mf_options *o,
                                    const mf_expected *e)
{
    MF_TRY(list_files(s, folder, e));
    MF_TRY(find_size(s, o, e));
    s->base.count = s->base.id_count = s->base.n_files = s->files.n;
    s->base.files = (const char *const *)s->files.paths;
    MF_TRY(mf_dataset_set_column(&s->base, 0, "image", MF_DTYPE_U8,
                                 &MF_SHAPE(s->size.height, s->size.width, s->size.channels)));
    if (!s->labels)
        s->base.n_columns = 1;
    return s->labels ? mf_dataset_set_column(&s->base, 1, "label", MF_DTYPE_I32, &MF_SCALAR)
                     : MF_OK;
}

/* DATA/PART; false: the name is too long, or there is no such folder. */
static bool part_folder(const char *data, const char *part, char *out, size_t size)
{
    return snprintf(out, size, "%s/%s", data, part) < (int)size && access(out, F_OK) == 0;
}

static bool is_other_folder(const char *name, bool is_dir)
{
    static const char *const parts[] = { "train", "test", "val", "valid", "validation", NULL };

    for (int i = 0; parts[i]; i++) {
        if (strcmp(name, parts[i]) == 0)
            return false;
    }
    return is_dir;
}

static bool source_images_has_any(const char *folder, bool (*wanted)(const char *, bool is_dir))
{
    mf_paths found;
    const bool any = mf_paths_list(folder, wanted, &found) == MF_OK && found.n > 0;

    mf_paths_deinit(&found);
    return any;
}

/* True if DATA/train contains class folders; false if it is itself a class, of images of trains. */
static bool has_parts(const char *data, char *train, size_t size)
{
    return part_folder(data, "train", train, size) &&
           (source_images_has_any(train, is_folder) ||
            !source_images_has_any(data, is_other_folder));
}

static bool images_have_test(const char *data, const mf_options *o)
{
    char part[4096];

    (void)o;
    return has_parts(data, part, sizeof part) && part_folder(data, "test", part, sizeof part);
}

static mf_status images_open(const char *data, const mf_options *o, const mf_expected *e,
                             mf_dataset **out)
{
    const char *name = mf_options_string(o, "part");
    char part[4096];
    images *s;
    mf_status st;

    if (mf_options_given(o, "part") && !part_folder(data, name, part, sizeof part))
        return MF_FAIL(MF_NOT_FOUND, "'%s' has no folder '%s', which part=%s requires", data, name,
                       name);
    if (mf_options_given(o, "part") || has_parts(data, part, sizeof part))
        data = part; /* train/CLASS/..., test/CLASS/... */
    MF_TRY(mf_dataset_new(&images_ops, sizeof *s, 2, &s));
    st = source_images_fill(s, data, o, e);
    if (st != MF_OK) {
        mf_dataset_unref(&s->base);
        return st;
    }
    *out = &s->base;
    return MF_OK;
}

const mf_source mf_source_images = {
    .name = "images",
    .summary = "PNG and JPEG files, in one folder per class",
    .settings = "{part: string = 'train', size: list(int) = [], channels: int = 0}",
    .open_for = images_open,
    .has_test = images_have_test,
    .in_folder = is_class_or_image,
};
