/* Holders: references that keep an allocation of a Python program alive. */
#pragma once

#include "base/label.h"

#include <stdbool.h>
#include <stdint.h>

/* The kinds, with the text of holder.kind. Containers are named by the variable, attribute or closure that refers to
 * them. */
#define MT_HOLDER_KINDS(X)                                                                                             \
    X(VARIABLE, "variable")   /* a local or global variable */                                                         \
    X(ATTRIBUTE, "attribute") /* of an object */                                                                       \
    X(CLOSURE, "closure")     /* a variable of a function that another function has captured */                        \
    X(TRACEBACK, "traceback") /* a variable of a function that an exception left, which keeps the function's frame */  \
    X(EXCEPTION, "exception") /* a container of exceptions, whose tracebacks keep the frames that they left */         \
    X(CYCLE, "cycle")         /* objects that refer to each other, until the garbage collector frees them */           \
    X(GRADIENT_CYCLE, "gradient cycle") /* parameters and gradients of backward(create_graph=True) */                  \
    X(GRAPH, "graph")                   /* an autograd graph, which the named tensor keeps alive */                    \
    X(CHAIN, "chain") /* a growing graph: each value of the variable is computed from the value before */              \
    X(GRADIENT_CHAIN, "gradient chain") /* the same, through gradients that are computed with create_graph=True */     \
    X(VIEW, "view")                     /* a view of a part of the allocation */                                       \
    X(COPY, "copy") /* a variable or attribute with a copy of the trained weights, such as an average */

#define X(name, text) MT_HOLDER_##name,
typedef enum mt_holder_kind { MT_HOLDER_KINDS(X) MT_HOLDER_KIND_COUNT } mt_holder_kind;
#undef X

/* A holder of the block that begins at an address when the holder is stored. */
struct mt_holder {
    uint64_t address;
    mt_holder_kind kind;
    const char *name;      /* "losses", "self.checkpoint" */
    const char *owner;     /* the function, or the class of the object, that contains it; "": not known */
    const char *file;      /* of the reference; "": not known */
    int64_t line;          /* 0: not known */
    uint64_t held_bytes;   /* that would be free without this holder */
    const char *loop_file; /* of the loop in which it grows; "": it was found in another way */
    int64_t loop_line;     /* 0: the same */
};

/* Returns the text of a kind; "?" for any other number. */
const char *mt_holder_kind_name(mt_holder_kind kind);

/* Finds the kind with a text. False if there is none. */
bool mt_holder_kind_find(const char *name, mt_holder_kind *out);
