/* admin/verify.h - the two kinds of proof that `tallyd verify` has; private to the room. */
#ifndef ADMIN_VERIFY_H
#define ADMIN_VERIFY_H

#include "admin/verbs.h"

/* Of the store that --store names, of this counter or with NULL of all that have it; prints, and says what fails. */
enum err verify_store(const struct call *call, const struct setup *setup, const struct counter *only);

#endif
