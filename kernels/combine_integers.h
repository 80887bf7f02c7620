/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Combining integers, for a type: included by elements.h with
 *
 *   wide       uint32_t or uint64_t: sums and products wrap around
 *   with_sign  the signed type of that size
 *   OF(name)   a name for it
 *
 * Elements of a smaller type are extended, with their sign where they have one,
 * and cut to their size at the end.
 */

DEVICE bool OF(is_less)(wide a, wide b, bool has_sign)
{
    return has_sign ? (with_sign)a < (with_sign)b : a < b;
}

/* a[i] = a[i] op b[i]. */
DEVICE void OF(combine)(
    wide *a, const wide *b, int n, uint32_t op, bool has_sign)
{
    switch (op) {
    case SYMMCOLL_PRODUCT:
        UNROLL
        for (int i = 0; i < n; i++)
            a[i] *= b[i];
        break;
    case SYMMCOLL_MIN:
        UNROLL
        for (int i = 0; i < n; i++)
            if (OF(is_less)(b[i], a[i], has_sign))
                a[i] = b[i];
        break;
    case SYMMCOLL_MAX:
        UNROLL
        for (int i = 0; i < n; i++)
            if (OF(is_less)(a[i], b[i], has_sign))
                a[i] = b[i];
        break;
    case SYMMCOLL_BAND:
        UNROLL
        for (int i = 0; i < n; i++)
            a[i] &= b[i];
        break;
    case SYMMCOLL_BOR:
        UNROLL
        for (int i = 0; i < n; i++)
            a[i] |= b[i];
        break;
    case SYMMCOLL_BXOR:
        UNROLL
        for (int i = 0; i < n; i++)
            a[i] ^= b[i];
        break;
    default: /* SUM, AVG */
        UNROLL
        for (int i = 0; i < n; i++)
            a[i] += b[i];
    }
}
