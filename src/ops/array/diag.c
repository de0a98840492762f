/* SPDX-License-Identifier: Apache-2.0 */
/* diag.c - extracts, sets and builds diagonals and bands of matrices.
 *
 * Diagonal d holds the elements (i, i + d): d > 0 is above the main diagonal. Several diagonals
 * [low, high] are stored as rows of a matrix, highest first, all as long as the longest; shorter
 * ones are aligned left or right and padded. */
#include "ops/array/array_util.h"
#include "ops/control/grad_util.h"

/* ---- bands ---- */

typedef struct band {
    int64_t low, high; /* diagonals */
    int64_t rows, cols; /* of the matrix */
    int64_t longest; /* diagonal */
    bool upper_left, lower_left; /* alignment of diagonals above and below */
} band;

static int64_t diag_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t diag_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t diagonal_length(const band *b, int64_t d)
{
    return diag_min(b->rows + diag_min(d, 0), b->cols - diag_max(d, 0));
}

/* Start of diagonal d in its row of `longest` cells. */
static int64_t diagonal_start(const band *b, int64_t d)
{
    const bool left = (d >= 0 && b->upper_left) || (d <= 0 && b->lower_left);

    return left ? 0 : b->longest - diagonal_length(b, d);
}

/* The attribute of V3; V2 aligns left, V1 has only the main diagonal. */
static void read_align(const mf_node *node, band *b)
{
    const char *align = mf_node_attr(node, "align") ? mf_node_string(node, "align") : "LEFT_LEFT";
    const char *second = strchr(align, '_');

    b->upper_left = align[0] == 'L';
    b->lower_left = second && second[1] == 'L';
}

static mf_status read_k(const mf_tensor *k, band *b)
{
    if (!k)
        return MF_OK;
    if (k->shape.rank > 1 || k->count < 1 || k->count > 2)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "diag_index must be a scalar or a vector of 1 or 2 elements, got %" PRId64,
                       k->count);
    b->low = mf_index_at(k, 0);
    b->high = mf_index_at(k, k->count - 1);
    if (b->low > b->high)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "lower_diag_index must not be larger than upper_diag_index: %" PRId64
                       " > %" PRId64,
                       b->low, b->high);
    return MF_OK;
}

/* Once the matrix is known: the diagonals must be inside it. */
static mf_status fit_band(band *b)
{
    const int64_t d[2] = { b->low, b->high };

    for (int i = 0; i < 2; i++) {
        if ((d[i] <= -b->rows || d[i] >= b->cols) && d[i] != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "%s_diag_index is out of bound: %" PRId64 ". It must be between %" PRId64
                           " and %" PRId64,
                           i ? "upper" : "lower", d[i], -b->rows, b->cols);
    }
    b->longest = diag_min(b->rows + diag_min(b->high, 0), b->cols - diag_max(b->low, 0));
    return MF_OK;
}

static void read_matrix(const mf_shape *matrix, band *b)
{
    b->rows = matrix->dims[matrix->rank - 2];
    b->cols = matrix->dims[matrix->rank - 1];
}

/* Shape of the stored diagonals of batches of matrices. */
static void stored_shape(const mf_shape *matrix, const band *b, mf_shape *out)
{
    *out = *matrix;
    out->rank -= 2;
    if (b->high > b->low)
        out->dims[out->rank++] = b->high - b->low + 1;
    out->dims[out->rank++] = b->longest;
}

/* Copies cells between every diagonal element and its stored place. to_matrix: from stored ones. */
static mf_status copy_band(const band *b, mf_dtype type, void *matrix, void *stored,
                           int64_t batches, bool to_matrix)
{
    const int64_t area = b->rows * b->cols, n = b->high - b->low + 1;

    for (int64_t batch = 0; batch < batches; batch++) {
        for (int64_t d = b->high; d >= b->low; d--) {
            const int64_t length = diagonal_length(b, d), first = diagonal_start(b, d);
            int64_t at = batch * area + diag_max(-d, 0) * b->cols + diag_max(d, 0);
            int64_t store = (batch * n + b->high - d) * b->longest + first;

            for (int64_t i = 0; i < length; i++, at += b->cols + 1, store++)
                MF_TRY(to_matrix ? mf_cells_copy(type, matrix, at, stored, store, 1)
                                 : mf_cells_copy(type, stored, store, matrix, at, 1));
        }
    }
    return MF_OK;
}

/* The padding: the given scalar, or zero. */
static mf_status fill_padding(mf_kernel *k, int input, mf_tensor *out)
{
    if (k->n_in <= input) {
        mf_cells_zero(out->dtype, out->data, 0, out->count);
        return MF_OK;
    }
    if (k->in[input]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "padding_value must be a scalar");
    return mf_cells_fill(out->dtype, out->data, 0, out->count, k->in[input]->data);
}

/* ---- MatrixDiagPart ---- */

static mf_status part_infer(mf_infer *in)
{
    const mf_shape *x = &in->in[0];
    band b = { 0 };

    MF_TRY(mf_infer_rank_at_least(in, 0, 2));
    if (in->n_in > 2)
        MF_TRY(mf_infer_rank(in, 2, 0));
    if (x->rank < 0 || (in->n_in > 1 && !in->in_value[1]))
        return MF_OK;
    read_matrix(x, &b);
    MF_TRY(read_k(in->n_in > 1 ? in->in_value[1] : NULL, &b));
    if (b.rows < 0 || b.cols < 0)
        b.longest = MF_UNKNOWN_DIM;
    else
        MF_TRY(fit_band(&b));
    stored_shape(x, &b, &in->out[0]);
    return MF_OK;
}

static mf_status part_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    band b = { 0 };
    mf_shape shape;
    mf_tensor *out;

    if (x->shape.rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be at least 2-dim, received rank %d",
                       x->shape.rank);
    read_matrix(&x->shape, &b);
    read_align(k->node, &b);
    MF_TRY(read_k(k->n_in > 1 ? k->in[1] : NULL, &b));
    MF_TRY(fit_band(&b));
    stored_shape(&x->shape, &b, &shape);
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    MF_TRY(fill_padding(k, 2, out));
    return copy_band(&b, x->dtype, x->data, out->data,
                     mf_shape_span(&x->shape, 0, x->shape.rank - 2), false);
}

/* ---- MatrixDiag ---- */

/* The size of the matrix from the given sizes (-1: not given) and what the diagonals need. */
static mf_status diag_matrix_size(band *b, int64_t rows, int64_t cols)
{
    const int64_t min_rows = b->longest - diag_min(b->high, 0),
                  min_cols = b->longest + diag_max(b->low, 0);

    if (rows != -1 && rows < min_rows)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The number of rows is too small: %" PRId64 " < %" PRId64, rows, min_rows);
    if (cols != -1 && cols < min_cols)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The number of columns is too small: %" PRId64 " < %" PRId64, cols,
                       min_cols);
    if (rows == -1 && cols == -1)
        rows = cols = diag_max(min_rows, min_cols);
    else if (rows == -1)
        rows = min_rows;
    else if (cols == -1)
        cols = min_cols;
    if (rows != min_rows && cols != min_cols)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "The number of rows or columns is not consistent with the specified d_lower, "
            "d_upper, and diagonal.");
    b->rows = rows;
    b->cols = cols;
    return fit_band(b);
}

static mf_status matrix_shape(const mf_shape *stored, band *b, int64_t rows, int64_t cols,
                              mf_shape *out)
{
    const int used = b->high > b->low ? 2 : 1;

    if (stored->rank < used)
        return MF_FAIL(MF_INVALID_ARGUMENT, "diagonal must be at least %d-dim, received rank %d",
                       used, stored->rank);
    *out = *stored;
    out->rank = stored->rank - used;
    MF_TRY(mf_rank_check(out->rank + 2));
    if (used == 2 && stored->dims[out->rank] >= 0 &&
        stored->dims[out->rank] != b->high - b->low + 1)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "The number of diagonals provided in the input (%" PRId64
                       ") does not match the lower_diag_index and upper_diag_index range: %" PRId64,
                       stored->dims[out->rank], b->high - b->low + 1);
    b->longest = stored->dims[stored->rank - 1];
    if (b->longest >= 0)
        MF_TRY(diag_matrix_size(b, rows, cols));
    out->dims[out->rank++] = b->longest >= 0 ? b->rows : MF_UNKNOWN_DIM;
    out->dims[out->rank++] = b->longest >= 0 ? b->cols : MF_UNKNOWN_DIM;
    return MF_OK;
}

static mf_status diag_infer(mf_infer *in)
{
    int64_t rows = -1, cols = -1;
    band b = { 0 };

    MF_TRY(mf_infer_rank_at_least(in, 0, 1));
    if (in->n_in > 4)
        MF_TRY(mf_infer_rank(in, 4, 0));
    if (in->in[0].rank < 0)
        return MF_OK;
    if (in->n_in > 1 && (!in->in_value[1] || !mf_infer_int_input(in, 2, &rows) ||
                         !mf_infer_int_input(in, 3, &cols)))
        return MF_OK;
    MF_TRY(read_k(in->n_in > 1 ? in->in_value[1] : NULL, &b));
    return matrix_shape(&in->in[0], &b, rows, cols, &in->out[0]);
}

static mf_status diag_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0];
    int64_t rows = -1, cols = -1;
    band b = { 0 };
    mf_shape shape;
    mf_tensor *out;

    if (k->n_in > 1) {
        MF_TRY(mf_int_read(k->in[2], "num_rows", &rows));
        MF_TRY(mf_int_read(k->in[3], "num_cols", &cols));
        MF_TRY(read_k(k->in[1], &b));
    }
    read_align(k->node, &b);
    MF_TRY(matrix_shape(&x->shape, &b, rows, cols, &shape));
    MF_TRY(mf_kernel_out(k, 0, &shape, &out));
    MF_TRY(fill_padding(k, 4, out));
    return copy_band(&b, x->dtype, out->data, x->data, mf_shape_span(&shape, 0, shape.rank - 2),
                     true);
}

/* ---- MatrixSetDiag ---- */

static mf_status set_infer(mf_infer *in)
{
    MF_TRY(mf_infer_rank_at_least(in, 0, 2));
    MF_TRY(mf_infer_rank_at_least(in, 1, 1));
    return mf_infer_same(in);
}

static mf_status set_run(mf_kernel *k)
{
    const mf_tensor *x = k->in[0], *diagonals = k->in[1];
    char expected[MF_SHAPE_TEXT], actual[MF_SHAPE_TEXT];
    band b = { 0 };
    mf_shape stored;
    mf_tensor *out;

    if (x->shape.rank < 2)
        return MF_FAIL(MF_INVALID_ARGUMENT, "input must be at least 2-dim, received rank %d",
                       x->shape.rank);
    read_matrix(&x->shape, &b);
    read_align(k->node, &b);
    MF_TRY(read_k(k->n_in > 2 ? k->in[2] : NULL, &b));
    MF_TRY(fit_band(&b));
    stored_shape(&x->shape, &b, &stored);
    if (!mf_shape_equal(&stored, &diagonals->shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "Either first dimensions of diagonal don't match input.shape[:-2], or "
                       "diagonal.shape is not equal to the longest diagonal in range. diagonal has "
                       "shape %s, expected %s",
                       mf_shape_text(&diagonals->shape, actual), mf_shape_text(&stored, expected));
    MF_TRY(mf_kernel_out(k, 0, &x->shape, &out));
    MF_TRY(mf_cells_copy(x->dtype, out->data, 0, x->data, 0, x->count));
    return copy_band(&b, x->dtype, out->data, diagonals->data,
                     mf_shape_span(&x->shape, 0, x->shape.rank - 2), true);
}

/* ---- gradients: each op is built from the two others of its generation ---- */

/* "MatrixDiagPart" + "", "V2" or "V3", with alignment and a padding of zero. */
static mf_output diag_take_part(mf_grad *g, mf_output matrix, mf_output band_k)
{
    const mf_attr *align = mf_node_attr(g->node, "align");

    if (!band_k.node)
        return MF_G1("MatrixDiagPart", matrix);
    if (!align)
        return MF_G3("MatrixDiagPartV2", matrix, band_k, mf_grad_scalar(g, matrix, 0));
    return mf_applyf(g->graph, "MatrixDiagPartV3",
                     MF_IN(matrix, band_k, mf_grad_scalar(g, matrix, 0)), "align='%s'",
                     mf_node_string(g->node, "align"));
}

static mf_output set_part(mf_grad *g, mf_output matrix, mf_output part, mf_output band_k)
{
    const mf_attr *align = mf_node_attr(g->node, "align");

    if (!band_k.node)
        return MF_G2("MatrixSetDiag", matrix, part);
    if (!align)
        return MF_G3("MatrixSetDiagV2", matrix, part, band_k);
    return mf_applyf(g->graph, "MatrixSetDiagV3", MF_IN(matrix, part, band_k), "align='%s'",
                     mf_node_string(g->node, "align"));
}

static mf_status diag_grad(mf_grad *g)
{
    g->dx[0] = diag_take_part(g, g->dy[0], g->n_in > 1 ? g->x[1] : (mf_output){ 0 });
    return MF_OK;
}

static mf_status part_grad(mf_grad *g)
{
    g->dx[0] = set_part(g, MF_G1("ZerosLike", g->x[0]), g->dy[0],
                        g->n_in > 1 ? g->x[1] : (mf_output){ 0 });
    return MF_OK;
}

static mf_status set_grad(mf_grad *g)
{
    const mf_output band_k = g->n_in > 2 ? g->x[2] : (mf_output){ 0 };

    g->dx[0] = set_part(g, g->dy[0], MF_G1("ZerosLike", g->x[1]), band_k);
    g->dx[1] = diag_take_part(g, g->dy[0], band_k);
    return MF_OK;
}

#define DIAG_OP(NAME, DEF_, WHAT, ...)                                                             \
    {                                                                                              \
        .name = NAME, .def = DEF_, .infer = WHAT##_infer, .grad = WHAT##_grad, .run = WHAT##_run,  \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_diag[] = {
    DIAG_OP("MatrixDiag", "(diagonal:T) -> (output:T) {T:type}", diag, "f32[3]", "f64[2,3]",
            "i32[2,0]", "str[2] !notf", "f32[] !fails"),
    DIAG_OP("MatrixDiagV2",
            "(diagonal:T, k:int32, num_rows:int32, num_cols:int32, padding_value:T) "
            "-> (output:T) {T:type}",
            diag, "f32[3] i32[]{0} i32[]{-1} i32[]{-1} f32[]~",
            "f32[2,3] i32[2]{0,1} i32[]{4} i32[]{-1} f32[]~ !nograd",
            "f32[2] i32[]{-1} i32[]{3} i32[]{2} f32[]~"),
    DIAG_OP("MatrixDiagV3",
            "(diagonal:T, k:int32, num_rows:int32, num_cols:int32, padding_value:T) "
            "-> (output:T) {T:type, align:string='RIGHT_LEFT' in ['LEFT_RIGHT',"
            "'RIGHT_LEFT','LEFT_LEFT','RIGHT_RIGHT']}",
            diag, "f32[3] i32[]{0} i32[]{-1} i32[]{-1} f32[]~",
            "f32[2,3,3] i32[2]{-1,1} i32[]{3} i32[]{3} f32[]~ !nograd",
            "f32[2,3] i32[2]{0,1} i32[]{-1} i32[]{-1} f32[]~ ; align='LEFT_RIGHT' !nograd",
            "i64[2] i32[1]{2} i32[]{-1} i32[]{4} i64[]{7} ; align='LEFT_LEFT'",
            "f32[3] i32[]{0} i32[]{2} i32[]{-1} f32[] !fails",
            "f32[3] i32[2]{1,0} i32[]{-1} i32[]{-1} f32[] !fails",
            "f32[3] i32[]{0} i32[]{5} i32[]{4} f32[] !fails"),
    DIAG_OP("MatrixDiagPart", "(input:T) -> (diagonal:T) {T:type}", part, "f32[3,3]", "f64[2,3,2]",
            "i32[0,2,2]", "f32[3] !fails"),
    DIAG_OP("MatrixDiagPartV2", "(input:T, k:int32, padding_value:T) -> (diagonal:T) {T:type}",
            part, "f32[3,3] i32[]{0} f32[]~", "f32[2,3,4] i32[2]{-1,2} f32[]~",
            "f32[3,3] i32[]{3} f32[] !fails"),
    DIAG_OP("MatrixDiagPartV3",
            "(input:T, k:int32, padding_value:T) -> (diagonal:T) {T:type, "
            "align:string='RIGHT_LEFT' in ['LEFT_RIGHT','RIGHT_LEFT','LEFT_LEFT',"
            "'RIGHT_RIGHT']}",
            part, "f32[3,3] i32[]{0} f32[]~", "f32[2,3,4] i32[2]{-1,2} f32[]~",
            "f32[3,4] i32[2]{-2,1} f32[]~ ; align='RIGHT_RIGHT'",
            "i32[4,3] i32[2]{-3,2} i32[]{9} ; align='LEFT_RIGHT'", "f32[3,3] i32[]{3} f32[] !fails",
            "f32[3,3] i32[2]{1,0} f32[] !fails"),
    DIAG_OP("MatrixSetDiag", "(input:T, diagonal:T) -> (output:T) {T:type}", set, "f32[3,3] f32[3]",
            "f64[2,3,2] f64[2,2]", "f32[3,3] f32[2] !fails"),
    DIAG_OP("MatrixSetDiagV2", "(input:T, diagonal:T, k:int32) -> (output:T) {T:type}", set,
            "f32[3,3] f32[2] i32[]{1}", "f32[3,3] f32[2,3] i32[2]{0,1}"),
    DIAG_OP("MatrixSetDiagV3",
            "(input:T, diagonal:T, k:int32) -> (output:T) {T:type, "
            "align:string='RIGHT_LEFT' in ['LEFT_RIGHT','RIGHT_LEFT','LEFT_LEFT',"
            "'RIGHT_RIGHT']}",
            set, "f32[3,3] f32[2] i32[]{1}", "f32[2,3,3] f32[2,3,3] i32[2]{-1,1}",
            "f32[3,4] f32[2,3] i32[2]{-1,0} ; align='LEFT_LEFT'", "str[2,2] str[2] i32[]{0} !notf",
            "f32[3,3] f32[3] i32[]{1} !fails", "f32[3,3] f32[3] i32[]{4} !fails"),
    { 0 },
};
