/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - readers of queue pipelines: files whose names come out of a queue, record by record.
 *
 * Reads stand in a line and are served one at a time, since the order of records is the reader's.
 * The one in front may have to wait for a name; that holds no thread. */
#ifndef MF_OPS_IO_READER_H
#define MF_OPS_IO_READER_H

#include "ops/io/op_path.h"
#include "ops/state/op_waiter.h"
#include "ops/state/queue.h"

typedef struct mf_record_reading mf_record_reading;

/* How a file becomes records. */
typedef struct mf_reader_kind {
    const char *op; /* "TextLineReader" */
    mf_status (*open)(mf_record_reading *r, const mf_step *step); /* r->work has just begun */
    /* The next record of r->work into the two buffers, which are empty; *end: there is none. */
    mf_status (*next)(mf_record_reading *r, mf_buf *key, mf_buf *value, bool *end);
    bool one; /* a file is one record, so it ends with it */
} mf_reader_kind;

typedef struct mf_reader_spec {
    const mf_reader_kind *kind;
    int64_t skip_lines, header, record, footer, hop; /* of those kinds that have them */
    mf_compression compression;
} mf_reader_spec;

struct mf_record_reading {
    mf_object object;
    mf_reader_spec spec;
    pthread_mutex_t lock; /* guards the line, `busy` and the counts */
    mf_wait_line line; /* the first is being served while `busy` */
    bool busy;
    int64_t records, units;
    /* Below: whoever serves, or holds the lock while nobody does. */
    bool working; /* there is a work */
    mf_buf work; /* a file's name */
    mf_reader *file; /* NULL: none is open */
    mf_lines lines;
    int64_t at, limit; /* lines or records read of it; FixedLength: bytes before the footer */
};

extern const mf_object_type mf_record_reading_type;
extern const mf_reader_kind *const mf_reader_kinds[]; /* ends with NULL */

/* mf_object_make; ctx is a mf_reader_spec. */
MF_MUST mf_status mf_record_reading_make(void *spec, mf_object **out);
/* The body of an asynchronous kernel: outputs are key and value of the next record; with up_to,
 * vectors of at most n. Names come out of the queue. */
void mf_record_reading_read(mf_kernel *k, mf_record_reading *r, mf_queue *names, bool up_to,
                            int64_t n);
/* No file, no counts. FAILED_PRECONDITION while a read is under way. */
MF_MUST mf_status mf_record_reading_reset(mf_record_reading *r);
/* The work is over; whoever serves. */
void mf_record_reading_close(mf_record_reading *r);

#endif
