#include "producers/file/plain_labels.h"

#include "base/memory.h"
#include "producers/file/import_spans.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct mt_plain_labels {
    const struct mt_rules *rules;
    struct mt_sink sink;
    struct mt_rule_choice choice; /* for a call stack without frames */
    mt_phase phase;
    struct mt_import_coverage coverage;
};

struct mt_plain_labels *mt_plain_labels_create(const struct mt_rules *rules, const struct mt_sink *sink)
{
    const struct mt_call_stack nobody = {.node = "", .recorded = ""};
    struct mt_plain_labels *labels = mt_host_alloc(sizeof *labels);
    labels->rules = rules;
    labels->sink = *sink;
    labels->phase = MT_PHASE_FORWARD;
    struct mt_frame_matches *matches = mt_rules_match_frames(rules);
    mt_rules_choose(rules, matches, &nobody, &labels->choice);
    mt_frame_matches_destroy(matches);
    return labels;
}

void mt_plain_labels_destroy(struct mt_plain_labels *labels)
{
    if (labels == NULL)
        return;
    mt_rule_choice_release(&labels->choice);
    free(labels);
}

void mt_plain_labels_phase(struct mt_plain_labels *labels, mt_phase phase)
{
    assert(phase < MT_PHASE_COUNT);
    labels->phase = phase;
}

/* The parts of a name from one of our exports. Invariant: for other names, category is MT_CATEGORY_COUNT and the rest
 * is NULL. */
struct own_name {
    int category;
    char *op;         /* the caller frees it */
    const char *span; /* borrowed from the name */
};

static struct own_name split_name(const char *name)
{
    for (int i = 0; i < MT_CATEGORY_COUNT; i++) {
        const char *category = mt_category_name((mt_category)i);
        size_t length = strlen(category);
        if (strncmp(name, category, length) != 0 || name[length] != ' ')
            continue;
        char *op = mt_host_strdup(name + length + 1);
        size_t op_length = strcspn(op, " ");
        const char *span = name + length + 1 + op_length;
        op[op_length] = '\0';
        return (struct own_name){i, op, *span == ' ' ? span + 1 : ""};
    }
    return (struct own_name){.category = MT_CATEGORY_COUNT};
}

static mt_category category_of(const struct mt_plain_labels *labels, const struct mt_rule_answer *answer,
                               const struct own_name *own)
{
    assert(own->category <= MT_CATEGORY_COUNT);
    if (own->category < MT_CATEGORY_COUNT)
        return (mt_category)own->category;
    return answer->category != NULL ? mt_sink_category(&labels->sink, answer->category) : MT_CATEGORY_OTHER;
}

static const char *op_of(const struct mt_rule_answer *answer, const struct own_name *own, const char *name)
{
    if (own->op != NULL)
        return own->op;
    if (answer->op != NULL)
        return answer->op;
    return name[0] != '\0' ? name : "unknown";
}

void mt_plain_labels_give(struct mt_plain_labels *labels, const char *name, const char *span,
                          struct mt_foreign_block *block)
{
    assert(name != NULL && span != NULL && block->label == 0);
    const struct mt_rule_subject subject = {
        .bytes = block->requested_bytes, .metadata = name, .phase = labels->phase, .life = MT_ROLE_OTHER};
    struct mt_rule_answer answer;
    struct own_name own = split_name(name);
    mt_rules_ask(labels->rules, &labels->choice, &subject, &answer);
    const char *path = own.span != NULL ? own.span : answer.span != NULL ? answer.span : span;
    block->span = mt_span_of_path(&labels->sink, path);
    const struct mt_label label = {.category = category_of(labels, &answer, &own),
                                   .role = answer.role != MT_RULE_SILENT ? (mt_role)answer.role : MT_ROLE_OTHER,
                                   .role_source = MT_ROLE_SOURCE_INFERRED,
                                   .phase = answer.phase != MT_RULE_SILENT ? (mt_phase)answer.phase : labels->phase,
                                   .op = op_of(&answer, &own, name),
                                   .span = block->span,
                                   .layer = -1};
    block->label = labels->sink.intern_label(labels->sink.context, &label);
    free(own.op);
}

void mt_plain_labels_count(struct mt_plain_labels *labels, const struct mt_foreign_block *block)
{
    assert(block->label != 0);
    mt_import_coverage_add(&labels->coverage, block->requested_bytes, mt_label_category(block->label));
}

struct mt_import_coverage mt_plain_labels_coverage(const struct mt_plain_labels *labels)
{
    return labels->coverage;
}
