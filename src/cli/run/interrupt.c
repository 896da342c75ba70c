#include "cli/run/interrupt.h"

#include <string.h>
#include <unistd.h>

void mt_interrupt_catch(void (*handler)(int number), struct sigaction *out_before)
{
    const struct sigaction catching = {.sa_handler = handler, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    if (sigaction(SIGINT, NULL, out_before) == 0 && out_before->sa_handler != SIG_IGN)
        sigaction(SIGINT, &catching, NULL);
}

void mt_interrupt_release(const struct sigaction *before)
{
    sigaction(SIGINT, before, NULL);
}

void mt_interrupt_say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* nobody to tell */
}
