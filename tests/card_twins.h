/* A card whose kernels are held against their twins on the CPU: the same buffers go to both, guards and gaps included, and
 * what the card made of them comes back to be compared. Nothing but the output's elements may have changed. */
#ifndef MT_TESTS_CARD_TWINS_H
#define MT_TESTS_CARD_TWINS_H

#include "gpu.h"
#include "strided.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { CARD_ALIGNMENT = 256 };

#define CARD_ARENA_BYTES ((uint64_t)1 << 30)
#define CARD_WORKSPACE_BYTES ((uint64_t)32 << 20)

/* The card, with one piece of memory from which a call's views take what they need from the beginning on; the workspace of
 * products lies behind it. */
static struct card {
    struct mt_device *device;
    mt_addr memory;
    uint64_t taken_bytes;
} card;

static inline const struct mtk_table *ops(void)
{
    return card.device->kernels;
}

static inline struct mtk_queue *queue(void)
{
    return mt_device_queue(card.device, 0);
}

static inline mt_addr workspace(void)
{
    return card.memory + CARD_ARENA_BYTES;
}

static inline void expect_done(const char *name, mt_status status)
{
    if (status != MT_OK)
        fail_msg("%s: %s", name, mt_last_error());
}

static int open_card(void **state)
{
    (void)state;
    expect_done("open", mt_device_open("cuda", &card.device));
    expect_done("reserve", mt_device_reserve(card.device, CARD_ARENA_BYTES + CARD_WORKSPACE_BYTES, &card.memory));
    return 0;
}

static int close_card(void **state)
{
    (void)state;
    mt_device_release(card.device, card.memory, CARD_ARENA_BYTES + CARD_WORKSPACE_BYTES);
    mt_device_close(card.device);
    return 0;
}

/* The view on the card; its whole buffer is there, as it was filled. */
static inline struct mtk_view upload(const struct strided *s)
{
    struct mtk_view view = s->view;
    mt_addr at = card.memory + card.taken_bytes;
    card.taken_bytes += (s->bytes + CARD_ALIGNMENT - 1) / CARD_ALIGNMENT * CARD_ALIGNMENT;
    assert_true(card.taken_bytes <= CARD_ARENA_BYTES);
    assert_int_equal(mt_device_write(card.device, at, s->before, s->bytes, 0), MT_OK);
    view.address = at + (s->view.address - (mt_addr)(uintptr_t)s->buffer);
    return view;
}

static inline void upload_all(const struct strided *all, int count, struct mtk_view *views)
{
    for (int i = 0; i < count; i++)
        views[i] = upload(&all[i]);
}

/* What became of the view on the card, as a twin of `s`. */
static inline struct strided download(const struct strided *s, const struct mtk_view *on_card)
{
    struct strided got = *s;
    uint64_t offset = s->view.address - (mt_addr)(uintptr_t)s->buffer;
    got.buffer = mt_host_alloc(s->bytes);
    got.before = mt_host_alloc(s->bytes);
    got.view.address = (mt_addr)(uintptr_t)got.buffer + offset;
    memcpy(got.before, s->before, s->bytes);
    assert_int_equal(mt_device_read(card.device, got.buffer, on_card->address - offset, s->bytes, 0), MT_OK);
    return got;
}

/* Frees a call's views, here and on the card. */
static inline void destroy_all(struct strided *all, int count)
{
    for (int i = 0; i < count; i++)
        strided_destroy(&all[i]);
    card.taken_bytes = 0;
}

/* How far an element may be off: `relative` of itself, and `size`, of the numbers that it was made of. */
struct slack {
    double relative, size;
};

/* What one rounding to dtype, and the arithmetic before it, may make of a result. */
static inline double unit_of(mt_dtype dtype)
{
    return dtype == MT_F64 ? 1e-14 : dtype == MT_BF16 ? 0x1p-7 : 1e-6;
}

static inline bool is_near(double got, double expected, mt_dtype dtype, struct slack slack)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got);
    if (got == expected)
        return true;
    bool is_whole = dtype == MT_I64 || dtype == MT_U8;
    double allowed = slack.relative * fabs(expected) + slack.size;
    /* A number just beside a whole one is cut to it or to the next. */
    return fabs(got - expected) <= (is_whole && allowed > 0 ? fmax(allowed, 1) : allowed);
}

static inline void print_view(const char *name, const struct mtk_view *v)
{
    print_message("%s %s (%lld %lld %lld %lld), strides (%lld %lld %lld %lld)\n", name, mt_dtype_name(v->dtype),
                  (long long)v->shape[0], (long long)v->shape[1], (long long)v->shape[2], (long long)v->shape[3],
                  (long long)v->stride[0], (long long)v->stride[1], (long long)v->stride[2], (long long)v->stride[3]);
}

/* Compares what the card made with what the CPU made in all[0], and what lies around it with what was there; the other views
 * are what it was made of, for the failure's words. */
static inline void expect_twin(const char *name, const struct strided *all, int count, const struct mtk_view *on_card,
                               struct slack slack)
{
    struct strided got = download(&all[0], on_card);
    struct place place = {{0}};
    do {
        double mine = element(&got, place), twin = element(&all[0], place);
        if (is_near(mine, twin, all[0].view.dtype, slack))
            continue;
        for (int i = 0; i < count; i++)
            print_view(i == 0 ? "out" : "operand", &all[i].view);
        fail_msg("%s (%d, %d, %d, %d): %.9g, the twin %.9g", name, (int)place.at[0], (int)place.at[1], (int)place.at[2],
                 (int)place.at[3], mine, twin);
    } while (place_next(&place, all[0].view.shape));
    if (!strided_surroundings_unchanged(&got)) {
        print_view("out", &all[0].view);
        fail_msg("%s: something beside the output's elements was written", name);
    }
    strided_destroy(&got);
}

#endif
