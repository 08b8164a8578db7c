/* SPDX-License-Identifier: MIT */
/*
 * Ctrl-C. While an answer is made it stops that answer; a second one, or one while nothing can be
 * stopped, ends the program as the signal does by default.
 */
#pragma once

#include "src/sluice.h"

G_BEGIN_DECLS

void sluice_interrupt_init(void);
void sluice_interrupt_watch(SluiceSession *session);
void sluice_interrupt_hold(void);
void sluice_interrupt_release(void);
bool sluice_interrupt_came(void);
bool sluice_interrupt_await_input(int fd);

G_END_DECLS
