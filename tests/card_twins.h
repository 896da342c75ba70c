/* Compares kernels of a card with the same ops on the CPU, their twins. Both get the same buffers, including guards and
 * gaps. The buffers of the card are read back and compared. Only the output's elements may have changed. */
#pragma once

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

/* The card, with one piece of memory for the views of a call, followed by the workspace of products. */
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

/* Copies a view to the card with its whole buffer, as it was filled. Returns the view there. */
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

/* Reads a view back from the card, as a copy of `s`. */
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

/* Frees the views of a call, here and on the card. */
static inline void destroy_all(struct strided *all, int count)
{
    for (int i = 0; i < count; i++)
        strided_destroy(&all[i]);
    card.taken_bytes = 0;
}

/* The tolerance of an element: `relative` to itself, and to `size`, the size of its operands. */
struct slack {
    double relative, size;
};

/* Returns the tolerance for one rounding to dtype, and for the arithmetic before it. */
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
    /* A number very close to an integer may be truncated to that integer or to its neighbour. */
    return fabs(got - expected) <= (is_whole && allowed > 0 ? fmax(allowed, 1) : allowed);
}

static inline void print_view(const char *name, const struct mtk_view *v)
{
    print_message("%s %s (%lld %lld %lld %lld), strides (%lld %lld %lld %lld)\n", name, mt_dtype_name(v->dtype),
                  (long long)v->shape[0], (long long)v->shape[1], (long long)v->shape[2], (long long)v->shape[3],
                  (long long)v->stride[0], (long long)v->stride[1], (long long)v->stride[2], (long long)v->stride[3]);
}

/* Compares the card's output with the CPU's in all[0], and the bytes around it with the old ones. The other views are
 * the operands, for the message of a failure. */
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
