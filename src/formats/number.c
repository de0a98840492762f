/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - locale-independent parsing of numbers. */
#include "formats/number.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 400 }; /* maximum number of characters of a number */

bool mf_number_int(const char *text, size_t len, int64_t *out)
{
    const bool minus = len > 0 && text[0] == '-';
    size_t i = len > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    int64_t v = 0;

    if (i == len)
        return false;
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_sub_overflow(v, text[i] - '0', &v))
            return false;
    }
    if (!minus && v == INT64_MIN)
        return false;
    *out = minus ? v : -v;
    return true;
}

/* Up to 15 digits with a small exponent: the digits and the power of ten are exact as doubles, so
 * one division or product rounds once. (The conversion to float rounds again, as it does for
 * strtod's result.) Most numbers in files take this path, which is ten times as fast. */
static bool simple(const char *p, const char *end, double *out)
{
    static const double tens[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
    const bool minus = p < end && *p == '-';
    int64_t v = 0;
    int digits = 0, behind = -1;

    for (p += minus; p < end; p++) {
        if (*p == '.' && behind < 0) {
            behind = 0;
            continue;
        }
        if (*p < '0' || *p > '9' || ++digits > 15)
            return false;
        v = v * 10 + (*p - '0');
        behind += behind >= 0;
    }
    *out = (double)(minus ? -v : v) / tens[behind > 0 ? behind : 0];
    if (minus && v == 0)
        *out = -0.0;
    return digits > 0;
}

bool mf_number_float(const char *text, size_t len, float *out)
{
    char copy[LONGEST + 1], *end;
    double v;

    if (simple(text, text + len, &v)) {
        *out = (float)v;
        return true;
    }
    if (len == 0 || len > LONGEST || !strchr("+-.0123456789iInN", text[0]) || text[0] == 0)
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    if (strpbrk(copy, "xX("))
        return false; /* hexadecimal, nan(...) */
    v = strtod(copy, &end);
    if (end != copy + len)
        return false;
    *out = (float)v;
    return true;
}
