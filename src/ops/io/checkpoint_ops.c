/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_ops.c - saves and restores tensors in files (formats/bundle.h). Paths come from
 * graphs: each is checked against the allowed directories before any file is touched. */
#include "base/file.h"
#include "formats/bundle.h"
#include "ops/io/op_path.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

/* ---- inputs ---- */

static mf_status checkpoint_ops_check_inputs(const mf_kernel *k, int64_t n)
{
    const mf_tensor *prefix = k->in[0], *names = k->in[1], *slices = k->in[2];

    if (prefix->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Input prefix should have a single element, got %lld instead.",
                       (long long)prefix->count);
    if (names->shape.rank != 1 || slices->shape.rank != 1 || names->count != n ||
        slices->count != n)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Got %lld tensor names and %lld shape_and_slices, but expected %lld of each",
                       (long long)names->count, (long long)slices->count, (long long)n);
    return MF_OK;
}

/* Parses shape_and_slices of tensor i; *has is false if it is empty. */
static mf_status slice_input(const mf_kernel *k, int64_t i, bool *has, mf_shape *full,
                             mf_slice *slice)
{
    const mf_string *s = (const mf_string *)k->in[2]->data + i;

    *has = s->len > 0;
    return *has ? mf_slice_parse(s->data, s->len, full, slice) : MF_OK;
}

static const mf_string *name_input(const mf_kernel *k, int64_t i)
{
    return (const mf_string *)k->in[1]->data + i;
}

static mf_status checkpoint_ops_open_file(const void *step, const char *path, int *fd)
{
    return mf_step_open(step, path, O_RDONLY, fd);
}

static mf_bundle_guard guard_of(const mf_kernel *k)
{
    return (mf_bundle_guard){ .open = checkpoint_ops_open_file, .ctx = k->step };
}

/* ---- SaveV2 ---- */

static mf_status check_index(const mf_step *step, const char *prefix)
{
    char *path = mf_bundle_index_path(prefix);
    const mf_status st = path ? mf_step_file(step, path) : MF_NOMEM("a file name");

    mf_free(path);
    return st;
}

/* Sharded saving starts with a directory that does not exist yet. Its parent must exist. */
static mf_status checkpoint_ops_make_directory(const mf_step *step, const char *prefix)
{
    char copy[PATH_MAX];
    const char *dir;
    struct stat info;

    (void)memcpy(copy, prefix, strlen(prefix) + 1);
    dir = dirname(copy);
    if (stat(dir, &info) == 0)
        return MF_OK;
    MF_TRY(mf_step_file(step, dir));
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "create directory", dir);
    return MF_OK;
}

static mf_status save_tensors(const mf_kernel *k, mf_bundle_writer *w)
{
    for (int i = 0; i < k->n_in - 3; i++) {
        const mf_tensor *t = k->in[i + 3];
        const mf_string *name = name_input(k, i);
        char want[MF_SHAPE_TEXT], have[MF_SHAPE_TEXT];
        mf_slice slice;
        mf_shape full, part;
        bool has;

        MF_TRY(slice_input(k, i, &has, &full, &slice));
        if (has) {
            MF_TRY(mf_slice_shape(&slice, &full, &part));
            if (!mf_shape_equal(&part, &t->shape))
                return MF_FAIL(MF_INVALID_ARGUMENT,
                               "Slice in shape_and_slice specification has shape %s, which does "
                               "not match the shape of the tensor to save: %s",
                               mf_shape_text(&part, want), mf_shape_text(&t->shape, have));
        }
        MF_TRY(mf_bundle_writer_add(w, name->data ? name->data : "", name->len, t,
                                    has ? &full : NULL, has ? &slice : NULL));
    }
    return mf_bundle_writer_finish(w);
}

static mf_status save_run(mf_kernel *k)
{
    char prefix[PATH_MAX];
    mf_step_pin pin;
    mf_bundle_writer *w;
    mf_status st;

    MF_TRY(checkpoint_ops_check_inputs(k, k->n_in - 3));
    MF_TRY(mf_path_read(k->in[0], 0, prefix));
    MF_TRY(checkpoint_ops_make_directory(k->step, prefix));
    MF_TRY(check_index(k->step, prefix));
    MF_TRY(mf_step_pin_file(k->step, prefix, &pin));
    st = mf_bundle_writer_new(pin.path, &w);
    if (st == MF_OK)
        st = save_tensors(k, w);
    mf_bundle_writer_free(w);
    return mf_step_unpin(&pin, st);
}

/* ---- RestoreV2 ---- */

static mf_status check_stored(const mf_kernel *k, int i, const mf_bundle_entry *e,
                              const mf_shape *full)
{
    const mf_dtype want = mf_type_base(k->node->out_types[i]);
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if (e->dtype != want)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "tensor_name = %.200s; expected dtype %s does not equal original dtype %s",
                       e->key, mf_dtype_name(want), mf_dtype_name(e->dtype));
    if (full && !mf_shape_equal(full, &e->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "tensor_name = %.200s; shape in shape_and_slice spec %s does not match the "
                       "shape stored in checkpoint: %s",
                       e->key, mf_shape_text(full, a), mf_shape_text(&e->shape, b));
    return MF_OK;
}

static mf_status restore_one(mf_kernel *k, int i, mf_bundle *b)
{
    const mf_string *name = name_input(k, i);
    const char *text = name->data ? name->data : "";
    const mf_bundle_entry *e = mf_bundle_find(b, text, name->len);
    mf_tensor t = { 0 };
    mf_slice slice;
    mf_shape full;
    bool has;

    MF_TRY(slice_input(k, i, &has, &full, &slice));
    if (e)
        MF_TRY(check_stored(k, i, e, has ? &full : NULL));
    MF_TRY(mf_bundle_read(b, text, name->len, has ? &slice : NULL, &t));
    mf_kernel_set(k, i, &t);
    mf_tensor_clear(&t);
    return MF_OK;
}

static mf_status open_bundle(const mf_kernel *k, const char *prefix, mf_bundle **b)
{
    const mf_bundle_guard guard = guard_of(k);
    mf_status st;

    *b = NULL;
    MF_TRY(mf_step_file(k->step, prefix));
    st = mf_bundle_open(prefix, &guard, b);
    if (st == MF_NOT_FOUND)
        return MF_FAIL(MF_NOT_FOUND,
                       "Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                       "files for %.500s",
                       prefix);
    return st;
}

static mf_status restore_run(mf_kernel *k)
{
    char prefix[PATH_MAX];
    mf_bundle *b;
    mf_status st;

    MF_TRY(checkpoint_ops_check_inputs(k, k->n_out));
    MF_TRY(mf_path_read(k->in[0], 0, prefix));
    st = open_bundle(k, prefix, &b);
    for (int i = 0; i < k->n_out && st == MF_OK; i++)
        st = restore_one(k, i, b);
    mf_bundle_close(b);
    return st;
}

static mf_status restore_infer(mf_infer *in)
{
    const mf_tensor *slices = in->in_value[2];

    for (int i = 0; slices && slices->dtype == MF_DTYPE_STRING && i < in->n_out; i++) {
        const mf_string *s = (const mf_string *)slices->data + i;
        mf_slice slice;
        mf_shape full;

        if (i < slices->count && s->len > 0 &&
            mf_slice_parse(s->data, s->len, &full, &slice) == MF_OK)
            MF_TRY(mf_slice_shape(&slice, &full, &in->out[i]));
    }
    return MF_OK;
}

/* ---- MergeV2Checkpoints ---- */

static mf_status merge_paths(const mf_kernel *k, mf_arena *arena, const char **prefixes, char *to)
{
    char path[PATH_MAX];

    MF_TRY(mf_path_read(k->in[1], 0, to));
    MF_TRY(mf_step_file(k->step, to));
    MF_TRY(check_index(k->step, to));
    for (int64_t i = 0; i < k->in[0]->count; i++) {
        MF_TRY(mf_path_read(k->in[0], i, path));
        MF_TRY(mf_step_file(k->step, path));
        prefixes[i] = mf_arena_strdup(arena, path);
        if (!prefixes[i])
            return MF_NOMEM("paths");
    }
    return MF_OK;
}

static mf_status checkpoint_ops_merge_run(mf_kernel *k)
{
    char to[PATH_MAX];
    mf_arena *arena = mf_arena_new();
    const char **prefixes = arena ? MF_ARENA_ARRAY(arena, const char *, k->in[0]->count + 1) : NULL;
    const mf_bundle_guard guard = guard_of(k);
    mf_status st;

    if (!prefixes)
        st = MF_NOMEM("paths");
    else if (k->in[0]->shape.rank != 1 || k->in[1]->count != 1)
        st =
            MF_FAIL(MF_INVALID_ARGUMENT,
                    "Input checkpoint_prefixes should be a vector and destination_prefix a scalar");
    else
        st = merge_paths(k, arena, prefixes, to);
    if (st == MF_OK)
        st = mf_bundle_merge(prefixes, k->in[0]->count, to, &guard,
                             mf_node_bool(k->node, "delete_old_dirs"),
                             mf_node_bool(k->node, "allow_missing_files"));
    mf_arena_free(arena);
    return st;
}

#define OP(NAME, DEF, INFER, RUN)                                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP | MF_OP_UNPLANNED, .infer = INFER,           \
        .grad = mf_grad_missing, .run = RUN                                                        \
    }

const mf_op mf_ops_checkpoint[] = {
    OP("SaveV2",
       "(prefix:string, tensor_names:string, shape_and_slices:string, tensors:*dtypes) -> () "
       "{dtypes:list(type)>=1} is_stateful",
       mf_infer_none, save_run),
    OP("RestoreV2",
       "(prefix:string, tensor_names:string, shape_and_slices:string) -> (tensors:*dtypes) "
       "{dtypes:list(type)>=1} is_stateful",
       restore_infer, restore_run),
    OP("MergeV2Checkpoints",
       "(checkpoint_prefixes:string, destination_prefix:string) -> () {delete_old_dirs:bool=true, "
       "allow_missing_files:bool=false} is_stateful",
       mf_infer_none, checkpoint_ops_merge_run),
    { 0 },
};
