/* One rule: conditions on a block and its call stack, and the properties it sets if they hold. docs/import.md explains
 * rules. */
#pragma once

#include "base/label.h"
#include "base/status.h"
#include "producers/file/call_stack.h"

enum { MT_RULE_SILENT = -1 };

/* The block that rules are evaluated for, except its call stack. */
struct mt_rule_subject {
    uint64_t bytes;
    const char *metadata;           /* from the program; "" if none */
    const char *const *annotations; /* the open ones */
    uint32_t annotation_count;
    mt_phase phase;
    mt_role life;                       /* the role that its life suggests; MT_ROLE_OTHER if none */
    bool was_before;                    /* it was live before the recording began */
    bool is_forward_known;              /* it helps to undo an operator whose own block is known */
    bool outlives_phase;                /* it is live in a later phase; loss is part of forward here */
    bool halves_parameter;              /* a parameter has twice as many bytes */
    const struct mt_call_stack *undone; /* of the operator that it helps to undo; NULL: not known */
};

/* The properties that rules set. */
struct mt_rule_answer {
    const char *category, *op, *span; /* NULL: not set */
    int role, phase;                  /* mt_role, mt_phase; MT_RULE_SILENT: not set */
    bool begins_step;
};

/* Patterns have the syntax of glob.h; NULL: anything. Owns its texts and the texts of `sets`. Invariants: line_low
 * <= line_high; size_low <= size_high; a rule that sets a phase has no condition on the phase or on anything derived
 * from it. */
struct mt_rule {
    char *function, *file; /* of one frame of Python, with a line in [line_low, line_high] */
    int64_t line_low, line_high;
    int of_undone;   /* 0 or 1: the frame is in the stack of the operator that is undone, not in the block's own */
    char *native;    /* a frame of C++ */
    char *operation; /* an operator of PyTorch */
    char *node;      /* the node of autograd; "" if there is none */
    char *metadata;
    char *annotation; /* one of the open ones */
    uint64_t size_low, size_high;
    uint32_t phases, lives;                         /* a bit each; 0: any */
    int before, forward_known, outlives, parameter; /* 0 or 1; MT_RULE_SILENT: either */
    struct mt_rule_answer sets;
};

/* Reads a line. Sets *out_is_rule to false, with nothing to release, for an empty line and a comment. Fails with
 * MT_USAGE and the reason. */
mt_status mt_rule_read(const char *line, struct mt_rule *out, bool *out_is_rule);
void mt_rule_release(struct mt_rule *rule);

/* True if the rule has a condition on a frame of this language, and the frame meets it. */
bool mt_rule_fits_frame(const struct mt_rule *rule, const struct mt_call_frame *frame);

/* True if the rule has a condition on an operator, and the frame's operator meets it. */
bool mt_rule_fits_operator(const struct mt_rule *rule, const struct mt_call_frame *frame);

/* The conditions of a rule that some frame of a call stack meets: on a Python frame, on a C++ frame, on an operator. */
struct mt_rule_met {
    bool python, native, operation;
};

/* True if the conditions on the call stack hold; true if all others do. `met` are the conditions that frames meet. */
bool mt_rule_fits_stack(const struct mt_rule *rule, const struct mt_call_stack *stack, const struct mt_rule_met *met);
bool mt_rule_fits_subject(const struct mt_rule *rule, const struct mt_rule_subject *subject);

/* Returns the place of the innermost Python frame that fits the rule, from 1 on; 0 if the rule has no condition on a
 * Python frame, or also has one on a C++ frame. */
uint32_t mt_rule_depth(const struct mt_rule *rule, const struct mt_call_stack *stack);
