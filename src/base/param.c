/* SPDX-License-Identifier: Apache-2.0 */
/* param.c - finds tunables by name, and reads their values from environment variables. */
#include "base/param.h"

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern mf_param *const mf_param_table[]; /* generated; sorted by name, NULL-terminated */

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

mf_param *const *mf_params(int *n)
{
    *n = 0;
    while (mf_param_table[*n])
        ++*n;
    return mf_param_table;
}

static bool parse_value(const mf_param *p, const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return isdigit((unsigned char)text[0]) && !*end && errno == 0 && *out >= p->least;
}

static void param_load_one(mf_param *p)
{
    char variable[128];
    const char *text;
    int64_t value;

    (void)snprintf(variable, sizeof variable, "MESHFLOW_%s", p->name);
    for (char *c = variable; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    text = getenv(variable);
    if (!text)
        return;
    if (!parse_value(p, text, &value)) {
        MF_WARN("%s='%.100s' is ignored: expected a whole number of at least %lld", variable, text,
                (long long)p->least);
        return;
    }
    atomic_store(&p->value, value);
    p->source = "environment";
}

static void load_all(void)
{
    for (int i = 0; mf_param_table[i]; i++)
        param_load_one(mf_param_table[i]);
}

void mf_params_load(void)
{
    (void)pthread_once(&loaded, load_all);
}

mf_status mf_param_set(const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    const size_t n = equals ? (size_t)(equals - assignment) : strlen(assignment);
    int64_t value;

    mf_params_load();
    for (int i = 0; mf_param_table[i]; i++) {
        mf_param *p = mf_param_table[i];

        if (strlen(p->name) != n || strncmp(p->name, assignment, n) != 0)
            continue;
        if (!equals || !parse_value(p, equals + 1, &value))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "parameter '%s': expected %s=NUMBER, a whole number of at least %lld, "
                           "not '%.100s'",
                           p->name, p->name, (long long)p->least, assignment);
        atomic_store(&p->value, value);
        p->source = "command line";
        return MF_OK;
    }
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "unknown parameter '%.*s'; `meshflow params` lists all parameters",
                   (int)(n < 100 ? n : 100), assignment);
}
