/* admin/complete.h - a shell's completions as text; private to the room. */
#ifndef ADMIN_COMPLETE_H
#define ADMIN_COMPLETE_H

#include "base/buf.h"

void completion_put(const char *shell, struct buf *out); /* "bash", "zsh" or "fish" */

#endif
