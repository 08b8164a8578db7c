/* SPDX-License-Identifier: MIT */
/* The chat on a terminal: lines in, answers out, and commands that begin with a slash. */
#pragma once

#include "src/cli/conversation.h"

G_BEGIN_DECLS

int sluice_chat_run(SluiceConversation *c, const char *first);

G_END_DECLS
