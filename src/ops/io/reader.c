/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - queues reads, and gets the next file name. See reader.h. */
#include "ops/io/reader.h"

#include "ops/string/tensor_text.h"

/* A read. */
typedef struct read_op {
    mf_wait wait; /* first */
    mf_record_reading *reader; /* wait.at */
    mf_queue *names;
    mf_object *names_ref;
    bool up_to;
    int64_t wanted, have;
    mf_tensor keys, values; /* vectors of those it has */
    /* A dequeue of the next name, started by this op. */
    mf_kernel dequeue;
    mf_node node;
    mf_dtype type;
    mf_tensor name, *name_ptr;
    atomic_int meeting; /* which is first: the return of the call that started it, or its completion
                         */
    mf_status dequeued;
    mf_error error;
} read_op;

enum { NOBODY, STARTED, ENDED };

/* ---- the object ---- */

void mf_record_reading_close(mf_record_reading *r)
{
    mf_lines_deinit(&r->lines);
    mf_reader_close(r->file);
    r->file = NULL;
    r->working = false;
    r->at = r->limit = 0;
}

static void reading_destroy(mf_object *o)
{
    mf_record_reading *r = (mf_record_reading *)o;

    mf_record_reading_close(r);
    mf_buf_deinit(&r->work);
    pthread_mutex_destroy(&r->lock);
    mf_free(r);
}

const mf_object_type mf_record_reading_type = { .name = "reader", .destroy = reading_destroy };

mf_status mf_record_reading_make(void *spec, mf_object **out)
{
    mf_record_reading *r = mf_calloc(1, sizeof *r);

    *out = NULL;
    if (!r)
        return MF_NOMEM("a reader");
    r->object.type = &mf_record_reading_type;
    atomic_store(&r->object.refs, 1);
    pthread_mutex_init(&r->lock, NULL);
    r->spec = *(const mf_reader_spec *)spec;
    *out = &r->object;
    return MF_OK;
}

mf_status mf_record_reading_reset(mf_record_reading *r)
{
    mf_status st = MF_OK;

    pthread_mutex_lock(&r->lock);
    if (r->busy) {
        st = MF_FAIL(MF_FAILED_PRECONDITION, "a reader cannot be reset while it reads");
    } else {
        mf_record_reading_close(r);
        r->records = r->units = 0;
    }
    pthread_mutex_unlock(&r->lock);
    return st;
}

/* ---- records ---- */

static mf_status reader_append(mf_tensor *strings, int64_t at, mf_buf *text)
{
    if (at == strings->count) {
        mf_tensor more = { 0 };
        mf_status st = mf_tensor_alloc(&more, MF_DTYPE_STRING, &MF_SHAPE(at ? 2 * at : 1));

        if (st == MF_OK && at > 0)
            st = mf_cells_copy(MF_DTYPE_STRING, more.data, 0, strings->data, 0, at);
        if (st == MF_OK)
            mf_tensor_move(strings, &more);
        mf_tensor_clear(&more);
        MF_TRY(st);
    }
    return mf_string_take((mf_string *)strings->data + at, text);
}

static mf_status take_record(read_op *op, bool *end)
{
    mf_record_reading *r = op->reader;
    mf_buf key = { 0 }, value = { 0 };
    mf_status st = r->spec.kind->next(r, &key, &value, end);

    if (st == MF_OK && !*end) {
        st = reader_append(&op->keys, op->have, &key);
        if (st == MF_OK)
            st = reader_append(&op->values, op->have, &value);
        op->have += st == MF_OK;
    }
    mf_buf_deinit(&key);
    mf_buf_deinit(&value);
    return st;
}

static void reader_count(mf_record_reading *r, int64_t records, int64_t units)
{
    pthread_mutex_lock(&r->lock);
    r->records += records;
    r->units += units;
    pthread_mutex_unlock(&r->lock);
}

/* Takes the remaining records of the current file, as many as requested. */
static mf_status take_records(read_op *op)
{
    mf_record_reading *r = op->reader;
    const int64_t before = op->have;
    bool end = false;
    mf_status st = MF_OK;

    while (st == MF_OK && !end && op->have < op->wanted) {
        st = take_record(op, &end);
        end = end || (st == MF_OK && r->spec.kind->one);
    }
    if (st != MF_OK || end)
        mf_record_reading_close(r);
    reader_count(r, op->have - before, st == MF_OK && end);
    return st;
}

/* ---- names ---- */

static mf_status begin_work(read_op *op)
{
    mf_record_reading *r = op->reader;
    const mf_string *name = op->name.data;
    mf_status st = MF_OK;

    mf_buf_clear(&r->work);
    if (op->name.count != 1)
        return MF_FAIL(MF_INVALID_ARGUMENT, "a reader's queue must hold scalar strings");
    mf_buf_bytes(&r->work, mf_string_data(name), name->len);
    if (r->work.failed)
        return MF_NOMEM("a file name");
    mf_tensor_clear(&op->name);
    r->working = true;
    if (r->spec.kind->open)
        st = r->spec.kind->open(r, op->wait.kernel->step);
    if (st != MF_OK)
        mf_record_reading_close(r);
    return st;
}

static void reader_serve(mf_record_reading *r);

static void name_came(mf_kernel *k, mf_status status)
{
    read_op *op = (read_op *)((char *)k - offsetof(read_op, dequeue));
    mf_record_reading *r = op->reader;

    op->dequeued = status;
    if (status != MF_OK)
        mf_error_save(status, &op->error);
    if (atomic_exchange(&op->meeting, ENDED) == STARTED)
        reader_serve(r);
}

/* True: a name has arrived, or none will. False: name_came() continues. */
static bool ask_for_name(read_op *op)
{
    op->type = MF_DTYPE_STRING;
    op->name_ptr = &op->name;
    op->node = (mf_node){ .name = op->wait.kernel->node->name,
                          .op_name = "QueueDequeueV2",
                          .out_types = &op->type,
                          .n_outputs = 1 };
    op->dequeue = (mf_kernel){ .node = &op->node,
                               .step = op->wait.kernel->step,
                               .out = &op->name_ptr,
                               .n_out = 1,
                               .done = name_came };
    atomic_store(&op->meeting, NOBODY);
    mf_queue_dequeue(&op->dequeue, op->names, -1, false);
    return atomic_exchange(&op->meeting, STARTED) == ENDED;
}

/* ---- serving ---- */

static void op_free(read_op *op)
{
    mf_tensor_clear(&op->keys);
    mf_tensor_clear(&op->values);
    mf_tensor_clear(&op->name);
    mf_object_unref(op->names_ref);
    mf_object_unref(op->wait.at);
    mf_free(op);
}

static void reader_cut(mf_tensor *strings, int64_t n, bool scalar)
{
    strings->shape = scalar ? MF_SCALAR : MF_SHAPE(n);
    strings->count = n;
}

/* Completes an op that has been removed from the queue. */
static void reader_finish(read_op *op, mf_status st)
{
    mf_kernel *k = op->wait.kernel;

    mf_wait_unhook(&op->wait);
    if (st == MF_OK) {
        reader_cut(&op->keys, op->have, !op->up_to);
        reader_cut(&op->values, op->have, !op->up_to);
        mf_tensor_move(k->out[0], &op->keys);
        mf_tensor_move(k->out[1], &op->values);
    }
    op_free(op);
    mf_kernel_done(k, st);
}

/* One step of the first op. True: it is complete, with *st. *waits: a name was requested, and the
 * thread that delivers it continues. */
static bool step_front(read_op *op, mf_status *st, bool *waits)
{
    *st = MF_OK;
    if (!op->reader->working) {
        if (op->dequeued == MF_OK && op->name.data) {
            *st = begin_work(op);
        } else if (op->dequeued != MF_OK) {
            *st = mf_error_restore(&op->error);
        } else {
            *waits = !ask_for_name(op);
            return false;
        }
    }
    if (*st == MF_OK)
        *st = take_records(op);
    return *st != MF_OK || op->have > 0;
}

/* Removes `over` from the queue. *front NULL: the queue is empty, and serving ends. */
static void next_front(mf_record_reading *r, read_op *over, read_op **front)
{
    pthread_mutex_lock(&r->lock);
    if (over)
        mf_wait_unlink(&over->wait);
    *front = (read_op *)r->line.first;
    r->busy = *front != NULL;
    pthread_mutex_unlock(&r->lock);
}

/* Serves the queue until an op waits for a name. One thread at a time: the thread that set `busy`,
 * then the thread that delivers the name. */
static void reader_serve(mf_record_reading *r)
{
    mf_object *keep = mf_object_ref(&r->object);
    read_op *op;
    bool waits = false;

    next_front(r, NULL, &op);
    while (op && !waits) {
        read_op *over = op;
        mf_status st;

        if (!step_front(op, &st, &waits))
            continue;
        next_front(r, over, &op);
        reader_finish(over, st); /* the thread's error still belongs to `st` */
    }
    mf_object_unref(keep);
}

/* Ops behind the first end immediately; the dequeue of the first is cancelled separately. */
static void reader_on_cancel(mf_cancel_hook *hook)
{
    read_op *op = (read_op *)(void *)hook;
    mf_record_reading *r = op->reader;
    bool mine;

    pthread_mutex_lock(&r->lock);
    mine = op->wait.line && r->line.first != &op->wait;
    if (mine) {
        mf_wait_unlink(&op->wait);
        op->wait.hooked = false;
    }
    pthread_mutex_unlock(&r->lock);
    if (mine)
        reader_finish(op, MF_FAIL(MF_CANCELLED, "ReaderRead operation was cancelled"));
}

static read_op *op_new(mf_kernel *k, mf_record_reading *r, mf_queue *names)
{
    read_op *op = mf_calloc(1, sizeof *op);

    if (!op)
        return NULL;
    op->wait.kernel = k;
    op->wait.at = mf_object_ref(&r->object);
    op->reader = r;
    op->names = names;
    op->names_ref = mf_object_ref(&names->object);
    return op;
}

void mf_record_reading_read(mf_kernel *k, mf_record_reading *r, mf_queue *names, bool up_to,
                            int64_t n)
{
    read_op *op = op_new(k, r, names);
    mf_object *keep = mf_object_ref(&r->object);
    bool serves, cancelled;

    if (!op) {
        mf_object_unref(keep);
        mf_kernel_done(k, MF_NOMEM("a read"));
        return;
    }
    op->up_to = up_to;
    op->wanted = n;
    pthread_mutex_lock(&r->lock);
    cancelled = !mf_wait_hook(&op->wait, reader_on_cancel);
    serves = !cancelled && !r->busy;
    if (!cancelled)
        mf_wait_append(&r->line, &op->wait);
    r->busy = r->busy || serves;
    pthread_mutex_unlock(&r->lock);
    if (cancelled)
        reader_finish(op, MF_FAIL(MF_CANCELLED, "ReaderRead operation was cancelled"));
    else if (serves)
        reader_serve(r);
    mf_object_unref(keep);
}
