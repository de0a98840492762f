/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - library functions for plugins, forwarded through the host's table. */
#include "plugins/common/host.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/transport.h"

#include <stdio.h>
#include <string.h>

static const mf_plugin_host *host;

void mf_plugin_use(const mf_plugin_host *given)
{
    host = given;
}

void *mf_calloc(int64_t count, size_t size)
{
    return host->allocate(count, size);
}

void mf_free(void *p)
{
    host->release(p);
}

char *mf_strndup(const char *s, size_t len)
{
    char *copy = mf_calloc((int64_t)len + 1, 1);

    if (copy)
        memcpy(copy, s, len);
    return copy;
}

char *mf_strdup(const char *s)
{
    return mf_strndup(s, strlen(s));
}

int64_t mf_clock_ns(void)
{
    return host->clock_ns();
}

mf_status mf_error_new(mf_status code, const char *file, int line, const char *func,
                       const char *fmt, ...)
{
    char text[MF_ERROR_MESSAGE_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->fail(code, file, line, func, text);
}

mf_status mf_error_at(mf_status status, const char *file, int line, const char *func)
{
    return host->passed(status, file, line, func);
}

const char *mf_error_message(void)
{
    return host->message();
}

void mf_log_write(mf_log_level level, const char *file, int line, const char *fmt, ...)
{
    char text[MF_ERROR_MESSAGE_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    host->log((int)level, file, line, text);
}

void mf_frame_write(const mf_frame *f, unsigned char bytes[MF_FRAME_BYTES])
{
    host->frame_write(f, bytes);
}

bool mf_frame_read(const unsigned char bytes[MF_FRAME_BYTES], mf_frame *f)
{
    return host->frame_read(bytes, f) != 0;
}
