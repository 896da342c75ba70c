/* Caveats: facts that make the figures of a run incomplete or uncertain. Also the reasons why a run ended.
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
 *   choice     a card uses the fastest of `total` variants of `name`, a kernel; the first was assumed, and `count` of
 *              the others request up to `bytes` more or less
 *   eager      the program's compiler was disabled, so the figures are the eager program's; `name` says why
 *   other_card a rank allocated up to `bytes` on the card `name` ("cuda:0"), which is not its own;
 *              the place is where its largest holder is set
 *   not_updated  module `name` has gradients of `bytes` for `count` parameters that no optimizer updates
 *   not_detached  backward goes through tensor `name` ("fake") to `count` parameters of another optimizer, whose
 *              gradients of `bytes` the program clears before that optimizer's step
 *   zeroed     optimizer `name` ("Adam") keeps gradients of `bytes` for `count` parameters, which the program sets to
 *              zero after a step
 *   growth     memory grows by `bytes` per iteration, and the card is full at iteration `count`: an estimate; of `total`
 *              iterations, `value` ran */
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
    X(NOT_UPDATED, "not_updated")                                                                                      \
    X(NOT_DETACHED, "not_detached")                                                                                    \
    X(ZEROED, "zeroed")

#define X(name, text) MT_CAVEAT_##name,
typedef enum mt_caveat_kind { MT_CAVEAT_KINDS(X) MT_CAVEAT_KIND_COUNT } mt_caveat_kind;
#undef X

/* Kind, name and place identify a caveat in its run: a later one with the same key replaces it. Unknown numbers are
 * -1, and an unknown value is NAN. */
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
    X(UNSETTLED, "unsettled")   /* its steps never did, and the run was ended anyway */                                \
    X(STEPS, "steps")           /* the user's maximum of steps was reached */                                          \
    X(TIME_LIMIT, "time limit") /* the user's time limit was reached */                                                \
    X(SIGNAL, "signal")                                                                                                \
    X(ERROR, "error")                                                                                                  \
    X(OUT_OF_MEMORY, "out of memory")                                                                                  \
    X(GROWTH, "growth") /* memory grew with each iteration, so the run was ended */                                    \
    X(VALUES, "values") /* a loop needed values that were not computed */                                              \
    X(CAUGHT, "caught") /* the program repeatedly caught the exception that ends the run */

#define X(name, text) MT_ENDED_BY_##name,
typedef enum mt_ended_by { MT_ENDED_BY(X) MT_ENDED_BY_COUNT } mt_ended_by;
#undef X

/* Return the text of a kind or a reason; "?" for any other number. */
const char *mt_caveat_kind_name(mt_caveat_kind kind);
const char *mt_ended_by_name(mt_ended_by reason);

/* Find the kind or the reason with a text. False if there is none. */
bool mt_caveat_kind_find(const char *name, mt_caveat_kind *out);
bool mt_ended_by_find(const char *name, mt_ended_by *out);
