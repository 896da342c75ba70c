/* out[o,g,m,n] = alpha * sum over k of a[o,g,m,k] * b[o,g,k,n] + beta * out[o,g,m,n]. Every element of `out` is
 * written.
 *
 * fp32 and fp64 use OpenBLAS. It reads a matrix by rows or by columns, so a transposed view needs no copy. bf16 and fp8
 * are read as fp32, and fp32 as tf32 if requested: such operands are converted on the stack, tile by tile, and the sums
 * are rounded once:
 *
 *   a ──BLOCK_M x BLOCK_K──┐
 *                          ├─sgemm─▶ fp32 sums, BLOCK_M x BLOCK_N ──round──▶ out
 *   b ──BLOCK_K x BLOCK_N──┘        (accumulated over k, and to beta times out)
 *
 * BLAS can't read a matrix with repeated rows or columns, or with sizes that exceed an int. Such products are summed
 * one element after another in double.
 *
 * OpenBLAS starts its threads when it is loaded, which takes milliseconds. So it is loaded when the first product is
 * computed. */
#include "base/memory.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/fp8.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

enum { BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 256 };

/* ---- OpenBLAS ---- */

/* Its two functions, written once and read-only afterwards. Invariant: both are set, or `reason` says why not. */
static struct {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(cblas_dgemm) *dgemm;
    char reason[512];
} blas;

/* Returns the number of threads that OpenBLAS will use, including this one. */
static int blas_threads(void)
{
    static const char *const variables[] = {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"};
    const int processors = get_nprocs();
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        const int threads = value != NULL ? atoi(value) : 0;
        if (threads > 0)
            return threads < processors ? threads : processors;
    }
    return processors;
}

static void *wait_for_end(void *argument)
{
    pthread_mutex_t *running = argument;
    pthread_mutex_lock(running);
    pthread_mutex_unlock(running);
    return NULL;
}

/* Starts up to this many threads, until one can't be started, and ends them. Returns the number of started threads. */
static int try_threads(int count)
{
    pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = mt_host_alloc(((size_t)count + 1) * sizeof *threads);
    int started = 0;
    pthread_mutex_lock(&running);
    while (started < count && pthread_create(&threads[started], NULL, wait_for_end, &running) == 0)
        started++;
    pthread_mutex_unlock(&running);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return started;
}

/* True if OpenBLAS can start its threads; if it can't, it would end the process. */
static bool can_start_threads(void)
{
    const int needed = blas_threads() - 1, started = try_threads(needed);
    if (started < needed)
        snprintf(blas.reason, sizeof blas.reason,
                 "it needs %d threads, and this process can have only %d. Raise the limit (ulimit -u), or set "
                 "OPENBLAS_NUM_THREADS=%d",
                 needed + 1, started + 1, started + 1);
    return started == needed;
}

/* Searches the paths set in CMakeLists.txt. The reason of a failure is the first path's. */
static void load_blas(void)
{
    static const char *const places[] = {MTK_OPENBLAS_PLACES};
    void *library = NULL;
    if (!can_start_threads())
        return;
    for (size_t i = 0; library == NULL && i < sizeof places / sizeof places[0]; i++) {
        library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL && i == 0)
            snprintf(blas.reason, sizeof blas.reason, "%s. Install it: Debian and Ubuntu have it as libopenblas0",
                     dlerror());
    }
    if (library == NULL)
        return;
    *(void **)&blas.sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&blas.dgemm = dlsym(library, "cblas_dgemm");
    if (blas.sgemm == NULL || blas.dgemm == NULL)
        snprintf(blas.reason, sizeof blas.reason, "it lacks cblas_sgemm or cblas_dgemm");
}

/* Makes `blas` usable, on any thread. Fails with MT_FAILED if OpenBLAS can't be loaded. */
static mt_status need_blas(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_blas);
    if (blas.sgemm != NULL && blas.dgemm != NULL)
        return MT_OK;
    return mt_fail(MT_FAILED, "matrix products on the CPU need OpenBLAS, which can't be loaded: %s", blas.reason);
}

/* ---- matrices ---- */

/* The last two dimensions of a view, at one index of the first two. */
struct matrix {
    char *at;
    mt_dtype dtype;
    int64_t rows, columns, row_stride, column_stride; /* strides in elements */
};

/* The order in which BLAS can read a matrix: row by row or column by column, with `leading` elements in between; or
 * neither. */
struct layout {
    enum { BY_ROWS, BY_COLUMNS, NEITHER } order;
    int leading;
};

static struct matrix matrix_of(const struct mtk_view *view, int64_t o, int64_t g)
{
    return (struct matrix){mtk_at(view, o, g, 0, 0), view->dtype,     view->shape[2],
                           view->shape[3],           view->stride[2], view->stride[3]};
}

static struct matrix transposed(const struct matrix *m)
{
    return (struct matrix){m->at, m->dtype, m->columns, m->rows, m->column_stride, m->row_stride};
}

static char *matrix_at(const struct matrix *m, int64_t row, int64_t column)
{
    return m->at + (row * m->row_stride + column * m->column_stride) * (int64_t)mt_dtype_bytes(m->dtype);
}

/* Returns the distance of rows in elements if BLAS can read the matrix by rows, otherwise 0. A dimension of one element
 * may have any stride. */
static int rows_apart(const struct matrix *m)
{
    bool columns_adjoin = m->column_stride == 1 || m->columns == 1;
    int64_t apart = m->rows == 1 ? m->columns : m->row_stride;
    return columns_adjoin && apart >= m->columns && apart <= INT_MAX && m->rows <= INT_MAX ? (int)apart : 0;
}

static struct layout layout_of(const struct matrix *m)
{
    assert(m->rows >= 0 && m->columns >= 0);
    struct matrix turned = transposed(m);
    int by_rows = rows_apart(m);
    if (by_rows > 0)
        return (struct layout){BY_ROWS, by_rows};
    int by_columns = rows_apart(&turned);
    return by_columns > 0 ? (struct layout){BY_COLUMNS, by_columns} : (struct layout){NEITHER, 0};
}

static void multiply_blas(const struct mtk_product *product, const struct matrix *out, const struct matrix *a,
                          const struct matrix *b)
{
    struct layout to = layout_of(out), left = layout_of(a), right = layout_of(b);
    enum CBLAS_ORDER order = to.order == BY_ROWS ? CblasRowMajor : CblasColMajor;
    enum CBLAS_TRANSPOSE turn_a = left.order == to.order ? CblasNoTrans : CblasTrans;
    enum CBLAS_TRANSPOSE turn_b = right.order == to.order ? CblasNoTrans : CblasTrans;
    int m = (int)out->rows, n = (int)out->columns, k = (int)a->columns;
    assert(a->dtype == out->dtype && b->dtype == out->dtype && (out->dtype == MT_F32 || out->dtype == MT_F64));
    if (out->dtype == MT_F32)
        blas.sgemm(order, turn_a, turn_b, m, n, k, (float)product->alpha, (const void *)a->at, left.leading,
                   (const void *)b->at, right.leading, (float)product->beta, (void *)out->at, to.leading);
    else
        blas.dgemm(order, turn_a, turn_b, m, n, k, product->alpha, (const void *)a->at, left.leading,
                   (const void *)b->at, right.leading, product->beta, (void *)out->at, to.leading);
}

static double dot(const struct matrix *a, const struct matrix *b, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t k = 0; k < a->columns; k++)
        sum += mtk_load_one(matrix_at(a, row, k), a->dtype) * mtk_load_one(matrix_at(b, k, column), b->dtype);
    return sum;
}

/* Writes one element of `out` for the product `value`. */
static void store_product(const struct mtk_product *product, const struct matrix *out, int64_t row, int64_t column,
                          double value)
{
    char *at = matrix_at(out, row, column);
    double kept = product->beta != 0 ? product->beta * mtk_load_one(at, out->dtype) : 0;
    mtk_store_one(at, out->dtype, product->alpha * value + kept);
}

static void multiply_plainly(const struct mtk_product *product, const struct matrix *out, const struct matrix *a,
                             const struct matrix *b)
{
    for (int64_t row = 0; row < out->rows; row++)
        for (int64_t column = 0; column < out->columns; column++)
            store_product(product, out, row, column, dot(a, b, row, column));
}

/* Returns the part of a matrix that begins at (row, column), of at most `rows` x `columns` elements. */
static struct matrix part(const struct matrix *m, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    assert(row <= m->rows && column <= m->columns);
    struct matrix p = *m;
    p.at = matrix_at(m, row, column);
    p.rows = m->rows - row < rows ? m->rows - row : rows;
    p.columns = m->columns - column < columns ? m->columns - column : columns;
    return p;
}

/* Copies a matrix to one with the same shape and another dtype, along the dimension in which `from` is dense, which has
 * at most MTK_TILE elements. */
static void convert(const struct matrix *to, const struct matrix *from)
{
    if (from->column_stride != 1 && from->row_stride == 1) {
        struct matrix turned_to = transposed(to), turned_from = transposed(from);
        convert(&turned_to, &turned_from);
        return;
    }
    assert(to->rows == from->rows && to->columns == from->columns && from->columns <= MTK_TILE);
    double tile[MTK_TILE];
    for (int64_t row = 0; row < from->rows; row++) {
        mtk_load(matrix_at(from, row, 0), from->dtype, from->column_stride, from->columns, tile);
        mtk_store(matrix_at(to, row, 0), to->dtype, to->column_stride, to->columns, tile);
    }
}

/* Copies `m` into `buffer` by rows, in fp32 and rounded to tf32 if `math` says so. Returns the copy. */
static struct matrix unpack(mtk_math math, const struct matrix *m, float *buffer)
{
    struct matrix copy = {(char *)buffer, MT_F32, m->rows, m->columns, m->columns, 1};
    convert(&copy, m);
    for (int64_t i = 0; math == MTK_MATH_TF32 && i < m->rows * m->columns; i++)
        buffer[i] = mtk_round_to_tf32(buffer[i]);
    return copy;
}

_Static_assert((int)BLOCK_M <= (int)MTK_TILE && (int)BLOCK_N <= (int)MTK_TILE && (int)BLOCK_K <= (int)MTK_TILE,
               "convert takes rows of one tile");

/* Computes one block of `out` from rows `a` and columns `b`. */
static void multiply_block(const struct mtk_product *product, const struct matrix *out, const struct matrix *a,
                           const struct matrix *b)
{
    float sums[BLOCK_M * BLOCK_N], left[BLOCK_M * BLOCK_K], right[BLOCK_K * BLOCK_N];
    int m = (int)out->rows, n = (int)out->columns;
    assert(m <= BLOCK_M && n <= BLOCK_N && a->columns == b->rows);
    struct matrix total = {(char *)sums, MT_F32, out->rows, out->columns, out->columns, 1};
    if (product->beta != 0)
        convert(&total, out);
    for (int64_t k = 0; k < a->columns; k += BLOCK_K) {
        struct matrix from_a = part(a, 0, k, BLOCK_M, BLOCK_K), from_b = part(b, k, 0, BLOCK_K, BLOCK_N);
        struct matrix l = unpack(product->math, &from_a, left), r = unpack(product->math, &from_b, right);
        blas.sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, (int)l.columns, (float)product->alpha, left,
                   (int)l.columns, right, (int)r.columns, k > 0 ? 1 : (float)product->beta, sums, n);
    }
    convert(out, &total);
}

static void multiply_blocks(const struct mtk_product *product, const struct matrix *out, const struct matrix *a,
                            const struct matrix *b)
{
    for (int64_t row = 0; row < out->rows; row += BLOCK_M)
        for (int64_t column = 0; column < out->columns; column += BLOCK_N) {
            struct matrix to = part(out, row, column, BLOCK_M, BLOCK_N);
            struct matrix from_a = part(a, row, 0, BLOCK_M, a->columns);
            struct matrix from_b = part(b, 0, column, b->rows, BLOCK_N);
            multiply_block(product, &to, &from_a, &from_b);
        }
}

static void multiply(const struct mtk_product *product, const struct matrix *out, const struct matrix *a,
                     const struct matrix *b)
{
    assert(a->rows == out->rows && b->columns == out->columns && a->columns == b->rows);
    assert(a->dtype == b->dtype || (mt_is_fp8(a->dtype) && mt_is_fp8(b->dtype)));
    bool is_converted =
        a->dtype == MT_BF16 || mt_is_fp8(a->dtype) || (a->dtype == MT_F32 && product->math == MTK_MATH_TF32);
    if (is_converted)
        multiply_blocks(product, out, a, b);
    else if (layout_of(out).order == NEITHER || layout_of(a).order == NEITHER || layout_of(b).order == NEITHER)
        multiply_plainly(product, out, a, b);
    else
        multiply_blas(product, out, a, b);
}

/* Returns the factor at an address of the product's settings; 1 if there is none. */
static double scale_at(mt_addr scale)
{
    return scale != 0 ? mtk_load_one(mtk_pointer(scale), MT_F32) : 1;
}

mt_status mtk_cpu_matmul(const struct mtk_product *product, const struct mtk_view *out, const struct mtk_view *a,
                         const struct mtk_view *b, mt_addr workspace, uint64_t workspace_bytes, struct mtk_queue *queue)
{
    (void)workspace;
    (void)workspace_bytes;
    (void)queue;
    assert(a->shape[0] == out->shape[0] && a->shape[1] == out->shape[1]);
    assert(b->shape[0] == out->shape[0] && b->shape[1] == out->shape[1]);
    struct mtk_product scaled = *product;
    scaled.alpha *= scale_at(product->a_scale) * scale_at(product->b_scale);
    mt_status status = need_blas();
    for (int64_t o = 0; o < out->shape[0] && status == MT_OK; o++)
        for (int64_t g = 0; g < out->shape[1]; g++) {
            struct matrix to = matrix_of(out, o, g), left = matrix_of(a, o, g), right = matrix_of(b, o, g);
            multiply(&scaled, &to, &left, &right);
        }
    return status;
}
