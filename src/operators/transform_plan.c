/* Fourier transforms by cuFFT: workspaces of its plans, and copies of inputs. cuFFT 12.0 on an H200 said which sizes
 * need a workspace: every size up to 1,024 in fp32, as the last dimension and as another one, and samples of larger
 * sizes. */
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    COMPLEX,
    TO_COMPLEX,
    TO_REAL,
    COLUMNS, /* complex, along another dimension than the last */
    KINDS,
    LISTED = 1024, /* the largest size in the list */
    WORD_BITS = 32,
    SMOOTH = 7,          /* the largest prime of which cuFFT has a kernel for every product */
    LARGEST_PRIME = 127, /* over it a transform is a convolution, Bluestein's algorithm */
    LEAST_CONVOLUTION = 4096,
    MOST_KERNEL = 16384,    /* of products of primes up to 7 that are one kernel */
    CONVOLUTION_FACTOR = 4, /* of the signal's bytes, about */
    MOST_DIMENSIONS = 3     /* of a plan */
};

/* Bit n: a plan of size n takes a workspace. */
static const uint32_t LISTED_SIZES[KINDS][LISTED / WORD_BITS + 1] = {
    {/* complex */
     0x00000000, 0x00000000, 0x40440400, 0x0c408400, 0xc0146042, 0x12861050, 0x4cf06604, 0x42503804, 0x94001a0c,
     0x5022a098, 0x0008b282, 0x200e601c, 0xa4840808, 0x20404d80, 0x27600008, 0x82060122, 0x01ec0078, 0x41308222,
     0x4c0141e0, 0x9920848c, 0xc5074224, 0x820300c0, 0x1c0201da, 0x8c813846, 0x8ac06940, 0x4512411a, 0x31594000,
     0x262013a0, 0xa80a21e8, 0x24359400, 0x29290408, 0x4304a814, 0x00000000},
    {/* real to complex */
     0x00000000, 0x461840c4, 0xe8e44c22, 0x1cfc8444, 0xeebeee6e, 0xdeee7cda, 0xeefbfebe, 0xeaf6fe7c, 0xfef6beee,
     0xf7eeedfc, 0xbf7efbee, 0xebfeecfe, 0xffdeeefc, 0xfcfeffee, 0xffeebefa, 0xfefe7bbe, 0xe7fcfffe, 0xff7effbf,
     0xfefbeffe, 0xffbdfeff, 0xffeffefe, 0xffdffffe, 0xfdfefffe, 0xffefbfff, 0xfefefffa, 0xfffffbfe, 0xfffffcff,
     0xf7fef7fe, 0xeffffffe, 0xfffdffff, 0xbfffeffc, 0xfffefeff, 0x00000000},
    {/* complex to real */
     0x00000000, 0x461840c4, 0xf8e44c22, 0x1cfc8444, 0xeebeee6e, 0xdeee7cda, 0xeefbfebe, 0xebf6ff7c, 0xfef6beee,
     0xf7eeedfc, 0xbf7efbee, 0xebfeecfe, 0xffdeeefc, 0xfcfeffee, 0xffeebefa, 0xfefe7bbe, 0xe7fcfffe, 0xff7effbf,
     0xfefbeffe, 0xffbdfeff, 0xffeffefe, 0xffdffffe, 0xfdfefffe, 0xffefbfff, 0xfefefffa, 0xfffffbfe, 0xfffffcff,
     0xf7fef7fe, 0xeffffffe, 0xfffdffff, 0xbfffeffc, 0xfffefeff, 0x00000000},
    {/* columns */
     0x00000000, 0x461840c4, 0xe0e40c22, 0x1cd88404, 0xcc1e6042, 0x1e865052, 0x4ef0ee04, 0x42747804, 0xd4801e2c,
     0xd062a0dc, 0x002cb286, 0x22ce681c, 0xa4cc0808, 0x204c4d84, 0x2f620008, 0x8e062122, 0x01ec8478, 0xc130c2a2,
     0x6c0161f4, 0xf920948e, 0xc5074a24, 0x820344c0, 0x9c4601da, 0x8c813846, 0x8ac06940, 0x4512411a, 0x3159e002,
     0x262413a8, 0xa80a21e8, 0x24359408, 0x29290508, 0x4344a814, 0x00000000},
};

/* A plan of cuFFT. `rows` are transforms along the last dimension, which has `last` elements; `half` are those that a
 * real one leaves of it. */
struct transform {
    int kind;
    int64_t rows, last, half, real_bytes;
    const struct mt_operand *signal; /* of the size before, or after it for TO_REAL, but for the last dimension */
    const struct mt_argument *dims;
};

static int64_t largest_prime(int64_t n)
{
    int64_t largest = 1;
    for (int64_t prime = 2; prime * prime <= n; prime++)
        for (; n % prime == 0; n /= prime)
            largest = prime;
    return n > largest ? n : largest;
}

static bool is_convolved(int64_t n)
{
    return n >= LEAST_CONVOLUTION && largest_prime(n) > LARGEST_PRIME;
}

/* True if a plan of size n takes a workspace. */
static bool needs_room(int kind, int64_t n)
{
    if (n <= LISTED)
        return (LISTED_SIZES[kind][n / WORD_BITS] >> n % WORD_BITS & 1) != 0;
    const int64_t prime = largest_prime(n);
    const bool is_complex = kind == COMPLEX || kind == COLUMNS;
    if (prime == 2 || (is_complex && prime <= SMOOTH))
        return n > MOST_KERNEL;
    return !is_complex || prime <= LARGEST_PRIME || n >= LEAST_CONVOLUTION;
}

static int64_t size_of(const struct transform *t, int64_t i)
{
    const int64_t dim = t->dims->integers[i];
    return t->signal->sizes[dim < 0 ? dim + t->signal->dims : dim];
}

/* Returns the workspace of the other dimensions, or of all of a complex transform. */
static int64_t column_bytes(const struct transform *t)
{
    const int64_t last = t->dims->count - 1, columns = last + (t->kind == COMPLEX ? 1 : 0);
    int64_t bytes = 0;
    for (int64_t i = 0; i < columns; i++) {
        const int64_t factor = is_convolved(size_of(t, i)) ? CONVOLUTION_FACTOR : 1;
        if (needs_room(i == last ? COMPLEX : COLUMNS, size_of(t, i)))
            bytes = MT_PRODUCT(factor, t->rows, t->half, 2, t->real_bytes);
    }
    return bytes;
}

/* Returns what a real row of an even size takes: it is a complex one of half of it, which may need room itself. */
static int64_t even_row_bytes(const struct transform *t)
{
    enum { CONVOLVED_FACTOR = 5 };
    const int64_t row = MT_PRODUCT(t->last, t->real_bytes);
    if (is_convolved(t->last / 2))
        return CONVOLVED_FACTOR * row;
    return needs_room(COMPLEX, t->last / 2) ? MT_PRODUCT(t->half, 2, t->real_bytes) : row;
}

/* Returns what real rows of an odd size take: two signals become one complex signal; of planes in pairs, copies of real
 * results have rows as long as complex ones. */
static int64_t odd_rows_bytes(const struct transform *t)
{
    enum { ALIGNMENT = 1024 };
    int64_t inner = 1;
    for (int64_t i = 0; i + 1 < t->dims->count; i++)
        inner *= size_of(t, i);
    const int64_t batch = t->rows / inner, complex_rows = mt_divide_up(batch, 2) * inner,
                  row = t->kind == TO_REAL && t->dims->count > 1 && batch % 2 == 0 ? 2 * t->half : t->last;
    return MT_PRODUCT(complex_rows, 2, t->last, t->real_bytes) +
           mt_round_up(MT_PRODUCT(2, complex_rows, row, t->real_bytes), ALIGNMENT);
}

/* Returns the workspace. */
static int64_t plan_bytes(const struct transform *t)
{
    if (t->kind == COMPLEX || !needs_room(t->kind, t->last))
        return column_bytes(t);
    return t->last % 2 == 0 ? MT_PRODUCT(t->rows, even_row_bytes(t)) : odd_rows_bytes(t);
}

/* True if the size of the plan is an estimate: cuFFT knows other ways for large sizes, other types, and odd rows in a
 * plane. */
static bool is_estimate(const struct transform *t)
{
    const bool is_odd_plane =
        t->kind != COMPLEX && t->dims->count > 1 && t->last % 2 != 0 && needs_room(t->kind, t->last);
    return is_odd_plane || t->last > LISTED || t->real_bytes != MT_FLOAT_BYTES;
}

/* Returns the range of an estimate. Of 22 plans on an H200 (tests/data/operators), plans of large odd rows needed up to
 * 2.5 times as much, the others between 0.99 and 1.02 times. */
static struct mt_byte_range range_of(const struct transform *t, int64_t bytes)
{
    enum { LEAST = 98, MOST = 103, MOST_ODD = 260, PERCENT = 100 };
    const int64_t most = t->last % 2 != 0 ? MOST_ODD : MOST, hundredth = bytes / PERCENT;
    return (struct mt_byte_range){mt_smaller(bytes, MT_PRODUCT(hundredth, LEAST)),
                                  mt_greater(bytes, MT_PRODUCT(hundredth, most))};
}

/* True if a dimension is one of the signal's. */
static bool is_transformed(const struct transform *t, int64_t dim)
{
    for (int64_t i = 0; i < t->dims->count; i++)
        if (t->dims->integers[i] == dim || t->dims->integers[i] + t->signal->dims == dim)
            return true;
    return false;
}

/* True if the other dimensions are one, as cuFFT sees them: each begins where the one inside ends. */
static bool has_one_batch(const struct transform *t, const struct mt_operand *input)
{
    int64_t stride = -1, size = 1;
    for (int32_t i = input->dims - 1; i >= 0; i--) {
        if (is_transformed(t, i) || input->sizes[i] == 1)
            continue;
        if (stride >= 0 && input->strides[i] != stride * size)
            return false;
        stride = input->strides[i];
        size = input->sizes[i];
    }
    return true;
}

static void read_transform(const struct mt_operator_call *call, int kind, struct transform *out)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    *out = (struct transform){.kind = kind,
                              .dims = mt_call_list(call, "dim", MT_ARGUMENT_INTEGERS),
                              .signal = input,
                              .real_bytes = input->item_bytes / (kind == TO_COMPLEX ? 1 : 2)};
    if (out->dims == NULL || out->dims->count == 0 || input->elements == 0)
        return;
    const int64_t before = size_of(out, out->dims->count - 1);
    out->last = kind == TO_REAL ? mt_call_integer(call, "last_dim_size", before) : before;
    out->half = kind == COMPLEX ? before : out->last / 2 + 1;
    out->rows = input->elements / before;
}

/* Adds a plan's run. A transform to real numbers overwrites its input, so that is copied. */
static void run_plan(struct mt_operator_plan *plan, const struct mt_operator_call *call, int kind)
{
    const struct mt_operand *input = mt_call_tensor(call, "self");
    struct transform t;
    if (input == NULL || input->dims == 0)
        return;
    read_transform(call, kind, &t);
    if (t.last == 0)
        return;
    const bool is_guess = is_estimate(&t);
    if (is_guess)
        mt_inner_guess(plan);
    mt_inner_output(plan, 0);
    const bool is_copied = kind == TO_REAL || !has_one_batch(&t, input);
    const int copy = is_copied ? mt_inner_take_like(plan, input) : -1;
    const int64_t bytes = plan_bytes(&t);
    if (is_guess)
        mt_inner_use_about(plan, bytes, range_of(&t, bytes));
    else if (bytes > 0)
        mt_inner_use(plan, bytes);
    mt_inner_give(plan, copy);
}

/* _fft_r2c */
MT_RULE(transform_to_complex)
{
    run_plan(plan, call, TO_COMPLEX);
}

/* _fft_c2r */
MT_RULE(transform_to_real)
{
    run_plan(plan, call, TO_REAL);
}

/* _fft_c2c: over three dimensions there is a second plan, whose input is the first one's result. */
MT_RULE(transform)
{
    const struct mt_argument *dims = mt_call_list(call, "dim", MT_ARGUMENT_INTEGERS);
    const bool is_split = dims != NULL && dims->count > MOST_DIMENSIONS;
    const int first = is_split ? mt_inner_take_like(plan, mt_call_tensor(call, "self")) : -1;
    run_plan(plan, call, COMPLEX);
    mt_inner_give(plan, first);
}
