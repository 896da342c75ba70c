#include "base/file_limit.h"

#include <stddef.h>
#include <time.h>

static sigset_t only_the_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

void mt_file_limit_hold(sigset_t *out_before)
{
    const sigset_t set = only_the_signal();
    pthread_sigmask(SIG_BLOCK, &set, out_before);
}

void mt_file_limit_let_go(const sigset_t *before)
{
    const sigset_t set = only_the_signal();
    const struct timespec now = {0};
    if (!sigismember(before, SIGXFSZ))
        (void)sigtimedwait(&set, NULL, &now);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}
