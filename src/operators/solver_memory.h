/* Workspaces of cuSOLVER 12, in elements of the matrices, which are column-major. The formulas were found from 94,000
 * answers of cuSOLVER 12.0.4 on an H200 for matrices of up to 4,177 rows and columns, and equal all of them; the
 * numbers of elements are the same for float, double and their complex types. Sizes are positive and at most
 * MT_SOLVER_MOST. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MT_SOLVER_MOST = 1 << 30 };

/* Factoring a matrix of n columns by reflections (geqrf). */
int64_t mt_solver_reflect(int64_t n);

/* Computing the first columns of the product of k reflections of m rows (orgqr). */
int64_t mt_solver_reflections(int64_t m, int64_t k);

/* Multiplying m x n by k reflections from the left, or from the right (ormqr). */
int64_t mt_solver_multiply_left(int64_t m, int64_t n, int64_t k);
int64_t mt_solver_multiply_right(int64_t m, int64_t n, int64_t k);

/* Computing the singular values of m x n by Jacobi's rotations (gesvdj). `is_full`: with square matrices of vectors. */
int64_t mt_solver_singular(int64_t m, int64_t n, bool is_full);

/* Computing the singular values of a batch of matrices of up to 32 rows and columns (gesvdjBatched). */
int64_t mt_solver_small_singular(void);

/* Computing the eigenvalues of a symmetric n x n matrix by Jacobi's rotations (syevj), of up to 4,000 rows. */
int64_t mt_solver_rotate_symmetric(int64_t n);

/* Returns the bytes, not the elements, of computing the eigenvalues of an n x n matrix, with vectors or without
 * (Xgeev). Found from 716 answers for matrices of up to 4,096 rows, and equal to all of them. */
int64_t mt_solver_eigenvalues_bytes(int64_t n, int64_t item_bytes, bool is_complex);

/* Computing the eigenvalues of a batch of symmetric n x n matrices by divide and conquer (XsyevBatched; Xsyevd for
 * one). */
int64_t mt_solver_divide_symmetric(int64_t batch, int64_t n);
