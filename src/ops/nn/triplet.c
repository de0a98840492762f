/* SPDX-License-Identifier: Apache-2.0 */
/* triplet.c - the triplet loss of a batch of embeddings: an anchor should be closer, by a margin,
 * to samples of its label than to all others. Distances are squared (Schroff et al. 2015). Triplets
 * are mined here, among all rows:
 *
 *   all         every triplet that violates the margin
 *   hard        for each anchor, the farthest of its label and the nearest of the others
 *   semi_hard   for each anchor and each other sample of its label, the nearest of the others that
 *   is
 *               farther away; if there is none, the farthest
 *
 * The loss is the mean over the triplets. Each anchor's part is multiplied by the number of rows,
 * so that the mean of the parts is the loss. */
#include "ops/control/grad_util.h"

#include <string.h>

typedef enum mining { MINE_ALL, MINE_HARD, MINE_SEMI_HARD } mining;

typedef struct setup {
    float margin;
    mining how;
} setup;

typedef struct triplet_job {
    const setup *s;
    const float *x; /* [n,width] */
    const int32_t *label;
    int64_t n, width;
    float *across; /* [width,n]: x transposed */
    float *far; /* [n,n]: squared distances */
    float *pull; /* [n,n], for gradients: the weight of each distance */
    double *sum; /* by anchor: sum over its triplets */
    int64_t *count; /* by anchor: number of its triplets */
    const float *dy; /* by anchor */
    double scale; /* rows / triplets */
    float *dx;
} triplet_job;

/* ---- distances ---- */

static void measure_row(void *ctx, int64_t a)
{
    const triplet_job *j = ctx;
    float *far = j->far + a * j->n;

    memset(far, 0, (size_t)j->n * sizeof *far);
    for (int64_t k = 0; k < j->width; k++) {
        const float x = j->x[a * j->width + k], *other = j->across + k * j->n;

        for (int64_t i = 0; i < j->n; i++)
            far[i] += (x - other[i]) * (x - other[i]);
    }
}

static void triplet_transpose(triplet_job *j)
{
    for (int64_t i = 0; i < j->n; i++) {
        for (int64_t k = 0; k < j->width; k++)
            j->across[k * j->n + i] = j->x[i * j->width + k];
    }
}

/* ---- mining ---- */

static bool is_positive(const triplet_job *j, int64_t a, int64_t i)
{
    return i != a && j->label[i] == j->label[a];
}

/* Counts a triplet, and adds its cost if it violates the margin. */
static void triplet_add(triplet_job *j, int64_t a, int64_t p, int64_t n, bool always)
{
    const float *far = j->far + a * j->n;
    const float cost = far[p] - far[n] + j->s->margin;

    if (cost <= 0.0f && !always)
        return;
    j->count[a]++;
    if (cost <= 0.0f) /* written this way, NaN passes through */
        return;
    j->sum[a] += (double)cost;
    if (j->pull) {
        j->pull[a * j->n + p] += 1.0f;
        j->pull[a * j->n + n] -= 1.0f;
    }
}

static void mine_all(triplet_job *j, int64_t a)
{
    for (int64_t p = 0; p < j->n; p++) {
        if (!is_positive(j, a, p))
            continue;
        for (int64_t n = 0; n < j->n; n++) {
            if (j->label[n] != j->label[a])
                triplet_add(j, a, p, n, false);
        }
    }
}

static void mine_hard(triplet_job *j, int64_t a)
{
    const float *far = j->far + a * j->n;
    int64_t p = -1, n = -1;

    for (int64_t i = 0; i < j->n; i++) {
        if (is_positive(j, a, i) && (p < 0 || far[i] > far[p]))
            p = i;
        if (j->label[i] != j->label[a] && (n < 0 || far[i] < far[n]))
            n = i;
    }
    if (p >= 0 && n >= 0)
        triplet_add(j, a, p, n, true);
}

static void mine_semi_hard(triplet_job *j, int64_t a)
{
    const float *far = j->far + a * j->n;

    for (int64_t p = 0; p < j->n; p++) {
        int64_t outside = -1, farthest = -1;

        if (!is_positive(j, a, p))
            continue;
        for (int64_t n = 0; n < j->n; n++) {
            if (j->label[n] == j->label[a])
                continue;
            if (far[n] > far[p] && (outside < 0 || far[n] < far[outside]))
                outside = n;
            if (farthest < 0 || far[n] > far[farthest])
                farthest = n;
        }
        if (farthest >= 0)
            triplet_add(j, a, p, outside >= 0 ? outside : farthest, true);
    }
}

static void mine_row(void *ctx, int64_t a)
{
    static void (*const ways[])(triplet_job *, int64_t) = { mine_all, mine_hard, mine_semi_hard };
    triplet_job *j = ctx;

    j->sum[a] = 0.0;
    j->count[a] = 0;
    if (j->pull)
        memset(j->pull + a * j->n, 0, (size_t)j->n * sizeof *j->pull);
    ways[j->s->how](j, a);
}

/* ---- gradients ---- */

/* The gradient of d = |x - y|^2 is 2 (x - y) for x, and its negative for y. */
static void gradient_row(void *ctx, int64_t i)
{
    const triplet_job *j = ctx;
    float *dx = j->dx + i * j->width;
    const float *x = j->x + i * j->width;

    memset(dx, 0, (size_t)j->width * sizeof *dx);
    for (int64_t a = 0; a < j->n; a++) {
        const double of_i = (double)j->pull[i * j->n + a] * (double)j->dy[i],
                     of_a = (double)j->pull[a * j->n + i] * (double)j->dy[a];
        const float factor = (float)(2.0 * j->scale * (of_i + of_a));
        const float *y = j->x + a * j->width;

        for (int64_t k = 0; factor != 0.0f && k < j->width; k++)
            dx[k] += factor * (x[k] - y[k]);
    }
}

/* ---- both ---- */

static mf_status triplet_check(const mf_shape *x, const mf_shape *label)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];

    if ((x->rank >= 0 && x->rank != 2) || (label->rank >= 0 && label->rank != 1) ||
        (x->rank == 2 && label->rank == 1 && x->dims[0] >= 0 && label->dims[0] >= 0 &&
         x->dims[0] != label->dims[0]))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "embeddings must be a matrix and labels one for each row, got %s and %s",
                       mf_shape_text(x, a), mf_shape_text(label, b));
    return MF_OK;
}

/* Mines the triplets; *room holds the job's arrays. */
static mf_status mine(mf_kernel *k, const mf_tensor *x, const mf_tensor *label, bool gradients,
                      mf_tensor *room, triplet_job *j)
{
    const int64_t n = x->shape.rank == 2 ? x->shape.dims[0] : 0;
    int64_t cells, triplets = 0;

    MF_TRY(triplet_check(&x->shape, &label->shape));
    *j = (triplet_job){
        .s = k->state, .x = x->data, .label = label->data, .n = n, .width = x->shape.dims[1]
    };
    if (!mf_mul_i64(n, 2 * n + j->width + 4, &cells))
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "distances of %lld rows", (long long)n);
    MF_TRY(mf_tensor_alloc(room, MF_DTYPE_F32, &MF_SHAPE(cells)));
    j->sum = room->data;
    j->count = (int64_t *)(void *)(j->sum + n);
    j->far = (float *)(void *)(j->count + n);
    j->across = j->far + n * n;
    j->pull = gradients ? j->across + n * j->width : NULL;
    triplet_transpose(j);
    MF_TRY(mf_kernel_parallel(k, n, measure_row, j));
    MF_TRY(mf_kernel_parallel(k, n, mine_row, j));
    for (int64_t a = 0; a < n; a++)
        triplets += j->count[a];
    j->scale = triplets > 0 ? (double)n / (double)triplets : 0.0;
    return MF_OK;
}

static mf_status loss_run(mf_kernel *k)
{
    mf_tensor room = { 0 }, *out;
    triplet_job j;
    mf_status st = mine(k, k->in[0], k->in[1], false, &room, &j);

    if (st == MF_OK)
        st = mf_kernel_out(k, 0, &MF_SHAPE(j.n), &out);
    for (int64_t a = 0; st == MF_OK && a < j.n; a++)
        ((float *)out->data)[a] = (float)(j.scale * j.sum[a]);
    mf_tensor_clear(&room);
    return st;
}

static mf_status triplet_gradient_run(mf_kernel *k)
{
    mf_tensor room = { 0 }, *out;
    const mf_tensor *dy = k->in[0], *x = k->in[1];
    triplet_job j;
    mf_status st = mine(k, x, k->in[2], true, &room, &j);

    if (st == MF_OK && (dy->shape.rank != 1 || dy->count != j.n))
        st = MF_FAIL(MF_INVALID_ARGUMENT, "%lld gradients for %lld rows", (long long)dy->count,
                     (long long)j.n);
    if (st == MF_OK)
        st = mf_kernel_out(k, 0, &x->shape, &out);
    if (st == MF_OK) {
        j.dy = dy->data;
        j.dx = out->data;
        st = mf_kernel_parallel(k, j.n, gradient_row, &j);
    }
    mf_tensor_clear(&room);
    return st;
}

static mf_status triplet_prepare(mf_prepare *p)
{
    const char *how = mf_node_string(p->node, "mining");
    setup *s = MF_ARENA_NEW(p->arena, setup);

    if (!s)
        return MF_NOMEM("triplets");
    s->margin = (float)mf_node_float(p->node, "margin");
    s->how = strcmp(how, "all") == 0    ? MINE_ALL
             : strcmp(how, "hard") == 0 ? MINE_HARD
                                        : MINE_SEMI_HARD;
    p->state = s;
    return MF_OK;
}

static mf_status loss_infer(mf_infer *in)
{
    MF_TRY(triplet_check(&in->in[0], &in->in[1]));
    in->out[0] =
        in->in[1].rank == 1 ? in->in[1] : MF_SHAPE(in->in[0].rank == 2 ? in->in[0].dims[0] : -1);
    return MF_OK;
}

static mf_status gradient_infer(mf_infer *in)
{
    MF_TRY(triplet_check(&in->in[1], &in->in[2]));
    in->out[0] = in->in[1];
    return MF_OK;
}

static mf_status loss_grad(mf_grad *g)
{
    g->dx[0] = mf_applyf(g->graph, "_TripletLossGrad", MF_IN(g->dy[0], g->x[0], g->x[1]),
                         "margin=%.9g mining='%s'", mf_node_float(g->node, "margin"),
                         mf_node_string(g->node, "mining"));
    return MF_OK;
}

#define SETTINGS "margin:float, mining:string in ['all','hard','semi_hard']"
#define LABELS "i32[7]{0,1,0,2,1,0,1}"
/* No triplet near its margin: the mean is discontinuous where a triplet begins to count. */
#define APART                                                                                      \
    "f32[7,3]{-1.25,-1.5,-1.25,-1,1.25,-0.75,0.25,-2,-1,0,-1.75,1.5,-1.75,2,-0.5,-0.5,-1.25,-2,"   \
    "1.5,-1.75,1.75}"

const mf_op mf_ops_triplet[] = {
    { .name = "_TripletLoss",
      .def = "(embeddings:float, labels:int32) -> (loss:float) {" SETTINGS "}",
      .infer = loss_infer,
      .grad = loss_grad,
      .prepare = triplet_prepare,
      .run = loss_run,
      .samples = MF_SAMPLES(APART " " LABELS " ; margin=0.5 mining='all'",
                            "f32[7,3] " LABELS " ; margin=4 mining='hard'",
                            "f32[7,3] " LABELS " ; margin=4 mining='semi_hard'",
                            "f32[3,2] i32[3]{4,4,4} ; margin=1 mining='all'",
                            "f32[3,2] i32[3]{1,2,3} ; margin=1 mining='hard'",
                            "f32[0,2] i32[0] ; margin=1 mining='semi_hard'",
                            "f32[3,2] i32[4] ; margin=1 mining='all' !fails",
                            "f32[3] i32[3] ; margin=1 mining='all' !fails",
                            "f32[3,2] i32[3] ; margin=1 mining='soft' !fails") },
    { .name = "_TripletLossGrad",
      .def =
          "(gradients:float, embeddings:float, labels:int32) -> (backprops:float) {" SETTINGS "}",
      .infer = gradient_infer,
      .grad = mf_grad_missing,
      .prepare = triplet_prepare,
      .run = triplet_gradient_run,
      .samples = MF_SAMPLES("f32[7] f32[7,3] " LABELS " ; margin=0.5 mining='all'",
                            "f32[7] f32[7,3] " LABELS " ; margin=4 mining='semi_hard'",
                            "f32[6] f32[7,3] " LABELS " ; margin=4 mining='hard' !fails") },
    { 0 },
};
