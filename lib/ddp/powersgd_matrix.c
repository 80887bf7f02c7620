/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matrix arithmetic of PowerSGD.  Sums are in double precision and in a
 * fixed order, and random numbers are made of integers, so that equal arguments
 * have a result with the same bits on all machines.  Finite arguments never
 * have a result that is not finite.
 */
#include "ddp/powersgd.h"

#include "ddp/element.h"

#include <math.h>

/* A column of length 1 that becomes as short as this when the columns before it
 * are subtracted consists of rounding errors. */
#define DEPENDENT 1e-5

static double norm(const float *column, size_t rows, size_t rank)
{
    double sum = 0.0;

    for (size_t r = 0; r < rows; r++)
        sum += (double)column[r * rank] * column[r * rank];
    return sqrt(sum);
}

/* Subtracts from a column its projection on another one. */
static void subtract(
    float *column, const float *other, size_t rows, size_t rank)
{
    double dot = 0.0;

    for (size_t r = 0; r < rows; r++)
        dot += (double)column[r * rank] * other[r * rank];
    for (size_t r = 0; r < rows; r++)
        column[r * rank] = (float)(column[r * rank] - dot * other[r * rank]);
}

static void scale(float *column, size_t rows, size_t rank, double factor)
{
    for (size_t r = 0; r < rows; r++)
        column[r * rank] = (float)(column[r * rank] * factor);
}

void symc_psgd_orthogonalise(
    float *matrix, size_t rows, size_t rank, double epsilon)
{
    for (size_t c = 0; c < rank; c++) {
        float *column = matrix + c;
        double length = norm(column, rows, rank), left;

        /* A difference of columns of length 1 is in the range of float. */
        scale(column, rows, rank, length == 0.0 ? 0.0 : 1.0 / length);
        /* The first subtraction leaves rounding errors, which the second
         * removes. */
        for (int pass = 0; pass < 2; pass++)
            for (size_t other = 0; other < c; other++)
                subtract(column, matrix + other, rows, rank);
        left = norm(column, rows, rank);
        scale(column, rows, rank,
            left <= DEPENDENT ? 0.0 : length / (left * length + epsilon));
    }
}

/* The finalizer of SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t symc_psgd_mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

/* Returns the sum of four integers of 16 bits, around 0. */
static float draw(uint64_t key)
{
    uint64_t bits = symc_psgd_mix(key);
    int sum = (int)(bits & 0xffff) + (int)(bits >> 16 & 0xffff) +
              (int)(bits >> 32 & 0xffff) + (int)(bits >> 48);

    return (float)(sum - 2 * 0xffff);
}

void symc_psgd_draw(float *matrix, size_t rows, size_t rank, uint64_t key)
{
    for (size_t c = 0; c < rank; c++) {
        double length = norm(matrix + c, rows, rank);

        if (length > 0.0 && isfinite(length))
            continue;
        for (size_t r = 0; r < rows; r++)
            matrix[r * rank + c] = draw(key + r * rank + c);
    }
}

void symc_psgd_project(float *p, const float *m, const float *q,
    const struct symc_psgd_matrix *matrix, double limit, double *sums)
{
    size_t rank = matrix->rank;

    for (size_t r = 0; r < matrix->rows; r++) {
        const float *row = m + r * matrix->columns;

        for (size_t k = 0; k < rank; k++)
            sums[k] = 0.0;
        for (size_t c = 0; c < matrix->columns; c++)
            for (size_t k = 0; k < rank; k++)
                sums[k] += (double)row[c] * q[c * rank + k];
        for (size_t k = 0; k < rank; k++)
            p[r * rank + k] = (float)symc_element_limit(sums[k], limit);
    }
}

void symc_psgd_project_back(float *q, const float *m, const float *p,
    const struct symc_psgd_matrix *matrix, double factor, double limit,
    double *sums)
{
    size_t rank = matrix->rank, count = matrix->columns * rank;

    for (size_t i = 0; i < count; i++)
        sums[i] = 0.0;
    for (size_t r = 0; r < matrix->rows; r++) {
        const float *row = m + r * matrix->columns, *left = p + r * rank;

        for (size_t c = 0; c < matrix->columns; c++)
            for (size_t k = 0; k < rank; k++)
                sums[c * rank + k] += (double)row[c] * left[k];
    }
    for (size_t i = 0; i < count; i++)
        q[i] = (float)symc_element_limit(sums[i] * factor, limit);
}

void symc_psgd_expand_row(float *out, const float *p, const float *q,
    const struct symc_psgd_matrix *matrix, size_t row, double limit)
{
    size_t rank = matrix->rank;
    const float *left = p + row * rank;

    for (size_t c = 0; c < matrix->columns; c++) {
        double sum = 0.0;

        for (size_t k = 0; k < rank; k++)
            sum += (double)left[k] * q[c * rank + k];
        out[c] = (float)symc_element_limit(sum, limit);
    }
}
