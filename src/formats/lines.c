/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - reads a file line by line; see stream.h. */
#include "base/mem.h"
#include "formats/stream.h"

#include <string.h>

enum { PIECE = 1 << 16 };

static mf_status refill(mf_lines *l)
{
    if (!l->piece && !(l->piece = mf_calloc(PIECE, 1)))
        return MF_NOMEM("reading lines");
    l->at = l->have = 0;
    return mf_reader_read(l->reader, l->piece, PIECE, &l->have);
}

/* Bytes without '\r'. */
static void lines_append(mf_buf *out, const char *from, size_t n)
{
    while (n > 0) {
        const char *r = memchr(from, '\r', n);
        const size_t some = r ? (size_t)(r - from) : n;

        mf_buf_bytes(out, from, some);
        from += some + (r != NULL);
        n -= some + (r != NULL);
    }
}

mf_status mf_lines_next(mf_lines *lines, size_t max_bytes, mf_buf *out, bool *end)
{
    mf_lines *l = lines;
    bool some = false;

    mf_buf_clear(out);
    for (;;) {
        const char *from, *stop;
        size_t n;

        if (l->at == l->have)
            MF_TRY(refill(l));
        *end = l->have == 0 && !some;
        if (l->have == 0)
            break;
        from = l->piece + l->at;
        stop = memchr(from, '\n', l->have - l->at);
        n = stop ? (size_t)(stop - from) : l->have - l->at;
        lines_append(out, from, n);
        l->at += n + (stop != NULL);
        some = true;
        if (out->len > max_bytes)
            return MF_FAIL(MF_RESOURCE_EXHAUSTED, "'%s' has a line of more than %zu bytes",
                           mf_reader_path(l->reader), max_bytes);
        if (stop)
            break;
    }
    return out->failed ? MF_NOMEM("a line") : MF_OK;
}

void mf_lines_deinit(mf_lines *lines)
{
    mf_free(lines->piece);
    *lines = (mf_lines){ 0 };
}
