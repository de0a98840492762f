/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - readers of queue pipelines: read files, whose names come from a queue, record by
 * record.
 *
 * Reads are queued and served one at a time, because the reader determines the order of records.
 * The first one may wait for a name, without holding a thread. */
#ifndef MF_OPS_IO_READER_H
#define MF_OPS_IO_READER_H

#include "ops/io/op_path.h"
#include "ops/state/op_waiter.h"
#include "ops/state/queue.h"

typedef struct mf_record_reading mf_record_reading;

/* How a file is divided into records. */
typedef struct mf_reader_kind {
    const char *op; /* "TextLineReader" */
    mf_status (*open)(mf_record_reading *r, const mf_step *step); /* r->work has just started */
    /* Reads the next record of r->work into the two buffers, which are empty; *end: there is none.
     */
    mf_status (*next)(mf_record_reading *r, mf_buf *key, mf_buf *value, bool *end);
    bool one; /* a file is one record */
} mf_reader_kind;

typedef struct mf_reader_spec {
    const mf_reader_kind *kind;
    int64_t skip_lines, header, record, footer, hop; /* used by some kinds */
    mf_compression compression;
} mf_reader_spec;

struct mf_record_reading {
    mf_object object;
    mf_reader_spec spec;
    pthread_mutex_t lock; /* guards the queue, `busy` and the counts */
    mf_wait_line line; /* the first op is served while `busy` */
    bool busy;
    int64_t records, units;
    /* Members below belong to the serving thread, or to the lock if none serves. */
    bool working; /* `work` is valid */
    mf_buf work; /* a file's name */
    mf_reader *file; /* NULL: none is open */
    mf_lines lines;
    int64_t at, limit; /* lines or records read so far; FixedLength: offset of the footer */
};

extern const mf_object_type mf_record_reading_type;
extern const mf_reader_kind *const mf_reader_kinds[]; /* terminated by NULL */

/* mf_object_make; ctx is a mf_reader_spec. */
MF_MUST mf_status mf_record_reading_make(void *spec, mf_object **out);
/* The body of an asynchronous kernel: outputs are key and value of the next record; with up_to,
 * vectors of at most n. Names come from the queue. */
void mf_record_reading_read(mf_kernel *k, mf_record_reading *r, mf_queue *names, bool up_to,
                            int64_t n);
/* Resets file and counts. Fails: FAILED_PRECONDITION (a read is in progress). */
MF_MUST mf_status mf_record_reading_reset(mf_record_reading *r);
/* Ends the current work; called by the serving thread. */
void mf_record_reading_close(mf_record_reading *r);

#endif
