/* SPDX-License-Identifier: Apache-2.0 */
/* master_parts.c - the partitioned graphs of a run, for RunMetadata. They are partitioned again,
 * because they are not stored. */
#include "graph/graphdef_codec.h"
#include "proto/wire.h"
#include "tf_server/graph_partition.h"
#include "tf_server/master.h"

#include <string.h>

static mf_status encode_part(const mf_graph *graph, mf_arena *arena, ProtobufCBinaryData *out)
{
    Tensorflow__GraphDef *def;
    mf_buf bytes = { 0 };
    mf_status st = mf_graph_encode_message(graph, arena, &def);

    if (st == MF_OK)
        st = mf_wire_encode(&def->base, &bytes);
    out->len = bytes.len;
    out->data = st == MF_OK ? mf_arena_alloc(arena, (int64_t)bytes.len + 1, 1) : NULL;
    if (out->data && bytes.len > 0)
        memcpy(out->data, bytes.data, bytes.len);
    mf_buf_deinit(&bytes);
    MF_TRY(st);
    return out->data ? MF_OK : MF_NOMEM("a graph");
}

static mf_status encode_parts(const mf_graph_partition *p, mf_arena *arena,
                              ProtobufCBinaryData **out, size_t *n)
{
    *n = 0;
    *out = MF_ARENA_ARRAY(arena, ProtobufCBinaryData, p->n_tasks);
    if (!*out)
        return MF_NOMEM("graphs");
    for (int i = 0; i < p->n_tasks; i++) {
        if (p->parts[i])
            MF_TRY(encode_part(p->parts[i], arena, &(*out)[(*n)++]));
    }
    return MF_OK;
}

mf_status mf_master_parts(mf_client_session *s, const mf_run_names *names, mf_arena *arena,
                          ProtobufCBinaryData **out, size_t *n)
{
    const mf_server_tasks *t = &s->workers.server->tasks;
    mf_graph_partition_options o = { .n_tasks = t->n,
                                     .self = t->self,
                                     .devices = s->workers.devices,
                                     .incarnations = s->workers.incarnations };
    mf_graph_partition p = { 0 };
    mf_signature sig;
    mf_status st;

    pthread_mutex_lock(&s->extending);
    o.task = s->placed->task;
    st = mf_signature_find(s->placed->graph, names, arena, &sig);
    if (st == MF_OK)
        st = mf_graph_partition_make(s->placed->graph, &sig, &o, &p);
    pthread_mutex_unlock(&s->extending);
    if (st == MF_OK)
        st = encode_parts(&p, arena, out, n);
    mf_graph_partition_deinit(&p);
    return st;
}
