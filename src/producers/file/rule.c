#include "producers/file/rule.h"

#include "base/category_set.h"
#include "base/memory.h"
#include "base/text.h"
#include "producers/file/glob.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 1024 };

/* The current line. Blanks separate words; a value may be in quotes. */
struct line {
    const char *at;
    char name[WORD_BYTES], value[WORD_BYTES];
    bool has_value;
};

static const char blanks[] = " \t\r";

static mt_status read_name(struct line *line)
{
    size_t length = strcspn(line->at, " \t\r=#");
    if (length >= WORD_BYTES)
        return mt_fail(MT_USAGE, "a word has more than %d characters", WORD_BYTES - 1);
    memcpy(line->name, line->at, length);
    line->name[length] = '\0';
    line->at += length;
    return MT_OK;
}

static mt_status read_value(struct line *line)
{
    bool is_quoted = *line->at == '"';
    line->at += is_quoted;
    size_t length = strcspn(line->at, is_quoted ? "\"" : blanks);
    if (is_quoted && line->at[length] == '\0')
        return mt_fail(MT_USAGE, "a value in quotes does not end");
    if (length >= WORD_BYTES)
        return mt_fail(MT_USAGE, "a value has more than %d characters", WORD_BYTES - 1);
    memcpy(line->value, line->at, length);
    line->value[length] = '\0';
    line->at += length + is_quoted;
    return MT_OK;
}

/* Reads "name", "name=value" or "->". Sets *out_more to false at the end of the line, and at a comment. */
static mt_status next_word(struct line *line, bool *out_more)
{
    line->at += strspn(line->at, blanks);
    *out_more = *line->at != '\0' && *line->at != '#';
    if (!*out_more)
        return MT_OK;
    mt_status status = read_name(line);
    line->has_value = status == MT_OK && *line->at == '=';
    if (!line->has_value)
        return status;
    line->at++;
    return read_value(line);
}

static mt_status set_text(char **field, const char *value)
{
    assert(value != NULL);
    if (*field != NULL)
        return mt_fail(MT_USAGE, "it has one word twice: use | between alternatives");
    *field = mt_host_strdup(value);
    return MT_OK;
}

/* Splits "LOW-HIGH", where either may be missing. Sets both to a single number. */
static void split_range(char *value, char **out_low, char **out_high)
{
    char *dash = strchr(value, '-');
    *out_low = value;
    *out_high = dash != NULL ? dash + 1 : value;
    if (dash != NULL)
        *dash = '\0';
}

/* Reads "7", "7-12", "7-" or "-12". */
static mt_status read_lines(char *value, struct mt_rule *rule)
{
    char *low, *high;
    mt_status status = MT_OK;
    split_range(value, &low, &high);
    if (*low != '\0')
        status = mt_parse_integer("line", low, 0, INT64_MAX, &rule->line_low);
    if (status == MT_OK && *high != '\0')
        status = mt_parse_integer("line", high, 0, INT64_MAX, &rule->line_high);
    return status;
}

static mt_status read_sizes(char *value, struct mt_rule *rule)
{
    char *low, *high;
    mt_status status = MT_OK;
    split_range(value, &low, &high);
    if (*low != '\0')
        status = mt_parse_bytes(low, &rule->size_low);
    if (status == MT_OK && *high != '\0')
        status = mt_parse_bytes(high, &rule->size_high);
    return status;
}

#define NAME(name, text) text,
static const char *const phase_names[] = {MT_PHASES(NAME)};
static const char *const role_names[] = {MT_ROLES(NAME)};
#undef NAME

/* Sets *out to the number of a word in a list of names. */
static mt_status find_word(const char *what, const char *word, const char *const *names, int count, int *out)
{
    for (*out = 0; *out < count; ++*out)
        if (strcmp(names[*out], word) == 0)
            return MT_OK;
    return mt_fail_unknown(what, word, names, (size_t)count);
}

static mt_status read_role(const char *word, struct mt_rule *rule)
{
    mt_role role;
    if (!mt_role_find(word, &role))
        return mt_fail_unknown("role", word, role_names, MT_ROLE_COUNT);
    rule->sets.role = (int)role;
    return MT_OK;
}

/* Reads "forward|loss". */
static mt_status read_phases(char *value, struct mt_rule *rule)
{
    char *rest;
    for (char *word = strtok_r(value, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest)) {
        int phase;
        MT_TRY(find_word("phase", word, phase_names, MT_PHASE_COUNT, &phase));
        rule->phases |= 1u << phase;
    }
    return rule->phases != 0 ? MT_OK : mt_fail(MT_USAGE, "phase names none");
}

/* Reads "parameter|gradient". */
static mt_status read_lives(char *value, struct mt_rule *rule)
{
    char *rest;
    for (char *word = strtok_r(value, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest)) {
        mt_role role;
        if (!mt_role_find(word, &role))
            return mt_fail_unknown("role", word, role_names, MT_ROLE_COUNT);
        rule->lives |= 1u << role;
    }
    return rule->lives != 0 ? MT_OK : mt_fail(MT_USAGE, "life names no role");
}

/* Reads a condition without a value. */
static mt_status read_switch(const struct line *line, struct mt_rule *rule)
{
    static const char *const with_value[] = {"function", "file",       "line", "native", "operator", "node",
                                             "metadata", "annotation", "size", "phase",  "life"};
    enum { SWITCHES = 8 };
    const struct {
        const char *name;
        int *field, value;
    } switches[SWITCHES] = {{"before", &rule->before, 1},
                            {"recorded", &rule->before, 0},
                            {"outlives", &rule->outlives, 1},
                            {"temporary", &rule->outlives, 0},
                            {"forward-known", &rule->forward_known, 1},
                            {"forward-unknown", &rule->forward_known, 0},
                            {"halves-parameter", &rule->parameter, 1},
                            {"undone", &rule->of_undone, 1}};
    const char *names[SWITCHES];
    if (line->has_value)
        return mt_fail_unknown("condition with a value", line->name, with_value,
                               sizeof with_value / sizeof with_value[0]);
    for (size_t i = 0; i < SWITCHES; i++) {
        names[i] = switches[i].name;
        if (strcmp(line->name, names[i]) != 0)
            continue;
        *switches[i].field = switches[i].value;
        return MT_OK;
    }
    return mt_fail_unknown("condition without a value", line->name, names, SWITCHES);
}

static mt_status read_condition(struct line *line, struct mt_rule *rule)
{
    const struct {
        const char *name;
        char **field;
    } texts[] = {{"function", &rule->function},    {"file", &rule->file}, {"native", &rule->native},
                 {"operator", &rule->operation},   {"node", &rule->node}, {"metadata", &rule->metadata},
                 {"annotation", &rule->annotation}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && line->has_value; i++)
        if (strcmp(line->name, texts[i].name) == 0)
            return set_text(texts[i].field, line->value);
    if (line->has_value && strcmp(line->name, "line") == 0)
        return read_lines(line->value, rule);
    if (line->has_value && strcmp(line->name, "size") == 0)
        return read_sizes(line->value, rule);
    if (line->has_value && strcmp(line->name, "phase") == 0)
        return read_phases(line->value, rule);
    if (line->has_value && strcmp(line->name, "life") == 0)
        return read_lives(line->value, rule);
    return read_switch(line, rule);
}

static mt_status read_category(const char *value, struct mt_rule *rule)
{
    if (value[0] == '\0' || strlen(value) >= MT_CATEGORY_NAME_BYTES)
        return mt_fail(MT_USAGE, "a category's name has from 1 to %d bytes", MT_CATEGORY_NAME_BYTES - 1);
    return set_text((char **)&rule->sets.category, value);
}

static mt_status read_answer(struct line *line, struct mt_rule *rule)
{
    static const char *const names[] = {"category", "role", "op", "span", "phase", "step"};
    if (!line->has_value && strcmp(line->name, "step") == 0) {
        rule->sets.begins_step = true;
        return MT_OK;
    }
    if (line->has_value && strcmp(line->name, "category") == 0)
        return read_category(line->value, rule);
    if (line->has_value && strcmp(line->name, "op") == 0)
        return set_text((char **)&rule->sets.op, line->value);
    if (line->has_value && strcmp(line->name, "span") == 0)
        return set_text((char **)&rule->sets.span, line->value);
    if (line->has_value && strcmp(line->name, "role") == 0)
        return read_role(line->value, rule);
    if (line->has_value && strcmp(line->name, "phase") == 0)
        return find_word("phase", line->value, phase_names, MT_PHASE_COUNT, &rule->sets.phase);
    return mt_fail_unknown("property", line->name, names, sizeof names / sizeof names[0]);
}

static bool sets_something(const struct mt_rule_answer *sets)
{
    return sets->category != NULL || sets->op != NULL || sets->span != NULL || sets->role != MT_RULE_SILENT ||
           sets->phase != MT_RULE_SILENT || sets->begins_step;
}

static bool has_python(const struct mt_rule *rule)
{
    return rule->function != NULL || rule->file != NULL || rule->line_low > 0 || rule->line_high < INT64_MAX;
}

static mt_status check_rule(const struct mt_rule *rule, bool has_arrow)
{
    if (!has_arrow)
        return mt_fail(MT_USAGE, "it has no \"->\" between its conditions and the properties that it sets");
    if (!sets_something(&rule->sets))
        return mt_fail(MT_USAGE, "it sets nothing after \"->\"");
    if (rule->of_undone && !has_python(rule))
        return mt_fail(MT_USAGE, "undone needs a function, file or line");
    if (rule->sets.phase != MT_RULE_SILENT &&
        (rule->phases != 0 || rule->lives != 0 || rule->forward_known != MT_RULE_SILENT ||
         rule->outlives != MT_RULE_SILENT || rule->parameter != MT_RULE_SILENT || rule->of_undone))
        return mt_fail(MT_USAGE,
                       "a rule that sets a phase can't have a condition on a phase, or on what follows from one");
    if (rule->line_low > rule->line_high || rule->size_low > rule->size_high)
        return mt_fail(MT_USAGE, "a range ends before it begins");
    return MT_OK;
}

static mt_status read_words(struct line *line, struct mt_rule *rule, bool *out_is_rule)
{
    bool more, has_arrow = false;
    mt_status status = next_word(line, &more);
    *out_is_rule = status == MT_OK && more;
    for (; status == MT_OK && more; status = status == MT_OK ? next_word(line, &more) : status) {
        if (!line->has_value && strcmp(line->name, "->") == 0 && !has_arrow)
            has_arrow = true;
        else
            status = has_arrow ? read_answer(line, rule) : read_condition(line, rule);
    }
    return status == MT_OK && *out_is_rule ? check_rule(rule, has_arrow) : status;
}

mt_status mt_rule_read(const char *text, struct mt_rule *out, bool *out_is_rule)
{
    struct line line = {.at = text};
    *out = (struct mt_rule){.line_high = INT64_MAX,
                            .size_high = UINT64_MAX,
                            .before = MT_RULE_SILENT,
                            .forward_known = MT_RULE_SILENT,
                            .outlives = MT_RULE_SILENT,
                            .parameter = MT_RULE_SILENT,
                            .sets = {.role = MT_RULE_SILENT, .phase = MT_RULE_SILENT}};
    mt_status status = read_words(&line, out, out_is_rule);
    if (status != MT_OK || !*out_is_rule)
        mt_rule_release(out);
    return status;
}

void mt_rule_release(struct mt_rule *rule)
{
    free(rule->function);
    free(rule->file);
    free(rule->native);
    free(rule->operation);
    free(rule->node);
    free(rule->metadata);
    free(rule->annotation);
    free((char *)rule->sets.category);
    free((char *)rule->sets.op);
    free((char *)rule->sets.span);
}

static bool fits_python(const struct mt_rule *rule, const struct mt_call_frame *frame)
{
    return frame->is_python && frame->line >= rule->line_low && frame->line <= rule->line_high &&
           (rule->function == NULL || mt_glob_fits(rule->function, frame->name)) &&
           (rule->file == NULL || mt_glob_fits_file(rule->file, frame->file));
}

static bool fits_some_frame(const struct mt_rule *rule, const struct mt_call_stack *stack)
{
    for (uint32_t i = 0; i < stack->frame_count; i++)
        if (fits_python(rule, stack->frames[i]))
            return true;
    return false;
}

uint32_t mt_rule_depth(const struct mt_rule *rule, const struct mt_call_stack *stack)
{
    if (!has_python(rule) || rule->of_undone || rule->native != NULL)
        return 0;
    uint32_t depth = 0;
    while (depth < stack->frame_count && !fits_python(rule, stack->frames[depth]))
        depth++;
    return depth + 1;
}

bool mt_rule_fits_frame(const struct mt_rule *rule, const struct mt_call_frame *frame)
{
    if (frame->is_python)
        return has_python(rule) && !rule->of_undone && fits_python(rule, frame);
    return rule->native != NULL && mt_glob_fits(rule->native, frame->name);
}

bool mt_rule_fits_operator(const struct mt_rule *rule, const struct mt_call_frame *frame)
{
    return rule->operation != NULL && frame->operation[0] != '\0' && mt_glob_fits(rule->operation, frame->operation);
}

bool mt_rule_fits_stack(const struct mt_rule *rule, const struct mt_call_stack *stack, const struct mt_rule_met *met)
{
    return (rule->operation == NULL || met->operation) && (!has_python(rule) || rule->of_undone || met->python) &&
           (rule->native == NULL || met->native) && (rule->node == NULL || mt_glob_fits(rule->node, stack->node));
}

static bool is_as_asked(int asked, bool is_so)
{
    return asked == MT_RULE_SILENT || (asked == 1) == is_so;
}

static bool fits_some_annotation(const struct mt_rule *rule, const struct mt_rule_subject *subject)
{
    assert(rule->annotation != NULL);
    for (uint32_t i = 0; i < subject->annotation_count; i++)
        if (mt_glob_fits(rule->annotation, subject->annotations[i]))
            return true;
    return false;
}

bool mt_rule_fits_subject(const struct mt_rule *rule, const struct mt_rule_subject *subject)
{
    assert(subject->phase < MT_PHASE_COUNT && rule->size_low <= rule->size_high);
    return subject->bytes >= rule->size_low && subject->bytes <= rule->size_high &&
           (rule->phases == 0 || (rule->phases >> subject->phase & 1) != 0) &&
           (rule->lives == 0 || (rule->lives >> subject->life & 1) != 0) &&
           is_as_asked(rule->before, subject->was_before) &&
           is_as_asked(rule->forward_known, subject->is_forward_known) &&
           is_as_asked(rule->outlives, subject->outlives_phase) &&
           is_as_asked(rule->parameter, subject->halves_parameter) &&
           (rule->metadata == NULL || mt_glob_fits(rule->metadata, subject->metadata)) &&
           (rule->annotation == NULL || fits_some_annotation(rule, subject)) &&
           (!rule->of_undone || (subject->undone != NULL && fits_some_frame(rule, subject->undone)));
}
