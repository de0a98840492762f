/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c - a common interface to the formats of named tensors. */
#include "formats/tensors.h"

#include "base/mem.h"
#include "formats/bundle.h"
#include "formats/npz.h"
#include "formats/packed.h"
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* A name, and the index of its tensor in the file. */
typedef struct tensors_entry {
    const char *name; /* valid as long as the file is open */
    int64_t index;
} tensors_entry;

typedef struct format {
    const char *name;
    const char *ending; /* of paths; NULL: any other path */
    bool has_checksums;
    mf_status (*open)(const char *path, void **file);
    void (*close)(void *file);
    int64_t (*count)(const void *file);
    /* Returns NULL if entry i is not a tensor, but a slice of one. */
    const char *(*name_at)(const void *file, int64_t i);
    mf_status (*read)(void *file, int64_t i, mf_tensor *out);
    mf_status (*write)(const char *path, const char *const *names, const mf_tensor *const *tensors,
                       int64_t n);
} format;

struct mf_tensors {
    const format *format;
    void *file;
    tensors_entry *entries; /* by name */
    int64_t n;
};

/* ---- bundle ---- */

/* Users may name one of the two files instead of the prefix. */
static size_t prefix_length(const char *path)
{
    const size_t len = strlen(path);
    const char *data = strstr(path, ".data-");

    if (len > 6 && strcmp(path + len - 6, ".index") == 0)
        return len - 6;
    if (data && strlen(data) == strlen(".data-00000-of-00001"))
        return (size_t)(data - path);
    return len;
}

static mf_status bundle_open(const char *path, void **file)
{
    char *prefix = mf_strndup(path, prefix_length(path));
    mf_bundle *b = NULL;
    const mf_status st = prefix ? mf_bundle_open(prefix, NULL, &b) : MF_NOMEM("a file name");

    *file = b;
    mf_free(prefix);
    return st;
}

static void bundle_close(void *file)
{
    mf_bundle_close(file);
}

static int64_t bundle_count(const void *file)
{
    return mf_bundle_count(file);
}

/* Keys of slices begin with a NUL; their tensor has its own entry. */
static const char *bundle_name_at(const void *file, int64_t i)
{
    const mf_bundle_entry *e = mf_bundle_entry_at(file, i);

    return e->key_len > 0 && e->key[0] != '\0' ? e->key : NULL;
}

static mf_status bundle_read(void *file, int64_t i, mf_tensor *out)
{
    const mf_bundle_entry *e = mf_bundle_entry_at(file, i);

    return mf_bundle_read(file, e->key, e->key_len, NULL, out);
}

static mf_status bundle_write(const char *path, const char *const *names,
                              const mf_tensor *const *tensors, int64_t n)
{
    mf_bundle_writer *w;
    mf_status st;

    MF_TRY(mf_bundle_writer_new(path, &w));
    st = MF_OK;
    for (int64_t i = 0; st == MF_OK && i < n; i++)
        st = mf_bundle_writer_add(w, names[i], strlen(names[i]), tensors[i], NULL, NULL);
    if (st == MF_OK)
        st = mf_bundle_writer_finish(w);
    mf_bundle_writer_free(w);
    return st;
}

/* ---- npz ---- */

static mf_status tensors_npz_open(const char *path, void **file)
{
    mf_npz *npz;
    const mf_status st = mf_npz_open(path, &npz);

    *file = npz;
    return st;
}

static void npz_close(void *file)
{
    mf_npz_close(file);
}

static int64_t npz_count(const void *file)
{
    return mf_npz_count(file);
}

static const char *npz_name_at(const void *file, int64_t i)
{
    return mf_npz_name(file, i);
}

static mf_status npz_read(void *file, int64_t i, mf_tensor *out)
{
    return mf_npz_read(file, mf_npz_name(file, i), 0, out);
}

static mf_status npz_write(const char *path, const char *const *names,
                           const mf_tensor *const *tensors, int64_t n)
{
    return mf_npz_write(path, names, tensors, n, false);
}

/* ---- safetensors ---- */

static mf_status safetensors_open(const char *path, void **file)
{
    mf_safetensors *s;
    const mf_status st = mf_safetensors_open(path, &s);

    *file = s;
    return st;
}

static void safetensors_close(void *file)
{
    mf_safetensors_close(file);
}

static int64_t safetensors_count(const void *file)
{
    return mf_safetensors_count(file);
}

static const char *safetensors_name_at(const void *file, int64_t i)
{
    return mf_safetensors_at(file, i)->name;
}

static mf_status safetensors_read(void *file, int64_t i, mf_tensor *out)
{
    return mf_safetensors_read(file, i, out);
}

/* ---- packed ---- */

static mf_status packed_open(const char *path, void **file)
{
    mf_packed *p;
    const mf_status st = mf_packed_open(path, &p);

    *file = p;
    return st;
}

static void packed_close(void *file)
{
    mf_packed_close(file);
}

static int64_t packed_count(const void *file)
{
    return mf_packed_count(file);
}

static const char *packed_name_at(const void *file, int64_t i)
{
    return mf_packed_at(file, i)->name;
}

static mf_status packed_read(void *file, int64_t i, mf_tensor *out)
{
    return mf_packed_unpack(mf_packed_at(file, i), out);
}

/* ---- all formats ---- */

static const format formats[] = {
    { .name = "npz",
      .ending = ".npz",
      .has_checksums = true,
      .open = tensors_npz_open,
      .close = npz_close,
      .count = npz_count,
      .name_at = npz_name_at,
      .read = npz_read,
      .write = npz_write },
    { .name = "safetensors",
      .ending = ".safetensors",
      .has_checksums = false,
      .open = safetensors_open,
      .close = safetensors_close,
      .count = safetensors_count,
      .name_at = safetensors_name_at,
      .read = safetensors_read,
      .write = mf_safetensors_write },
    { .name = "packed",
      .ending = MF_PACKED_ENDING,
      .has_checksums = true,
      .open = packed_open,
      .close = packed_close,
      .count = packed_count,
      .name_at = packed_name_at,
      .read = packed_read,
      .write = mf_packed_write },
    { .name = "bundle",
      .has_checksums = true,
      .open = bundle_open,
      .close = bundle_close,
      .count = bundle_count,
      .name_at = bundle_name_at,
      .read = bundle_read,
      .write = bundle_write },
};

static const format *format_of(const char *path)
{
    const size_t len = strlen(path);
    int i = 0;

    for (; formats[i].ending; i++) {
        const size_t n = strlen(formats[i].ending);

        if (len >= n && strcmp(path + len - n, formats[i].ending) == 0)
            break;
    }
    return &formats[i];
}

static int tensors_by_name(const void *a, const void *b)
{
    return strcmp(((const tensors_entry *)a)->name, ((const tensors_entry *)b)->name);
}

static mf_status tensors_list(mf_tensors *t)
{
    const int64_t n = t->format->count(t->file);

    t->entries = mf_calloc(n + 1, sizeof *t->entries);
    if (!t->entries)
        return MF_NOMEM("the names of tensors");
    for (int64_t i = 0; i < n; i++) {
        const char *name = t->format->name_at(t->file, i);

        if (name)
            t->entries[t->n++] = (tensors_entry){ name, i };
    }
    if (t->n > 1)
        qsort(t->entries, (size_t)t->n, sizeof *t->entries, tensors_by_name);
    return MF_OK;
}

mf_status mf_tensors_open(const char *path, mf_tensors **out)
{
    mf_tensors *t = mf_calloc(1, sizeof *t);
    mf_status st;

    *out = NULL;
    if (!t)
        return MF_NOMEM("a file of tensors");
    t->format = format_of(path);
    st = t->format->open(path, &t->file);
    if (st == MF_OK)
        st = tensors_list(t);
    if (st == MF_OK)
        *out = t;
    else
        mf_tensors_close(t);
    return st;
}

void mf_tensors_close(mf_tensors *t)
{
    if (!t)
        return;
    t->format->close(t->file);
    mf_free(t->entries);
    mf_free(t);
}

const char *mf_tensors_format(const mf_tensors *t)
{
    return t->format->name;
}

bool mf_tensors_has_checksums(const mf_tensors *t)
{
    return t->format->has_checksums;
}

int64_t mf_tensors_count(const mf_tensors *t)
{
    return t->n;
}

const char *mf_tensors_name(const mf_tensors *t, int64_t i)
{
    MF_ASSERT(i >= 0 && i < t->n);
    return t->entries[i].name;
}

int64_t mf_tensors_find(const mf_tensors *t, const char *name)
{
    const tensors_entry key = { name, 0 };
    const tensors_entry *found =
        t->n > 0 ? bsearch(&key, t->entries, (size_t)t->n, sizeof key, tensors_by_name) : NULL;

    return found ? found - t->entries : -1;
}

mf_status mf_tensors_read(mf_tensors *t, int64_t i, mf_tensor *out)
{
    MF_ASSERT(i >= 0 && i < t->n);
    return t->format->read(t->file, t->entries[i].index, out);
}

mf_status mf_tensors_write(const char *path, const char *const *names,
                           const mf_tensor *const *tensors, int64_t n)
{
    return format_of(path)->write(path, names, tensors, n);
}
