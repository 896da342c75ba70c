#include "trace/store/program_phase.h"

#include <string.h>

#define X(name, text) text,
static const char *const phases[MT_PROGRAM_PHASE_COUNT] = {MT_PROGRAM_PHASES(X)};
#undef X

const char *mt_program_phase_name(mt_program_phase phase)
{
    return phase < MT_PROGRAM_PHASE_COUNT ? phases[phase] : "?";
}

bool mt_program_phase_find(const char *name, mt_program_phase *out)
{
    int i = 0;
    while (i < MT_PROGRAM_PHASE_COUNT && strcmp(phases[i], name) != 0)
        i++;
    *out = (mt_program_phase)i;
    return i < MT_PROGRAM_PHASE_COUNT;
}
