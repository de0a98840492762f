/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - which samples each training step used, written down so that it can be checked that
 * every epoch used each sample exactly once, whatever was killed and resumed in between.
 *
 * DIR/samples.ledger is a TFRecord file (plain); docs/guides/data.md has the bytes. Its first
 * record is about the data set, each further one about a batch. It only grows, except that resuming
 * cuts off what came after the step that training resumes from. */
#ifndef MF_DATA_LEDGER_H
#define MF_DATA_LEDGER_H

#include "base/buf.h"
#include "formats/stream.h"

#include <meshflow/data.h>

#define MF_LEDGER_FILE "samples.ledger"

typedef struct mf_ledger_info {
    const char *name; /* what the data is called, for people */
    int64_t count; /* samples of the set */
    int64_t id_count; /* ids are below it */
    uint64_t seed; /* of the order */
    int64_t batch;
    bool drop_partial; /* an epoch may lack less than a batch */
    int64_t sliced; /* by file, over so many shards; 0: by element */
    const unsigned char
        *ids; /* bit i % 8 of byte i / 8: the set has id i; NULL: all below id_count */
} mf_ledger_info;

/* ---- writing ---- */

typedef struct mf_ledger mf_ledger;

/* Begin a ledger (last_step < 0; what was there is gone), or go on with the one that is there after
 * last_step, cutting off later ones. Fails: FAILED_PRECONDITION (it is about other data, naming the
 * difference), DATA_LOSS (it ends before last_step), NOT_FOUND. */
MF_MUST mf_status mf_ledger_open(const char *dir, const char *name, const mf_dataset *set,
                                 const mf_iterator_options *options, int64_t last_step,
                                 mf_ledger **out);
/* Go on with the one that is there, after last_step or where it ends, if that is before; NOT_FOUND,
 * FAILED_PRECONDITION. */
MF_MUST mf_status mf_ledger_take_over(const char *dir, const char *name, const mf_dataset *set,
                                      const mf_iterator_options *options, int64_t last_step,
                                      mf_ledger **out);
/* The last step that stands in it; -1: none. */
int64_t mf_ledger_last_step(const mf_ledger *l);
/* Steps count up by one; a step may use several batches. The last `left_out` samples of the batch
 * were not used, and shall not be. Does not wait for the disk. */
MF_MUST mf_status mf_ledger_add(mf_ledger *l, int64_t step, const mf_batch *batch,
                                int64_t left_out);
/* All so far is in the file (sync: on the disk). Call it before a checkpoint is written, or that
 * checkpoint may know more than the ledger. */
MF_MUST mf_status mf_ledger_flush(mf_ledger *l, bool sync);
/* The ledger is gone in any case. */
MF_MUST mf_status mf_ledger_close(mf_ledger *l);

/* ---- checking ---- */

typedef struct mf_audit {
    char *name;
    mf_ledger_info info; /* name: the one above; ids are not kept */
    int64_t first_step, last_step; /* -1: none */
    int64_t epochs; /* complete ones */
    int64_t running; /* samples of the one that is not */
    int64_t samples; /* that were used, in all */
    int64_t left_out; /* and that were not, for those who had them have left */
    int64_t torn_at; /* byte where the file ends within a record, as after a crash; -1 */
    int64_t n_problems;
    mf_buf problems; /* a line each, the first hundred */
} mf_audit;

/* Owns: mf_audit_deinit(), also after a failure. What is wrong with the samples is no failure but a
 * problem. Fails: NOT_FOUND, DATA_LOSS (damaged other than at its end), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_ledger_audit(const char *dir, mf_audit *out);
void mf_audit_deinit(mf_audit *a);

/* ---- records ---- */

typedef struct mf_ledger_entry {
    int64_t step, epoch, first, n;
    int64_t left_out; /* not among the n */
    int64_t *ids; /* [cap] at least n, then left_out */
    int64_t cap;
} mf_ledger_entry;

/* The first record of a file. DATA_LOSS, also when there is none. */
MF_MUST mf_status mf_ledger_read_header(mf_reader *r, mf_buf *out);
/* Append one record's bytes. */
void mf_ledger_encode_info(const mf_ledger_info *info, mf_buf *out);
void mf_ledger_encode_entry(int64_t step, const mf_batch *batch, int64_t left_out, mf_buf *out);
/* Owns: name and ids point into the bytes (the name ends where they say: name_len). DATA_LOSS. */
MF_MUST mf_status mf_ledger_decode_info(const void *data, size_t len, mf_ledger_info *out,
                                        size_t *name_len);
/* Grows entry->ids; the caller frees it. DATA_LOSS. */
MF_MUST mf_status mf_ledger_decode_entry(const void *data, size_t len, mf_ledger_entry *entry);

#endif
