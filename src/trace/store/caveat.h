/* Caveats: facts that make the figures of a run less than complete or less than certain. And the reasons why a run ended.
 * Most come from dry runs, which skip work that they do not need and compute no values. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The kinds, with the text of caveat.kind:
 *
 *   shortened  `name` ("training loader") was cut after `count` of `total` pieces
 *   not_run    the call of `name` ("evaluate") did not run
 *   unknown    the scratch memory of operator `name` is unknown; it was called `count` times, with results of `bytes`
 *   estimated  the scratch memory of `count` calls is an estimate; `name` says which and why
 *   assumed    a value that was not computed was read by `name` ("a number"); it was assumed to be `value`, `count` times
 *   weights    the weights of the model `name` were made from its configuration, without its checkpoint
 *   choice     a card takes the fastest of `total` variants of `name`, a kernel; the first was used, and `count` of the others
 *              requested other bytes than it, by up to `bytes`
 *   eager      the program's compiler was left out, so that the figures are the eager program's; `name` says why
 *   other_card a rank allocated up to `bytes` on the card `name` ("cuda:0"), which is not its own
 *   not_updated  module `name` has gradients of `bytes` for `count` parameters that no optimizer updates
 *   growth     memory grows by `bytes` an iteration, and the card is full at iteration `count`: an estimate */
#define MT_CAVEAT_KINDS(X)                                                                                             \
    X(SHORTENED, "shortened")                                                                                          \
    X(NOT_RUN, "not_run")                                                                                              \
    X(UNKNOWN, "unknown")                                                                                              \
    X(ESTIMATED, "estimated")                                                                                          \
    X(ASSUMED, "assumed")                                                                                              \
    X(GROWTH, "growth")                                                                                                \
    X(WEIGHTS, "weights")                                                                                              \
    X(CHOICE, "choice")                                                                                                \
    X(EAGER, "eager")                                                                                                  \
    X(OTHER_CARD, "other_card")                                                                                        \
    X(NOT_UPDATED, "not_updated")

#define X(name, text) MT_CAVEAT_##name,
typedef enum mt_caveat_kind { MT_CAVEAT_KINDS(X) MT_CAVEAT_KIND_COUNT } mt_caveat_kind;
#undef X

/* Kind, name and place identify a caveat in its run: a later one with the same key replaces it. Numbers that say nothing are
 * -1, and such a value is NAN. */
struct mt_caveat {
    mt_caveat_kind kind;
    const char *name;
    const char *file; /* "": not known */
    int64_t line;     /* 0: not known */
    int64_t count, total, bytes;
    double value;
};

/* The reasons, with the text of run.ended_by. */
#define MT_ENDED_BY(X)                                                                                                 \
    X(PROGRAM, "program")       /* it ran to its own end */                                                            \
    X(SETTLED, "settled")       /* its steps repeated each other, so the run was ended */                              \
    X(UNSETTLED, "unsettled")   /* they never did, and the run was ended all the same */                               \
    X(STEPS, "steps")           /* as many steps as the user allowed were over */                                      \
    X(TIME_LIMIT, "time limit") /* so was its time */                                                                  \
    X(SIGNAL, "signal")                                                                                                \
    X(ERROR, "error")                                                                                                  \
    X(OUT_OF_MEMORY, "out of memory")                                                                                  \
    X(GROWTH, "growth") /* memory grew with each iteration, so the run was ended */                                    \
    X(VALUES, "values") /* a loop needed values that were not computed */                                              \
    X(CAUGHT, "caught") /* the program caught the end of the run again and again */

#define X(name, text) MT_ENDED_BY_##name,
typedef enum mt_ended_by { MT_ENDED_BY(X) MT_ENDED_BY_COUNT } mt_ended_by;
#undef X

/* Return the text of a kind or a reason; "?" for any other number. */
const char *mt_caveat_kind_name(mt_caveat_kind kind);
const char *mt_ended_by_name(mt_ended_by reason);

/* Find the kind or the reason with that text. False if there is none. */
bool mt_caveat_kind_find(const char *name, mt_caveat_kind *out);
bool mt_ended_by_find(const char *name, mt_ended_by *out);
