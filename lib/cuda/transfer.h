/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of messages between the devices of two ranks.
 */
#ifndef SYMC_CUDA_TRANSFER_H
#define SYMC_CUDA_TRANSFER_H

#include "backend/backend.h"

extern const struct symc_transfer_ops symc_cuda_transfer_ops;

#endif
