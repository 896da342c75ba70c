/* Causal attention without a matrix of weights, in double, tile by tile as on a card: a tile of queries meets one tile of
 * keys after another and keeps, for each query, the maximum and the sum of its exponentials so far.
 *
 *   forward    s = scale q·k, m' = max(m, s), o = o e^(m - m') + e^(s - m') v, and the same of the sum; o / sum at the end
 *   backward   p = e^(s - lse), ds = scale p (do·v - delta), delta = do·o:
 *              dv = sum over queries of p do, dk = of ds q; dq = sum over keys of ds k
 *
 * With MTK_MATH_TF32 the operands q, k, v and do are read as matrix units read them; weights are rounded nowhere.
 *
 * Dao, Fu, Ermon, Rudra, Ré, "FlashAttention", 2022; Dao, "FlashAttention-2", 2023. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>

enum { ROWS = 32, FEATURES = MTK_MOST_HEAD_FEATURES };

/* Rows [first, first + count) of a head, of `features` elements each. */
struct tile {
    int64_t first, count, features;
    double x[ROWS][FEATURES];
};

/* Which head of the batch. */
struct head {
    int64_t i, j;
};

static int64_t rows_from(const struct mtk_view *view, int64_t first)
{
    return view->shape[2] - first < ROWS ? view->shape[2] - first : ROWS;
}

static void tile_load(struct tile *tile, const struct mtk_view *view, struct head head, int64_t first)
{
    tile->first = first;
    tile->count = rows_from(view, first);
    tile->features = view->shape[3];
    for (int64_t r = 0; r < tile->count; r++)
        mtk_load(mtk_at(view, head.i, head.j, first + r, 0), view->dtype, view->stride[3], tile->features, tile->x[r]);
}

/* The same as a product reads it. */
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
    tile->first = first;
    tile->count = rows_from(view, first);
    tile->features = view->shape[3];
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t d = 0; d < FEATURES; d++)
            tile->x[r][d] = 0;
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

/* A number for each row of a tile, from a view (…, T, 1). */
static void column_load(double *column, const struct mtk_view *view, struct head head, int64_t first, int64_t count)
{
    for (int64_t r = 0; r < count; r++)
        column[r] = mtk_load_one(mtk_at(view, head.i, head.j, first + r, 0), view->dtype);
}

/* A tile of queries on its way along the keys. */
struct walk {
    struct tile q, out;
    double maximum[ROWS], sum[ROWS];
};

/* Query number r meets one key. */
static void meet(struct walk *walk, int64_t r, double score, const double *value)
{
    double *out = walk->out.x[r];
    if (score > walk->maximum[r]) {
        double shrink = exp(walk->maximum[r] - score);
        walk->sum[r] *= shrink;
        for (int64_t d = 0; d < walk->out.features; d++)
            out[d] *= shrink;
        walk->maximum[r] = score;
    }
    double weight = exp(score - walk->maximum[r]);
    walk->sum[r] += weight;
    add_scaled(out, weight, value, walk->out.features);
}

static void meet_keys(struct walk *walk, double scale, const struct tile *k, const struct tile *v)
{
    for (int64_t r = 0; r < walk->q.count; r++)
        for (int64_t c = 0; c < k->count && k->first + c <= walk->q.first + r; c++)
            meet(walk, r, scale * dot(walk->q.x[r], k->x[c], k->features), v->x[c]);
}

/* Divides by the sums, and stores. */
static void arrive(struct walk *walk, const struct mtk_view *out, const struct mtk_view *lse, struct head head)
{
    for (int64_t r = 0; r < walk->out.count; r++) {
        for (int64_t d = 0; d < walk->out.features; d++)
            walk->out.x[r][d] /= walk->sum[r];
        if (lse != NULL)
            mtk_store_one(mtk_at(lse, head.i, head.j, walk->out.first + r, 0), lse->dtype,
                          walk->maximum[r] + log(walk->sum[r]));
    }
    tile_store(&walk->out, out, head);
}

static void attend(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                   const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v, struct head head)
{
    struct walk walk;
    struct tile keys, values;
    for (int64_t first = 0; first < q->shape[2]; first += ROWS) {
        tile_load_operand(&walk.q, q, math, head, first);
        tile_clear(&walk.out, out, first);
        for (int64_t r = 0; r < ROWS; r++) {
            walk.maximum[r] = -INFINITY;
            walk.sum[r] = 0;
        }
        for (int64_t key = 0; key < first + walk.q.count; key += ROWS) {
            tile_load_operand(&keys, k, math, head, key);
            tile_load_operand(&values, v, math, head, key);
            meet_keys(&walk, scale, &keys, &values);
        }
        arrive(&walk, out, lse, head);
    }
}

mt_status mtk_cpu_attention(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                            const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                            struct mtk_queue *queue)
{
    (void)queue;
    for (int64_t i = 0; i < q->shape[0]; i++)
        for (int64_t j = 0; j < q->shape[1]; j++)
            attend(scale, math, out, lse, q, k, v, (struct head){i, j});
    return MT_OK;
}

/* A tile of queries with all that backward reads of it. */
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

/* The weight of one key for query number r, and the gradient of their product of q and k. */
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

/* delta = do·o, row by row. */
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
    for (int64_t i = 0; i < call->q.shape[0]; i++)
        for (int64_t j = 0; j < call->q.shape[1]; j++) {
            struct head head = {i, j};
            deltas(call, head);
            key_gradients(call, head);
            query_gradients(call, head);
        }
    return MT_OK;
}
