/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_audit.c - checks that every epoch used each sample exactly once. */
#include "base/mem.h"
#include "data/ledger.h"
#include "formats/record.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_RECORD = 1 << 30, MAX_LINES = 100, MAX_NAMED = 10 };

static const int64_t MAX_IDS = INT64_C(1) << 34; /* two gigabytes of bits */

typedef struct check {
    mf_audit *out;
    unsigned char *wanted, *seen; /* bit sets by id; wanted NULL: all */
    int64_t epoch, used; /* of the current epoch */
} check;

static bool ledger_audit_bit(const unsigned char *bits, int64_t i)
{
    return (bits[i / 8] >> i % 8 & 1) != 0;
}

static void problem(mf_audit *a, const char *fmt, ...) MF_PRINTF(2, 3);
static void problem(mf_audit *a, const char *fmt, ...)
{
    char line[256];
    va_list args;

    if (a->n_problems++ >= MAX_LINES)
        return;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    mf_buf_printf(&a->problems, "%s\n", line);
}

/* ---- epochs ---- */

static void name_missing(const check *c, int64_t missing)
{
    const mf_ledger_info *i = &c->out->info;
    char list[MAX_NAMED * 22] = "";
    size_t at = 0;
    int named = 0;

    for (int64_t id = 0; id < i->id_count && named < MAX_NAMED; id++) {
        if (ledger_audit_bit(c->seen, id) || (c->wanted && !ledger_audit_bit(c->wanted, id)))
            continue;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", named ? ", " : "",
                               (long long)id);
        named++;
    }
    problem(c->out, "epoch %lld: %lld samples are missing: %s%s", (long long)c->epoch,
            (long long)missing, list, missing > named ? ", ..." : "");
}

/* The current epoch is complete: start the next one. */
static void end_epoch(check *c)
{
    const mf_ledger_info *i = &c->out->info;
    const int64_t missing = i->count - c->used;

    if (missing > 0 && !(i->drop_partial && missing < i->batch))
        name_missing(c, missing);
    c->out->epochs++;
    memset(c->seen, 0, ((size_t)i->id_count + 7) / 8);
    c->used = 0;
    c->epoch++;
}

/* Skipped ids count as seen, too: each once per epoch. */
static void use_ids(check *c, const mf_ledger_entry *e)
{
    for (int64_t k = 0; k < e->n + e->n_skipped; k++) {
        const int64_t id = e->ids[k];

        if (id >= c->out->info.id_count || (c->wanted && !ledger_audit_bit(c->wanted, id))) {
            problem(c->out, "epoch %lld, step %lld: sample %lld does not belong to the set",
                    (long long)e->epoch, (long long)e->step, (long long)id);
        } else if (ledger_audit_bit(c->seen, id)) {
            problem(c->out, "epoch %lld, step %lld: sample %lld is used a second time",
                    (long long)e->epoch, (long long)e->step, (long long)id);
        } else {
            c->seen[id / 8] |= (unsigned char)(1 << id % 8);
            c->used++;
        }
    }
    c->out->samples += e->n;
    c->out->n_skipped += e->n_skipped;
}

static void ledger_audit_check_entry(check *c, const mf_ledger_entry *e)
{
    mf_audit *a = c->out;

    if (a->last_step >= 0 && e->step != a->last_step && e->step != a->last_step + 1)
        problem(a, "step %lld follows step %lld", (long long)e->step, (long long)a->last_step);
    if (a->first_step < 0) {
        a->first_step = e->step;
        if (e->epoch != 0 || e->first != 0)
            problem(a, "the first step begins at sample %lld of epoch %lld", (long long)e->first,
                    (long long)e->epoch);
    }
    a->last_step = e->step;
    if (e->epoch < c->epoch)
        problem(a, "step %lld is of the earlier epoch %lld", (long long)e->step,
                (long long)e->epoch);
    else if (e->epoch > c->epoch + 1)
        problem(a, "step %lld: epoch %lld follows epoch %lld", (long long)e->step,
                (long long)e->epoch, (long long)c->epoch);
    if (e->epoch > c->epoch) {
        end_epoch(c);
        c->epoch = e->epoch;
    }
    use_ids(c, e);
}

/* ---- the file ---- */

static mf_status ledger_audit_begin(check *c, const mf_buf *record)
{
    mf_audit *a = c->out;
    size_t len, bytes;

    MF_TRY(mf_ledger_decode_info(record->data, record->len, &a->info, &len));
    if (a->info.id_count > MAX_IDS)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "the ledger covers %lld samples, which exceeds the "
                       "maximum",
                       (long long)a->info.id_count);
    bytes = ((size_t)a->info.id_count + 7) / 8;
    a->name = mf_strndup(a->info.name, len);
    c->seen = mf_calloc((int64_t)bytes, 1);
    c->wanted = a->info.ids ? mf_calloc((int64_t)bytes, 1) : NULL;
    if (!a->name || !c->seen || (a->info.ids && !c->wanted))
        return MF_NOMEM("an audit");
    if (c->wanted)
        memcpy(c->wanted, a->info.ids, bytes);
    a->info.name = a->name;
    a->info.ids = NULL;
    return MF_OK;
}

/* A record cut by the end of the file is the result of a crash; damage before the end is not. */
static bool is_torn(const mf_reader *r, int64_t at)
{
    unsigned char header[MF_RECORD_HEADER];
    mf_reader *again;
    uint64_t len;
    size_t got = 0;
    struct stat s;
    bool torn = false;

    if (stat(mf_reader_path(r), &s) != 0 ||
        mf_reader_open(mf_reader_path(r), MF_PLAIN, &again) != MF_OK)
        return false;
    if (mf_reader_seek(again, at) == MF_OK &&
        mf_reader_read(again, header, sizeof header, &got) == MF_OK)
        torn = got < sizeof header ||
               (mf_record_length(header, &len) &&
                len + MF_RECORD_HEADER + MF_RECORD_TRAILER > (uint64_t)(s.st_size - at));
    mf_reader_close(again);
    return torn;
}

static mf_status ledger_audit_read_entries(check *c, mf_reader *r)
{
    mf_ledger_entry e = { 0 };
    mf_buf record = { 0 };
    int64_t at = 0;
    mf_status st;

    MF_TRY_TO(done, mf_ledger_read_header(r, &record));
    MF_TRY_TO(done, ledger_audit_begin(c, &record));
    for (at = mf_reader_offset(r); (st = mf_record_read(r, MAX_RECORD, &record)) == MF_OK;
         at = mf_reader_offset(r)) {
        MF_TRY_TO(done, mf_ledger_decode_entry(record.data, record.len, &e));
        ledger_audit_check_entry(c, &e);
    }
    if (st == MF_OUT_OF_RANGE) {
        st = MF_OK;
    } else if (st == MF_DATA_LOSS) {
        mf_error why;

        mf_error_save(st, &why);
        if (is_torn(r, at)) {
            c->out->torn_at = at;
            st = MF_OK;
        } else {
            st = mf_error_restore(&why);
        }
    }
done:
    mf_buf_deinit(&record);
    mf_free(e.ids);
    return st;
}

mf_status mf_ledger_audit(const char *dir, mf_audit *out)
{
    check c = { .out = out };
    char path[4096];
    mf_reader *r;
    mf_status st;

    *out = (mf_audit){ .first_step = -1, .last_step = -1, .torn_at = -1 };
    if (snprintf(path, sizeof path, "%s/" MF_LEDGER_FILE, dir) >= (int)sizeof path)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the path of the ledger is too long");
    MF_TRY(mf_reader_open(path, MF_PLAIN, &r));
    st = ledger_audit_read_entries(&c, r);
    mf_reader_close(r);
    if (st == MF_OK && c.used == out->info.count && c.used > 0)
        end_epoch(&c);
    out->running = c.used;
    mf_free(c.seen);
    mf_free(c.wanted);
    return st;
}

void mf_audit_deinit(mf_audit *a)
{
    mf_free(a->name);
    mf_buf_deinit(&a->problems);
    *a = (mf_audit){ 0 };
}
