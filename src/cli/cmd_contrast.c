/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_contrast.c - `meshflow contrast`: quality of a contrastive model, as numbers and
 * plots. */
#include "base/mem.h"
#include "cli/job.h"
#include "models/model.h"
#include "report/embeddings.h"
#include "report/rbm_plot.h"
#include "tensor/tensor.h"

#include <string.h>

enum { THRESHOLD_PAIRS = 10000 }; /* training pairs that select the threshold */

typedef struct figures {
    mf_buf out;
    bool json;
} figures;

static void cmd_contrast_put(figures *f, const char *name, double value)
{
    if (f->json)
        mf_buf_printf(&f->out, "%s\"%s\":%.9g", f->out.len > 0 ? "," : "{", name, value);
    else
        mf_buf_printf(&f->out, "%-24s %.6g\n", name, value);
}

/* ---- pairs ---- */

/* Distances of the pairs of a set, and their labels. */
typedef struct pair_distances {
    mf_tensor *distances;
    int32_t *same;
    int64_t n;
} pair_distances;

static mf_status cmd_contrast_measure(mf_job *job, mf_dataset *set, pair_distances *out)
{
    out->n = mf_dataset_count(set);
    MF_TRY(mf_predict(job->trainer, set, &out->distances));
    return mf_read_labels(set, "label", &out->same);
}

static void pair_distances_deinit(pair_distances *j)
{
    mf_tensor_free(j->distances);
    mf_free(j->same);
}

static mf_status verify(mf_job *job, figures *f)
{
    const int64_t all = mf_dataset_count(job->train);
    mf_dataset *part = NULL;
    pair_distances train = { 0 }, test = { 0 };
    double threshold;
    mf_status st;

    MF_TRY_TO(done, mf_dataset_range(job->train, 0, all < THRESHOLD_PAIRS ? all : THRESHOLD_PAIRS,
                                     &part));
    MF_TRY_TO(done, cmd_contrast_measure(job, part, &train));
    MF_TRY_TO(done, cmd_contrast_measure(job, job->test, &test));
    MF_TRY_TO(done, mf_best_threshold(train.distances->data, train.same, train.n, &threshold));
    cmd_contrast_put(f, "threshold", threshold);
    cmd_contrast_put(f, "training_verification",
                     mf_verification(train.distances->data, train.same, train.n, threshold));
    cmd_contrast_put(f, "verification",
                     mf_verification(test.distances->data, test.same, test.n, threshold));
    cmd_contrast_put(f, "pairs", (double)test.n);
done:
    pair_distances_deinit(&train);
    pair_distances_deinit(&test);
    mf_dataset_unref(part);
    return st;
}

/* ---- embeddings ---- */

/* Class names of the images; pairs have other labels. */
static const char *const *class_names(const mf_job *job, bool pairs, int64_t *n)
{
    const char *const *names = NULL;

    *n = pairs ? 0 : mf_dataset_classes(job->test, &names);
    return pairs ? NULL : names;
}

static mf_status embed(mf_job *job, mf_args *args, bool pairs, figures *f)
{
    const char *path = mf_args_value(args, "embeddings");
    mf_tensor *rows = NULL;
    int32_t *labels = NULL;
    int64_t n_names;
    const char *const *names = class_names(job, pairs, &n_names);
    double recall;
    mf_status st;

    if (pairs && !path)
        return MF_OK;
    MF_TRY(mf_read_labels(job->test, pairs ? "class" : "label", &labels));
    MF_TRY_TO(done, mf_embed(job->trainer, job->test, &rows));
    for (int64_t i = 0; pairs && i < mf_dataset_count(job->test); i++)
        n_names = labels[i] >= n_names ? labels[i] + 1 : n_names;
    if (!pairs) {
        MF_TRY_TO(done, mf_recall_at_1(rows, labels, job->compile.threads, &recall));
        cmd_contrast_put(f, "recall_at_1", recall);
        cmd_contrast_put(f, "queries", (double)mf_dataset_count(job->test));
    }
    if (path)
        st = mf_scatter_write(rows, labels, names, n_names, job->model_text, path);
done:
    mf_tensor_free(rows);
    mf_free(labels);
    return st;
}

/* ---- RBMs ---- */

static mf_status show_rbm(mf_job *job, mf_args *args, figures *f)
{
    const char *filters = mf_args_value(args, "filters"), *samples = mf_args_value(args, "samples");
    const mf_rbm m = { .model = job->model,
                       .trainer = job->trainer,
                       .set = job->test,
                       .seed = job->compile.seed,
                       .threads = job->compile.threads };
    mf_result results[MF_MAX_RESULTS];
    int64_t steps = 1000;
    int n = 0;

    MF_TRY(mf_args_int(args, "steps", 1, 1000000000, &steps));
    MF_TRY(mf_evaluate(job->trainer, job->test, results, &n));
    for (int i = 1; i < n; i++)
        cmd_contrast_put(f, results[i].name, results[i].value);
    if (filters)
        MF_TRY(mf_rbm_plot_filters(&m, filters));
    return samples ? mf_rbm_plot_samples(&m, steps, samples) : MF_OK;
}

/* ---- the command ---- */

static bool is_of_pairs(const mf_job *job)
{
    return job->model->n_inputs == 1 && strcmp(job->model->inputs[0].node->name, "pair") == 0;
}

/* Fails for plots that the model does not support. */
static mf_status check_pictures(const mf_job *job, mf_args *args)
{
    const bool machine = mf_model_has_rbm(job->model);

    if (machine && mf_args_has(args, "embeddings"))
        return mf_args_wrong(args,
                             "--embeddings is for the models siamese and triplet: %s has "
                             "no embeddings",
                             job->model_text);
    if (!machine && (mf_args_has(args, "filters") || mf_args_has(args, "samples")))
        return mf_args_wrong(args, "--filters and --samples are for the model rbm: %s has none",
                             job->model_text);
    return MF_OK;
}

static mf_status cmd_contrast_show(mf_job *job, mf_args *args, figures *f)
{
    const bool pairs = is_of_pairs(job);

    MF_TRY(check_pictures(job, args));
    MF_TRY(mf_job_compile(job, args));
    MF_TRY(mf_trainer_use(job->trainer, mf_args_value(args, "from")));
    if (mf_model_has_rbm(job->model))
        return show_rbm(job, args, f);
    if (pairs)
        MF_TRY(verify(job, f));
    return embed(job, args, pairs, f);
}

static mf_status cmd_contrast_run(mf_args *args)
{
    figures f = { .json = mf_args_has(args, "json") };
    mf_job job = { 0 };
    mf_status st;

    if (!mf_args_value(args, "from"))
        return mf_args_wrong(args, "--from is missing: a checkpoint, or the output directory of "
                                   "a training");
    st = mf_job_open(&job, args, mf_args_value(args, "from"));
    if (st == MF_OK)
        st = mf_job_load(&job, args, mf_args_has(args, "pairs"));
    if (st == MF_OK)
        st = cmd_contrast_show(&job, args, &f);
    if (f.json)
        mf_buf_str(&f.out, "}\n");
    if (st == MF_OK)
        st = mf_cli_print(&f.out);
    else
        mf_buf_deinit(&f.out);
    mf_job_deinit(&job);
    return st;
}

static const mf_option options[] = {
    MF_JOB_OPTIONS,
    { .name = "from",
      .value = "CKPT",
      .help = "a checkpoint, or a folder, whose newest "
              "checkpoint is read" },
    { .name = "embeddings",
      .value = "FILE",
      .help = "plot embeddings of test samples in two dimensions, as .svg" },
    { .name = "filters", .value = "FILE", .help = "plot filters of an RBM, as .png" },
    { .name = "samples", .value = "FILE", .help = "plot samples of an RBM, as .png" },
    { .name = "steps",
      .value = "N",
      .help = "steps of the Markov chains that draw the samples (default: 1000)" },
    { 0 },
};

const mf_command mf_command_contrast = {
    .name = "contrast",
    .arguments = "",
    .summary = "evaluate a contrastive model or an RBM",
    .about =
        "Evaluates on the test part of the data, or on --test. For pairs (siamese): the share of "
        "pairs that are correctly classified as views of the same image or not, with the "
        "threshold that is best for the first 10000 training pairs. For embeddings (triplet): "
        "how often the nearest other test sample has the same label. For an RBM: its "
        "reconstruction error. Plots on request.",
    .options = options,
    .examples =
        (const char *const[]){
            "meshflow contrast --model triplet --data fashion-mnist --from run --embeddings e.svg",
            "meshflow contrast --model siamese --data fashion-mnist --pairs 'crop=3' --from run",
            "meshflow contrast --model rbm --data fashion-mnist --from run --filters f.png", NULL },
    .run = cmd_contrast_run,
};
