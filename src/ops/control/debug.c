/* SPDX-License-Identifier: Apache-2.0 */
/* debug.c - Assert, Print, PrintV2 and Timestamp. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "graph/step_file.h"
#include "ops/string/tensor_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* ---- Assert ---- */

static mf_status assert_infer(mf_infer *in)
{
    return mf_infer_rank(in, 0, 0);
}

static mf_status assert_run(mf_kernel *k)
{
    const int64_t summarize = mf_node_int(k->node, "summarize");
    char text[MF_SHAPE_TEXT];
    mf_buf buf = { 0 };
    mf_status st;

    if (k->in[0]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "In[0] should be a scalar: %s",
                       mf_shape_text(&k->in[0]->shape, text));
    if (*(const uint8_t *)k->in[0]->data)
        return MF_OK;
    for (int i = 1; i < k->n_in; i++) {
        mf_buf_str(&buf, i > 1 ? " [" : "[");
        mf_text_flat(k->in[i], summarize, &buf);
        mf_buf_str(&buf, "]");
    }
    st = MF_FAIL(MF_INVALID_ARGUMENT, "assertion failed: %s", buf.data ? buf.data : "");
    mf_buf_deinit(&buf);
    return st;
}

/* ---- Print: the input, with a line on stderr in passing ---- */

typedef struct print_state {
    atomic_llong printed; /* number of lines so far */
    int64_t first_n;
} print_state;

static mf_status print_prepare(mf_prepare *p)
{
    print_state *s = MF_ARENA_NEW(p->arena, print_state);

    if (!s)
        return MF_NOMEM("a print op");
    atomic_init(&s->printed, 0);
    s->first_n = mf_node_int(p->node, "first_n");
    p->state = s;
    return MF_OK;
}

static mf_status debug_print_run(mf_kernel *k)
{
    print_state *s = k->state;
    const int64_t summarize = mf_node_int(k->node, "summarize");
    mf_buf buf = { 0 };

    mf_kernel_view(k, 0, 0, &k->in[0]->shape);
    if (s->first_n >= 0 && atomic_fetch_add(&s->printed, 1) >= s->first_n)
        return MF_OK;
    mf_buf_str(&buf, mf_node_string(k->node, "message"));
    for (int i = 1; i < k->n_in; i++) {
        mf_buf_str(&buf, "[");
        mf_text_flat(k->in[i], summarize, &buf);
        mf_buf_str(&buf, "]");
    }
    mf_buf_str(&buf, "\n");
    if (buf.data) /* one write, so that lines of several threads are not interleaved */
        (void)fwrite(buf.data, 1, buf.len, stderr);
    mf_buf_deinit(&buf);
    return MF_OK;
}

static mf_status print_grad(mf_grad *g)
{
    g->dx[0] = g->dy[0];
    return MF_OK;
}

/* ---- PrintV2: a string to a stream or a file ---- */

static mf_status append_to_file(const mf_kernel *k, const char *path, const mf_buf *text)
{
    FILE *file;
    bool ok;
    int fd;

    MF_TRY(mf_step_open(k->step, path, O_WRONLY | O_APPEND | O_CREAT, &fd));
    file = fdopen(fd, "ae");
    if (!file) {
        (void)close(fd);
        return MF_NOMEM("a file");
    }
    ok = fwrite(text->data, 1, text->len, file) == text->len;
    ok = fclose(file) == 0 && ok;
    return ok ? MF_OK : mf_errno_status(errno, "write", path);
}

static mf_status write_to(const mf_kernel *k, const char *stream, const mf_buf *text)
{
    static const struct {
        const char *name;
        mf_log_level level;
    } logs[] = { { "log(info)", MF_LOG_INFO },
                 { "log(warning)", MF_LOG_WARNING },
                 { "log(error)", MF_LOG_ERROR } };

    if (strcmp(stream, "stdout") == 0 || strcmp(stream, "stderr") == 0) {
        FILE *file = stream[3] == 'o' ? stdout : stderr;

        (void)fwrite(text->data, 1, text->len, file);
        (void)fflush(file);
        return MF_OK;
    }
    if (strncmp(stream, "file://", 7) == 0)
        return append_to_file(k, stream + 7, text);
    for (int i = 0; i < MF_COUNT(logs); i++) {
        if (strcmp(stream, logs[i].name) == 0) {
            MF_LOG(logs[i].level, "%s", text->data);
            return MF_OK;
        }
    }
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "Unknown output stream: %.100s, Valid streams are: stdout stderr log(info) "
                   "log(warning) log(error)",
                   stream);
}

static mf_status print_v2_run(mf_kernel *k)
{
    char shape[MF_SHAPE_TEXT];
    const mf_string *s;
    mf_buf buf = { 0 };
    mf_status st;

    if (k->in[0]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Input is expected to be scalar, but got %s",
                       mf_shape_text(&k->in[0]->shape, shape));
    s = mf_strings(k->in[0]);
    mf_buf_bytes(&buf, mf_string_data(s), s->len);
    mf_buf_str(&buf, mf_node_string(k->node, "end"));
    st = buf.failed ? mf_buf_finish(&buf) : MF_OK;
    if (st == MF_OK && buf.data)
        st = write_to(k, mf_node_string(k->node, "output_stream"), &buf);
    mf_buf_deinit(&buf);
    return st;
}

/* ---- Timestamp ---- */

static mf_status timestamp_run(mf_kernel *k)
{
    const int64_t microseconds = mf_clock_wall_ns() / 1000;
    mf_tensor *out;

    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    *(double *)out->data = (double)microseconds * 1e-6;
    return MF_OK;
}

const mf_op mf_ops_debug[] = {
    { .name = "Assert",
      .def = "(condition:bool, data:*T) -> () {T:list(type)>=1, summarize:int=3} is_stateful",
      .infer = assert_infer,
      .grad = mf_grad_none,
      .run = assert_run,
      .samples = MF_SAMPLES("bool[]{1} f32[2]", "bool[]{0} str[]{boom} i32[3,4] !fails",
                            "bool[1]{1} f32[1] !fails") },
    { .name = "Print",
      .def = "(input:T, data:*U) -> (output:T) {T:type, U:list(type)>=0, message:string='', "
             "first_n:int=-1, summarize:int=3} is_stateful",
      .flags = MF_OP_VIEW,
      .infer = mf_infer_same,
      .grad = print_grad,
      .prepare = print_prepare,
      .run = debug_print_run,
      .samples = MF_SAMPLES("f32[2,3] f32[2]~ ; message='x' first_n=0", "i32[] ; first_n=0",
                            "str[2] ; first_n=0") },
    { .name = "PrintV2",
      .def = "(input:string) -> () {output_stream:string='stderr', end:string='\\n'} is_stateful",
      .infer = mf_infer_none,
      .grad = mf_grad_missing,
      .run = print_v2_run,
      .samples = MF_SAMPLES("str[]{x} ; output_stream='log(info)'", "str[1]{x} !fails",
                            "str[]{x} ; output_stream='nowhere' !fails") },
    { .name = "Timestamp",
      .def = "() -> (ts:double) {} is_stateful",
      .infer = mf_infer_scalar,
      .grad = mf_grad_none,
      .run = timestamp_run,
      .samples = MF_SAMPLES("!unordered") },
    { 0 },
};
