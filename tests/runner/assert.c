/* SPDX-License-Identifier: Apache-2.0 */
/* assert.c - the functions behind the T_ macros: print both values and exit. */
#include "mf_test.h"
#include "runner.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mf_t_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1); /* not exit(): memory that the test still holds is not a leak */
}

void mf_t_skip(const char *why)
{
    mf_runner_report_skip(why);
    fflush(NULL);
    _exit(0);
}

void mf_t_true(int holds, const char *text, const char *file, int line)
{
    if (!holds)
        mf_t_fail(file, line, "%s does not hold", text);
}

void mf_t_eq(int64_t a, int64_t b, const char *ta, const char *tb, const char *file, int line)
{
    if (a == b)
        return;
    mf_t_fail(file, line, "%s == %s does not hold\n    %s is %lld\n    %s is %lld", ta, tb, ta,
              (long long)a, tb, (long long)b);
}

void mf_t_near(double a, double b, double tol, const char *ta, const char *tb, const char *file,
               int line)
{
    if (a == b || (isnan(a) && isnan(b)))
        return; /* a == b: also equal infinities */
    if (fabs(a - b) <= tol)
        return;
    mf_t_fail(file, line,
              "%s is not %s%s\n    %s is %.17g\n    %s is %.17g\n    apart by %.3g, allowed %.3g",
              ta, tol > 0.0 ? "near " : "", tb, ta, a, tb, b, fabs(a - b), tol);
}

static const char *shown(const char *s)
{
    return s != NULL ? s : "(NULL)";
}

void mf_t_streq(const char *a, const char *b, const char *ta, const char *tb, const char *file,
                int line)
{
    if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0))
        return;
    mf_t_fail(file, line, "%s is not %s\n    %s is \"%s\"\n    %s is \"%s\"", ta, tb, ta, shown(a),
              tb, shown(b));
}

void mf_t_ok(mf_status st, const char *text, const char *file, int line)
{
    if (st == MF_OK)
        return;
    mf_t_fail(file, line, "%s failed\n    %s: %s\n%s", text, mf_status_name(st), mf_error_message(),
              mf_error_trace());
}

void mf_t_fails(mf_status code, const char *part, mf_status st, const char *text, const char *file,
                int line)
{
    if (st == MF_OK)
        mf_t_fail(file, line, "%s succeeded\n    expected %s: ...%s...", text, mf_status_name(code),
                  part);
    if (st != code || strstr(mf_error_message(), part) == NULL)
        mf_t_fail(file, line, "%s failed otherwise\n    expected %s: ...%s...\n    got %s: %s",
                  text, mf_status_name(code), part, mf_status_name(st), mf_error_message());
}
