/* SPDX-License-Identifier: Apache-2.0 */
/* locality.c - finds files that are local or in the page cache of this host, and the bytes of each
 * stream that are near. */
#include "data/locality.h"

#include "data/source.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    LOOKED_AT = 4096, /* maximum number of files examined; of more, a sample */
    PAGES = 1 << 14 /* pages per mincore() call */
};

/* statfs() types of network file systems. */
static const uint32_t distant[] = {
    0x6969, /* NFS */
    0x517b, /* SMB */
    0xff534d42, /* CIFS */
    0xfe534d42, /* SMB2 */
    0x65735546, /* FUSE: sshfs, s3fs, gcsfuse */
    0x01021997, /* 9P */
    0x0bd00bd0, /* Lustre */
    0x00c36400, /* Ceph */
    0x5346414f, /* AFS */
    0x47504653, /* GPFS */
    0x19830326, /* BeeGFS */
};

static bool is_distant(int fd)
{
    struct statfs s;

    if (fstatfs(fd, &s) != 0)
        return true;
    for (int i = 0; i < MF_COUNT(distant); i++) {
        if ((uint32_t)s.f_type == distant[i])
            return true;
    }
    return false;
}

/* Bytes of a mapped file in the page cache. */
static int64_t resident(void *map, int64_t size)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    unsigned char in_memory[PAGES];
    int64_t sum = 0;

    for (int64_t at = 0; at < size; at += PAGES * page) {
        const int64_t left = size - at, n = left < PAGES * page ? left : PAGES * page;

        if (mincore((char *)map + at, (size_t)n, in_memory) != 0)
            break;
        for (int64_t i = 0; i * page < n; i++)
            sum += in_memory[i] & 1 ? page : 0;
    }
    return sum < size ? sum : size;
}

/* mincore() is accurate only for users that may write the file: to others everything looks
 * resident. */
static bool residency_is_visible(const char *path, const struct stat *s)
{
    return s->st_uid == geteuid() || access(path, W_OK) == 0;
}

static double locality_measure(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat s;
    double near = 0.0;

    if (fd < 0)
        return 0.0;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0) {
        void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);

        near = is_distant(fd) ? 0.0 : (double)s.st_size;
        if (map != MAP_FAILED && residency_is_visible(path, &s))
            near += (double)resident(map, s.st_size);
        if (map != MAP_FAILED)
            munmap(map, (size_t)s.st_size);
    }
    close(fd);
    return near;
}

static bool fits_to(const char *patterns, const char *path)
{
    char one[4096];

    for (const char *p = patterns; *p; p += p[0] == ':') {
        const size_t n = strcspn(p, ":");

        if (n > 0 && n < sizeof one) {
            memcpy(one, p, n);
            one[n] = '\0';
            if (fnmatch(one, strchr(one, '/') ? path : mf_path_base(path), 0) == 0)
                return true;
        }
        p += n;
    }
    return false;
}

static double near_bytes(const char *path, const char *patterns)
{
    struct stat s;

    if (!path)
        return 0.0; /* page cache contents are unknown */
    if (!patterns)
        return locality_measure(path);
    return fits_to(patterns, path) && stat(path, &s) == 0 ? (double)s.st_size : 0.0;
}

void mf_locality_of_streams(const mf_dataset *set, const mf_slices *slices, int64_t streams,
                            const char *patterns, double *out)
{
    const int64_t every = (set->n_files + LOOKED_AT - 1) / LOOKED_AT;

    for (int64_t k = 0; k < streams; k++) {
        int64_t n;
        const int64_t *files = mf_slices_files(slices, k, &n);

        out[k] = 0.0;
        for (int64_t i = 0; i < n && set->n_files > 0; i += every)
            out[k] += near_bytes(set->files[files[i]], patterns);
    }
}
