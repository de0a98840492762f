/* SPDX-License-Identifier: Apache-2.0 */
/* reader_ops.c - ops on readers, with handles on resource edges, or on references (older ops). */
#include "ops/io/reader.h"
#include "ops/state/handle.h"

#include <string.h>

/* ---- making ---- */

typedef struct reader_state {
    mf_handle handle; /* first */
    mf_reader_spec spec;
} reader_state;

static const mf_reader_kind *reader_ops_kind_of(const char *op)
{
    int i = 0;

    while (mf_reader_kinds[i + 1] &&
           strncmp(op, mf_reader_kinds[i]->op, strlen(mf_reader_kinds[i]->op)) != 0)
        i++;
    return mf_reader_kinds[i];
}

static mf_status reader_ops_check_lengths(const mf_reader_spec *s)
{
    if (s->header < 0 || s->footer < 0 || s->hop < 0 || s->skip_lines < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "header_bytes, footer_bytes, hop_bytes and skip_header_lines must be >= 0");
    if (strcmp(s->kind->op, "FixedLengthRecordReader") == 0 &&
        (s->record <= 0 || s->record > (int64_t)MF_PATH_STRING_MAX))
        return MF_FAIL(MF_INVALID_ARGUMENT, "record_bytes must be > 0, and at most %zu",
                       MF_PATH_STRING_MAX);
    if (s->header > INT32_MAX || s->footer > INT32_MAX || s->hop > INT32_MAX)
        return MF_FAIL(MF_INVALID_ARGUMENT, "records are further apart than %d bytes", INT32_MAX);
    return MF_OK;
}

static mf_status reader_prepare(mf_prepare *p)
{
    reader_state *s = MF_ARENA_NEW(p->arena, reader_state);

    p->state = NULL;
    if (!s)
        return MF_NOMEM("a reader");
    s->spec = (mf_reader_spec){ .kind = reader_ops_kind_of(p->node->op_name),
                                .skip_lines = mf_node_int(p->node, "skip_header_lines"),
                                .header = mf_node_int(p->node, "header_bytes"),
                                .record = mf_node_int(p->node, "record_bytes"),
                                .footer = mf_node_int(p->node, "footer_bytes"),
                                .hop = mf_node_int(p->node, "hop_bytes") };
    MF_TRY(reader_ops_check_lengths(&s->spec));
    MF_TRY(mf_compression_find(mf_node_string(p->node, "compression_type"), &s->spec.compression));
    if (mf_node_string(p->node, "encoding")[0])
        return MF_FAIL(MF_UNIMPLEMENTED, "a FixedLengthRecordReader reads plain files only");
    MF_TRY(mf_handle_init(&s->handle, p, true));
    p->state = s;
    return MF_OK;
}

static void reader_release(void *state)
{
    if (state)
        mf_handle_deinit(&((reader_state *)state)->handle);
}

static mf_status reader_ops_make_run(mf_kernel *k)
{
    reader_state *s = k->state;

    return mf_handle_run(&s->handle, k, &mf_record_reading_type, mf_record_reading_make, &s->spec);
}

/* ---- using ---- */

static mf_status input_reader(const mf_kernel *k, mf_record_reading **r)
{
    mf_object *o = NULL;
    const mf_status st = mf_kernel_object(k, 0, &mf_record_reading_type, &o);

    *r = (mf_record_reading *)o;
    return st;
}

static mf_status reader_ops_read_inputs(const mf_kernel *k, mf_record_reading **r, mf_queue **q,
                                        int64_t *n)
{
    mf_object *o = NULL;

    *n = 1;
    MF_TRY(input_reader(k, r));
    MF_TRY(mf_kernel_object(k, 1, &mf_queue_type, &o));
    *q = (mf_queue *)o;
    if (k->n_in < 3)
        return MF_OK;
    if (k->in[2]->count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_records must be a scalar");
    *n = mf_tensor_int_at(k->in[2], 0);
    if (*n <= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "num_records must be positive, but is %lld",
                       (long long)*n);
    return MF_OK;
}

static void read_start(mf_kernel *k)
{
    mf_record_reading *r;
    mf_queue *q;
    int64_t n;
    const mf_status st = reader_ops_read_inputs(k, &r, &q, &n);

    if (st != MF_OK)
        mf_kernel_done(k, st);
    else
        mf_record_reading_read(k, r, q, k->n_in > 2, n);
}

static mf_status put_count(mf_kernel *k, bool units)
{
    mf_record_reading *r;
    mf_tensor *out;

    MF_TRY(input_reader(k, &r));
    MF_TRY(mf_kernel_out(k, 0, &MF_SCALAR, &out));
    pthread_mutex_lock(&r->lock);
    *(int64_t *)out->data = units ? r->units : r->records;
    pthread_mutex_unlock(&r->lock);
    return MF_OK;
}

static mf_status records_run(mf_kernel *k)
{
    return put_count(k, false);
}

static mf_status units_run(mf_kernel *k)
{
    return put_count(k, true);
}

static mf_status reset_run(mf_kernel *k)
{
    mf_record_reading *r;

    MF_TRY(input_reader(k, &r));
    return mf_record_reading_reset(r);
}

static mf_status vectors_infer(mf_infer *in)
{
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = MF_SHAPE(MF_UNKNOWN_DIM);
    return MF_OK;
}

/* ---- the table ---- */

#define FLAGS (MF_OP_HEAP | MF_OP_UNPLANNED)
#define MAKER(NAME, OUT, ATTRS)                                                                    \
    {                                                                                              \
        .name = NAME, .def = "() -> (reader_handle:" OUT ") {" ATTRS "} is_stateful",              \
        .flags = FLAGS, .infer = mf_infer_scalar, .grad = mf_grad_none, .prepare = reader_prepare, \
        .release = reader_release, .run = reader_ops_make_run                                      \
    }
#define NAMES "container:string='', shared_name:string=''"
#define MAKERS(NAME, ATTRS) MAKER(NAME "V2", "resource", ATTRS), MAKER(NAME, "ref string", ATTRS)
#define USER(NAME, DEF, INFER, HOW)                                                                \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = FLAGS, .infer = INFER, .grad = mf_grad_none, HOW        \
    }
#define READS(NAME, REST, INFER)                                                                   \
    USER(NAME "V2", "(reader_handle:resource, queue_handle:resource" REST " is_stateful", INFER,   \
         .start = read_start),                                                                     \
        USER(NAME, "(reader_handle:ref string, queue_handle:ref string" REST, INFER,               \
             .start = read_start)
#define ASKS(NAME, REST, INFER, RUN)                                                               \
    USER(NAME "V2", "(reader_handle:resource) -> (" REST ") {} is_stateful", INFER, .run = RUN),   \
        USER(NAME, "(reader_handle:ref string) -> (" REST ") {}", INFER, .run = RUN)
#define PIECES "header_bytes:int=0, record_bytes:int, footer_bytes:int=0, hop_bytes:int=0, " NAMES

const mf_op mf_ops_reader[] = {
    MAKERS("TextLineReader", "skip_header_lines:int=0, " NAMES),
    MAKERS("TFRecordReader", NAMES ", compression_type:string=''"),
    MAKER("FixedLengthRecordReaderV2", "resource", PIECES ", encoding:string=''"),
    MAKER("FixedLengthRecordReader", "ref string", PIECES),
    MAKERS("WholeFileReader", NAMES),
    MAKERS("IdentityReader", NAMES),
    READS("ReaderRead", ") -> (key:string, value:string) {}", mf_infer_scalar),
    READS("ReaderReadUpTo", ", num_records:int64) -> (keys:string, values:string) {}",
          vectors_infer),
    ASKS("ReaderNumRecordsProduced", "records_produced:int64", mf_infer_scalar, records_run),
    ASKS("ReaderNumWorkUnitsCompleted", "units_completed:int64", mf_infer_scalar, units_run),
    ASKS("ReaderReset", "", mf_infer_none, reset_run),
    { 0 },
};
