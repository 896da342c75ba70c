/* Causal attention without a matrix of weights, in double, tile by tile as on a card: a tile of queries is multiplied
 * by the tiles of keys one after another. For each query, the running maximum and sum of exponentials are kept.
 *
 *   forward    s = scale q·k, m' = max(m, s), o = o e^(m - m') + e^(s - m') v, and so for the sum; o / sum at the end
 *   backward   p = e^(s - lse), ds = scale p (do·v - delta), delta = do·o:
 *              dv = sum over queries of p do, dk = sum over queries of ds q, dq = sum over keys of ds k
 *
 * With MTK_MATH_TF32 the operands q, k, v and do are rounded like in matrix units. Weights are not rounded.
 *
 * Dao, Fu, Ermon, Rudra, Ré, "FlashAttention", 2022; Dao, "FlashAttention-2", 2023. */
#include "kernels/cpu/cpu_ops.h"

#include <math.h>
#include <string.h>

enum { ROWS = 32, FEATURES = MTK_MOST_HEAD_FEATURES };

/* Rows [first, first + count) of a head, of `features` elements each. */
struct tile {
    int64_t first, count, features;
    double x[ROWS][FEATURES];
};

/* The position of a head in a view (B,H,T,D). */
struct head {
    int64_t i, j;
};

static void tile_place(struct tile *tile, const struct mtk_view *view, int64_t first)
{
    assert(first >= 0 && first < view->shape[2] && view->shape[3] <= FEATURES);
    tile->first = first;
    tile->count = view->shape[2] - first < ROWS ? view->shape[2] - first : ROWS;
    tile->features = view->shape[3];
}

static void tile_load(struct tile *tile, const struct mtk_view *view, struct head head, int64_t first)
{
    tile_place(tile, view, first);
    for (int64_t r = 0; r < tile->count; r++)
        mtk_load(mtk_at(view, head.i, head.j, first + r, 0), view->dtype, view->stride[3], tile->features, tile->x[r]);
}

/* Loads a tile, rounded as for a product. */
static void tile_load_operand(struct tile *tile, const struct mtk_view *view, mtk_math math, struct head head,
                              int64_t first)
{
    tile_load(tile, view, head, first);
    if (view->dtype != MT_F32 || math != MTK_MATH_TF32)
        return;
    for (int64_t r = 0; r < tile->count; r++)
        for (int64_t d = 0; d < tile->features; d++)
            tile->x[r][d] = (double)mtk_round_to_tf32((float)tile->x[r][d]);
}

static void tile_clear(struct tile *tile, const struct mtk_view *view, int64_t first)
{
    tile_place(tile, view, first);
    memset(tile->x, 0, sizeof tile->x);
}

static void tile_store(const struct tile *tile, const struct mtk_view *view, struct head head)
{
    for (int64_t r = 0; r < tile->count; r++)
        mtk_store(mtk_at(view, head.i, head.j, tile->first + r, 0), view->dtype, view->stride[3], tile->features,
                  tile->x[r]);
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t d = 0; d < count; d++)
        sum += a[d] * b[d];
    return sum;
}

static void add_scaled(double *to, double factor, const double *from, int64_t count)
{
    for (int64_t d = 0; d < count; d++)
        to[d] += factor * from[d];
}

/* Loads one number per row of a tile from a view (…, T, 1). */
static void column_load(double *column, const struct mtk_view *view, struct head head, int64_t first, int64_t count)
{
    for (int64_t r = 0; r < count; r++)
        column[r] = mtk_load_one(mtk_at(view, head.i, head.j, first + r, 0), view->dtype);
}

/* A tile of queries with their results for the keys so far. */
struct progress {
    struct tile q, out;
    double maximum[ROWS], sum[ROWS];
};

/* Adds one key with its score to the results of query number r. */
static void add_key(struct progress *progress, int64_t r, double score, const double *value)
{
    assert(r < progress->q.count);
    double *out = progress->out.x[r];
    if (score > progress->maximum[r]) {
        double shrink = exp(progress->maximum[r] - score);
        progress->sum[r] *= shrink;
        for (int64_t d = 0; d < progress->out.features; d++)
            out[d] *= shrink;
        progress->maximum[r] = score;
    }
    double weight = exp(score - progress->maximum[r]);
    progress->sum[r] += weight;
    add_scaled(out, weight, value, progress->out.features);
}

static void add_keys(struct progress *progress, double scale, const struct tile *k, const struct tile *v)
{
    for (int64_t r = 0; r < progress->q.count; r++)
        for (int64_t c = 0; c < k->count && k->first + c <= progress->q.first + r; c++)
            add_key(progress, r, scale * dot(progress->q.x[r], k->x[c], k->features), v->x[c]);
}

/* Divides the results by the sums and stores them. */
static void finish(struct progress *progress, const struct mtk_view *out, const struct mtk_view *lse, struct head head)
{
    for (int64_t r = 0; r < progress->out.count; r++) {
        for (int64_t d = 0; d < progress->out.features; d++)
            progress->out.x[r][d] /= progress->sum[r];
        if (lse != NULL)
            mtk_store_one(mtk_at(lse, head.i, head.j, progress->out.first + r, 0), lse->dtype,
                          progress->maximum[r] + log(progress->sum[r]));
    }
    tile_store(&progress->out, out, head);
}

static void attend(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                   const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v, struct head head)
{
    struct progress progress;
    struct tile keys, values;
    for (int64_t first = 0; first < q->shape[2]; first += ROWS) {
        tile_load_operand(&progress.q, q, math, head, first);
        tile_clear(&progress.out, out, first);
        for (int64_t r = 0; r < ROWS; r++) {
            progress.maximum[r] = -INFINITY;
            progress.sum[r] = 0;
        }
        for (int64_t key = 0; key < first + progress.q.count; key += ROWS) {
            tile_load_operand(&keys, k, math, head, key);
            tile_load_operand(&values, v, math, head, key);
            add_keys(&progress, scale, &keys, &values);
        }
        finish(&progress, out, lse, head);
    }
}

mt_status mtk_cpu_attention(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                            const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                            struct mtk_queue *queue)
{
    (void)queue;
    assert(mtk_same_shape(k, q) && mtk_same_shape(v, q) && mtk_same_shape(out, q));
    assert(lse == NULL || mtk_has_rows_of(lse, q, 1));
    for (int64_t i = 0; i < q->shape[0]; i++)
        for (int64_t j = 0; j < q->shape[1]; j++)
            attend(scale, math, out, lse, q, k, v, (struct head){i, j});
    return MT_OK;
}

/* A tile of queries with the values that backward needs. */
struct queries {
    struct tile q, grad;
    double lse[ROWS], delta[ROWS];
};

static void queries_load(struct queries *queries, const struct mtk_attention_grad *call, struct head head,
                         int64_t first)
{
    tile_load_operand(&queries->q, &call->q, call->math, head, first);
    tile_load_operand(&queries->grad, &call->grad, call->math, head, first);
    column_load(queries->lse, &call->lse, head, first, queries->q.count);
    column_load(queries->delta, &call->delta, head, first, queries->q.count);
}

/* Returns the weight of one key for query number r, and the gradient of their product. */
static double weight_of(const struct queries *queries, int64_t r, const double *key, const double *value, double scale,
                        double *out_score_grad)
{
    double weight = exp(scale * dot(queries->q.x[r], key, queries->q.features) - queries->lse[r]);
    double weight_grad = dot(queries->grad.x[r], value, queries->grad.features);
    *out_score_grad = scale * weight * (weight_grad - queries->delta[r]);
    return weight;
}

static void key_gradients(const struct mtk_attention_grad *call, struct head head)
{
    struct queries queries;
    struct tile k, v, dk, dv;
    int64_t length = call->q.shape[2];
    for (int64_t key = 0; key < length; key += ROWS) {
        tile_load_operand(&k, &call->k, call->math, head, key);
        tile_load_operand(&v, &call->v, call->math, head, key);
        tile_clear(&dk, &call->dk, key);
        tile_clear(&dv, &call->dv, key);
        for (int64_t first = key; first < length; first += ROWS) {
            queries_load(&queries, call, head, first);
            for (int64_t r = 0; r < queries.q.count; r++)
                for (int64_t c = 0; c < k.count && key + c <= first + r; c++) {
                    double score_grad;
                    double weight = weight_of(&queries, r, k.x[c], v.x[c], call->scale, &score_grad);
                    add_scaled(dv.x[c], weight, queries.grad.x[r], v.features);
                    add_scaled(dk.x[c], score_grad, queries.q.x[r], k.features);
                }
        }
        tile_store(&dk, &call->dk, head);
        tile_store(&dv, &call->dv, head);
    }
}

static void query_gradients(const struct mtk_attention_grad *call, struct head head)
{
    struct queries queries;
    struct tile k, v, dq;
    for (int64_t first = 0; first < call->q.shape[2]; first += ROWS) {
        queries_load(&queries, call, head, first);
        tile_clear(&dq, &call->dq, first);
        for (int64_t key = 0; key < first + queries.q.count; key += ROWS) {
            tile_load_operand(&k, &call->k, call->math, head, key);
            tile_load_operand(&v, &call->v, call->math, head, key);
            for (int64_t r = 0; r < queries.q.count; r++)
                for (int64_t c = 0; c < k.count && key + c <= first + r; c++) {
                    double score_grad;
                    weight_of(&queries, r, k.x[c], v.x[c], call->scale, &score_grad);
                    add_scaled(dq.x[r], score_grad, k.x[c], k.features);
                }
        }
        tile_store(&dq, &call->dq, head);
    }
}

/* Writes delta = do·o, row by row. */
static void deltas(const struct mtk_attention_grad *call, struct head head)
{
    struct tile out, grad;
    for (int64_t first = 0; first < call->q.shape[2]; first += ROWS) {
        tile_load(&out, &call->out, head, first);
        tile_load(&grad, &call->grad, head, first);
        for (int64_t r = 0; r < out.count; r++)
            mtk_store_one(mtk_at(&call->delta, head.i, head.j, first + r, 0), call->delta.dtype,
                          dot(out.x[r], grad.x[r], out.features));
    }
}

mt_status mtk_cpu_attention_grad(const struct mtk_attention_grad *call, struct mtk_queue *queue)
{
    (void)queue;
    assert(mtk_has_rows_of(&call->lse, &call->q, 1) && mtk_has_rows_of(&call->delta, &call->q, 1));
    assert(mtk_same_shape(&call->grad, &call->q) && mtk_same_shape(&call->out, &call->q));
    for (int64_t i = 0; i < call->q.shape[0]; i++)
        for (int64_t j = 0; j < call->q.shape[1]; j++) {
            struct head head = {i, j};
            deltas(call, head);
            key_gradients(call, head);
            query_gradients(call, head);
        }
    return MT_OK;
}
