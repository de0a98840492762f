/* SPDX-License-Identifier: Apache-2.0 */
/* offload.c - optimizer slots in memory-mapped files (offload to disk). Disk space is allocated
 * beforehand: a page without space would end the process with SIGBUS when it is written. */
#include "train/step/offload.h"

#include "base/file.h"
#include "train/loop/dist.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void offload_unmap(void *data, void *ctx)
{
    (void)munmap(data, (size_t)(uintptr_t)ctx);
}

bool mf_offload_has(const mf_tensor *value)
{
    return value->buffer && value->buffer->release == offload_unmap;
}

/* Not all file systems can create a file without a name. */
static int open_nameless(const char *dir)
{
    char *path;
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    if (asprintf(&path, "%s/slots-XXXXXX", dir) < 0)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    free(path);
    return fd;
}

/* *out NULL: it failed. */
static mf_status offload_map_file(const char *dir, size_t bytes, void **out)
{
    const int fd = open_nameless(dir);
    void *data;
    int why;

    *out = NULL;
    if (fd < 0)
        return mf_errno_status(errno, "make a file in", dir);
    why = posix_fallocate(fd, 0, (off_t)bytes);
    data = why ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    why = why ? why : data == MAP_FAILED ? errno : 0;
    (void)close(fd);
    if (why)
        return mf_errno_status(why, "keep what the optimizer needs in", dir);
    *out = data;
    return MF_OK;
}

mf_status mf_offload_clone(const char *dir, const mf_tensor *value, mf_tensor *out)
{
    const size_t bytes = mf_tensor_bytes(value);
    mf_tensor *mapped;
    void *data;
    mf_status st = offload_map_file(dir, bytes, &data);

    if (!data)
        return st;
    memcpy(data, value->data, bytes);
    st = mf_tensor_wrap(value->dtype, value->shape.dims, value->shape.rank, data, bytes,
                        offload_unmap, (void *)(uintptr_t)bytes,
                        &mapped); /* NOLINT: a size, no address */
    if (st != MF_OK) {
        offload_unmap(data, (void *)(uintptr_t)bytes); /* NOLINT */
        return st;
    }
    mf_tensor_set(out, mapped);
    mf_tensor_free(mapped);
    return MF_OK;
}

mf_status mf_offload_check(const mf_trainer *t)
{
    struct stat info;

    if (!t->options.offload)
        return MF_OK;
    if (stat(t->options.offload, &info) != 0 || !S_ISDIR(info.st_mode))
        return MF_FAIL(MF_INVALID_ARGUMENT, "offload: there is no folder '%s'; create it first",
                       t->options.offload);
    if (t->dist && ((MF_DIST_HAS(t->dist, step, run) && !MF_DIST_HAS(t->dist, state, each_slice)) ||
                    t->graph.role != MF_STEP_UPDATES))
        return MF_FAIL(
            MF_UNIMPLEMENTED,
            "offload: with this strategy the optimizer's slots are not only in the trainer; use "
            "it with one process, with multi_worker_mirrored or on a mesh");
    return MF_OK;
}

typedef struct offload_moving {
    const char *dir;
    bool moved; /* a slot was moved */
} offload_moving;

static mf_status offload(void *ctx, mf_variable *v)
{
    offload_moving *m = ctx;
    mf_tensor now = { 0 }, there = { 0 };
    mf_status st = MF_OK;

    MF_TRY(mf_variable_read(v, &now));
    if (!mf_offload_has(&now) && mf_dtype_is_plain(now.dtype) &&
        mf_tensor_bytes(&now) >= MF_OFFLOAD_MIN)
        st = mf_offload_clone(m->dir, &now, &there);
    mf_tensor_clear(&now);
    if (st == MF_OK && there.data) {
        mf_variable_exchange(v, &there);
        m->moved = true;
    }
    mf_tensor_clear(&there);
    return st;
}

mf_status mf_offload_slots(mf_trainer *t)
{
    offload_moving m = { .dir = t->options.offload };

    for (int64_t i = 0; m.dir && i < t->n_trained; i++) {
        mf_variable *whole = t->trained[i].variable;

        if (!mf_train_var_is_slot(&t->trained[i]))
            continue;
        if (mf_variable_is_initialized(whole)) /* on a mesh the trainer's copy may be freed */
            MF_TRY(offload(&m, whole));
        if (MF_DIST_HAS(t->dist, state, each_slice))
            MF_TRY(t->dist->ops.state->each_slice(t->dist, t, i, offload, &m));
    }
    if (m.moved)
        mf_buffer_trim(); /* otherwise the pool would keep the freed memory */
    return MF_OK;
}
