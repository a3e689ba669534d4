/* SPDX-License-Identifier: Apache-2.0 */
/* The block product, by OpenBLAS or in plain C, and the check that decides between them. Old builds
 * of OpenBLAS take new CPUs for very different ones, so what is loaded is tried before it is
 * trusted. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>

#include "plugins/ref/ref.h"

static void multiply_plain(bool add, int64_t steps, const double *a, const double *b, double *sums)
{
    double block[REF_ROWS][REF_COLUMNS] = {{0}};
    for (int64_t k = 0; k < steps; k++)
        for (int i = 0; i < REF_ROWS; i++)
            for (int j = 0; j < REF_COLUMNS; j++)
                block[i][j] += a[k * REF_ROWS + i] * b[k * REF_COLUMNS + j];
    for (int i = 0; i < REF_ROWS; i++)
        for (int j = 0; j < REF_COLUMNS; j++) {
            double *sum = &sums[i * REF_COLUMNS + j];
            *sum = add ? *sum + block[i][j] : block[i][j];
        }
}

void ref_block_multiply(bool blas, bool add, int64_t steps, const double *a, const double *b,
                        double *sums)
{
    if (blas && steps == REF_DEPTH)
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, REF_ROWS, REF_COLUMNS, REF_DEPTH, 1.0,
                    a, REF_ROWS, b, REF_COLUMNS, add ? 1.0 : 0.0, sums, REF_COLUMNS);
    else
        multiply_plain(add, steps, a, b, sums);
}

/* ---- The check ---- */

typedef struct check {
    double a[REF_A_BLOCK], b[REF_B_BLOCK];
    double moved_a[REF_A_BLOCK], moved_b[REF_B_BLOCK];
    double sum[REF_SUMS], other[REF_SUMS], magnitude[REF_SUMS];
} check;

/* Deterministic values in (-1, 1) with full mantissas, so that a change of order shows. */
static void fill(double *values, int count, uint64_t state)
{
    for (int i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = (double)(int64_t)(state ^ state >> 29) * 0x1p-63;
    }
}

static void magnitudes(const double *from, int count, double *to)
{
    for (int i = 0; i < count; i++)
        to[i] = fabs(from[i]);
}

/* Row r of `from` becomes row (r + by) % panel of `to`. */
static void rotate(const double *from, int panel, int by, double *to)
{
    for (int k = 0; k < REF_DEPTH; k++)
        for (int r = 0; r < panel; r++)
            to[k * panel + (r + by) % panel] = from[k * panel + r];
}

/* Both an initial and an added block agree with the plain one, within the bound of two sums in
 * double. */
static bool check_values(check *c)
{
    magnitudes(c->a, REF_A_BLOCK, c->moved_a);
    magnitudes(c->b, REF_B_BLOCK, c->moved_b);
    for (int twice = 0; twice < 2; twice++) {
        ref_block_multiply(true, twice, REF_DEPTH, c->a, c->b, c->sum);
        multiply_plain(twice, REF_DEPTH, c->a, c->b, c->other);
        multiply_plain(twice, REF_DEPTH, c->moved_a, c->moved_b, c->magnitude);
        for (int i = 0; i < REF_ROWS; i++)
            for (int j = 0; j < REF_COLUMNS; j++) {
                int at = i * REF_COLUMNS + j;
                if (!(fabs(c->sum[at] - c->other[at]) <=
                      2 * (REF_DEPTH + 2) * 0x1p-53 * c->magnitude[at]))
                    return false;
            }
    }
    return true;
}

/* Rows and columns have the same bits in every place, in an initial and in an added block. */
static bool check_places(check *c)
{
    for (int twice = 0; twice < 2; twice++)
        ref_block_multiply(true, twice, REF_DEPTH, c->a, c->b, c->sum);
    for (int by = 1; by < REF_COLUMNS; by++) {
        rotate(c->a, REF_ROWS, by, c->moved_a);
        rotate(c->b, REF_COLUMNS, by, c->moved_b);
        for (int twice = 0; twice < 2; twice++)
            ref_block_multiply(true, twice, REF_DEPTH, c->moved_a, c->moved_b, c->other);
        for (int i = 0; i < REF_ROWS; i++)
            for (int j = 0; j < REF_COLUMNS; j++) {
                int row = (i + by) % REF_ROWS, column = (j + by) % REF_COLUMNS;
                if (c->other[row * REF_COLUMNS + column] != c->sum[i * REF_COLUMNS + j])
                    return false;
            }
    }
    return true;
}

/* A NaN or Inf stays in its own row or column, and an initial block does not read the sum. */
static bool check_isolation(check *c)
{
    ref_block_multiply(true, false, REF_DEPTH, c->a, c->b, c->other);
    c->a[5 * REF_ROWS + 3] = (double)NAN;
    c->b[7 * REF_COLUMNS + 4] = (double)INFINITY;
    for (int i = 0; i < REF_SUMS; i++)
        c->sum[i] = (double)NAN;
    ref_block_multiply(true, false, REF_DEPTH, c->a, c->b, c->sum);
    for (int i = 0; i < REF_ROWS; i++)
        for (int j = 0; j < REF_COLUMNS; j++) {
            double value = c->sum[i * REF_COLUMNS + j];
            bool right = i == 3   ? isnan(value)
                         : j == 4 ? !isfinite(value)
                                  : value == c->other[i * REF_COLUMNS + j];
            if (!right)
                return false;
        }
    return true;
}

bool ref_block_check(void)
{
    check *c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64);
    if (!c)
        return false;
    fill(c->a, REF_A_BLOCK, 1);
    fill(c->b, REF_B_BLOCK, 2);
    bool good = check_values(c) && check_places(c) && check_isolation(c);
    free(c);
    return good;
}
