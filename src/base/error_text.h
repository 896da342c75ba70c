/* Where the text of a thread's last error is kept: for status.c, and for modules, which keep theirs in their
 * opener's. */
#ifndef MT_BASE_ERROR_TEXT_H
#define MT_BASE_ERROR_TEXT_H

enum { MT_ERROR_TEXT_BYTES = 1024 };

/* Of this thread, "" at first; stays where it is. */
char *mt_error_text(void);

#endif
