/* SPDX-License-Identifier: Apache-2.0 */
/* job_order_codec.c - encodes and decodes the order of a submitted job, the file `job`:
 * NUL-terminated words, each "key=value"; the first word is the file type. */
#include "jobqueue/jobqueue.h"

#include <stdlib.h>
#include <string.h>

static const char KIND[] = "meshflow job 1";

static void job_order_codec_put(mf_buf *out, const char *key, const char *value)
{
    mf_buf_printf(out, "%s=%s", key, value);
    mf_buf_bytes(out, "", 1);
}

static void job_order_codec_put_number(mf_buf *out, const char *key, int64_t value)
{
    mf_buf_printf(out, "%s=%lld", key, (long long)value);
    mf_buf_bytes(out, "", 1);
}

mf_status mf_jobqueue_encode(const mf_jobqueue_order *o, mf_buf *out)
{
    mf_buf_bytes(out, KIND, sizeof KIND);
    job_order_codec_put_number(out, "submitted", o->submitted_ns);
    job_order_codec_put_number(out, "slots", o->slots);
    job_order_codec_put_number(out, "restarts", o->restarts);
    job_order_codec_put_number(out, "grace", o->grace_s);
    job_order_codec_put(out, "cwd", o->cwd);
    for (int64_t i = 0; i < o->n_after; i++)
        job_order_codec_put(out, "after", o->after[i]);
    for (int64_t i = 0; i < o->n_words; i++)
        job_order_codec_put(out, "word", o->words[i]);
    for (int64_t i = 0; i < o->n_environment; i++)
        job_order_codec_put(out, "env", o->environment[i]);
    return mf_buf_finish(out);
}

typedef struct job_order_codec_reading {
    mf_arena *arena;
    const char **words, **environment, **after;
    mf_jobqueue_order *to;
} job_order_codec_reading;

/* The value, if the pair has this key; else NULL. */
static const char *job_order_codec_value_of(const char *pair, const char *key)
{
    const size_t n = strlen(key);

    return strncmp(pair, key, n) == 0 && pair[n] == '=' ? pair + n + 1 : NULL;
}

static bool job_order_codec_read_number(const char *text, int64_t *out)
{
    char *end;
    const long long n = strtoll(text, &end, 10);

    *out = n;
    return end != text && !*end && n >= 0;
}

/* false: not a valid pair. Unknown keys are skipped, for newer versions. */
static bool job_order_codec_read_pair(job_order_codec_reading *r, const char *pair)
{
    const char *value;

    if ((value = job_order_codec_value_of(pair, "submitted")))
        return job_order_codec_read_number(value, &r->to->submitted_ns);
    if ((value = job_order_codec_value_of(pair, "slots")))
        return job_order_codec_read_number(value, &r->to->slots);
    if ((value = job_order_codec_value_of(pair, "restarts")))
        return job_order_codec_read_number(value, &r->to->restarts);
    if ((value = job_order_codec_value_of(pair, "grace")))
        return job_order_codec_read_number(value, &r->to->grace_s) &&
               r->to->grace_s <= MF_JOBQUEUE_MOST_GRACE_S;
    if ((value = job_order_codec_value_of(pair, "cwd")))
        r->to->cwd = value;
    else if ((value = job_order_codec_value_of(pair, "word")))
        r->words[r->to->n_words++] = value;
    else if ((value = job_order_codec_value_of(pair, "env")))
        r->environment[r->to->n_environment++] = value;
    else if ((value = job_order_codec_value_of(pair, "after")))
        r->after[r->to->n_after++] = value;
    return strchr(pair, '=') != NULL;
}

static int64_t count_words(const char *bytes, size_t n)
{
    int64_t words = 0;

    for (size_t i = 0; i < n; i++)
        words += bytes[i] == '\0';
    return words;
}

mf_status mf_jobqueue_decode(const char *bytes, size_t n, mf_arena *arena, mf_jobqueue_order *out)
{
    job_order_codec_reading r = { .arena = arena, .to = out };
    const int64_t most = count_words(bytes, n) + 1;
    const char *copy;

    *out = (mf_jobqueue_order){ .grace_s = MF_JOBQUEUE_GRACE_S };
    if (n < sizeof KIND || bytes[n - 1] != '\0' || memcmp(bytes, KIND, sizeof KIND) != 0)
        return MF_FAIL(MF_DATA_LOSS, "this is not a job record");
    copy = mf_arena_alloc(arena, (int64_t)n, 1);
    r.words = MF_ARENA_ARRAY(arena, const char *, most);
    r.environment = MF_ARENA_ARRAY(arena, const char *, most);
    r.after = MF_ARENA_ARRAY(arena, const char *, most);
    if (!copy || !r.words || !r.environment || !r.after)
        return MF_NOMEM("a job");
    memcpy((char *)(uintptr_t)copy, bytes, n);
    for (const char *at = copy + sizeof KIND; at < copy + n; at += strlen(at) + 1) {
        if (!job_order_codec_read_pair(&r, at))
            return MF_FAIL(MF_DATA_LOSS, "not a valid part of a job record: '%.80s'", at);
    }
    out->words = r.words;
    out->environment = r.environment;
    out->after = r.after;
    if (!out->cwd || out->n_words == 0 || out->slots < 1)
        return MF_FAIL(MF_DATA_LOSS, "the job record has no command, no folder, or no slots");
    return MF_OK;
}
