/* JSON objects of texts and numbers, without objects or arrays inside, for parts that link no library for JSON. Bytes
 * beyond ASCII are left as they are, so paths need not be UTF-8.
 *
 * Threads: any. */
#pragma once

#include "base/text.h"

#include <stdbool.h>

/* Add a member to an object that begins with "" and is complete after each call. NULL adds nothing. */
void mt_flat_json_add_text(struct mt_text *object, const char *name, const char *value);
void mt_flat_json_add_number(struct mt_text *object, const char *name, double value);

/* Returns the value of a member as text, which the caller frees; NULL if there is none. Of two with the same name the
 * last counts. */
char *mt_flat_json_find(const char *object, const char *name);
