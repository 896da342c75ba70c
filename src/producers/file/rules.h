/* Rules that label the blocks of other programs by their call stacks. A rule is a line of text;
 * docs/import.md explains them.
 *
 *   file=blocks.py line=124-128          -> category=Norm
 *   node=AccumulateGrad                  -> category=Gradient role=gradient
 *   life=gradient                        -> category=Gradient role=gradient
 *
 * Each property (category, role, op, span) comes from the first matching rule that sets it, in the order in which rules
 * were added. A phase does, too, except within one text of rules: there the rule that fits the innermost Python frame
 * sets it, since a function that computes the loss may call the whole model. Rules without such a frame, or with a C++
 * frame, come first.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/frame_matches.h"

struct mt_rules;

struct mt_rules *mt_rules_create(void);
void mt_rules_destroy(struct mt_rules *rules); /* may be NULL */

/* Appends the rules of a text. Fails with MT_USAGE, `source` and the line number for a line that is not a rule. */
mt_status mt_rules_add(struct mt_rules *rules, const char *source, const char *text);

/* The same for a file. Fails with MT_FAILED if it can't be read. */
mt_status mt_rules_add_file(struct mt_rules *rules, const char *path);

/* Adds the built-in rules for known models and for PyTorch. */
mt_status mt_rules_add_built_in(struct mt_rules *rules);

size_t mt_rules_count(const struct mt_rules *rules);

/* Returns empty matches of frames with these rules. No rules may be added meanwhile. The caller destroys the
 * matches. */
struct mt_frame_matches *mt_rules_match_frames(const struct mt_rules *rules);

/* The rules that a call stack alone does not exclude. A call stack with many blocks is matched once. */
struct mt_rule_choice {
    uint16_t *rules; /* in their order */
    uint32_t count;
    uint16_t *phase_rules; /* the chosen rules that set a phase, in order of precedence */
    uint32_t phase_count;
};

/* Chooses the rules of a call stack. `matches` must be of these rules; it remembers the frames of earlier stacks. */
void mt_rules_choose(const struct mt_rules *rules, struct mt_frame_matches *matches, const struct mt_call_stack *stack,
                     struct mt_rule_choice *out);
void mt_rule_choice_release(struct mt_rule_choice *choice);

/* Returns the phase that rules set, or MT_RULE_SILENT. Does not read subject->phase: rules that set a phase have no
 * condition on it. */
int mt_rules_phase(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                   const struct mt_rule_subject *subject);

/* Evaluates the rules and sets all properties that they set. */
void mt_rules_ask(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                  const struct mt_rule_subject *subject, struct mt_rule_answer *out);
