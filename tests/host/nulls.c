/* SPDX-License-Identifier: Apache-2.0 */
/* nulls.c - every public function with each of its pointers NULL, and with counts that do not fit.
 *
 * The calls are a row that a child process goes through and counts in memory it shares with its
 * parent. Where it dies, that call is a failure, and another child continues after it. run.sh
 * checks that no function of the headers is missing here. */
#define _GNU_SOURCE
#include "common.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct shared {
    volatile int at; /* the call under way, from 1 */
    volatile int wrong;
    char text[300]; /* of the call under way */
} * shared;
static int done; /* calls before the first of this child */

static bool is_due(const char *text)
{
    static int at;

    if (++at <= done)
        return false;
    shared->at = at;
    snprintf(shared->text, sizeof shared->text, "%s", text);
    return true;
}

static void judge(mf_status st)
{
    if (st == MF_INVALID_ARGUMENT || st == MF_FAILED_PRECONDITION)
        return;
    shared->wrong++;
    printf("# %s: %s, %s\n", shared->text, mf_status_name(st), mf_error_message());
}

/* It must be refused. */
#define BAD(call)                                                                                  \
    do {                                                                                           \
        if (is_due(#call))                                                                         \
            judge(call);                                                                           \
    } while (0)
/* It has no status; it must return. */
#define QUIET(call)                                                                                \
    do {                                                                                           \
        if (is_due(#call))                                                                         \
            (void)(call);                                                                          \
    } while (0)
/* It builds, so the graph must have failed. */
#define STICKY(graph, call)                                                                        \
    do {                                                                                           \
        mf_graph *graph;                                                                           \
        OK(mf_graph_new(&graph));                                                                  \
        if (is_due(#call)) {                                                                       \
            (void)(call);                                                                          \
            judge(mf_graph_status(graph));                                                         \
        }                                                                                          \
        mf_graph_free(graph);                                                                      \
    } while (0)
#define STICKY_MODEL(model, call)                                                                  \
    do {                                                                                           \
        mf_model *model;                                                                           \
        OK(mf_model_new(&model));                                                                  \
        if (is_due(#call)) {                                                                       \
            (void)(call);                                                                          \
            judge(mf_model_status(model));                                                         \
        }                                                                                          \
        mf_model_free(model);                                                                      \
    } while (0)

static const int64_t dims[] = { 2, 2 };
static const char *const name[] = { "a:0" }, *const no_name[] = { NULL };
static mf_tensor *tensor, *no_tensor;
static const mf_tensor *const no_value[] = { NULL };
static float memory[4];

static void tensors(void)
{
    mf_tensor *out, *text;
    const char *data;
    size_t len;

    BAD(mf_numerics_pin(NULL));
    BAD(mf_tensor_new(MF_DTYPE_F32, NULL, 2, &out));
    BAD(mf_tensor_new(MF_DTYPE_F32, dims, 2, NULL));
    BAD(mf_tensor_new(MF_DTYPE_F32, dims, -1, &out));
    BAD(mf_tensor_wrap(MF_DTYPE_F32, NULL, 2, memory, sizeof memory, NULL, NULL, &out));
    BAD(mf_tensor_wrap(MF_DTYPE_F32, dims, 2, NULL, sizeof memory, NULL, NULL, &out));
    BAD(mf_tensor_wrap(MF_DTYPE_F32, dims, 2, memory, sizeof memory, NULL, NULL, NULL));
    BAD(mf_tensor_copy(NULL, &out));
    BAD(mf_tensor_copy(tensor, NULL));
    QUIET(mf_tensor_free(NULL));
    QUIET(mf_tensor_dtype(NULL));
    QUIET(mf_tensor_rank(NULL));
    QUIET(mf_tensor_dim(NULL, 0));
    QUIET(mf_tensor_dim(tensor, 99));
    QUIET(mf_tensor_count(NULL));
    QUIET(mf_tensor_data(NULL));
    QUIET(mf_tensor_bytes(NULL));
    OK(mf_tensor_new(MF_DTYPE_STRING, dims, 1, &text));
    BAD(mf_tensor_set_string(NULL, 0, "a", 1));
    BAD(mf_tensor_set_string(text, 0, NULL, 1));
    BAD(mf_tensor_set_string(tensor, 0, "a", 1));
    BAD(mf_tensor_get_string(NULL, 0, &data, &len));
    BAD(mf_tensor_get_string(text, 0, NULL, &len));
    BAD(mf_tensor_get_string(text, 0, &data, NULL));
    BAD(mf_tensor_get_string(tensor, 0, &data, &len));
    QUIET(mf_dtype_name((mf_dtype)-1));
    QUIET(mf_dtype_size((mf_dtype)999));
    QUIET(mf_status_name((mf_status)-1));
    QUIET(mf_error_message());
    QUIET(mf_error_trace());
    QUIET(mf_version());
    mf_tensor_free(text);
}

static void graphs(void)
{
    const mf_output none = { 0 }, port = { .port = 3 };
    mf_replica_devices devices = { 0 };
    mf_output x, dx;
    mf_graph *g;
    char *bytes;
    size_t len;

    OK(mf_graph_new(&g));
    x = mf_constant(g, tensor, "a");
    BAD(mf_graph_new(NULL));
    QUIET(mf_graph_free(NULL));
    BAD(mf_graph_status(NULL));
    QUIET(mf_apply(NULL, "Neg", MF_IN(x)));
    STICKY(h, mf_apply(h, NULL, MF_NO_IN));
    STICKY(h, mf_apply(h, "Neg", MF_NO_IN));
    STICKY(h, mf_apply(h, "Neg", MF_IN(none)));
    STICKY(h, mf_apply(h, "Neg", MF_IN(port)));
    STICKY(h, mf_apply(h, "Neg", MF_IN(x)));
    QUIET(mf_applyf(NULL, "Neg", MF_IN(x), "name='%s'", "b"));
    STICKY(h, mf_applyf(h, NULL, MF_NO_IN, "name='%s'", "b"));
    STICKY(h, mf_applyf(h, "Neg", MF_NO_IN, (const char *)NULL));
    QUIET(mf_constant(NULL, tensor, NULL));
    STICKY(h, mf_constant(h, NULL, NULL));
    QUIET(mf_scalar(NULL, MF_DTYPE_F32, 1));
    STICKY(h, mf_scalar(h, MF_DTYPE_STRING, 1));
    STICKY(h, mf_scalar(h, (mf_dtype)77, 1));
    QUIET(mf_ints(NULL, dims, 2));
    STICKY(h, mf_ints(h, NULL, 2));
    STICKY(h, mf_ints(h, dims, -2));
    QUIET(mf_control(NULL, x.node, x.node));
    QUIET(mf_control(g, NULL, x.node));
    QUIET(mf_control(g, x.node, NULL));
    STICKY(h, (mf_control(h, x.node, x.node), 0));
    QUIET(mf_graph_scope(NULL, "a"));
    STICKY(h, (mf_graph_scope(h, NULL), 0));
    QUIET(mf_define(NULL, "f", MF_IN(x), MF_IN(x)));
    STICKY(h, (mf_define(h, NULL, MF_NO_IN, MF_NO_IN), 0));
    STICKY(h, (mf_define(h, "f", MF_IN(x), MF_IN(x)), 0));
    QUIET(mf_graph_find(NULL, "a"));
    QUIET(mf_graph_find(g, NULL));
    QUIET(mf_node_name(NULL));
    BAD(mf_gradients(NULL, &x, 1, &x, 1, NULL, &dx));
    BAD(mf_gradients(g, NULL, 1, &x, 1, NULL, &dx));
    BAD(mf_gradients(g, &x, 1, NULL, 1, NULL, &dx));
    BAD(mf_gradients(g, &x, 1, &x, 1, NULL, NULL));
    BAD(mf_gradients(g, &x, -1, &x, 1, NULL, &dx));
    BAD(mf_gradients(g, &none, 1, &x, 1, NULL, &dx));
    BAD(mf_graph_set_devices(NULL, &devices));
    BAD(mf_graph_set_devices(g, NULL));
    BAD(mf_graph_decode(NULL, "", 0));
    BAD(mf_graph_decode(g, NULL, 3));
    BAD(mf_graph_encode(NULL, &bytes, &len));
    BAD(mf_graph_encode(g, NULL, &len));
    BAD(mf_graph_encode(g, &bytes, NULL));
    BAD(mf_graph_load(NULL, "x.pb"));
    BAD(mf_graph_load(g, NULL));
    BAD(mf_graph_save(NULL, "x.pb"));
    BAD(mf_graph_save(g, NULL));
    QUIET(mf_bytes_free(NULL));
    QUIET(mf_name_dims(NULL, x, "a"));
    STICKY(h, (mf_name_dims(h, x, "a"), 0));
    STICKY(h, (mf_name_dims(h, none, "a"), 0));
    STICKY(h, (mf_name_dims(h, x, NULL), 0));
    QUIET(mf_put_on_mesh(NULL, x, 0));
    STICKY(h, (mf_put_on_mesh(h, x, 0), 0));
    mf_graph_free(g);
}

static void see_device(void *ctx, const char *device, const char *type)
{
    (void)ctx, (void)device, (void)type;
}

static void see_cost(void *ctx, const mf_mesh_cost *cost)
{
    (void)ctx, (void)cost;
}

static void sessions(void)
{
    const mf_session_options remote = { .target = "grpc://localhost:1", .connect_ms = 1 };
    mf_mesh_options mesh = { .mesh = "rows:2" };
    mf_tensor *results[1] = { NULL };
    mf_mesh_counts counts;
    mf_session *s, *out;
    mf_graph *g;
    int64_t moved;

    OK(mf_graph_new(&g));
    (void)mf_constant(g, tensor, "a");
    OK(mf_session_new(g, NULL, &s));
    BAD(mf_session_new(NULL, NULL, &out));
    BAD(mf_session_new(g, NULL, NULL));
    BAD(mf_session_new(g, &(mf_session_options){ .n_allow_dirs = 1 }, &out));
    BAD(mf_session_new(g, &(mf_session_options){ .allow_dirs = no_name, .n_allow_dirs = 1 }, &out));
    BAD(mf_session_new(g, &(mf_session_options){ .n_device_filters = 1 }, &out));
    QUIET(mf_session_free(NULL));
    BAD(mf_session_extend(NULL, g));
    BAD(mf_session_extend(s, NULL));
    BAD(mf_session_run(NULL, NULL, NULL, NULL, 0, name, 1, NULL, 0, results));
    BAD(mf_session_run(s, NULL, NULL, NULL, 0, name, 1, NULL, 0, NULL));
    BAD(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 1, NULL, 0, results));
    BAD(mf_session_run(s, NULL, NULL, NULL, 0, no_name, 1, NULL, 0, results));
    BAD(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, NULL, 1, NULL));
    BAD(mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, no_name, 1, NULL));
    BAD(mf_session_run(s, NULL, name, NULL, 1, name, 1, NULL, 0, results));
    BAD(mf_session_run(s, NULL, name, no_value, 1, name, 1, NULL, 0, results));
    BAD(mf_session_run(s, NULL, NULL, no_value, 1, name, 1, NULL, 0, results));
    BAD(mf_session_run(s, NULL, no_name, (const mf_tensor *const *)&tensor, 1, name, 1, NULL, 0,
                       results));
    BAD(mf_session_run(s, NULL, NULL, NULL, -1, name, 1, NULL, 0, results));
    QUIET(mf_session_cancel(NULL));
    BAD(mf_session_devices(NULL, see_device, NULL));
    BAD(mf_session_devices(s, NULL, NULL));
    BAD(mf_session_reset(NULL, NULL, 0));
    BAD(mf_session_reset(&remote, NULL, 1));
    BAD(mf_session_reset(&remote, no_name, 1));
    BAD(mf_mesh_session_new(NULL, &mesh, &out));
    BAD(mf_mesh_session_new(g, NULL, &out));
    BAD(mf_mesh_session_new(g, &mesh, NULL));
    BAD(mf_mesh_session_new(g, &(mf_mesh_options){ 0 }, &out));
    BAD(mf_mesh_session_counts(NULL, 0, &counts));
    BAD(mf_mesh_session_counts(s, 0, NULL));
    BAD(mf_mesh_session_counts(s, 0, &counts));
    BAD(mf_mesh_session_relayout(NULL, &mesh, &moved));
    BAD(mf_mesh_session_relayout(s, NULL, &moved));
    BAD(mf_mesh_session_relayout(s, &mesh, NULL));
    BAD(mf_mesh_session_costs(NULL, see_cost, NULL));
    BAD(mf_mesh_session_costs(s, NULL, NULL));
    BAD(mf_mesh_session_costs(s, see_cost, NULL));
    mf_session_free(s);
    mf_graph_free(g);
}

static mf_status map(void *ctx, uint64_t epoch, int64_t id, const void *const *in, void *const *out)
{
    (void)ctx, (void)epoch, (void)id, (void)in, (void)out;
    return MF_OK;
}

static void data_sets(void)
{
    const mf_column column = { .dtype = MF_DTYPE_F32 };
    const mf_tensor *const value[] = { tensor };
    mf_dataset *set = make_data(), *out, *second;
    const mf_batch *batch;
    mf_iterator *it, *other;
    int64_t epoch, first;

    BAD(mf_dataset_open(NULL, NULL, &out));
    BAD(mf_dataset_open("fashion-mnist", NULL, NULL));
    BAD(mf_dataset_of(NULL, value, 1, &out));
    BAD(mf_dataset_of(no_name, value, 1, &out));
    BAD(mf_dataset_of(name, NULL, 1, &out));
    BAD(mf_dataset_of(name, no_value, 1, &out));
    BAD(mf_dataset_of(name, value, 1, NULL));
    BAD(mf_dataset_of(name, value, -1, &out));
    BAD(mf_dataset_of(NULL, NULL, 0, &out));
    QUIET(mf_dataset_ref(NULL));
    QUIET(mf_dataset_unref(NULL));
    QUIET(mf_dataset_count(NULL));
    QUIET(mf_dataset_columns(NULL, NULL));
    QUIET(mf_dataset_columns(set, NULL));
    QUIET(mf_dataset_classes(NULL, NULL));
    BAD(mf_dataset_split(NULL, 0.5, 1, &out, &second));
    BAD(mf_dataset_split(set, 0.5, 1, NULL, &second));
    BAD(mf_dataset_split(set, 0.5, 1, &out, NULL));
    BAD(mf_dataset_split(set, 0.0 / 0.0, 1, &out, &second));
    BAD(mf_dataset_range(NULL, 0, 1, &out));
    BAD(mf_dataset_range(set, 0, 1, NULL));
    BAD(mf_dataset_shard(NULL, 2, 0, &out));
    BAD(mf_dataset_shard(set, 2, 0, NULL));
    BAD(mf_dataset_shard(set, 0, 0, &out));
    BAD(mf_dataset_interleave(NULL, 1, 0, &out));
    BAD(mf_dataset_interleave((mf_dataset *const[]){ NULL }, 1, 0, &out));
    BAD(mf_dataset_interleave(&set, 1, 0, NULL));
    BAD(mf_dataset_interleave(&set, 0, 0, &out));
    BAD(mf_dataset_cache(NULL, 0, &out));
    BAD(mf_dataset_cache(set, 0, NULL));
    BAD(mf_dataset_map(NULL, &column, 1, map, NULL, &out));
    BAD(mf_dataset_map(set, NULL, 1, map, NULL, &out));
    BAD(mf_dataset_map(set, &column, 1, map, NULL, &out));
    BAD(mf_dataset_map(set, &(mf_column){ .name = "x", .dtype = MF_DTYPE_F32 }, 1, NULL, NULL,
                       &out));
    BAD(mf_dataset_map(set, &column, 1, map, NULL, NULL));
    BAD(mf_dataset_augment(NULL, NULL, 1, &out));
    BAD(mf_dataset_augment(set, NULL, 1, NULL));
    BAD(mf_dataset_pairs(NULL, NULL, 1, &out));
    BAD(mf_dataset_pairs(set, NULL, 1, NULL));
    BAD(mf_dataset_read(NULL, 0, 0, (void *[]){ memory, NULL }));
    BAD(mf_dataset_read(set, 0, 0, NULL));
    QUIET(mf_dataset_sample_id(NULL, 0));
    QUIET(mf_dataset_sample_id(set, -1));
    QUIET(mf_dataset_sample_id(set, 1000000));
    OK(mf_iterator_new(set, NULL, &it));
    BAD(mf_iterator_new(NULL, NULL, &other));
    BAD(mf_iterator_new(set, NULL, NULL));
    BAD(mf_iterator_new(set, &(mf_iterator_options){ .batch = -1 }, &other));
    QUIET(mf_iterator_free(NULL));
    BAD(mf_iterator_next(NULL, &batch));
    BAD(mf_iterator_next(it, NULL));
    QUIET(mf_iterator_position(NULL, &epoch, &first));
    QUIET(mf_iterator_position(it, NULL, &first));
    QUIET(mf_iterator_position(it, &epoch, NULL));
    BAD(mf_iterator_seek(NULL, 0, 0));
    BAD(mf_iterator_share(NULL, 0, 1));
    BAD(mf_iterator_share_part(NULL, 0, 1, 0, 1));
    BAD(mf_iterator_set_threads(NULL, 1));
    BAD(mf_iterator_set_threads(it, 0));
    mf_iterator_free(it);
    mf_dataset_unref(set);
}

static void models(void)
{
    mf_model *m = make_model(), *out;
    mf_dataset *data = make_data();
    const mf_output none = { 0 }, x = mf_model_input(m, "other", MF_DTYPE_F32, dims, 2);
    const char *loss, *metrics;
    int64_t trained;

    BAD(mf_model_new(NULL));
    QUIET(mf_model_free(NULL));
    QUIET(mf_model_input(NULL, "x", MF_DTYPE_F32, dims, 2));
    STICKY_MODEL(n, mf_model_input(n, NULL, MF_DTYPE_F32, dims, 2));
    STICKY_MODEL(n, mf_model_input(n, "x", MF_DTYPE_F32, NULL, 2));
    STICKY_MODEL(n, mf_model_input(n, "x", MF_DTYPE_F32, dims, -2));
    STICKY_MODEL(n, mf_model_input(n, "x", MF_DTYPE_F32, dims, 99));
    QUIET(mf_layer(NULL, "Dense", MF_IN(x), "units=3"));
    STICKY_MODEL(n, mf_layer(n, NULL, MF_IN(x), "units=3"));
    STICKY_MODEL(n, mf_layer(n, "Dense", MF_NO_IN, "units=3"));
    STICKY_MODEL(n, mf_layer(n, "Dense", MF_IN(x), "units=3"));
    STICKY_MODEL(n, mf_layer(n, "Dense", MF_IN(none), (const char *)NULL));
    QUIET(mf_model_output(NULL, x));
    STICKY_MODEL(n, (mf_model_output(n, x), 0));
    STICKY_MODEL(n, (mf_model_output(n, none), 0));
    QUIET(mf_loss(NULL, "huber", x, x));
    STICKY_MODEL(n, mf_loss(n, NULL, x, x));
    STICKY_MODEL(n, mf_loss(n, "huber", x, x));
    STICKY_MODEL(n, mf_loss(n, "huber", none, none));
    BAD(mf_model_zoo(NULL, data, &out));
    BAD(mf_model_zoo("mlp", NULL, &out));
    BAD(mf_model_zoo("mlp", data, NULL));
    QUIET(mf_model_defaults(NULL, &loss, &metrics));
    QUIET(mf_model_defaults(m, NULL, &metrics));
    QUIET(mf_model_defaults(m, &loss, NULL));
    BAD(mf_model_freeze(NULL, "*", true));
    BAD(mf_model_freeze(m, NULL, true));
    QUIET(mf_model_graph(NULL));
    BAD(mf_model_status(NULL));
    QUIET(mf_model_parameters(NULL, &trained));
    QUIET(mf_model_parameters(m, NULL));
    mf_model_free(m);
    mf_dataset_unref(data);
}

static void trainers(void)
{
    mf_model *m = make_model(), *other = make_model();
    mf_dataset *data = make_data();
    mf_trainer *t = make_trainer(m, NULL), *out;
    mf_result results[MF_MAX_RESULTS];
    mf_step_memory used;
    char digits[65];
    int64_t loaded;
    int n;

    BAD(mf_model_compile(NULL, NULL, &out));
    BAD(mf_model_compile(other, NULL, NULL));
    QUIET(mf_trainer_free(NULL));
    QUIET(mf_trainer_session(NULL));
    QUIET(mf_trainer_step(NULL));
    QUIET(mf_trainer_variable(NULL, 0));
    QUIET(mf_trainer_variable(t, -1));
    QUIET(mf_trainer_variable(t, 1000));
    BAD(mf_trainer_get(NULL, "dense/bias", &no_tensor));
    BAD(mf_trainer_get(t, NULL, &no_tensor));
    BAD(mf_trainer_get(t, "dense/bias", NULL));
    BAD(mf_trainer_set(NULL, "dense/bias", tensor));
    BAD(mf_trainer_set(t, NULL, tensor));
    BAD(mf_trainer_set(t, "dense/bias", NULL));
    BAD(mf_trainer_set(t, "dense/bias", tensor));
    BAD(mf_trainer_sha256(NULL, digits));
    BAD(mf_trainer_sha256(t, NULL));
    QUIET(mf_trainer_memory(NULL, &used));
    QUIET(mf_trainer_memory(t, NULL));
    BAD(mf_fit(NULL, data, NULL, NULL));
    BAD(mf_fit(t, NULL, NULL, NULL));
    BAD(mf_fit(t, data, NULL, &(mf_fit_options){ .n_hooks = 1 }));
    BAD(mf_fit(t, data, NULL, &(mf_fit_options){ .batch = -1 }));
    BAD(mf_fit(t, data, NULL, &(mf_fit_options){ .epochs = -1 }));
    BAD(mf_fit(t, data, NULL, &(mf_fit_options){ .steps = -1 }));
    QUIET(mf_trainer_stop(NULL));
    BAD(mf_evaluate(NULL, data, results, &n));
    BAD(mf_evaluate(t, NULL, results, &n));
    BAD(mf_evaluate(t, data, NULL, &n));
    BAD(mf_evaluate(t, data, results, NULL));
    BAD(mf_predict(NULL, data, &no_tensor));
    BAD(mf_predict(t, NULL, &no_tensor));
    BAD(mf_predict(t, data, NULL));
    BAD(mf_trainer_save(NULL, "/tmp/x"));
    BAD(mf_trainer_save(t, NULL));
    BAD(mf_trainer_restore(NULL, "/tmp/x"));
    BAD(mf_trainer_restore(t, NULL));
    BAD(mf_trainer_use(NULL, "/tmp/x"));
    BAD(mf_trainer_use(t, NULL));
    BAD(mf_trainer_load_weights(NULL, "/tmp/x", &loaded));
    BAD(mf_trainer_load_weights(t, NULL, &loaded));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_model_free(other);
    mf_dataset_unref(data);
}

static mf_status feed(void *ctx, mf_run_request *request)
{
    (void)ctx, (void)request;
    return MF_OK;
}

static void hooks(void)
{
    const mf_summary_options summary = { .dir = "/tmp", .n_summaries = 1 };
    const mf_every every = { .steps = 1 };
    mf_hook hook, empty = { 0 };
    const char *why;
    int64_t step;

    QUIET(mf_hook_loop_session(NULL));
    QUIET(mf_hook_loop_trainer(NULL));
    QUIET(mf_hook_loop_coordinator(NULL));
    BAD(mf_hook_loop_step(NULL, &step));
    QUIET(mf_hook_loop_stop(NULL));
    QUIET(mf_hook_free(NULL));
    QUIET(mf_hook_free(&empty));
    BAD(mf_hook_stop_at_step(1, 0, NULL));
    BAD(mf_hook_checkpoint(NULL, every, 0, &hook));
    BAD(mf_hook_checkpoint("/tmp", every, 0, NULL));
    BAD(mf_hook_summary(NULL, &hook));
    BAD(mf_hook_summary(&(mf_summary_options){ .every = every }, &hook));
    BAD(mf_hook_summary(&summary, NULL));
    BAD(mf_hook_summary(&summary, &hook));
    BAD(mf_hook_step_counter(every, NULL, NULL));
    BAD(mf_hook_nan_guard(NULL, true, NULL));
    BAD(mf_hook_converged(NULL, NULL));
    QUIET(mf_hook_converged_state(NULL, &why));
    QUIET(mf_hook_converged_state(&empty, &why));
    BAD(mf_hook_logging(NULL, 1, every, true, &hook));
    BAD(mf_hook_logging(no_name, 1, every, true, &hook));
    BAD(mf_hook_logging(name, 1, every, true, NULL));
    BAD(mf_hook_final_ops(NULL, 1, &hook));
    BAD(mf_hook_final_ops(no_name, 1, &hook));
    BAD(mf_hook_final_ops(name, 1, NULL));
    QUIET(mf_hook_final_values(NULL));
    QUIET(mf_hook_final_values(&empty));
    BAD(mf_hook_profiler(NULL, every, &hook));
    BAD(mf_hook_profiler("/tmp", every, NULL));
    BAD(mf_hook_feed(NULL, NULL, &hook));
    BAD(mf_hook_feed(feed, NULL, NULL));
    BAD(mf_hook_global_step_waiter(1, NULL));
}

static mf_status work(void *ctx)
{
    (void)ctx;
    return MF_OK;
}

static void coordinators(void)
{
    const mf_queue_runner runner = { .n_enqueue = 1, .close = "c", .cancel = "d" };
    mf_monitored_session *monitored;
    mf_coordinator *c;
    mf_session *s;
    mf_graph *g;

    OK(mf_coordinator_new(&c));
    OK(mf_graph_new(&g));
    OK(mf_session_new(g, NULL, &s));
    BAD(mf_coordinator_new(NULL));
    QUIET(mf_coordinator_free(NULL));
    QUIET(mf_coordinator_request_stop(NULL, MF_OK));
    QUIET(mf_coordinator_should_stop(NULL));
    QUIET(mf_coordinator_wait_for_stop(NULL, 0));
    BAD(mf_coordinator_failure(NULL));
    QUIET(mf_coordinator_clear_stop(NULL));
    BAD(mf_coordinator_start(NULL, "a", work, NULL));
    BAD(mf_coordinator_start(c, NULL, work, NULL));
    BAD(mf_coordinator_start(c, "a", NULL, NULL));
    BAD(mf_coordinator_register_thread(NULL, "a", pthread_self()));
    BAD(mf_coordinator_register_thread(c, NULL, pthread_self()));
    BAD(mf_coordinator_join(NULL, 1));
    BAD(mf_queue_runner_start(NULL, s, c));
    BAD(mf_queue_runner_start(&runner, NULL, c));
    BAD(mf_queue_runner_start(&runner, s, NULL));
    BAD(mf_queue_runner_start(&runner, s, c));
    BAD(mf_monitored_session_new(NULL, NULL, &monitored));
    BAD(mf_monitored_session_new(g, NULL, NULL));
    BAD(mf_monitored_session_new(g, &(mf_monitored_options){ .n_hooks = 1 }, &monitored));
    BAD(mf_monitored_session_new(g, &(mf_monitored_options){ .n_queue_runners = 1 }, &monitored));
    BAD(mf_monitored_session_run(NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL));
    QUIET(mf_monitored_session_should_stop(NULL));
    QUIET(mf_monitored_session_raw(NULL));
    if (is_due("mf_monitored_session_close(NULL)"))
        OK(mf_monitored_session_close(NULL));
    mf_session_free(s);
    mf_graph_free(g);
    mf_coordinator_free(c);
}

static void strategies(void)
{
    mf_mesh_counts *counts = calloc(2, sizeof *counts);
    mf_mesh_worker workers[2];
    mf_traffic traffic;
    mf_strategy *s;

    OK(mf_strategy_open("mirrored replicas=2", NULL, &s));
    BAD(mf_strategy_open("mirrored replicas=2", NULL, NULL));
    QUIET(mf_strategy_close(NULL));
    QUIET(mf_strategy_rank(NULL));
    QUIET(mf_strategy_size(NULL));
    QUIET(mf_strategy_serves(NULL));
    QUIET(mf_strategy_is_chief(NULL));
    QUIET(mf_strategy_is_over(NULL));
    QUIET(mf_strategy_traffic(NULL, &traffic));
    QUIET(mf_strategy_traffic(s, NULL));
    BAD(mf_strategy_barrier(s, NULL));
    QUIET(mf_strategy_stop(NULL));
    QUIET(mf_strategy_leave(NULL));
    QUIET(mf_strategy_has_left(NULL));
    QUIET(mf_strategy_abort(NULL, MF_INTERNAL));
    BAD(mf_strategy_mesh_relayout(NULL, "rows:2", ""));
    BAD(mf_strategy_mesh_relayout(s, NULL, NULL));
    QUIET(mf_strategy_mesh_counts(NULL, counts, 2));
    QUIET(mf_strategy_mesh_counts(s, NULL, 2));
    QUIET(mf_strategy_mesh_workers(NULL, workers, 2));
    QUIET(mf_strategy_mesh_workers(s, NULL, 2));
    BAD(mf_strategy_mesh_costs(NULL, see_cost, NULL));
    BAD(mf_strategy_mesh_costs(s, NULL, NULL));
    mf_strategy_close(s);
    free(counts);
}

static void dispatches(void)
{
    mf_closure_spec spec = { .fetches = name, .n_fetches = 1 };
    mf_closure *c, *other;
    mf_worker_done told;
    mf_future *future;
    mf_dispatch *d;
    mf_graph *g;

    OK(mf_graph_new(&g));
    (void)mf_constant(g, tensor, "a");
    OK(mf_dispatch_open(NULL, &d));
    BAD(mf_closure_new(d, &spec, &other)); /* without a graph */
    spec.graph = g;
    OK(mf_closure_new(d, &spec, &c));
    OK(mf_dispatch_schedule(d, c, NULL, &future));
    BAD(mf_dispatch_open(NULL, NULL));
    QUIET(mf_dispatch_close(NULL));
    QUIET(mf_dispatch_is_master(NULL));
    BAD(mf_dispatch_serve(NULL));
    BAD(mf_dispatch_serve(d));
    BAD(mf_closure_new(NULL, &spec, &other));
    BAD(mf_closure_new(d, NULL, &other));
    BAD(mf_closure_new(d, &spec, NULL));
    BAD(mf_closure_new(d, &(mf_closure_spec){ .graph = g, .n_fetches = 1 }, &other));
    QUIET(mf_closure_free(NULL));
    BAD(mf_dispatch_schedule(NULL, c, NULL, NULL));
    BAD(mf_dispatch_schedule(d, NULL, NULL, NULL));
    BAD(mf_dispatch_schedule_on(NULL, 0, c, NULL, NULL));
    BAD(mf_dispatch_schedule_on(d, 0, NULL, NULL, NULL));
    BAD(mf_dispatch_schedule_on(d, 99, c, NULL, NULL));
    BAD(mf_dispatch_run_on_all(NULL, c, NULL));
    BAD(mf_dispatch_run_on_all(d, NULL, NULL));
    BAD(mf_dispatch_join(NULL, 0));
    QUIET(mf_dispatch_cancel(NULL));
    BAD(mf_future_wait(NULL, 0, &no_tensor));
    BAD(mf_future_wait(future, -1, NULL));
    QUIET(mf_future_is_done(NULL));
    QUIET(mf_future_free(NULL));
    QUIET(mf_dispatch_workers(NULL));
    QUIET(mf_dispatch_done(NULL, 0, &told));
    QUIET(mf_dispatch_done(d, 0, NULL));
    mf_future_free(future);
    mf_closure_free(c);
    mf_dispatch_close(d);
    mf_graph_free(g);
}

static void servers(void)
{
    const mf_server_options inside = { .inside = true },
                            bad = { .inside = true, .n_allow_dirs = 1 };
    mf_local_cluster *c, *cluster;
    mf_server *s, *server;

    OK(mf_server_new(&inside, &s));
    OK(mf_local_cluster_new("worker=1", &inside, &c));
    BAD(mf_server_new(&inside, NULL));
    BAD(mf_server_new(&bad, &server));
    QUIET(mf_server_target(NULL));
    QUIET(mf_server_join(NULL));
    QUIET(mf_server_stop(NULL));
    QUIET(mf_server_free(NULL));
    BAD(mf_local_cluster_new("worker=1", &inside, NULL));
    BAD(mf_local_cluster_new("worker=1", &bad, &cluster));
    BAD(mf_local_cluster_new(NULL, NULL, &cluster));
    QUIET(mf_local_cluster_spec(NULL));
    QUIET(mf_local_cluster_target(NULL, "worker", 0));
    QUIET(mf_local_cluster_target(c, NULL, 0));
    QUIET(mf_local_cluster_target(c, "worker", 9));
    QUIET(mf_local_cluster_join(NULL));
    QUIET(mf_local_cluster_stop(NULL));
    QUIET(mf_local_cluster_free(NULL));
    mf_local_cluster_free(c);
    mf_server_free(s);
}

static void all_calls(void)
{
    static void (*const families[])(void) = { tensors,    graphs,     sessions, data_sets,
                                              models,     trainers,   hooks,    coordinators,
                                              strategies, dispatches, servers };

    OK(mf_tensor_new(MF_DTYPE_F32, dims, 2, &tensor));
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        families[i]();
    mf_tensor_free(tensor);
}

int main(void)
{
    int crashes = 0, status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (;;) {
        const pid_t pid = fork();

        if (pid == 0) {
            alarm(60);
            all_calls();
            exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        crashes++;
        if (WIFSIGNALED(status))
            printf("# call %d, %s: signal %d, %s\n", shared->at, shared->text, WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
        else
            printf("# behind call %d, %s: exit status %d\n", shared->at, shared->text,
                   WEXITSTATUS(status));
        if (done == shared->at) /* nothing to continue with */
            break;
        done = shared->at;
    }
    printf("%d calls, %d crashes, %d wrong answers\n", shared->at, crashes, shared->wrong);
    return crashes > 0 || shared->wrong > 0;
}
