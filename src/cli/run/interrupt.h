/* ^C while something runs: what is said or noted before the program ends as usual. */
#ifndef MT_CLI_INTERRUPT_H
#define MT_CLI_INTERRUPT_H

#include <signal.h>

/* Has the first ^C call the handler; the next one ends the program. Where it is ignored, as in a job in the background,
 * it stays so. *out_before: for mt_interrupt_release. */
void mt_interrupt_catch(void (*handler)(int number), struct sigaction *out_before);

void mt_interrupt_release(const struct sigaction *before);

/* Writes to stderr; of what a handler may call. */
void mt_interrupt_say(const char *text);

#endif
