/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - event files for TensorBoard: TFRecords of Event messages, the first of which says
 * "brain.Event:2". A training that continues writes another file; its first event, START of step s,
 * invalidates what earlier files contain for step s and later. */
#ifndef MF_FORMATS_EVENTS_H
#define MF_FORMATS_EVENTS_H

#include "base/mem.h"
#include "formats/image.h"
#include "proto/event.pb-c.h"
#include "tensor/tensor.h"

/* ---- writing ---- */

typedef struct mf_events mf_events;

typedef struct mf_event_scalar {
    const char *tag;
    double value;
} mf_event_scalar;

/* Create DIR/events.out.tfevents.SECONDS.HOST.PID, with a name that sorts after existing files. The
 * folder is created if its parent exists. Events reach the file within ten seconds of further
 * additions, when a buffer is full, or by mf_events_flush(). */
MF_MUST mf_status mf_events_open(const char *dir, mf_events **out);
/* The writer is freed in any case. NULL: MF_OK. */
MF_MUST mf_status mf_events_close(mf_events *e);
MF_MUST mf_status mf_events_flush(mf_events *e);
const char *mf_events_path(const mf_events *e);
/* Bytes written so far. */
int64_t mf_events_bytes(mf_events *e);

/* Thread: any, for all functions below. Tags and paths are UTF-8. */

MF_MUST mf_status mf_events_scalars(mf_events *e, int64_t step, const mf_event_scalar *scalars,
                                    int n);
MF_MUST mf_status mf_events_histogram(mf_events *e, int64_t step, const char *tag,
                                      const mf_tensor *values);
/* Pixels row by row, as in formats/image.h. */
MF_MUST mf_status mf_events_image(mf_events *e, int64_t step, const char *tag,
                                  const unsigned char *pixels, const mf_image *size);
/* A serialised Summary, the output of summary ops. Not decoded. */
MF_MUST mf_status mf_events_summary(mf_events *e, int64_t step, const void *data, size_t len);
/* A serialised GraphDef. */
MF_MUST mf_status mf_events_graph(mf_events *e, const void *data, size_t len);
/* A serialised RunMetadata. */
MF_MUST mf_status mf_events_run_metadata(mf_events *e, int64_t step, const char *tag,
                                         const void *data, size_t len);
/* path: of a checkpoint; may be NULL. */
MF_MUST mf_status mf_events_session(mf_events *e, int64_t step,
                                    Tensorflow__SessionLog__SessionStatus status, const char *path);

/* A session of this run begins at this step. */
MF_MUST mf_status mf_events_begin_run(mf_events *e, int64_t step, const char *run);

/* ---- reading ---- */

typedef struct mf_events_reader mf_events_reader;

MF_MUST mf_status mf_events_reader_open(const char *path, mf_events_reader **out);
void mf_events_reader_close(mf_events_reader *r);
/* Owns: *out belongs to the reader and is valid until the next call. Fails: OUT_OF_RANGE (end of
 * file), DATA_LOSS (truncated, for example while it is being written, or damaged), INVALID_ARGUMENT
 * (not an event). */
MF_MUST mf_status mf_events_next(mf_events_reader *r, const Tensorflow__Event **out);

/* The run whose session begins with this event; NULL: the event does not start one. */
const char *mf_events_run_of(const Tensorflow__Event *e);
/* Is this the name of an event file? */
bool mf_events_is_name(const char *name);

#endif
