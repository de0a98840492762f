/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_push.c - messages of workers to a parameter server: a push, or variables. The first byte
 * selects one.
 * Everything in the message is read. */
#include "base/mem.h"
#include "dist/param_server/ps_server.h"
#include "net/net_private.h"

#include <stdint.h>
#include <string.h>

enum { DENSE = 7, ROWS = 8, WIDTH = 3 };

static double sum_of(const float *x, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++) {
        float v;

        memcpy(&v, (const char *)x + (size_t)i * sizeof v, sizeof v);
        sum += (double)v;
    }
    return sum;
}

/* A server with a vector and a table. */
static void fuzz_push(char *data, size_t size)
{
    mf_lookup lookup = { 0 };
    mf_weight vector = { .shape = MF_SHAPE(DENSE) };
    mf_weight table = { .shape = MF_SHAPE(ROWS, WIDTH), .lookups = &lookup };
    mf_gradient gradients[] = { { .weight = &vector, .ids = -1 }, { .weight = &table } };
    mf_peer peers[] = { { .name = "worker 0" }, { .name = "ps 0" } };
    mf_net net = { .peers = peers, .n_tasks = 2, .self = 1 };
    mf_ps_shm lane = { 0 };
    server s = { .o = { .net = &net, .n_workers = 1, .n_servers = 1 },
                 .store = { .graph = { .gradients = gradients, .n_gradients = 2 } },
                 .dense = DENSE,
                 .lanes = &lane };
    mf_mail r = { .frame = { .size = size }, .data = data };
    push p;
    volatile double sum;

    if (mf_ps_look_at(&s, &r, &p) != MF_OK)
        return;
    sum =
        sum_of(p.dense, p.head.n_parts * DENSE) + sum_of(p.extra, p.head.n_parts * p.head.n_extra);
    for (int64_t i = 0; i < p.head.n_parts; i++)
        sum += (double)p.parts[i].lo + (double)p.parts[i].hi;
    sum += sum_of((const float *)(const void *)p.rows, (int64_t)(p.rows_left / sizeof(float)));
    (void)sum;
}

static void fuzz_variables(const char *data, size_t size)
{
    mf_ps_reader in = { .at = data, .left = size };
    const char *name;
    const void *value;
    volatile size_t sum = 0;
    int64_t bytes;

    while (mf_ps_read_variable(&in, &name, &value, &bytes)) {
        sum += strlen(name);
        for (int64_t i = 0; i < bytes; i++)
            sum += ((const unsigned char *)value)[i];
    }
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = size > 1 ? mf_calloc((int64_t)size - 1, 1) : NULL;

    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    if (data[0] == 0)
        fuzz_push(copy, size - 1);
    else
        fuzz_variables(copy, size - 1);
    mf_free(copy);
    return 0;
}
