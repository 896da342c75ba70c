/* The place of the text of a thread's last failure. It is apart from status.c, because a module that is loaded late has
 * another implementation, which returns the place of the program that loaded it. */
#ifndef MT_BASE_ERROR_TEXT_H
#define MT_BASE_ERROR_TEXT_H

/* Returns this thread's MT_ERROR_TEXT_BYTES, "" at first. They stay where they are. */
char *mt_error_text(void);

#endif
