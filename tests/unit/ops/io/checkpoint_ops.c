/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_ops.c - checkpoint ops and links that leave the allowed directories. */
#include "unit/ops/bench_graph.h"

#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/mf-checkpoint-XXXXXX";

static mf_output text(bench *b, const char *s, bool vector)
{
    const int64_t one = 1;
    mf_tensor *t = NULL;
    mf_output out;

    T_OK(mf_tensor_new(MF_DTYPE_STRING, &one, vector ? 1 : 0, &t));
    T_OK(mf_tensor_set_string(t, 0, s, strlen(s)));
    out = mf_constant(b->g, t, NULL);
    mf_tensor_free(t);
    return out;
}

static const char *in_dir(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", dir, name);
    return path;
}

static void shell(const char *command)
{
    char line[256];

    (void)snprintf(line, sizeof line, "cd %s && %s", dir, command);
    T_EQ(system(line), 0);
}

static mf_output save(bench *b, const char *prefix)
{
    return mf_apply(
        b->g, "SaveV2",
        MF_IN(text(b, prefix, false), text(b, "v", true), text(b, "", true), VEC(b, 3, 5)));
}

static mf_output restore(bench *b, const char *prefix)
{
    return mf_applyf(b->g, "RestoreV2",
                     MF_IN(text(b, prefix, false), text(b, "v", true), text(b, "", true)),
                     "dtypes=[float]");
}

/* A session whose graph ops may reach `in` below the directory, and nothing else. */
static void start_within(bench *b)
{
    char path[128];
    const char *const allowed[] = { in_dir("in", path) };

    T_OK(mf_graph_status(b->g));
    T_OK(mf_session_new(
        b->g, &(mf_session_options){ .threads = 1, .allow_dirs = allowed, .n_allow_dirs = 1 },
        &b->s));
}

MF_TEST(checkpoint_links_out_of_the_allowed_directories_are_not_followed)
{
    bench b = bench_new();
    char path[128];
    mf_output saved, whole, index, shard, saved_link;

    T_TRUE(mkdtemp(dir) != NULL);
    shell("mkdir in out && ln -s /dev/full in/device.index");
    saved = save(&b, in_dir("in/a", path));
    whole = restore(&b, path);
    index = restore(&b, in_dir("in/b", path));
    shard = restore(&b, in_dir("in/c", path));
    saved_link = save(&b, in_dir("in/device", path));
    start_within(&b);
    DO(&b, saved);
    T_EQ_F(value_at(&b, whole, 1), 5);
    shell("cp in/a.* out && cp in/a.index in/c.index");
    shell(
        "ln -s ../out/a.index in/b.index && cp in/a.data-00000-of-00001 in/b.data-00000-of-00001");
    shell("ln -s ../out/a.data-00000-of-00001 in/c.data-00000-of-00001");
    CANNOT(&b, index, MF_PERMISSION_DENIED, "b.index' is outside");
    CANNOT(&b, shard, MF_PERMISSION_DENIED, "c.data-00000-of-00001' is outside");
    CANNOT(&b, saved_link, MF_PERMISSION_DENIED, "device.index' is outside");
    shell("cd / && rm -r \"$OLDPWD\"");
    bench_end(&b);
}
