/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - a growing byte buffer: append bytes, text, printf; the first error is kept until
 * mf_buf_finish(). */
#include "base/buf.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void mf_buf_deinit(mf_buf *buf)
{
    mf_free(buf->data);
    *buf = (mf_buf){ 0 };
}

/* Reserve `more` bytes and the NUL. */
static bool buf_reserve(mf_buf *buf, size_t more)
{
    int64_t need;

    if (buf->failed)
        return false;
    if (!mf_add_i64((int64_t)buf->len, (int64_t)more, &need) || !mf_add_i64(need, 1, &need) ||
        mf_grow(&buf->data, &buf->cap, need, 1) != MF_OK)
        buf->failed = true;
    return !buf->failed;
}

void *mf_buf_room(mf_buf *buf, size_t n)
{
    if (!buf_reserve(buf, n))
        return NULL;
    buf->len += n;
    buf->data[buf->len] = '\0';
    return buf->data + buf->len - n;
}

void mf_buf_clear(mf_buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

void mf_buf_bytes(mf_buf *buf, const void *data, size_t len)
{
    if (!buf_reserve(buf, len))
        return;
    if (len > 0)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void mf_buf_str(mf_buf *buf, const char *s)
{
    mf_buf_bytes(buf, s, strlen(s));
}

void mf_buf_printf(mf_buf *buf, const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0 || !buf_reserve(buf, (size_t)len))
        return;
    va_start(args, fmt);
    (void)vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, args);
    va_end(args);
    buf->len += (size_t)len;
}

void mf_buf_quoted(mf_buf *buf, const char *s, size_t len)
{
    mf_buf_str(buf, "\"");
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)s[i];

        if (c == '\n')
            mf_buf_str(buf, "\\n");
        else if (c == '"' || c == '\\')
            mf_buf_printf(buf, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            mf_buf_printf(buf, "\\%03o", c);
        else
            mf_buf_bytes(buf, &s[i], 1);
    }
    mf_buf_str(buf, "\"");
}

/* Length of the well-formed UTF-8 sequence at s, or 0. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
    size_t n;

    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        n = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        n = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (left < n)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0; /* overlong, surrogate, or past U+10FFFF */
    return n;
}

void mf_buf_json(mf_buf *buf, const char *s, size_t len)
{
    mf_buf_str(buf, "\"");
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)s[i];
        const size_t n = c < 0x80 ? 1 : utf8_len((const unsigned char *)s + i, len - i);

        if (c == '"' || c == '\\') {
            mf_buf_printf(buf, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f || n == 0) {
            mf_buf_printf(buf, "\\u%04x", c);
        } else {
            mf_buf_bytes(buf, &s[i], n);
            i += n - 1;
        }
    }
    mf_buf_str(buf, "\"");
}

void mf_buf_json_number(mf_buf *buf, double value)
{
    if (isfinite(value))
        mf_buf_printf(buf, "%.9g", value);
    else
        mf_buf_str(buf, "null");
}

mf_status mf_buf_finish(mf_buf *buf)
{
    return buf->failed ? MF_NOMEM("a buffer") : MF_OK;
}
