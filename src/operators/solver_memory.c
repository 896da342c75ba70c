#include "operators/solver_memory.h"

#include "operators/operator_plan.h"

enum { ALIGNMENT = 32, PANEL = 32 };

static int64_t aligned(int64_t elements)
{
    return mt_round_up(elements, ALIGNMENT);
}

int64_t mt_solver_reflect(int64_t n)
{
    enum { ROWS = 1024, COLUMNS = 512, COLUMNS_LEAST = 256 };
    return ROWS * (COLUMNS + mt_greater(n, COLUMNS_LEAST));
}

int64_t mt_solver_reflections(int64_t m, int64_t k)
{
    enum { FIXED = 16640, LEAST = 16384, BLOCK = 128 };
    const int64_t block = mt_smaller(k, BLOCK);
    return FIXED + aligned(block * m) + mt_greater(aligned(2 * block * k), LEAST);
}

/* The triangular factors of k reflections, and what they are multiplied with, in panels of 256 columns. */
enum { MULTIPLY_FIXED = 65792, MULTIPLY_PANEL = 256 };

int64_t mt_solver_multiply_left(int64_t m, int64_t n, int64_t k)
{
    const int64_t most = mt_greater(m, n);
    return MULTIPLY_FIXED + MULTIPLY_PANEL * (m + 2 * n) + aligned(most * k + k * k) + (most > PANEL ? aligned(n) : 0);
}

int64_t mt_solver_multiply_right(int64_t m, int64_t n, int64_t k)
{
    const int64_t most = mt_greater(m, n);
    return MULTIPLY_FIXED + MULTIPLY_PANEL * m + aligned(most * k + k * k) + (most > PANEL ? aligned(m) : 0);
}

/* Returns the pairs of panels that rotations are computed of. */
static int64_t rotations(int64_t n)
{
    const int64_t panels = mt_divide_up(n, PANEL);
    return n + panels * (4 * panels + 1) + 1024 * (panels + 1);
}

int64_t mt_solver_rotate_symmetric(int64_t n)
{
    return n * n + rotations(n);
}

static int64_t square_singular(int64_t n)
{
    return aligned(2 * n * n) + aligned(rotations(n)) + 1024 * mt_divide_up(n, PANEL);
}

/* A matrix that is not square is factored by reflections first. A wide one is transposed. */
int64_t mt_solver_singular(int64_t m, int64_t n, bool is_full)
{
    if (m == n)
        return square_singular(n);
    const int64_t rows = mt_greater(m, n), columns = mt_smaller(m, n),
                  multiplied = mt_solver_multiply_left(rows, is_full ? rows : columns, columns),
                  factored = mt_greater(mt_solver_reflect(columns) + ALIGNMENT, multiplied) + aligned(columns);
    return mt_greater(factored + (m < n ? aligned(m * n) : 0), square_singular(columns) + aligned(columns * columns));
}

int64_t mt_solver_small_singular(void)
{
    return 992;
}

/* The larger workspace of two steps, multiplying by the tridiagonal form's reflections and dividing it, and the form
 * itself. */
int64_t mt_solver_divide_symmetric(int64_t batch, int64_t n)
{
    const int64_t below = n - 1,
                  multiplied = batch * (MULTIPLY_FIXED + MULTIPLY_PANEL * (below + 2 * n)) +
                               aligned(batch * (n * below + below * below)) + (n > PANEL ? aligned(batch * n) : 0),
                  divided =
                      batch * (32896 + 128 * n) + aligned(batch * (2 * n * below + below * below)) + aligned(batch * n);
    return mt_greater(multiplied, divided) + batch * (n * n + 2 * n + 3) + ALIGNMENT;
}

/* The form of Hessenberg and its reflections, or the matrix; and seven or eight halves of vectors. */
int64_t mt_solver_eigenvalues_bytes(int64_t n, int64_t item_bytes, bool is_complex)
{
    enum { HALVES = 8, HALVES_COMPLEX = 7, UNIT = 512 };
    const int64_t elements = mt_greater(mt_solver_reflections(n - 1, n - 1), n * n) + ALIGNMENT,
                  halves = is_complex ? HALVES_COMPLEX : HALVES;
    return mt_round_up(MT_PRODUCT(item_bytes, elements) + MT_PRODUCT(item_bytes, n, halves) / 2, UNIT);
}
