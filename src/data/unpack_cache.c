/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_cache.c - a copy is a page with a header, then the elements:
 *
 *     offset  bytes  content
 *     0       8      "MFROWS01"
 *     8       40     of the original: device, inode, size, mtime in seconds, nanoseconds
 *     48      8      type, rank (uint32 each)
 *     56      64     dimensions
 *     120     8      bytes of the elements
 *     128     4      CRC-32C of the elements
 *     132     4      CRC-32C of bytes 0..131 and the original's path
 *     4096           elements, in this machine's byte order */
#include "data/unpack_cache.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/param.h"
#include "data/source.h"
#include "formats/crc32c.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

MF_PARAM_INT(data_cache_mib, 4096,
             "MiB of decompressed data files kept in ~/.cache/meshflow between runs; 0: none");

enum { PAGE = 4096 };

#define ENDING ".rows"

typedef struct header {
    char magic[8];
    int64_t source[5];
    uint32_t dtype, rank;
    int64_t dims[MF_MAX_RANK];
    int64_t bytes;
    uint32_t data_crc, header_crc;
} header;

_Static_assert(sizeof(header) == 136, "the header has no holes");

/* ---- names ---- */

static bool folder_path(char *out, size_t room)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;

    mf_params_load();
    if (MF_PARAM(data_cache_mib) == 0)
        return false;
    if (cache && cache[0] == '/')
        n = snprintf(out, room, "%s/meshflow", cache);
    else if (home && home[0] == '/')
        n = snprintf(out, room, "%s/.cache/meshflow", home);
    return n > 0 && n < (int)room;
}

/* The path of a file's copy, and the header that a valid copy has. */
static bool unpack_cache_describe(const char *path, char *real, char *copy, size_t room, header *h)
{
    char folder[PATH_MAX];
    struct stat s;

    *h = (header){ .magic = "MFROWS0" };
    h->magic[7] = '1';
    if (!folder_path(folder, sizeof folder) || !realpath(path, real) || stat(real, &s) != 0)
        return false;
    memcpy(h->source,
           (int64_t[]){ (int64_t)s.st_dev, (int64_t)s.st_ino, s.st_size, s.st_mtim.tv_sec,
                        s.st_mtim.tv_nsec },
           sizeof h->source);
    return snprintf(copy, room, "%s/%.80s-%016llx" ENDING, folder, mf_path_base(real),
                    (unsigned long long)mf_hash(real, strlen(real), 0)) < (int)room;
}

static void set_array(header *h, mf_dtype dtype, const mf_shape *shape, size_t bytes)
{
    h->dtype = (uint32_t)dtype;
    h->rank = (uint32_t)shape->rank;
    for (int d = 0; d < shape->rank; d++)
        h->dims[d] = shape->dims[d];
    h->bytes = (int64_t)bytes;
}

static uint32_t header_crc(const header *h, const char *real)
{
    return mf_crc32c(mf_crc32c(0, h, offsetof(header, header_crc)), real, strlen(real));
}

/* ---- find ---- */

static void unpack_cache_unmap(void *data, void *ctx)
{
    (void)munmap((char *)data - PAGE, (size_t)(uintptr_t)ctx + PAGE);
}

/* True if header and elements are valid. */
static bool is_good(const char *map, const header *want, const char *real)
{
    header h;

    memcpy(&h, map, sizeof h);
    return memcmp(&h, want, offsetof(header, data_crc)) == 0 &&
           h.header_crc == header_crc(&h, real) &&
           mf_crc32c(0, map + PAGE, (size_t)h.bytes) == h.data_crc;
}

static char *map_copy(const char *copy, size_t bytes)
{
    const int fd = open(copy, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat s;
    void *map = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
        s.st_size == (int64_t)(PAGE + bytes))
        map = mmap(NULL, PAGE + bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (map != MAP_FAILED)
        (void)futimens(fd, NULL); /* marks it as recently used */
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

mf_tensor *mf_unpack_cache_find(const char *path, mf_dtype dtype, const mf_shape *shape)
{
    char real[PATH_MAX], copy[PATH_MAX], *map;
    mf_tensor *t = NULL;
    int64_t count;
    size_t bytes;
    header want;

    if (mf_shape_count(shape, &count) != MF_OK ||
        !unpack_cache_describe(path, real, copy, sizeof copy, &want))
        return NULL;
    bytes = (size_t)count * mf_dtype_size(dtype);
    set_array(&want, dtype, shape, bytes);
    map = map_copy(copy, bytes);
    if (!map)
        return NULL;
    if (!is_good(map, &want, real) ||
        mf_tensor_wrap(dtype, shape->dims, shape->rank, map + PAGE, bytes, unpack_cache_unmap,
                       (void *)(uintptr_t)bytes, &t) != MF_OK)
        (void)munmap(map, PAGE + bytes);
    return t;
}

/* ---- save ---- */

static bool is_copy(const char *name, bool is_dir)
{
    return !is_dir && mf_path_ends(name, ENDING);
}

/* Removes the least recently used copies until there is room for another. */
static bool unpack_cache_make_room(const char *folder, size_t bytes)
{
    const int64_t limit = MF_PARAM(data_cache_mib) << 20;
    mf_paths copies;
    bool fits = false;

    while (!fits && mf_paths_list(folder, is_copy, &copies) == MF_OK) {
        int64_t total = (int64_t)bytes, oldest = -1;
        struct timespec when = { 0 };
        struct stat s;

        for (int64_t i = 0; i < copies.n; i++) {
            if (stat(copies.paths[i], &s) != 0)
                continue;
            total += s.st_size;
            if (oldest < 0 || s.st_mtim.tv_sec < when.tv_sec) {
                when = s.st_mtim;
                oldest = i;
            }
        }
        fits = total <= limit;
        if (!fits && (oldest < 0 || unlink(copies.paths[oldest]) != 0))
            break;
        mf_paths_deinit(&copies);
    }
    mf_paths_deinit(&copies);
    return fits;
}

static bool unpack_cache_write_all(int fd, const void *data, size_t n)
{
    for (const char *p = data; n > 0;) {
        const ssize_t done = write(fd, p, n);

        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

void mf_unpack_cache_save(const char *path, mf_dtype dtype, const mf_shape *shape, const void *data,
                          size_t bytes)
{
    char real[PATH_MAX], copy[PATH_MAX], temporary[PATH_MAX + 16], page[PAGE] = { 0 };
    char *slash;
    header h;
    int fd;
    bool good;

    if (!unpack_cache_describe(path, real, copy, sizeof copy, &h))
        return;
    set_array(&h, dtype, shape, bytes);
    h.data_crc = mf_crc32c(0, data, bytes);
    h.header_crc = header_crc(&h, real);
    memcpy(page, &h, sizeof h);
    slash = strrchr(copy, '/');
    *slash = 0;
    if ((mkdir(copy, 0700) != 0 && access(copy, W_OK) != 0) ||
        !unpack_cache_make_room(copy, bytes + PAGE))
        return;
    *slash = '/';
    (void)snprintf(temporary, sizeof temporary, "%s.XXXXXX", copy);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return;
    good = unpack_cache_write_all(fd, page, sizeof page) && unpack_cache_write_all(fd, data, bytes);
    if (close(fd) != 0 || !good || rename(temporary, copy) != 0)
        unlink(temporary);
}
