/* SPDX-License-Identifier: Apache-2.0 */
/* search.c - searches the layouts of a model on a mesh for the fastest that fits the memory. */
#include "planner/search.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 300, BEAM = 5, EXACT_DEVICES = 16, LOOK_AGAIN = 8, MAX_STAGES = 8, SHAPES = 8 };
enum { TRIALS = 6 };

static const double PIPELINE_SECONDS = 2;
static const double NEAR = 1.15; /* layouts within this factor of the best one are tried */

typedef struct search_state {
    const mf_plan_request *r;
    mf_plan_result *out;
    int64_t end_ns; /* deadline for predicting pipelines */
} search_state;

void mf_plan_result_deinit(mf_plan_result *r)
{
    mf_free(r->all);
    r->all = NULL;
}

/* ---- candidates ---- */

/* Axes of equal size are interchangeable: only the first of such layouts is a candidate. */
static bool is_first_alike(const mf_plan_dims *d, const mf_candidate *c)
{
    for (int a = 0; a + 1 < c->mesh.n_axes; a++) {
        if (c->mesh.size[a] != c->mesh.size[a + 1] ||
            memcmp(c->mesh.before[a], c->mesh.before[a + 1], sizeof c->mesh.before[a]) != 0)
            continue;
        for (int i = 0; i < d->n; i++) {
            const int first = c->cuts[i] >> a & 1, second = c->cuts[i] >> (a + 1) & 1;

            if (first != second) {
                if (first < second)
                    return false;
                break;
            }
        }
    }
    return true;
}

/* Every device gets a shard of each dimension. */
static bool is_large_enough(const mf_plan_dims *d, const mf_candidate *c)
{
    for (int i = 0; i < d->n; i++) {
        if (d->size[i] > 0 && mf_mesh_count(&c->mesh, c->cuts[i]) > d->size[i])
            return false;
    }
    return true;
}

static bool search_is_one(const mf_plan_dims *d, const mf_candidate *c)
{
    return is_large_enough(d, c) && is_first_alike(d, c);
}

static int search_bits_of(const mf_plan_dims *d, const mf_mesh *m)
{
    return d->n * m->n_axes;
}

/* The layout of these bits: one bit for each axis of each dimension. */
static mf_candidate by_bits(const mf_plan_dims *d, const mf_mesh *m, int micro_batches,
                            uint64_t bits)
{
    mf_candidate c = { .mesh = *m, .micro_batches = micro_batches };

    for (int i = 0; i < d->n; i++)
        c.cuts[i] = (mf_axes)(bits >> (i * m->n_axes)) & (((mf_axes)1 << m->n_axes) - 1);
    return c;
}

/* The number of candidates; most + 1 where counting would take too long. */
static int64_t count_all(const search_state *s, int64_t most)
{
    int64_t n = 0;

    for (int k = 0; k < s->r->n_meshes; k++) {
        const mf_mesh *m = &s->r->meshes[k];
        const int bits = search_bits_of(&s->out->dims, m);

        if (bits > 20)
            return most + 1;
        for (uint64_t b = 0; b < (uint64_t)1 << bits; b++) {
            const mf_candidate c = by_bits(&s->out->dims, m, 0, b);

            n += search_is_one(&s->out->dims, &c);
        }
    }
    return n;
}

/* ---- prediction ---- */

static mf_status search_setup_of(const search_state *s, const mf_candidate *c, mf_mesh_setup *out)
{
    mf_mesh_spec spec;

    *out = (mf_mesh_setup){ .exact = s->r->exact, .micro_batches = c->micro_batches, .n = 1 };
    if (c->all_devices && c->mesh.n <= EXACT_DEVICES)
        out->n = c->mesh.n;
    MF_TRY(mf_candidate_spec(&s->out->dims, c, &spec));
    out->rules = spec.rules;
    return mf_mesh_spec_expand(&spec, &out->meshes);
}

static void correct(const search_state *s, mf_candidate *c)
{
    mf_buf name = { 0 };

    c->model_ns = c->is.step_ns;
    c->correction = 1;
    if (!s->r->history)
        return;
    mf_candidate_name(&s->out->dims, c, &name);
    if (mf_buf_finish(&name) == MF_OK)
        c->correction = mf_history_factor(s->r->history, s->r->name, name.data);
    c->is.step_ns *= c->correction;
    mf_buf_deinit(&name);
}

/* An impossible layout is not a failure of the search. Device 0 has the largest shards. */
static mf_status search_predict(const search_state *s, mf_candidate *c)
{
    mf_mesh_setup setup;

    c->status = search_setup_of(s, c, &setup);
    if (c->status == MF_OK)
        c->status = mf_predict_step(s->r->step, s->r->machine, &setup, &c->is, NULL);
    if (c->status == MF_OK)
        correct(s, c);
    return c->status == MF_RESOURCE_EXHAUSTED || c->status == MF_INTERNAL ? c->status : MF_OK;
}

static mf_candidate *search_find(const search_state *s, const mf_candidate *c)
{
    for (int64_t i = 0; i < s->out->n; i++) {
        mf_candidate *k = &s->out->all[i];

        if (memcmp(&k->mesh, &c->mesh, sizeof k->mesh) == 0 &&
            memcmp(k->cuts, c->cuts, sizeof k->cuts) == 0 && k->layers == c->layers &&
            k->micro_batches == c->micro_batches)
            return k;
    }
    return NULL;
}

static mf_status search_add(search_state *s, const mf_candidate *c)
{
    MF_TRY(mf_grow(&s->out->all, &s->out->cap, s->out->n + 1, sizeof *s->out->all));
    s->out->all[s->out->n] = *c;
    MF_TRY(search_predict(s, &s->out->all[s->out->n]));
    s->out->n++;
    return MF_OK;
}

/* ---- order ---- */

static int search_rules(const mf_candidate *c)
{
    int n = __builtin_popcount(c->layers);

    for (int i = 0; i < MF_PLAN_DIMS; i++)
        n += __builtin_popcount(c->cuts[i]);
    return n;
}

static int search_order(double a, double b)
{
    return (a > b) - (a < b);
}

/* Possible layouts first; of these, layouts that fit by time, then the others by missing memory;
 * then layouts with fewer rules. */
static int search_compare(const void *x, const void *y, void *memory)
{
    const mf_candidate *a = x, *b = y;
    const int64_t most = *(int64_t *)memory;
    const int64_t ma = mf_prediction_memory(&a->is), mb = mf_prediction_memory(&b->is);
    const bool fa = most == 0 || ma <= most, fb = most == 0 || mb <= most;
    int by = (a->status != MF_OK) - (b->status != MF_OK);

    if (by == 0)
        by = (int)fb - (int)fa;
    if (by == 0 && !fa)
        by = search_order((double)ma, (double)mb);
    if (by == 0)
        by = search_order(a->is.step_ns, b->is.step_ns);
    return by != 0 ? by : search_rules(a) - search_rules(b);
}

static void search_sort(const search_state *s, int64_t from)
{
    int64_t memory = s->r->memory;

    if (s->out->n > from)
        qsort_r(s->out->all + from, (size_t)(s->out->n - from), sizeof *s->out->all, search_compare,
                &memory);
}

/* ---- exhaustive search and beam search ---- */

/* Smallest shards first: their kernels are measured quickly, and larger ones are scaled from them.
 */
static mf_status try_all(search_state *s)
{
    for (int k = 0; k < s->r->n_meshes; k++) {
        const mf_mesh *m = &s->r->meshes[k];

        for (uint64_t b = (uint64_t)1 << search_bits_of(&s->out->dims, m); b > 0; b--) {
            const mf_candidate c = by_bits(&s->out->dims, m, s->r->micro_batches, b - 1);

            if (search_is_one(&s->out->dims, &c))
                MF_TRY(search_add(s, &c));
        }
    }
    return MF_OK;
}

/* All layouts that differ from this one in one dimension and one axis. */
static mf_status try_near(search_state *s, const mf_candidate *from, bool *more)
{
    for (int i = 0; i < s->out->dims.n; i++) {
        for (int a = 0; a < from->mesh.n_axes; a++) {
            mf_candidate c = { .mesh = from->mesh, .micro_batches = from->micro_batches };

            memcpy(c.cuts, from->cuts, sizeof c.cuts);
            c.cuts[i] ^= (mf_axes)1 << a;
            if (!search_is_one(&s->out->dims, &c) || search_find(s, &c))
                continue;
            MF_TRY(search_add(s, &c));
            *more = true;
        }
    }
    return MF_OK;
}

static mf_status try_beam(search_state *s, const mf_mesh *m)
{
    const int64_t first = s->out->n;
    mf_candidate start = { .mesh = *m, .micro_batches = s->r->micro_batches }, best[BEAM];
    bool more = true;

    start.cuts[0] = ((mf_axes)1 << m->n_axes) - 1; /* data parallelism: usually close to the best
                                                      layout */
    if (search_is_one(&s->out->dims, &start))
        MF_TRY(search_add(s, &start));
    start.cuts[0] = 0;
    MF_TRY(search_add(s, &start));
    while (more) {
        int n = 0;

        search_sort(s, first);
        while (n < BEAM && first + n < s->out->n && s->out->all[first + n].status == MF_OK) {
            best[n] = s->out->all[first + n];
            n++;
        }
        more = false;
        for (int i = 0; i < n; i++)
            MF_TRY(try_near(s, &best[i], &more));
    }
    search_sort(s, first);
    return MF_OK;
}

/* ---- pipelines ---- */

/* The layout with these axes as stages, and this number of micro-batches. */
static mf_status try_stages(search_state *s, const mf_candidate *like, mf_axes layers,
                            int micro_batches)
{
    mf_candidate c = { .mesh = like->mesh, .layers = layers, .micro_batches = micro_batches };

    for (int i = 0; i < s->out->dims.n; i++)
        c.cuts[i] = like->cuts[i] & ~layers;
    if (search_find(s, &c))
        return MF_OK;
    s->out->pipelines_left = mf_clock_ns() > s->end_ns;
    if (s->out->pipelines_left)
        return MF_OK;
    MF_TRY(search_add(s, &c));
    s->out->pipelines++;
    return MF_OK;
}

/* As many micro-batches as stages, or a multiple: more micro-batches mean a smaller bubble and
 * smaller kernels. */
static mf_status try_micro_batches(search_state *s, const mf_candidate *like, mf_axes layers)
{
    static const int TIMES[] = { 2, 4, 1 };
    const int stages = mf_mesh_count(&like->mesh, layers);

    if (stages < 2 || stages > MAX_STAGES || stages > s->out->dims.layers)
        return MF_OK;
    if (s->r->micro_batches > 0)
        return try_stages(s, like, layers, s->r->micro_batches);
    for (int i = 0; i < MF_COUNT(TIMES); i++) {
        if ((int64_t)TIMES[i] * stages <= s->out->dims.batch)
            MF_TRY(try_stages(s, like, layers, TIMES[i] * stages));
    }
    return MF_OK;
}

static bool is_new_shape(const mf_candidate *found, int n, const mf_candidate *c)
{
    for (int i = 0; i < n; i++) {
        if (memcmp(&found[i].mesh, &c->mesh, sizeof c->mesh) == 0)
            return false;
    }
    return true;
}

/* Starts from the best layouts without stages, and from the best layout of each mesh shape, until
 * the deadline. */
static mf_status try_pipelines(search_state *s)
{
    const double seconds = s->r->pipeline_seconds != 0 ? s->r->pipeline_seconds : PIPELINE_SECONDS;
    mf_candidate best[BEAM + SHAPES];
    int n = 0;

    search_sort(s, 0);
    for (int64_t i = 0; i < s->out->n && s->out->all[i].status == MF_OK; i++) {
        const mf_candidate *c = &s->out->all[i];

        if (n < BEAM || (n < MF_COUNT(best) && is_new_shape(best, n, c)))
            best[n++] = *c;
    }
    s->end_ns = mf_clock_ns() + (int64_t)(seconds * 1e9);
    for (int i = 0; seconds > 0 && i < n; i++) {
        for (mf_axes layers = 1; layers < (mf_axes)1 << best[i].mesh.n_axes; layers++)
            MF_TRY(try_micro_batches(s, &best[i], layers));
    }
    return MF_OK;
}

/* Predicts all devices of the best layouts, if there are few devices, until the best layouts have
 * all been predicted so. */
static mf_status predict_best(search_state *s)
{
    bool more = true;

    while (more) {
        more = false;
        search_sort(s, 0);
        for (int64_t i = 0; i < LOOK_AGAIN && i < s->out->n; i++) {
            mf_candidate *c = &s->out->all[i];

            if (c->all_devices || c->status != MF_OK)
                continue;
            c->all_devices = more = true;
            MF_TRY(search_predict(s, c));
        }
    }
    return MF_OK;
}

/* ---- trials ---- */

bool mf_candidate_same(const mf_candidate *a, const mf_candidate *b)
{
    const mf_prediction *x = &a->is, *y = &b->is;

    return x->sent_bytes == y->sent_bytes && x->collectives == y->collectives &&
           x->variable_bytes == y->variable_bytes && x->activation_bytes == y->activation_bytes &&
           x->compute_ns == y->compute_ns && a->model_ns == b->model_ns &&
           a->micro_batches == b->micro_batches;
}

/* The next layout to try: one close to the best layout; at last the best layout a second time, as
 * the fastest of several trials was also lucky. */
static mf_candidate *next_to_try(const search_state *s)
{
    mf_candidate *best = &s->out->all[0];

    for (int64_t i = 0; i < s->out->n; i++) {
        mf_candidate *c = &s->out->all[i];

        if (c->status != MF_OK || c->is.step_ns > NEAR * best->is.step_ns)
            break;
        if (c->tried == 0)
            return c->is.memory_bytes <= s->r->trial_memory / c->mesh.n ? c : NULL;
    }
    return best->tried == 1 ? best : NULL;
}

/* The error of the model, from trials: separate for pipelines, which are predicted differently. */
typedef struct error {
    double sum; /* of logarithms */
    int n;
} error;

static error *error_of(error errors[2], const mf_candidate *c)
{
    return &errors[mf_candidate_stages(c) > 1];
}

/* The measured time replaces the prediction of all equal layouts. Predictions of the other layouts
 * of its kind are corrected by the mean error. */
static void search_take(search_state *s, const mf_candidate *tried, const mf_trial_result *did,
                        error errors[2])
{
    const mf_candidate was = *tried;
    error *e = error_of(errors, &was);

    e->sum += log(did->middle_ns / was.model_ns);
    e->n++;
    s->out->trials++;
    for (int64_t i = 0; i < s->out->n; i++) {
        mf_candidate *c = &s->out->all[i];

        if (c->status != MF_OK || error_of(errors, c) != e)
            continue;
        if (mf_candidate_same(c, &was)) {
            const double mean =
                (was.is.step_ns * was.tried + was.correction * did->middle_ns) / (was.tried + 1);

            c->tried = was.tried + 1;
            c->is.step_ns = mean;
            c->is.activation_bytes = did->step_bytes;
            c->is.memory_bytes = did->memory_bytes;
        } else if (c->tried == 0) {
            c->is.step_ns = c->correction * c->model_ns * exp(e->sum / e->n);
        }
    }
}

static mf_status try_best(search_state *s)
{
    const int64_t end = mf_clock_ns() + (int64_t)(s->r->trial_seconds * 1e9);
    error errors[2] = { 0 };

    for (int i = 0; i < TRIALS && mf_clock_ns() < end; i++) {
        mf_trial trial = *s->r->trial;
        mf_mesh_setup setup;
        mf_trial_result did;
        mf_candidate *c = next_to_try(s);

        if (!c)
            break;
        trial.seconds = s->r->trial_seconds / TRIALS;
        MF_TRY(search_setup_of(s, c, &setup));
        MF_TRY(mf_trial_run(&trial, &setup, &did));
        search_take(s, c, &did, errors);
        search_sort(s, 0);
    }
    return MF_OK;
}

/* ---- a given layout ---- */

static mf_status try_given(search_state *s)
{
    mf_candidate c = { .mesh = s->r->meshes[0],
                       .micro_batches = s->r->micro_batches,
                       .all_devices = true };

    MF_TRY(mf_candidate_take_rules(&s->out->dims, s->r->layout, &c));
    s->out->possible = 1;
    s->out->exhaustive = true;
    MF_TRY(search_add(s, &c));
    if (s->out->all[0].status != MF_OK) { /* again, for its error message */
        mf_mesh_setup setup;

        MF_TRY(search_setup_of(s, &c, &setup));
        return mf_predict_step(s->r->step, s->r->machine, &setup, &c.is, NULL);
    }
    return MF_OK;
}

static mf_status search_layouts(search_state *s)
{
    const int64_t limit = s->r->limit > 0 ? s->r->limit : LIMIT;

    s->out->possible = count_all(s, limit);
    s->out->exhaustive = s->out->possible <= limit;
    if (s->out->exhaustive)
        MF_TRY(try_all(s));
    for (int k = 0; !s->out->exhaustive && k < s->r->n_meshes; k++)
        MF_TRY(try_beam(s, &s->r->meshes[k]));
    return try_pipelines(s);
}

mf_status mf_plan_search(const mf_plan_request *request, mf_plan_result *out)
{
    search_state s = { .r = request, .out = out };

    *out = (mf_plan_result){ 0 };
    MF_TRY(mf_plan_dims_find(request->step, &out->dims));
    MF_TRY(request->layout ? try_given(&s) : search_layouts(&s));
    MF_TRY(predict_best(&s));
    if (request->trial)
        MF_TRY(try_best(&s));
    if (out->n == 0 || out->all[0].status != MF_OK)
        return MF_FAIL(MF_INVALID_ARGUMENT, "no layout is possible on this mesh");
    out->fits = request->memory == 0 || mf_prediction_memory(&out->all[0].is) <= request->memory;
    return MF_OK;
}
