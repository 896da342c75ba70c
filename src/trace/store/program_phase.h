/* Phases of a program, which contain its steps: it loads, trains, validates, generates, infers, saves. */
#pragma once

#include <stdbool.h>

/* The phases, with the text of program_phase.name. Profile, capture and serve are of serving engines. */
#define MT_PROGRAM_PHASES(X)                                                                                           \
    X(LOAD, "load")                                                                                                    \
    X(TRAIN, "train")                                                                                                  \
    X(VALIDATE, "validate")                                                                                            \
    X(GENERATE, "generate")                                                                                            \
    X(SAVE, "save")                                                                                                    \
    X(PROFILE, "profile")                                                                                              \
    X(CAPTURE, "capture")                                                                                              \
    X(SERVE, "serve")                                                                                                  \
    X(INFERENCE, "inference") /* other calls of a model by a program that does not train */

#define X(name, text) MT_PROGRAM_PHASE_##name,
typedef enum mt_program_phase { MT_PROGRAM_PHASES(X) MT_PROGRAM_PHASE_COUNT } mt_program_phase;
#undef X

/* Returns the text of a phase; "?" for any other number. */
const char *mt_program_phase_name(mt_program_phase phase);

/* Finds the phase with a text. False if there is none. */
bool mt_program_phase_find(const char *name, mt_program_phase *out);
