/* SPDX-License-Identifier: MIT */
/*
 * Text for error messages. The domain and its codes are public: src/sluice.h.
 */
#pragma once

#include "src/sluice.h"

G_BEGIN_DECLS

char *sluice_error_printable(const char *bytes, gssize n_bytes);

G_END_DECLS
