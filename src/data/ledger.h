/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - a record of the samples that each training step used, so that it can be checked that
 * every epoch used each sample exactly once despite kills and restarts.
 *
 * DIR/samples.ledger is an uncompressed TFRecord file; docs/guides/data.md specifies the bytes. The
 * first record describes the data set, each later one a batch. The file only grows, except that
 * resuming truncates it after the step from which training resumes. */
#ifndef MF_DATA_LEDGER_H
#define MF_DATA_LEDGER_H

#include "base/buf.h"
#include "formats/stream.h"

#include <meshflow/data.h>

#define MF_LEDGER_FILE "samples.ledger"

typedef struct mf_ledger_info {
    const char *name; /* name of the data, for messages */
    int64_t count; /* number of samples of the set */
    int64_t id_count; /* upper bound of ids */
    uint64_t seed; /* of the order */
    int64_t batch;
    bool drop_partial; /* an epoch may lack less than one batch */
    int64_t sliced; /* sliced by file over this many shards; 0: by element */
    const unsigned char
        *ids; /* bit i % 8 of byte i / 8: the set has id i; NULL: all below id_count */
} mf_ledger_info;

/* ---- writing ---- */

typedef struct mf_ledger mf_ledger;

/* Starts a ledger (last_step < 0; replaces an existing one), or resumes the existing one after
 * last_step, truncating later steps. Fails: FAILED_PRECONDITION (it belongs to other data, naming
 * the difference), DATA_LOSS (it ends before last_step), NOT_FOUND. */
MF_MUST mf_status mf_ledger_open(const char *dir, const char *name, const mf_dataset *set,
                                 const mf_iterator_options *options, int64_t last_step,
                                 mf_ledger **out);
/* Resumes the existing one after last_step, or at its end if that is earlier. Fails: NOT_FOUND,
 * FAILED_PRECONDITION. */
MF_MUST mf_status mf_ledger_take_over(const char *dir, const char *name, const mf_dataset *set,
                                      const mf_iterator_options *options, int64_t last_step,
                                      mf_ledger **out);
/* The last step in the file; -1: none. */
int64_t mf_ledger_last_step(const mf_ledger *l);
/* Steps are consecutive; a step may use several batches. The last `n_skipped` samples of the batch
 * were skipped permanently. Does not wait for the disk. */
MF_MUST mf_status mf_ledger_add(mf_ledger *l, int64_t step, const mf_batch *batch,
                                int64_t n_skipped);
/* Writes all records to the file (sync: to the disk). Call it before a checkpoint is written, so
 * that the checkpoint is never ahead of the ledger. */
MF_MUST mf_status mf_ledger_flush(mf_ledger *l, bool sync);
/* Frees the ledger even on failure. */
MF_MUST mf_status mf_ledger_close(mf_ledger *l);

/* ---- checking ---- */

typedef struct mf_audit {
    char *name;
    mf_ledger_info info; /* `name` is the member above; ids are not kept */
    int64_t first_step, last_step; /* -1: none */
    int64_t epochs; /* complete epochs */
    int64_t running; /* samples used in the incomplete epoch */
    int64_t samples; /* samples used in all epochs */
    int64_t n_skipped; /* samples skipped because their workers left */
    int64_t torn_at; /* offset of a torn record at the end, as after a crash; -1: none */
    int64_t n_problems;
    mf_buf problems; /* one line each, at most a hundred */
} mf_audit;

/* Owns: mf_audit_deinit(), even after a failure. Wrong samples are problems, not failures. Fails:
 * NOT_FOUND, DATA_LOSS (damage before the end), RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_ledger_audit(const char *dir, mf_audit *out);
void mf_audit_deinit(mf_audit *a);

/* ---- records ---- */

typedef struct mf_ledger_entry {
    int64_t step, epoch, first, n;
    int64_t n_skipped; /* not included in n */
    int64_t *ids; /* [cap]: n used ids, then n_skipped skipped ids */
    int64_t cap;
} mf_ledger_entry;

/* The first record of a file. Fails: DATA_LOSS, also if there is none. */
MF_MUST mf_status mf_ledger_read_header(mf_reader *r, mf_buf *out);
/* Appends the bytes of one record. */
void mf_ledger_encode_info(const mf_ledger_info *info, mf_buf *out);
void mf_ledger_encode_entry(int64_t step, const mf_batch *batch, int64_t n_skipped, mf_buf *out);
/* name and ids are borrowed from the bytes (the name has length name_len). Fails: DATA_LOSS. */
MF_MUST mf_status mf_ledger_decode_info(const void *data, size_t len, mf_ledger_info *out,
                                        size_t *name_len);
/* Grows entry->ids; the caller frees it. Fails: DATA_LOSS. */
MF_MUST mf_status mf_ledger_decode_entry(const void *data, size_t len, mf_ledger_entry *entry);

#endif
