/* SPDX-License-Identifier: Apache-2.0 */
/* halo.c - convolutions over images with sharded height and width give the results of one device,
 * and only border rows are sent. */
#include "unit/spmd/mesh_test.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 2, HEIGHT = 17, WIDTH = 12, CHANNELS = 3, FILTERS = 5 };

typedef struct halo_case {
    const char *mesh, *layout;
    const char *padding;
    int size, stride, dilation;
    bool pool;
} halo_case;

static mf_output filter(mf_graph *g, int size, int in, int out, uint64_t seed)
{
    mf_tensor *t = mesh_numbers(&MF_SHAPE(size, size, in, out), seed);
    const mf_output f = mf_constant(g, t, NULL);

    mf_tensor_free(t);
    return f;
}

static mf_output conv(mf_graph *g, mf_output x, mf_output f, const halo_case *c, int stride)
{
    return mf_applyf(g, "Conv2D", MF_IN(x, f),
                     "strides=[1,%d,%d,1] dilations=[1,%d,%d,1] padding='%s'", stride, stride,
                     c->dilation, c->dilation, c->padding);
}

/* Two convolutions, optionally a pooling, and all gradients: fetches "y", "dx", "df", "dh". */
static mf_graph *build(const halo_case *c)
{
    static const char *const names[] = { "dx", "df", "dh" };
    mf_output x, f[2], y, loss, sources[3], d[3];
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[%d,%d,%d,%d] name='x'",
                  BATCH, HEIGHT, WIDTH, CHANNELS);
    mf_name_dims(g, x, "batch,height,width,channels");
    f[0] = filter(g, c->size, CHANNELS, FILTERS, 1);
    f[1] = filter(g, c->size, FILTERS, FILTERS, 2);
    y = mf_apply(g, "Relu", MF_IN(conv(g, x, f[0], c, c->stride)));
    y = conv(g, y, f[1], c, 1);
    if (c->pool)
        y = mf_applyf(g, "MaxPool", MF_IN(y), "ksize=[1,2,2,1] strides=[1,2,2,1] padding='VALID'");
    y = mf_applyf(g, "Tanh", MF_IN(y), "name='y'");
    loss = mf_apply(g, "Sum", MF_IN(y, mf_ints(g, (int64_t[]){ 0, 1, 2, 3 }, 4)));
    sources[0] = x;
    sources[1] = f[0];
    sources[2] = f[1];
    T_OK(mf_gradients(g, &loss, 1, sources, 3, NULL, d));
    for (int i = 0; i < 3; i++)
        (void)mf_applyf(g, "Identity", MF_IN(d[i]), "name='%s'", names[i]);
    T_OK(mf_graph_status(g));
    return g;
}

static void run(mf_session *s, const char *const *fetches, int n, mf_tensor **out)
{
    static const char *const name = "x";
    mf_tensor *x = mesh_numbers(&MF_SHAPE(BATCH, HEIGHT, WIDTH, CHANNELS), 9);
    const mf_tensor *feed = x;

    T_OK(mf_session_run(s, NULL, &name, &feed, 1, fetches, n, NULL, 0, out));
    mf_tensor_free(x);
}

static void compare(const halo_case *c)
{
    static const char *const fetches[] = { "y", "dx", "df", "dh" };
    mf_graph *g = build(c);
    mf_tensor *want[4] = { NULL }, *got[4] = { NULL };
    mf_session *one, *mesh;

    T_OK(mf_session_new(g, NULL, &one));
    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = c->mesh, .layout = c->layout }, &mesh));
    run(one, fetches, 4, want);
    run(mesh, fetches, 4, got);
    for (int i = 0; i < 4; i++) {
        const double d = mesh_distance(want[i], got[i]);

        if (d > 1e-5)
            T_FAIL("%s under %s, %s, window %d, stride %d: %s is %g away", c->mesh, c->layout,
                   c->padding, c->size, c->stride, fetches[i], d);
        mf_tensor_free(want[i]);
        mf_tensor_free(got[i]);
    }
    mf_session_free(one);
    mf_session_free(mesh);
    mf_graph_free(g);
}

MF_TEST(mesh_convolutions_work_over_sharded_height_and_width)
{
    static const char *const layouts[][2] = { { "a:3", "height:a" },
                                              { "a:4", "width:a" },
                                              { "a:2;b:2", "height:a;width:b" },
                                              { "a:2;b:3", "batch:a;height:b" },
                                              { "a:1,19",
                                                "height:a" } }; /* one device would have no rows */

    for (int k = 0; k < MF_COUNT(layouts); k++) {
        for (int i = 0; i < 8; i++) {
            const halo_case c = { .mesh = layouts[k][0],
                                  .layout = layouts[k][1],
                                  .padding = i & 1 ? "VALID" : "SAME",
                                  .size = i & 2 ? 2 : 3,
                                  .stride = i & 4 ? 2 : 1,
                                  .dilation = 1,
                                  .pool = (i & 1) == 0 };

            compare(&c);
        }
        compare(&(halo_case){ layouts[k][0], layouts[k][1], "SAME", 1, 2, 1, false });
        compare(&(halo_case){ layouts[k][0], layouts[k][1], "SAME", 3, 1, 2, false });
        compare(&(halo_case){ layouts[k][0], layouts[k][1], "SAME", 5, 3, 1, false });
        compare(&(halo_case){ layouts[k][0], layouts[k][1], "SAME", 2, 3, 1, false });
        compare(&(halo_case){ layouts[k][0], layouts[k][1], "VALID", 2, 3, 1, false });
    }
}

/* The first of four devices has rows 0 to 4 of 17, and needs row 5 of the first convolution's
 * result. Then it receives the missing rows of the fetched result. */
MF_TEST(mesh_halo_exchange_sends_only_border_rows)
{
    static const char *const fetch = "y";
    const halo_case c = { "a:4", "height:a", "SAME", 3, 1, 1, false };
    const int64_t row = BATCH * WIDTH * FILTERS * 4;
    mf_graph *g = build(&c);
    mf_tensor *y = NULL;
    mf_mesh_counts counts;
    mf_session *mesh;

    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = c.mesh, .layout = c.layout }, &mesh));
    run(mesh, &fetch, 1, &y);
    T_OK(mf_mesh_session_counts(mesh, 0, &counts));
    T_EQ(counts.received_bytes, row * (1 + HEIGHT - 5));
    T_EQ(counts.planned_bytes, counts.received_bytes);
    T_OK(mf_mesh_session_counts(mesh, 1, &counts));
    T_EQ(counts.received_bytes, row * (2 + HEIGHT - 4));
    mf_tensor_free(y);
    mf_session_free(mesh);
    mf_graph_free(g);
}

/* With stride two over 17 rows, the second of four devices has rows 5 to 8 of the image, and rows 3
 * and 4 of the result. Windows 2 to 4 contain its rows, so it needs one more row of the gradient.
 * The other received rows are the missing rows of the fetched gradient. */
MF_TEST(mesh_strided_gradients_exchange_only_border_rows)
{
    static const char *const fetch = "dx";
    const halo_case c = { "a:4", "height:a", "SAME", 3, 2, 1, false };
    mf_output x, y, dx;
    mf_tensor *want = NULL, *got = NULL;
    mf_mesh_counts counts;
    mf_session *one, *mesh;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[%d,%d,%d,%d] name='x'",
                  BATCH, HEIGHT, WIDTH, CHANNELS);
    mf_name_dims(g, x, "batch,height,width,channels");
    y = mf_apply(g, "Tanh", MF_IN(conv(g, x, filter(g, 3, CHANNELS, FILTERS, 1), &c, 2)));
    T_OK(mf_gradients(g, &y, 1, &x, 1, NULL, &dx));
    (void)mf_applyf(g, "Identity", MF_IN(dx), "name='dx'");
    T_OK(mf_graph_status(g));
    T_OK(mf_session_new(g, NULL, &one));
    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = c.mesh, .layout = c.layout }, &mesh));
    run(one, &fetch, 1, &want);
    run(mesh, &fetch, 1, &got);
    T_TRUE(mesh_distance(want, got) < 1e-5);
    T_OK(mf_mesh_session_counts(mesh, 1, &counts));
    T_EQ(counts.received_bytes,
         BATCH * 4 * (WIDTH / 2 * FILTERS + (HEIGHT - 4) * WIDTH * CHANNELS));
    mf_tensor_free(want);
    mf_tensor_free(got);
    mf_session_free(one);
    mf_session_free(mesh);
    mf_graph_free(g);
}

/* ---- overlapping poolings ---- */

/* Fetches "y" and "dx" of a pooling of 3x3 over relu(x). */
static mf_graph *pool_graph(const char *op)
{
    mf_output x, y, dx;
    mf_graph *g;

    T_OK(mf_graph_new(&g));
    x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[%d,%d,%d,%d] name='x'",
                  BATCH, HEIGHT, WIDTH, CHANNELS);
    mf_name_dims(g, x, "batch,height,width,channels");
    y = mf_applyf(g, op, MF_IN(mf_apply(g, "Relu", MF_IN(x))),
                  "ksize=[1,3,3,1] strides=[1,1,1,1] padding='SAME'");
    y = mf_applyf(g, "Tanh", MF_IN(y), "name='y'");
    T_OK(mf_gradients(g, &y, 1, &x, 1, NULL, &dx));
    (void)mf_applyf(g, "Identity", MF_IN(dx), "name='dx'");
    T_OK(mf_graph_status(g));
    return g;
}

/* Runs the graph under height:a on four devices. Returns the rows that the first device received.
 */
static int64_t rows_received(const mf_graph *g, const char *fetch)
{
    mf_tensor *want = NULL, *got = NULL;
    mf_mesh_counts counts;
    mf_session *one, *mesh;

    T_OK(mf_session_new(g, NULL, &one));
    T_OK(mf_mesh_session_new(g, &(mf_mesh_options){ .mesh = "a:4", .layout = "height:a" }, &mesh));
    run(one, &fetch, 1, &want);
    run(mesh, &fetch, 1, &got);
    T_TRUE(memcmp(want->data, got->data, (size_t)want->count * 4) == 0);
    T_OK(mf_mesh_session_counts(mesh, 0, &counts));
    T_EQ(counts.received_bytes % (BATCH * WIDTH * CHANNELS * 4), 0);
    mf_tensor_free(want);
    mf_tensor_free(got);
    mf_session_free(one);
    mf_session_free(mesh);
    return counts.received_bytes / (BATCH * WIDTH * CHANNELS * 4);
}

/* The first device has rows 0 to 4 of 17. The pooling needs row 5. The gradient sums all windows
 * that contain its rows: it needs row 5 of the incoming gradient and of the pooling's result, and
 * rows 5 and 6 of its input to find the maxima. The other received rows are fetched. */
MF_TEST(mesh_overlapping_poolings_exchange_only_border_rows)
{
    const int fetched = HEIGHT - 5;
    mf_graph *average = pool_graph("AvgPool"), *largest = pool_graph("MaxPool");

    T_EQ(rows_received(average, "y"), 1 + fetched);
    T_EQ(rows_received(largest, "y"), 1 + fetched);
    T_EQ(rows_received(average, "dx"), 1 + 1 + fetched);
    T_EQ(rows_received(largest, "dx"), 1 + 1 + 1 + 2 + fetched);
    mf_graph_free(average);
    mf_graph_free(largest);
}
