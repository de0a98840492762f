/* SPDX-License-Identifier: Apache-2.0 */
/* events_read.c - reads event files of Meshflow and TensorFlow. */
#include "formats/events.h"
#include "formats/record.h"
#include "proto/wire.h"

enum { MAX_EVENT = 1 << 30 }; /* bytes: a graph may be large */

struct mf_events_reader {
    mf_reader *reader;
    mf_buf record;
    mf_arena *arena; /* of the current event */
};

mf_status mf_events_reader_open(const char *path, mf_events_reader **out)
{
    mf_events_reader *r = mf_calloc(1, sizeof *r);
    mf_status st = r ? mf_reader_open(path, MF_PLAIN, &r->reader) : MF_NOMEM("an event file");

    *out = NULL;
    if (st != MF_OK)
        mf_events_reader_close(r);
    else
        *out = r;
    return st;
}

void mf_events_reader_close(mf_events_reader *r)
{
    if (!r)
        return;
    mf_reader_close(r->reader);
    mf_buf_deinit(&r->record);
    mf_arena_free(r->arena);
    mf_free(r);
}

mf_status mf_events_next(mf_events_reader *r, const Tensorflow__Event **out)
{
    const int64_t at = mf_reader_offset(r->reader);
    ProtobufCMessage *message;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_record_read(r->reader, MAX_EVENT, &r->record));
    mf_arena_free(r->arena);
    r->arena = mf_arena_new();
    if (!r->arena)
        return MF_NOMEM("an event");
    st = mf_wire_decode(&tensorflow__event__descriptor, r->record.data, r->record.len, NULL,
                        r->arena, &message);
    if (st == MF_INVALID_ARGUMENT) {
        mf_error why;

        mf_error_save(st, &why);
        return MF_FAIL(st, "'%s': the record at byte %lld is not an event: %.300s",
                       mf_reader_path(r->reader), (long long)at, why.message);
    }
    if (st == MF_OK)
        *out = (const Tensorflow__Event *)message;
    return st;
}
