/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_rows.c - which samples of a batch a process of a mesh reads. */
#include "spmd/session/mesh_session.h"
#include "unit/spmd/mesh_test.h"

#include <string.h>

static const mesh_mlp SIZES = { .batch = 26, .pixels = 3, .hidden = 4, .classes = 5 };

typedef struct part {
    const char *mesh, *layout;
    bool exact;
    int first, n; /* devices of this process */
} part;

/* The caller must call mf_ranges_deinit(). */
static mf_ranges rows_of(const mf_graph *g, const part *p, const char *fetch, int64_t samples)
{
    mf_mesh_setup setup = { .exact = p->exact, .first = p->first, .n = p->n, .seed = 1 };
    const mf_run_names names = { .feeds = (const char *const[]){ "x", "label" },
                                 .fetches = &fetch,
                                 .targets = (const char *const[]){ "train" },
                                 .n_feeds = 2,
                                 .n_fetches = 1,
                                 .n_targets = 1 };
    const mf_tensor x = { .dtype = MF_DTYPE_F32, .shape = MF_SHAPE(samples, SIZES.pixels) },
                    label = { .dtype = MF_DTYPE_I32, .shape = MF_SHAPE(samples) };
    mf_session *s;
    mf_ranges rows;

    T_OK(mf_meshes_parse(p->mesh, p->layout, &setup.meshes, &setup.rules));
    T_OK(mf_mesh_session_make(g, &setup, &s));
    T_OK(mf_mesh_session_rows(s, &names, (const mf_tensor *const[]){ &x, &label }, 2, samples,
                              &rows));
    mf_session_free(s);
    return rows;
}

MF_TEST(mesh_processes_read_each_sample_of_a_sharded_batch_once)
{
    mf_graph *g = mesh_mlp_graph(&SIZES);

    for (int64_t samples = 26; samples >= 19; samples -= 7) {
        int64_t at = 0;

        for (int i = 0; i < 4; i++) {
            const part p = { "all:4", "batch:all", .first = i, .n = 1 };
            mf_ranges r = rows_of(g, &p, "loss", samples);

            T_EQ(r.n, 1);
            T_EQ(r.at[0].begin, at);
            at = r.at[0].end;
            mf_ranges_deinit(&r);
        }
        T_EQ(at, samples);
    }
    mf_graph_free(g);
}

MF_TEST(mesh_process_reads_the_samples_of_all_its_devices)
{
    static const struct {
        part p;
        int64_t begin, end;
        const char *fetch;
    } CASES[] = {
        { { "rows:2;cols:2", "batch:rows;hidden:cols", .first = 1, .n = 1 }, 0, 13, "loss" },
        { { "rows:2;cols:2", "batch:rows;hidden:cols", .first = 2, .n = 1 }, 13, 26, "loss" },
        { { "rows:2;cols:2", "batch:rows;hidden:cols", .first = 1, .n = 2 }, 0, 26, "loss" },
        { { "all:4", "batch:all", .first = 1, .n = 2 }, 7, 20, "loss" },
        { { "all:4", "hidden:all", .first = 1, .n = 1 }, 0, 26, "loss" }, /* the batch is not
                                                                             sharded */
        { { "all:3,1", "batch:all", .first = 1, .n = 1 }, 19, 26, "loss" },
        /* Sums over samples are not split, so every device needs all samples. */
        { { "all:4", "batch:all", .exact = true, .first = 1, .n = 1 }, 0, 26, "loss" },
        { { "all:4", "batch:all", .first = 1, .n = 1 }, 0, 26, "x" }, /* the feed is fetched */
    };
    mf_graph *g = mesh_mlp_graph(&SIZES);

    for (int i = 0; i < MF_COUNT(CASES); i++) {
        mf_ranges r = rows_of(g, &CASES[i].p, CASES[i].fetch, SIZES.batch);

        T_EQ(r.n, 1);
        T_EQ(r.at[0].begin, CASES[i].begin);
        T_EQ(r.at[0].end, CASES[i].end);
        mf_ranges_deinit(&r);
    }
    mf_graph_free(g);
}

/* Half of a batch is fed as the complete batch. */
MF_TEST(mesh_process_rejects_feeds_with_other_rows)
{
    static const char *const feeds[] = { "x", "label" }, *const train[] = { "train" };
    mf_tensor *x = mesh_numbers(&MF_SHAPE(13, SIZES.pixels), 1),
              *label = mesh_classes(13, (int32_t)SIZES.classes, 2);
    mf_graph *g = mesh_mlp_graph(&SIZES);
    mf_session *s;

    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "all:2", .layout = "batch:all" }, &s));
    mf_mesh_session_feed_rows(s, 2, SIZES.batch);
    T_FAILS(MF_INVALID_ARGUMENT, "read 26 samples of the batch, but 13 are fed",
            mf_session_run(s, NULL, feeds, (const mf_tensor *const[]){ x, label }, 2, NULL, 0,
                           train, 1, NULL));
    mf_session_free(s);
    mf_graph_free(g);
    mf_tensor_free(x);
    mf_tensor_free(label);
}
