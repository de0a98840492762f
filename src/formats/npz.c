/* SPDX-License-Identifier: Apache-2.0 */
/* npz.c - reads and writes NumPy .npz archives. */
#include "formats/npz.h"

#include "base/file.h"
#include "base/mem.h"
#include "formats/npy.h"

#include <string.h>
#include <zip.h>

#define SUFFIX ".npy"
enum { SUFFIX_LEN = 4, EPOCH_DATE = 1 << 5 | 1 }; /* DOS date of 1 January 1980 */

struct mf_npz {
    zip_t *zip;
    char *path;
    int64_t count;
    char **names; /* [count], without SUFFIX */
    mf_arena *arena;
};

/* ---- reading ---- */

static mf_status list_members(mf_npz *npz)
{
    npz->count = zip_get_num_entries(npz->zip, 0);
    npz->arena = mf_arena_new();
    if (npz->arena)
        npz->names = MF_ARENA_ARRAY(npz->arena, char *, npz->count);
    if (!npz->names)
        return MF_NOMEM("the list of an archive");
    for (int64_t i = 0; i < npz->count; i++) {
        const char *name = zip_get_name(npz->zip, (zip_uint64_t)i, ZIP_FL_ENC_GUESS);
        size_t len = name ? strlen(name) : 0;

        if (len > SUFFIX_LEN && strcmp(name + len - SUFFIX_LEN, SUFFIX) == 0)
            len -= SUFFIX_LEN;
        npz->names[i] = mf_arena_strndup(npz->arena, name ? name : "", len);
        if (!npz->names[i])
            return MF_NOMEM("the list of an archive");
    }
    return MF_OK;
}

static mf_status open_failed(const char *path, int code)
{
    zip_error_t error;
    mf_status st;

    zip_error_init_with_code(&error, code);
    if (zip_error_system_type(&error) == ZIP_ET_SYS)
        st = mf_errno_status(zip_error_code_system(&error), "open", path);
    else if (code == ZIP_ER_NOENT)
        st = MF_FAIL(MF_NOT_FOUND, "cannot open '%s': no such file", path);
    else
        st = MF_FAIL(code == ZIP_ER_MEMORY ? MF_RESOURCE_EXHAUSTED : MF_INVALID_ARGUMENT,
                     "cannot read '%s' as an archive: %s", path, zip_error_strerror(&error));
    zip_error_fini(&error);
    return st;
}

mf_status mf_npz_open(const char *path, mf_npz **out)
{
    mf_npz *npz = mf_calloc(1, sizeof *npz);
    mf_status st = MF_OK;
    int code = 0;

    *out = NULL;
    if (!npz)
        return MF_NOMEM("an archive");
    npz->path = mf_strdup(path);
    if (!npz->path) {
        st = MF_NOMEM("an archive");
        goto done;
    }
    npz->zip = zip_open(path, ZIP_RDONLY, &code);
    if (!npz->zip) {
        st = open_failed(path, code);
        goto done;
    }
    MF_TRY_TO(done, list_members(npz));
    *out = npz;
    npz = NULL;

done:
    mf_npz_close(npz);
    return st;
}

void mf_npz_close(mf_npz *npz)
{
    if (!npz)
        return;
    if (npz->zip)
        zip_discard(npz->zip);
    mf_arena_free(npz->arena);
    mf_free(npz->path);
    mf_free(npz);
}

int64_t mf_npz_count(const mf_npz *npz)
{
    return npz->count;
}

const char *mf_npz_name(const mf_npz *npz, int64_t i)
{
    MF_ASSERT(i >= 0 && i < npz->count);
    return npz->names[i];
}

static int64_t find_member(const mf_npz *npz, const char *name)
{
    for (int64_t i = 0; i < npz->count; i++) {
        if (strcmp(npz->names[i], name) == 0)
            return i;
    }
    return -1;
}

/* Unpacks a member of the size that the directory states. Reading to the end verifies the checksum.
 */
static mf_status npz_unpack(mf_npz *npz, int64_t i, char *data, size_t size)
{
    zip_file_t *file = zip_fopen_index(npz->zip, (zip_uint64_t)i, 0);
    size_t done = 0;
    zip_int64_t n = 0;
    char more;
    mf_status st = MF_OK;

    if (!file)
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: cannot open '%s': %s", npz->path, npz->names[i],
                       zip_strerror(npz->zip));
    while (done < size && (n = zip_fread(file, data + done, size - done)) > 0)
        done += (size_t)n;
    if (n >= 0)
        n = zip_fread(file, &more, 1);
    if (n < 0)
        st = MF_FAIL(MF_DATA_LOSS, "%s: cannot unpack '%s': %s", npz->path, npz->names[i],
                     zip_file_strerror(file));
    else if (n > 0 || done < size)
        st = MF_FAIL(MF_DATA_LOSS, "%s: the size of '%s' differs from its directory entry",
                     npz->path, npz->names[i]);
    (void)zip_fclose(file);
    return st;
}

mf_status mf_npz_read(mf_npz *npz, const char *name, size_t max_bytes, mf_tensor *out)
{
    const int64_t i = find_member(npz, name);
    const size_t limit = max_bytes > 0 ? max_bytes : (size_t)1 << 31;
    zip_stat_t info;
    char *data = NULL;
    mf_status st = MF_OK;

    if (i < 0)
        return MF_FAIL(MF_NOT_FOUND, "%s: no array '%s'", npz->path, name);
    zip_stat_init(&info);
    if (zip_stat_index(npz->zip, (zip_uint64_t)i, 0, &info) != 0 || !(info.valid & ZIP_STAT_SIZE))
        return MF_FAIL(MF_INVALID_ARGUMENT, "%s: '%s' has no size", npz->path, name);
    if (info.size > limit)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "%s: '%s' has %llu bytes, more than the limit of %zu",
                       npz->path, name, (unsigned long long)info.size, limit);
    data = mf_calloc((int64_t)info.size + 1, 1);
    if (!data)
        return MF_NOMEM("an array of an archive");
    MF_TRY_TO(done, npz_unpack(npz, i, data, (size_t)info.size));
    MF_TRY_TO(done, mf_npy_decode(data, (size_t)info.size, out));

done:
    mf_free(data);
    return st;
}

/* ---- writing ---- */

static mf_status zip_failed(zip_t *zip, const char *name)
{
    const int code = zip_error_code_zip(zip_get_error(zip));

    return MF_FAIL(code == ZIP_ER_MEMORY   ? MF_RESOURCE_EXHAUSTED
                   : code == ZIP_ER_EXISTS ? MF_ALREADY_EXISTS
                                           : MF_INTERNAL,
                   "cannot add '%s' to an archive: %s", name, zip_strerror(zip));
}

static mf_status npz_add_member(zip_t *zip, const char *name, const mf_tensor *tensor,
                                bool compress)
{
    mf_buf npy = { 0 }, file_name = { 0 };
    mf_status st;
    zip_source_t *source;
    zip_int64_t index;

    MF_TRY_TO(done, mf_npy_encode(tensor, &npy));
    mf_buf_printf(&file_name, "%s" SUFFIX, name);
    MF_TRY_TO(done, mf_buf_finish(&file_name));
    source = zip_source_buffer(zip, npy.data, npy.len, 1); /* the source frees the bytes with
                                                              free() */
    if (!source) {
        st = zip_failed(zip, name);
        goto done;
    }
    (void)mf_disown(npy.data);
    npy = (mf_buf){ 0 };
    index = zip_file_add(zip, file_name.data, source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
        st = zip_failed(zip, name);
        zip_source_free(source);
        goto done;
    }
    if (zip_set_file_compression(zip, (zip_uint64_t)index, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE,
                                 0) != 0 ||
        zip_file_set_dostime(zip, (zip_uint64_t)index, 0, EPOCH_DATE, 0) != 0)
        st = zip_failed(zip, name);

done:
    mf_buf_deinit(&npy);
    mf_buf_deinit(&file_name);
    return st;
}

/* Saves the finished archive in the memory of `source`. */
static mf_status npz_save(zip_source_t *source, const char *path)
{
    zip_stat_t info;
    char *data;
    mf_status st;

    zip_stat_init(&info);
    if (zip_source_stat(source, &info) != 0 || zip_source_open(source) != 0)
        return MF_FAIL(MF_INTERNAL, "the archive for '%s' cannot be read back", path);
    data = mf_calloc((int64_t)info.size + 1, 1);
    if (!data) {
        st = MF_NOMEM("an archive");
        goto done;
    }
    if (zip_source_read(source, data, info.size) != (zip_int64_t)info.size) {
        st = MF_FAIL(MF_INTERNAL, "the archive for '%s' cannot be read back", path);
        goto done;
    }
    MF_TRY_TO(done, mf_file_write(path, data, (size_t)info.size));

done:
    mf_free(data);
    (void)zip_source_close(source);
    return st;
}

mf_status mf_npz_write(const char *path, const char *const *names, const mf_tensor *const *tensors,
                       int64_t n, bool compress)
{
    static const char empty[22] = "PK\5\6"; /* libzip refuses to write an empty archive */
    zip_source_t *source;
    zip_t *zip = NULL;
    mf_status st = MF_OK;

    if (n == 0)
        return mf_file_write(path, empty, sizeof empty);
    source = zip_source_buffer_create(NULL, 0, 0, NULL);
    if (!source)
        return MF_NOMEM("an archive");
    zip_source_keep(source); /* zip_close() and zip_discard() drop one reference */
    zip = zip_open_from_source(source, ZIP_TRUNCATE, NULL);
    if (!zip) {
        zip_source_free(source);
        st = MF_NOMEM("an archive");
        goto done;
    }
    for (int64_t i = 0; i < n; i++)
        MF_TRY_TO(done, npz_add_member(zip, names[i], tensors[i], compress));
    if (zip_close(zip) != 0) {
        st = zip_failed(zip, path);
        goto done;
    }
    zip = NULL;
    MF_TRY_TO(done, npz_save(source, path));

done:
    if (zip)
        zip_discard(zip);
    zip_source_free(source);
    return st;
}
