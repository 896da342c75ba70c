/* The words of a command line as stored in a trace: without secrets, since traces are mailed and uploaded. Any
 * thread. */
#pragma once

#include "base/text.h"

/* Adds the words in `words`, which are separated by `separator`, with spaces between them. The value of an option or
 * setting whose name ends with token, password, passwd, passphrase, secret, credentials, api-key, access-key or
 * private-key is replaced by "***", after "=" or as the next word. Ignores case, and treats "_" as "-". */
void mt_shown_words_add(const char *words, size_t bytes, char separator, struct mt_text *out);
