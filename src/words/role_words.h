/* The evidence for a block's role, in English. */
#pragma once

#include "base/text.h"
#include "trace/query/trace.h"

/* Returns how sure the role is: "certain", "likely", "a guess"; "unknown" if the trace does not say how it was
 * found. */
const char *mt_role_sureness(const struct mt_explained_row *block);

/* Adds a sentence that says what the role rests on. */
void mt_role_evidence(const struct mt_explained_row *block, struct mt_text *text);
