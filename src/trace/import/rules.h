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

#include "base/label.h"
#include "base/status.h"
#include "trace/import/call_stack.h"

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

/* What is known of a block that somebody asked for. */
struct mt_rule_subject {
    uint64_t bytes;
    const char *metadata;           /* that the program gave; "" if none */
    const char *const *annotations; /* what it said that it was doing */
    uint32_t annotation_count;
    mt_phase phase;
    bool was_before;                    /* it was live before the recording began */
    bool is_forward_known;              /* it was asked for to undo an operator whose own block is known */
    bool outlives_phase;                /* it is there for a later one; loss is part of forward here */
    bool halves_parameter;              /* a parameter has twice as many bytes */
    const struct mt_call_stack *undone; /* who ran the operator that it was asked for to undo; NULL: not known */
};

/* What rules say. */
struct mt_rule_answer {
    const char *category, *op, *span; /* NULL: nothing */
    int role, phase;                  /* mt_role, mt_phase; MT_RULE_SILENT: nothing */
    bool begins_step;
};
enum { MT_RULE_SILENT = -1 };

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
