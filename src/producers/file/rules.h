/* Rules that give blocks of other programs their labels, by their call stacks. A rule is a line of text;
 * docs/import.md explains them.
 *
 *   file=blocks.py line=124-128          -> category=Norm
 *   node=AccumulateGrad                  -> category=Gradient role=gradient
 *   life=gradient                        -> category=Gradient role=gradient
 *
 * Each property (category, role, op, span) comes from the first matching rule that sets it, in the order in which rules were
 * added. So does a phase, but within one text of rules it comes from the rule that fits the innermost frame of Python: a
 * function that computes the loss may call the whole model. Rules that ask for no such frame, or for one of C++ too, precede.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/frame_matches.h"

struct mt_rules;

struct mt_rules *mt_rules_create(void);
void mt_rules_destroy(struct mt_rules *rules); /* may be NULL */

/* Adds the rules of a text after the others. Fails with MT_USAGE, `source` and the line, for a line that is no rule. */
mt_status mt_rules_add(struct mt_rules *rules, const char *source, const char *text);

/* The same for a file. Fails with MT_FAILED if it can't be read. */
mt_status mt_rules_add_file(struct mt_rules *rules, const char *path);

/* Adds the built-in rules: of models that we know, and of PyTorch. */
mt_status mt_rules_add_built_in(struct mt_rules *rules);

size_t mt_rules_count(const struct mt_rules *rules);

/* Returns the matches of frames with these rules, none yet. They must not get more meanwhile. The caller destroys them. */
struct mt_frame_matches *mt_rules_match_frames(const struct mt_rules *rules);

/* The rules that a call stack alone does not exclude. A call stack with many blocks is matched once. */
struct mt_rule_choice {
    uint16_t *rules; /* in their order */
    uint32_t count;
    uint16_t *phase_rules; /* of these, those that set a phase: the one that decides first */
    uint32_t phase_count;
};

/* Chooses them. `matches` are of these rules, and know the frames of stacks before. */
void mt_rules_choose(const struct mt_rules *rules, struct mt_frame_matches *matches, const struct mt_call_stack *stack,
                     struct mt_rule_choice *out);
void mt_rule_choice_release(struct mt_rule_choice *choice);

/* Returns the phase that rules set, or MT_RULE_SILENT. Does not read subject->phase: rules that set a phase have no
 * condition on it. */
int mt_rules_phase(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                   const struct mt_rule_subject *subject);

/* Sets all properties that rules set. */
void mt_rules_ask(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                  const struct mt_rule_subject *subject, struct mt_rule_answer *out);
