/* The words of a command line as a trace stores them: without secrets, since traces are mailed and uploaded. Pure; any thread. */
#pragma once

#include "base/text.h"

/* Adds the words in `words`, which are separated by `separator`, with spaces between them. The value of an option or setting
 * whose name ends with token, password, passwd, passphrase, secret, credentials, api-key, access-key or private-key becomes
 * "***", after "=" or as the next word. Case, and "_" for "-", make no difference. */
void mt_shown_words_add(const char *words, size_t bytes, char separator, struct mt_text *out);
