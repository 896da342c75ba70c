/* For tests of one-pass ops in any device's table: tensors between guards, which must not change, on the
 * test's device (`test_device`). Outputs contain noise at first. */
#pragma once

#include "producers/model/training.h"
#include "strided.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SEED = 6001, ROUNDS = 60, GUARD_ELEMENTS = 32 };

static const char *test_device = "cpu:1GiB";

static struct bench {
    struct mt_device *device;
    mt_addr memory;
    uint64_t taken_bytes;
} bench;

#define ARENA_BYTES ((uint64_t)512 << 20)

/* A contiguous tensor on the device: its initial and its expected values. */
struct buffer {
    const char *name;
    mt_dtype dtype;
    int64_t rows, columns;
    double *before, *expected;
    mt_addr guarded; /* where its guards begin */
    mt_addr address;
};

static inline const struct mtk_table *ops(void)
{
    return bench.device->kernels;
}

static inline struct mtk_queue *queue(void)
{
    return mt_device_queue(bench.device, 0);
}

static inline int64_t count_of(const struct buffer *b)
{
    return b->rows * b->columns;
}

static inline uint64_t guarded_bytes(const struct buffer *b)
{
    return ((uint64_t)count_of(b) + 2 * GUARD_ELEMENTS + 1) * mt_dtype_bytes(b->dtype);
}

static inline void put(unsigned char *raw, mt_dtype dtype, double value)
{
    struct strided one = {.view = {.dtype = dtype, .address = (mt_addr)(uintptr_t)raw}};
    element_set(&one, (struct place){{0}}, value);
}

/* Takes room for the buffer, aligned or an element off, and writes its values between guards. */
static inline void upload(struct buffer *b, struct dice *dice)
{
    size_t size = mt_dtype_bytes(b->dtype);
    uint64_t bytes = guarded_bytes(b);
    int64_t shift = roll(dice, 6) == 0 ? 1 : 0;
    unsigned char *raw = mt_host_alloc(bytes);
    memset(raw, 0xA5, bytes);
    b->guarded = bench.memory + bench.taken_bytes;
    b->address = b->guarded + (mt_addr)((GUARD_ELEMENTS + shift) * (int64_t)size);
    bench.taken_bytes += (bytes + 255) / 256 * 256;
    assert_true(bench.taken_bytes <= ARENA_BYTES);
    for (int64_t i = 0; i < count_of(b); i++)
        put(raw + (b->address - b->guarded) + (size_t)i * size, b->dtype, b->before[i]);
    assert_int_equal(mt_device_write(bench.device, b->guarded, raw, bytes, 0), MT_OK);
    free(raw);
}

/* A tensor of random values, `spread` times those in (-4, 4). */
static inline struct buffer buffer_create(struct dice *dice, const char *name, mt_dtype dtype, int64_t rows,
                                          int64_t columns, double spread)
{
    struct buffer b = {.name = name, .dtype = dtype, .rows = rows, .columns = columns};
    b.before = mt_host_alloc((size_t)count_of(&b) * sizeof *b.before);
    b.expected = mt_host_alloc((size_t)count_of(&b) * sizeof *b.expected);
    for (int64_t i = 0; i < count_of(&b); i++)
        b.before[i] = b.expected[i] = round_to_dtype(spread * roll_value(dice), dtype);
    upload(&b, dice);
    return b;
}

static inline struct mtk_view view_of(const struct buffer *b)
{
    return (struct mtk_view){.address = b->address,
                             .dtype = b->dtype,
                             .shape = {1, 1, b->rows, b->columns},
                             .stride = {count_of(b), count_of(b), b->columns, 1}};
}

/* True if `got` differs from `expected` by no more than rounding allows. The tolerance grows with the size of
 * `expected`, and with `size`, the size of the numbers it was computed from. */
static inline bool is_near(double got, double expected, mt_dtype dtype, double size)
{
    double unit = dtype == MT_F64 ? 1e-13 : 4e-6;
    double rounding = dtype == MT_BF16 ? 0x1p-7 * fabs(expected) : 0;
    return got == expected || (isnan(got) && isnan(expected)) ||
           fabs(got - expected) <= rounding + unit * (fabs(expected) + size);
}

static inline void expect_noise(const struct buffer *b, const unsigned char *raw, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (raw[i] != 0xA5)
            fail_msg("%s: byte %zu beside it was written", b->name, i);
}

static inline void expect_guards(const struct buffer *b, const unsigned char *raw)
{
    size_t first = b->address - b->guarded, past = first + (size_t)count_of(b) * mt_dtype_bytes(b->dtype);
    expect_noise(b, raw, 0, first);
    expect_noise(b, raw, past, guarded_bytes(b));
}

/* Compares the tensor with its expected values, and frees the buffer. */
static inline void expect(struct buffer *b, double size)
{
    unsigned char *raw = mt_host_alloc(guarded_bytes(b));
    assert_int_equal(mt_device_read(bench.device, raw, b->guarded, guarded_bytes(b), 0), MT_OK);
    for (int64_t i = 0; i < count_of(b); i++) {
        double got = decode(raw + (b->address - b->guarded) + (size_t)i * mt_dtype_bytes(b->dtype), b->dtype);
        if (!is_near(got, b->expected[i], b->dtype, size))
            fail_msg("%s (%lld x %lld, %s) [%lld]: %.9g, expected %.9g", b->name, (long long)b->rows,
                     (long long)b->columns, mt_dtype_name(b->dtype), (long long)i, got, b->expected[i]);
    }
    expect_guards(b, raw);
    free(raw);
    free(b->before);
    free(b->expected);
}

static inline void done(mt_status status)
{
    if (status != MT_OK)
        fail_msg("%s", mt_last_error());
}

/* Few and many rows, narrow and wide. Many wide rows take the longest and show nothing else, so they are rare. */
static inline void roll_sizes(struct dice *dice, int64_t *out_rows, int64_t *out_columns)
{
    static const int64_t rows[] = {1, 2, 7, 40, 300, 531}, columns[] = {1, 3, 4, 31, 64, 100, 768, 1024, 1030, 2560};
    const int64_t many = 100000;
    *out_rows = rows[roll(dice, 6)];
    *out_columns = columns[roll(dice, 10)];
    if (*out_rows * *out_columns > many && roll(dice, 8) > 0)
        *out_rows = 1 + (int64_t)roll(dice, 20);
}

static inline int open_bench(void **state)
{
    (void)state;
    assert_int_equal(mt_model_device_open(test_device, &bench.device), MT_OK);
    assert_int_equal(mt_device_reserve(bench.device, ARENA_BYTES, &bench.memory), MT_OK);
    return 0;
}

static inline int close_bench(void **state)
{
    (void)state;
    mt_device_release(bench.device, bench.memory, ARENA_BYTES);
    mt_device_close(bench.device);
    return 0;
}
