/* SPDX-License-Identifier: MIT */
/* The front door of placement: what puts a model's bytes where an executor can read them. */
#pragma once

#include "offload/residency.h"
