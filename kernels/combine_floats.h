/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Combining floats, for a type: included by elements.h with
 *
 *   wide       float or double
 *   OF(name)   a name for it
 *
 * A NaN wins in MIN and MAX, and -0 is less than +0, as on the host.
 */

DEVICE bool OF(is_less)(wide a, wide b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

/* a[i] = a[i] op b[i]. */
DEVICE void OF(combine)(wide *a, const wide *b, int n, uint32_t op)
{
    switch (op) {
    case SYMMCOLL_PRODUCT:
        UNROLL
        for (int i = 0; i < n; i++)
            a[i] = OF(multiply)(a[i], b[i]);
        break;
    case SYMMCOLL_MIN:
        UNROLL
        for (int i = 0; i < n; i++)
            if (b[i] != b[i] || OF(is_less)(b[i], a[i]))
                a[i] = b[i];
        break;
    case SYMMCOLL_MAX:
        UNROLL
        for (int i = 0; i < n; i++)
            if (b[i] != b[i] || OF(is_less)(a[i], b[i]))
                a[i] = b[i];
        break;
    default: /* SUM, AVG, PREMUL_SUM */
        UNROLL
        for (int i = 0; i < n; i++)
            a[i] += b[i];
    }
}

/* Multiplies a rank's elements by its factor, for a premultiplied sum. */
DEVICE void OF(prepare)(wide *a, int n, uint32_t op, double factor)
{
    if (op != SYMMCOLL_PREMUL_SUM)
        return;
    UNROLL
    for (int i = 0; i < n; i++)
        a[i] = OF(multiply)(a[i], (wide)factor);
}

/* And with the result. */
DEVICE void OF(finish)(wide *a, int n, uint32_t op, uint32_t nsrc)
{
    if (op != SYMMCOLL_AVG)
        return;
    UNROLL
    for (int i = 0; i < n; i++)
        a[i] /= (wide)nsrc;
}
