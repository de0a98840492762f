/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - the per-thread error record. */
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local mf_error record;

const char *mf_status_name(mf_status status)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    const int code = (int)status;

    return code >= 0 && code < MF_COUNT(names) ? names[code] : "UNKNOWN";
}

const char *mf_error_message(void)
{
    return record.message;
}

const char *mf_error_trace(void)
{
    return record.trace;
}

static const char *short_path(const char *file)
{
    const char *src = strstr(file, "src/");

    return src ? src : file;
}

static void trace_add(const char *file, int line, const char *func)
{
    const size_t used = strlen(record.trace);

    /* When the record is full, the oldest places are kept: they name the cause. */
    (void)snprintf(record.trace + used, sizeof record.trace - used, "    at %s:%d %s\n",
                   short_path(file), line, func);
}

mf_status mf_error_new(mf_status code, const char *file, int line, const char *func,
                       const char *fmt, ...)
{
    char text[MF_ERROR_MESSAGE_MAX]; /* the arguments may point into the record itself */
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(record.message, text, strlen(text) + 1);
    record.status = code;
    record.trace[0] = '\0';
    trace_add(file, line, func);
    return code;
}

mf_status mf_error_at(mf_status status, const char *file, int line, const char *func)
{
    trace_add(file, line, func);
    return status;
}

mf_status mf_error_wrap(mf_status status, const char *before, const char *after)
{
    char text[MF_ERROR_MESSAGE_MAX];
    const int max = (int)sizeof text;
    /* The added text matters more than the tail of a very long message. */
    const int room = max - 1 - (int)strlen(before) - (int)strlen(after);

    (void)snprintf(text, sizeof text, "%s%.*s%s", before, room > 0 ? room : 0, record.message,
                   after);
    memcpy(record.message, text, strlen(text) + 1);
    return status;
}

void mf_error_save(mf_status status, mf_error *out)
{
    *out = record;
    out->status = status;
}

mf_status mf_error_restore(const mf_error *error)
{
    record = *error;
    return error->status;
}

void mf_assert_failed(const char *cond, const char *file, int line, const char *func)
{
    (void)fprintf(stderr, "meshflow: internal error: %s does not hold at %s:%d %s\n", cond,
                  short_path(file), line, func);
    abort();
}
