/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt_lex.c - tokens of protobuf text, with their positions. */
#include "formats/pbtxt_internal.h"

#include <stdio.h>
#include <string.h>

/* Not <ctype.h>: that depends on the locale. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

void mf_pbtxt_say(const pbtxt_lexer *lex, const char *fmt, ...)
{
    char what[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    (void)MF_FAIL(MF_INVALID_ARGUMENT, "line %lld, column %td: %s", (long long)lex->line,
                  lex->text - lex->line_start + 1, what);
}

static void pbtxt_lex_skip_blanks(pbtxt_lexer *lex)
{
    for (; lex->at < lex->end; lex->at++) {
        if (*lex->at == '#') {
            const char *eol = memchr(lex->at, '\n', (size_t)(lex->end - lex->at));

            lex->at = eol ? eol : lex->end;
            if (!eol)
                return;
        }
        if (*lex->at == '\n') {
            lex->line++;
            lex->line_start = lex->at + 1;
        } else if (*lex->at != ' ' && (*lex->at < '\t' || *lex->at > '\r')) {
            return;
        }
    }
}

static const char *scan_name(const char *p, const char *end)
{
    while (p < end && (is_letter(*p) || is_digit(*p)))
        p++;
    return p;
}

/* Letters belong to it (0xff, 1e5, 1.5f), and a sign after an exponent. */
static const char *scan_number(const char *start, const char *end)
{
    const bool hex = end - start > 1 && start[0] == '0' && (start[1] == 'x' || start[1] == 'X');
    const char *p = start;

    while (p < end &&
           (is_letter(*p) || is_digit(*p) || *p == '.' ||
            (!hex && p > start && (*p == '+' || *p == '-') && (p[-1] == 'e' || p[-1] == 'E'))))
        p++;
    return p;
}

/* NULL when the string does not end on its line. */
static const char *scan_string(const char *start, const char *end)
{
    for (const char *p = start + 1; p < end && *p != '\n'; p++) {
        if (*p == *start)
            return p + 1;
        if (*p == '\\' && p + 1 < end && p[1] != '\n')
            p++;
    }
    return NULL;
}

mf_status mf_pbtxt_lex_next(pbtxt_lexer *lex)
{
    const char *p;

    pbtxt_lex_skip_blanks(lex);
    p = lex->text = lex->at;
    lex->len = 0;
    if (p == lex->end) {
        lex->token = PBTXT_END;
        return MF_OK;
    }
    if (is_letter(*p)) {
        lex->token = PBTXT_NAME;
        lex->at = scan_name(p, lex->end);
    } else if (is_digit(*p) || (*p == '.' && p + 1 < lex->end && is_digit(p[1]))) {
        lex->token = PBTXT_NUMBER;
        lex->at = scan_number(p, lex->end);
    } else if (*p == '"' || *p == '\'') {
        lex->token = PBTXT_STRING;
        lex->at = scan_string(p, lex->end);
        if (!lex->at) {
            lex->at = p;
            return mf_pbtxt_fail(lex, "the string is not closed on its line");
        }
    } else {
        lex->token = PBTXT_MARK;
        lex->at = p + 1;
    }
    lex->len = (size_t)(lex->at - p);
    return MF_OK;
}

mf_status mf_pbtxt_lex_init(pbtxt_lexer *lex, const char *text, size_t len)
{
    if (len == 0)
        text = "";
    *lex =
        (pbtxt_lexer){ .at = text, .end = text + len, .line_start = text, .line = 1, .text = text };
    return mf_pbtxt_lex_next(lex);
}

/* ---- strings ---- */

static void append_utf8(mf_buf *out, uint32_t c)
{
    char s[4];
    size_t n = 0;

    if (c < 0x80) {
        s[n++] = (char)c;
    } else if (c < 0x800) {
        s[n++] = (char)(0xc0 | c >> 6);
        s[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        s[n++] = (char)(0xe0 | c >> 12);
        s[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        s[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        s[n++] = (char)(0xf0 | c >> 18);
        s[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        s[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        s[n++] = (char)(0x80 | (c & 0x3f));
    }
    mf_buf_bytes(out, s, n);
}

/* Up to `max` digits of the base; returns their number and their value. */
static int read_digits(const char *p, const char *end, int max, int base, uint32_t *value)
{
    int n = 0;

    for (*value = 0; n < max && p + n < end; n++) {
        const int digit = hex_value(p[n]);

        if (digit < 0 || digit >= base)
            break;
        *value = *value * (uint32_t)base + (uint32_t)digit;
    }
    return n;
}

/* \uXXXX and \UXXXXXXXX; *p is at the letter, and after the last digit on return. */
static mf_status unescape_unicode(const pbtxt_lexer *lex, const char **p, const char *end,
                                  mf_buf *out)
{
    const int digits = **p == 'u' ? 4 : 8;
    uint32_t c;

    if (read_digits(*p + 1, end, digits, 16, &c) != digits || c > 0x10ffff ||
        (c >= 0xd800 && c < 0xe000))
        return mf_pbtxt_fail(lex, "bad escape \\%c in the string", **p);
    append_utf8(out, c);
    *p += digits + 1;
    return MF_OK;
}

/* *p is after the backslash, and after the escape on return. */
static mf_status unescape(const pbtxt_lexer *lex, const char **p, const char *end, mf_buf *out)
{
    static const char from[] = "abfnrtv\\'\"?", to[] = "\a\b\f\n\r\t\v\\'\"?";
    const char *simple = **p ? strchr(from, **p) : NULL;
    uint32_t value;
    int n;
    char byte;

    if (simple) {
        mf_buf_bytes(out, &to[simple - from], 1);
        ++*p;
        return MF_OK;
    }
    if (**p == 'u' || **p == 'U')
        return unescape_unicode(lex, p, end, out);
    if (**p == 'x' || **p == 'X') {
        ++*p;
        n = read_digits(*p, end, 2, 16, &value);
    } else {
        n = read_digits(*p, end, 3, 8, &value);
    }
    if (n == 0 || value > 255)
        return mf_pbtxt_fail(lex, "bad escape in the string");
    byte = (char)value;
    mf_buf_bytes(out, &byte, 1);
    *p += n;
    return MF_OK;
}

mf_status mf_pbtxt_unquote(const pbtxt_lexer *lex, mf_buf *out)
{
    const char *p = lex->text + 1, *end = lex->text + lex->len - 1;

    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));

        mf_buf_bytes(out, p, (size_t)((escape ? escape : end) - p));
        if (!escape)
            break;
        p = escape + 1;
        MF_TRY(unescape(lex, &p, end, out));
    }
    return MF_OK;
}
