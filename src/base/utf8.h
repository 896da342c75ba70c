/* UTF-8 in names that other programs gave. */
#ifndef MT_BASE_UTF8_H
#define MT_BASE_UTF8_H

#include "base/text.h"

/* Returns the bytes of the well-formed character at `text` (RFC 3629, table of section 4); 0 if there is none. NUL is a
 * character of 1 byte, and no character reaches past it. */
int mt_utf8_length(const char *text);

/* Adds `text`, with U+FFFD for each byte that is part of no character. */
void mt_utf8_add_repaired(struct mt_text *out, const char *text);

#endif
