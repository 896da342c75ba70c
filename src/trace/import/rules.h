/* Rules that say what blocks of others are for, by who asked for them: lines of text, which docs/import.md explains.
 *
 *   file=blocks.py line=124-128          -> category=Norm
 *   node=AccumulateGrad                  -> category=Gradient role=grad
 *   size=32MiB before                    -> category=Workspace role=workspace
 *
 * Of each thing that rules say (category, role, op, span, phase), the first rule counts that matches and says it. Rules are
 * asked in the order in which they were added.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_RULES_H
#define MT_TRACE_IMPORT_RULES_H

#include "trace/import/rule.h"

struct mt_rules;

struct mt_rules *mt_rules_create(void);
void mt_rules_destroy(struct mt_rules *rules); /* may be NULL */

/* Adds the rules of a text after those that there are. MT_USAGE, with `source` and the line, for what is no rule. */
mt_status mt_rules_add(struct mt_rules *rules, const char *source, const char *text);

/* The same of a file: MT_FAILED if it can't be read. */
mt_status mt_rules_add_file(struct mt_rules *rules, const char *path);

/* Those that the program carries: of models that it knows, and of PyTorch. */
mt_status mt_rules_add_built_in(struct mt_rules *rules);

size_t mt_rules_count(const struct mt_rules *rules);

/* The rules that a stack alone does not rule out, so that who asks for many blocks is looked at once. */
struct mt_rule_choice {
    uint16_t *rules;
    uint32_t count;
};
void mt_rules_choose(const struct mt_rules *rules, const struct mt_call_stack *stack, struct mt_rule_choice *out);
void mt_rule_choice_release(struct mt_rule_choice *choice);

/* The phase that rules say; rules that say one do not ask for it. `subject->phase` is not looked at. */
int mt_rules_phase(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                   const struct mt_rule_subject *subject);

/* All that they say. */
void mt_rules_ask(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                  const struct mt_rule_subject *subject, struct mt_rule_answer *out);

#endif
