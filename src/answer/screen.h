/* The place that answers for people are printed on, and sentences on it: wrapped at words, with names in them made safe for a
 * terminal. Tables on it are in table.h. */
#ifndef MT_ANSWER_SCREEN_H
#define MT_ANSWER_SCREEN_H

#include "base/text.h"

#include <stdio.h>

struct mt_screen {
    FILE *file;                     /* borrowed */
    int columns;                    /* of the terminal; 0: it is none, or does not say */
    int width;                      /* of sentences */
    bool is_styled;                 /* headers may be bold */
    void (*note)(const char *text); /* is told once of a table which columns were left out */
};

/* Prints a sentence and ends its last line. Blanks at its beginning indent every line; line ends before them are printed
 * first. */
void mt_screen_say(const struct mt_screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Does the same, and releases the sentence. */
void mt_screen_line(const struct mt_screen *screen, struct mt_text *line);

/* Prints words whose first line begins at the cursor, which is in column `indent`. Further lines begin there. */
void mt_screen_continue(const struct mt_screen *screen, const char *words, size_t indent);

/* Ends a line, so that the next text is set apart. */
void mt_screen_gap(const struct mt_screen *screen);

#endif
