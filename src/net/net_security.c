/* SPDX-License-Identifier: Apache-2.0 */
/* net_security.c - finds the certificates of a task. */
#include "base/mem.h"
#include "net/transport_registry.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mf_security_fill(mf_security *s)
{
    if (s->ca || s->cert || s->key)
        return; /* never mix files from two sources */
    s->ca = getenv("MESHFLOW_TLS_CA");
    s->cert = getenv("MESHFLOW_TLS_CERT");
    s->key = getenv("MESHFLOW_TLS_KEY");
}

/* The files of "worker 2" are in worker-2/. */
static void name_file(char *out, size_t size, const char *dir, const char *task, const char *file)
{
    const int n = snprintf(out, size, "%s%s%s/", dir, task[0] ? "/" : "", task);

    for (int i = (int)strlen(dir); i < n && (size_t)i < size; i++) {
        if (out[i] == ' ')
            out[i] = '-';
    }
    if (n > 0 && (size_t)n < size)
        (void)snprintf(out + n, size - (size_t)n, "%s", file);
}

mf_status mf_security_from_dir(const char *dir, const char *task, mf_security *s, char **memory)
{
    static const char *const files[] = { "ca.pem", "cert.pem", "key.pem" };
    char(*at)[PATH_MAX] = mf_calloc(MF_COUNT(files), sizeof *at);
    const char *places[] = { task ? task : "", "" };

    *memory = NULL;
    if (!at)
        return MF_NOMEM("names of files");
    for (int k = 0; k < MF_COUNT(places); k++) {
        int found = 0;

        for (int i = 0; i < MF_COUNT(files); i++) {
            name_file(at[i], sizeof at[i], dir, places[k], files[i]);
            found += access(at[i], R_OK) == 0;
        }
        if (found == MF_COUNT(files)) {
            s->ca = at[0];
            s->cert = at[1];
            s->key = at[2];
            *memory = (char *)at;
            return MF_OK;
        }
    }
    mf_free(at);
    return MF_FAIL(MF_NOT_FOUND,
                   "%s does not contain ca.pem, cert.pem and key.pem; create them with meshflow "
                   "cert --out %s",
                   dir, dir);
}
