#include "trace/store/run_state.h"

#include <string.h>

const char *mt_run_state_name(mt_run_state state)
{
#define X(name, text, words) text,
    static const char *const names[] = {MT_RUN_STATES(X)};
#undef X
    return names[state];
}

const char *mt_run_state_words(const char *stored)
{
#define X(name, text, words) words,
    static const char *const all_words[] = {MT_RUN_STATES(X)};
#undef X
    for (int state = 0; state < MT_RUN_STATE_COUNT; state++)
        if (strcmp(stored, mt_run_state_name((mt_run_state)state)) == 0)
            return all_words[state];
    return stored;
}
