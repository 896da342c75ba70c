#include "producers/file/rules.h"

#include "base/category_set.h"
#include "base/memory.h"
#include "mt_model_rules.h"
#include "mt_pytorch_rules.h"
#include "producers/file/document.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A choice has 16-bit numbers. */
enum { MOST_RULES = UINT16_MAX };

struct mt_rules {
    struct mt_rule *rules;
    size_t count;
    uint32_t *texts; /* of each rule: the number of its text */
    uint32_t text_count;
    struct mt_category_set categories; /* that the rules set */
};

struct mt_rules *mt_rules_create(void)
{
    return mt_host_alloc(sizeof(struct mt_rules));
}

void mt_rules_destroy(struct mt_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->count; i++)
        mt_rule_release(&rules->rules[i]);
    free(rules->rules);
    free(rules->texts);
    mt_category_set_release(&rules->categories);
    free(rules);
}

size_t mt_rules_count(const struct mt_rules *rules)
{
    return rules->count;
}

struct mt_frame_matches *mt_rules_match_frames(const struct mt_rules *rules)
{
    return mt_frame_matches_create(rules->rules, rules->count);
}

/* Fails if the category exceeds a trace's limit: its blocks would silently have none. */
static mt_status check_category(struct mt_rules *rules, const char *name)
{
    if (name == NULL || strcmp(name, mt_category_set_name(&rules->categories, MT_CATEGORY_OTHER)) == 0 ||
        mt_category_set_add(&rules->categories, name) != MT_CATEGORY_OTHER)
        return MT_OK;
    return mt_fail(MT_USAGE, "with \"%s\" there are more than %d categories, memtrace's own included: name fewer", name,
                   MT_MOST_CATEGORIES);
}

static mt_status add_line(struct mt_rules *rules, const char *line)
{
    struct mt_rule rule;
    bool is_rule = false;
    mt_status status = mt_rule_read(line, &rule, &is_rule);
    if (status != MT_OK || !is_rule)
        return status;
    status = rules->count < MOST_RULES ? check_category(rules, rule.sets.category)
                                       : mt_fail(MT_USAGE, "there can be %d rules", MOST_RULES);
    if (status != MT_OK) {
        mt_rule_release(&rule);
        return status;
    }
    rules->rules = mt_host_room(rules->rules, rules->count, sizeof *rules->rules);
    rules->texts = mt_host_room(rules->texts, rules->count, sizeof *rules->texts);
    rules->texts[rules->count] = rules->text_count;
    rules->rules[rules->count++] = rule;
    return MT_OK;
}

mt_status mt_rules_add(struct mt_rules *rules, const char *source, const char *text)
{
    int number = 1;
    rules->text_count++;
    for (const char *at = text; *at != '\0'; number++) {
        size_t length = strcspn(at, "\n");
        char *line = mt_host_alloc(length + 1);
        memcpy(line, at, length);
        mt_status status = add_line(rules, line);
        free(line);
        if (status != MT_OK)
            return mt_fail_context(status, "%s, line %d", source, number);
        at += length + (at[length] == '\n');
    }
    return MT_OK;
}

mt_status mt_rules_add_file(struct mt_rules *rules, const char *path)
{
    struct mt_whole_file file;
    mt_status status = mt_whole_file_read(path, MT_IMPORT_USUAL_BYTES, &file);
    if (status == MT_OK && memchr(file.data, '\0', file.length) != NULL)
        status = mt_fail(MT_USAGE, "%s is no text, so it holds no rules", path);
    if (status == MT_OK) {
        char *text = mt_host_alloc(file.length + 1);
        if (file.length > 0)
            memcpy(text, file.data, file.length);
        status = mt_rules_add(rules, path, text);
        free(text);
    }
    mt_whole_file_release(&file);
    return status;
}

mt_status mt_rules_add_built_in(struct mt_rules *rules)
{
    mt_status status = mt_rules_add(rules, "model.rules", mt_model_rules);
    return status == MT_OK ? mt_rules_add(rules, "pytorch.rules", mt_pytorch_rules) : status;
}

/* True if a rule takes precedence over an earlier one in setting a phase. */
static bool precedes(const struct mt_rules *rules, const struct mt_call_stack *stack, uint16_t rule, uint16_t other)
{
    assert(rule > other);
    return rules->texts[rule] == rules->texts[other] &&
           mt_rule_depth(&rules->rules[rule], stack) < mt_rule_depth(&rules->rules[other], stack);
}

/* Selects and sorts the rules that set a phase. */
static void choose_phases(const struct mt_rules *rules, const struct mt_call_stack *stack,
                          struct mt_rule_choice *choice)
{
    choice->phase_rules = mt_host_alloc((choice->count + 1) * sizeof *choice->phase_rules);
    for (uint32_t i = 0; i < choice->count; i++) {
        uint16_t rule = choice->rules[i];
        if (rules->rules[rule].sets.phase == MT_RULE_SILENT)
            continue;
        uint32_t at = choice->phase_count++;
        for (; at > 0 && precedes(rules, stack, rule, choice->phase_rules[at - 1]); at--)
            choice->phase_rules[at] = choice->phase_rules[at - 1];
        choice->phase_rules[at] = rule;
    }
}

static bool has_rule(const uint64_t *set, size_t rule)
{
    return (set[rule / 64] >> rule % 64 & 1) != 0;
}

/* The sets of rules that some frame of a call stack meets: by a Python frame, by a C++ frame, by an operator. */
enum { MET_PYTHON, MET_NATIVE, MET_OPERATION, MET_SETS };

/* Adds the rules that a frame meets to the sets, which are stored one after another. */
static void add_met(const uint64_t *frame_sets, const struct mt_call_frame *frame, size_t words, uint64_t *sets)
{
    uint64_t *place = sets + words * (frame->is_python ? MET_PYTHON : MET_NATIVE);
    for (size_t word = 0; word < words; word++) {
        place[word] |= frame_sets[word];
        sets[words * MET_OPERATION + word] |= frame_sets[words + word];
    }
}

static void add_fitting(const struct mt_rules *rules, const struct mt_call_stack *stack, const uint64_t *sets,
                        size_t words, struct mt_rule_choice *out)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct mt_rule_met met = {has_rule(sets + words * MET_PYTHON, i), has_rule(sets + words * MET_NATIVE, i),
                                        has_rule(sets + words * MET_OPERATION, i)};
        if (mt_rule_fits_stack(&rules->rules[i], stack, &met))
            out->rules[out->count++] = (uint16_t)i;
    }
}

void mt_rules_choose(const struct mt_rules *rules, struct mt_frame_matches *matches, const struct mt_call_stack *stack,
                     struct mt_rule_choice *out)
{
    assert(rules->count <= MOST_RULES);
    *out = (struct mt_rule_choice){.rules = mt_host_alloc((rules->count + 1) * sizeof *out->rules)};
    size_t words = mt_frame_matches_words(matches);
    uint64_t *sets = mt_host_alloc((MET_SETS * words + 1) * sizeof *sets);
    for (uint32_t i = 0; i < stack->frame_count; i++)
        add_met(mt_frame_matches_of(matches, stack->frames[i]), stack->frames[i], words, sets);
    add_fitting(rules, stack, sets, words, out);
    free(sets);
    out->rules = mt_host_resize(out->rules, out->count + 1, sizeof *out->rules);
    choose_phases(rules, stack, out);
}

void mt_rule_choice_release(struct mt_rule_choice *choice)
{
    free(choice->rules);
    free(choice->phase_rules);
}

int mt_rules_phase(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                   const struct mt_rule_subject *subject)
{
    assert(choice->rules != NULL);
    for (uint32_t i = 0; i < choice->phase_count; i++) {
        const struct mt_rule *rule = &rules->rules[choice->phase_rules[i]];
        if (mt_rule_fits_subject(rule, subject))
            return rule->sets.phase;
    }
    return MT_RULE_SILENT;
}

/* Adds the properties that are not set yet. */
static void add_answer(const struct mt_rule_answer *sets, struct mt_rule_answer *out)
{
    out->category = out->category != NULL ? out->category : sets->category;
    out->op = out->op != NULL ? out->op : sets->op;
    out->span = out->span != NULL ? out->span : sets->span;
    out->role = out->role != MT_RULE_SILENT ? out->role : sets->role;
    out->begins_step |= sets->begins_step;
}

void mt_rules_ask(const struct mt_rules *rules, const struct mt_rule_choice *choice,
                  const struct mt_rule_subject *subject, struct mt_rule_answer *out)
{
    assert(choice->rules != NULL);
    *out = (struct mt_rule_answer){.role = MT_RULE_SILENT, .phase = mt_rules_phase(rules, choice, subject)};
    for (uint32_t i = 0; i < choice->count; i++) {
        const struct mt_rule *rule = &rules->rules[choice->rules[i]];
        if (mt_rule_fits_subject(rule, subject))
            add_answer(&rule->sets, out);
    }
}
