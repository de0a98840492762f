/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - formats counts, times, byte sizes and numbers; detects UTF-8 and the width of the
 * terminal. */
#include "cli/text.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

const char *mf_cli_count(int64_t n, char text[MF_TEXT])
{
    char digits[MF_TEXT];
    const int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
    int at = 0;

    for (int i = 0; i < len; i++) {
        if (i > 0 && digits[i - 1] != '-' && (len - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

const char *mf_cli_time(double seconds, char text[MF_TEXT])
{
    /* Limited to years: a wild estimate must not overflow. */
    const long long s = seconds > 0 ? llround(fmin(seconds, 1e9)) : 0;

    if (s < 3600)
        (void)snprintf(text, MF_TEXT, "%lld:%02lld", s / 60, s % 60);
    else
        (void)snprintf(text, MF_TEXT, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return text;
}

const char *mf_cli_number(double v, char text[MF_TEXT])
{
    const double size = fabs(v);

    if (v == 0 || (size >= 0.001 && size < 10))
        (void)snprintf(text, MF_TEXT, "%.4f", v);
    else if (size >= 10 && size < 10000)
        (void)snprintf(text, MF_TEXT, "%.*f", size < 100 ? 3 : size < 1000 ? 2 : 1, v);
    else
        (void)snprintf(text, MF_TEXT, "%.3g", v);
    return text;
}

/* Reads the locale from the environment without setting it: it must not change how numbers are
 * written to files. */
bool mf_cli_is_utf8(void)
{
    const locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool is = false;

    if (locale != (locale_t)0) {
        is = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
        freelocale(locale);
    }
    return is;
}

int mf_cli_columns(int fd, int otherwise)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

int mf_cli_width(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* The escape sequence of C for a character that would begin another line or column. */
static const char *written(char c)
{
    return c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : "?";
}

void mf_cli_put_name(mf_buf *out, const char *name, int most)
{
    for (; *name; name++) {
        if (((unsigned char)*name & 0xc0) != 0x80 && most-- == 0)
            return;
        if ((unsigned char)*name < ' ')
            mf_buf_str(out, written(*name));
        else
            mf_buf_bytes(out, name, 1);
    }
}

void mf_cli_put_bytes(mf_buf *out, int64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 1024 && unit + 1 < MF_COUNT(units); unit++)
        value /= 1024;
    mf_buf_printf(out, "%.4g %s", value, units[unit]);
}
