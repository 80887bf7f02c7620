/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests functional calls on tensors in device memory: the bits are those of
 * host memory, forward and backward, also for elements in another order.
 */
#include "t/cuda/members.h"
#include "t/functional/on_device.h"

int main(void)
{
    device_begin();
    on_both(2, functional_every_form,
        "every call has the bits of host memory, and its way back (F20, F21, F22, F27, F28, F29)");
    on_both(3, functional_every_form,
        "every call has the bits of host memory, and its way back (F20, F21, F22, F27, F28, F29)");
    on_both(2, functional_lists,
        "lists have the bits of host memory, and as many operations");
    on_both(2, functional_other_orders,
        "channels last, complex, and other strides (F30)");
    return done_testing();
}
