/* memtrace top: the largest blocks. */
#include "base/label.h"
#include "base/memory.h"
#include "base/order.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "trace/query/groups.h"

#include <stdio.h>
#include <stdlib.h>

enum { NO_KEY = -1, USUAL_ORDER = -1 };

struct top_options {
    struct mt_trace_options trace;
    int64_t limit;
    bool each;
    int moment; /* mt_top_moment */
    int key;    /* mt_group_key or NO_KEY */
    int order;  /* mt_top_order or USUAL_ORDER: totals for groups, otherwise single blocks */
    const char *category, *role, *module;
};

static const char *const moments[] = {[MT_TOP_WHOLE_RUN] = "run", [MT_TOP_AT_PEAK] = "peak", NULL};
static const char *const orders[] = {[MT_TOP_BY_SINGLE] = "single", [MT_TOP_BY_TOTAL] = "total", NULL};

static const struct mt_option options[] = {
    MT_OPTION(INTEGER, struct top_options, limit, "N", .low = 1, .high = INT32_MAX,
              .help = "number of rows (default: 10)"),
    MT_OPTION(FLAG, struct top_options, each, "--each", .help = "list each block, instead of merging similar ones"),
    MT_OPTION(CHOICE, struct top_options, moment, "--at", .value = "MOMENT", .choices = moments,
              .help = "blocks of the whole run, or only what was live at its allocated peak"),
    MT_OPTION(CHOICE, struct top_options, key, "--by", .value = "KEY", .choices = mt_group_key_names,
              .help = "group the blocks by this"),
    MT_OPTION(CHOICE, struct top_options, order, "--sort", .value = "ORDER", .choices = orders,
              .help = "by the size of one block, or by the sum of a row (default with --by)"),
    MT_OPTION(TEXT, struct top_options, category, "--category", .value = "NAME",
              .help = "only blocks of this category"),
    MT_OPTION(TEXT, struct top_options, role, "--role", .value = "NAME",
              .help = "only blocks with this role: activation, weight-cast, …"),
    MT_OPTION(TEXT, struct top_options, module, "--module", .value = "PATH",
              .help = "only blocks that this module or its submodules allocated: \"model.layers.*.ffn\""),
    MT_TRACE_OPTIONS,
};

/* Either rows or groups are present. */
struct top_answer {
    int moment, order; /* mt_top_moment, mt_top_order */
    const char *by;    /* for groups; NULL: rows */
    struct mt_top_row *rows;
    struct mt_top_group *groups;
    size_t count;
    size_t group_count; /* including those beyond the limit */
    bool complete;
};

static const struct mt_field row_fields[] = {
    MT_BYTES(struct mt_top_row, bytes, "bytes", "size", "of one block, as requested"),
    MT_COUNT(struct mt_top_row, count, "count", "count", "equal blocks: of the run, or live at its peak"),
    MT_BYTES(struct mt_top_row, total_bytes, "total_bytes", "total", "of all of them"),
    MT_TEXT(struct mt_top_row, category, "category", "category", NULL),
    MT_TEXT(struct mt_top_row, op, "op", "op", "what allocated it"),
    MT_TEXT(struct mt_top_row, phase, "phase", "phase", NULL),
    MT_TEXT(struct mt_top_row, span, "span", "span", "the module that allocated; `*` for the number of the layer"),
    MT_TEXT(struct mt_top_row, role, "role", "role", NULL),
    MT_TEXT(struct mt_top_row, dtype, "dtype", "dtype", NULL),
    MT_TEXT(struct mt_top_row, shape, "shape", "shape", NULL),
    MT_STEP(struct mt_top_row, step, "step", "step", "of the first of them"),
    MT_NAME(struct mt_top_row, line, "line", "line",
            "of `--each`: the innermost of the program's own code; null: no call stack was recorded"),
    MT_NAME(struct mt_top_row, frames, "frames", NULL,
            "of `--each`: the call stack, innermost first: `FUNCTION FILE:LINE; …`"),
    MT_NAME(struct mt_top_row, pool, "pool", "pool", "of `--each`: the private pool that has it; null: none"),
    MT_FIELDS_END,
};
static const struct mt_row_type row_type = MT_ROW_TYPE(struct mt_top_row, row_fields);
#define FIELDS "dtype shape category op phase role span" /* in every table */

#define ROW struct mt_top_group
#define X(KEY, text)                                                                                                   \
    static const struct mt_field group_fields_##KEY[] = {                                                              \
        MT_TEXT(ROW, name, text, text, NULL),                                                                          \
        MT_BYTES(ROW, total_bytes, "total_bytes", "total", NULL),                                                      \
        MT_COUNT(ROW, count, "count", "count", NULL),                                                                  \
        MT_BYTES(ROW, max_bytes, "max_bytes", "largest", NULL),                                                        \
        MT_FIELDS_END,                                                                                                 \
    };
MT_GROUP_KEYS(X)
#undef X
#define X(KEY, text) [MT_GROUP_##KEY] = MT_ROW_TYPE(ROW, group_fields_##KEY),
static const struct mt_row_type group_types[] = {MT_GROUP_KEYS(X)};
#undef X
#undef ROW

#define ROW struct top_answer
static const struct mt_field about_fields[] = {
    MT_CHOICE(ROW, moment, "at", NULL, "blocks of the whole run, or those live at its peak", moments),
    MT_CHOICE(ROW, order, "sort", NULL, "what the rows are ordered by: `bytes`, or `total_bytes`", orders),
    MT_TEXT(ROW, by, "by", NULL, "of `--by`; null: rows of equal blocks"),
    MT_FLAG(ROW, complete, "complete", NULL, "false if smaller blocks are not distinguished"),
    MT_FIELDS_END,
};
static const struct mt_row_type about_type = MT_ROW_TYPE(ROW, about_fields);

static const struct mt_field answer_fields[] = {
    MT_FIELDS_OF(&about_type),
    MT_ROWS(ROW, rows, count, "rows", &row_type, "the largest first"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(ROW, answer_fields);

#define X(KEY, text)                                                                                                   \
    static const struct mt_field answer_fields_##KEY[] = {                                                             \
        MT_FIELDS_OF(&about_type),                                                                                     \
        MT_ROWS(ROW, groups, count, "rows", &group_types[MT_GROUP_##KEY], NULL),                                       \
        MT_FIELDS_END,                                                                                                 \
    };
MT_GROUP_KEYS(X)
#undef X
#define X(KEY, text) [MT_GROUP_##KEY] = MT_ROW_TYPE(ROW, answer_fields_##KEY),
static const struct mt_row_type group_answer_types[] = {MT_GROUP_KEYS(X)};
#undef X
#undef ROW

#define X(name, text) text,
static const char *const roles[] = {MT_ROLES(X)};
#undef X

/* Fails with MT_USAGE if the options contradict each other, or for an unknown role. */
static mt_status make_choice(const struct top_options *top, struct mt_top_choice *out)
{
    mt_role role;
    if (top->each && top->key != NO_KEY)
        return mt_fail(MT_USAGE, "--each lists blocks singly, and --by sums them up: leave one of the two out");
    if (top->role != NULL && !mt_role_find(top->role, &role))
        return mt_fail_unknown("role", top->role, roles, sizeof roles / sizeof roles[0]);
    int usual = top->key == NO_KEY ? MT_TOP_BY_SINGLE : MT_TOP_BY_TOTAL;
    *out = (struct mt_top_choice){.grouping = top->each ? MT_TOP_EACH : MT_TOP_MERGED,
                                  .moment = (mt_top_moment)top->moment,
                                  .order = (mt_top_order)(top->order == USUAL_ORDER ? usual : top->order),
                                  .category = top->category,
                                  .role = top->role != NULL ? mt_role_name(role) : NULL,
                                  .module = top->module};
    return MT_OK;
}

static mt_status load(const struct mt_question *question, const struct top_options *top, struct top_answer *out)
{
    struct mt_top_choice choice;
    size_t limit = (size_t)top->limit;
    MT_TRY(make_choice(top, &choice));
    *out = (struct top_answer){.moment = top->moment, .order = (int)choice.order};
    if (top->key == NO_KEY)
        return mt_trace_top(question->trace, question->run, &choice, limit, &out->rows, &out->count, &out->complete);
    out->by = mt_group_key_names[top->key];
    mt_status status = mt_trace_top_groups(question->trace, question->run, &choice, (mt_group_key)top->key,
                                           &out->groups, &out->count, &out->complete);
    out->group_count = out->count;
    out->count = out->count < limit ? out->count : limit;
    return status;
}

static void print_notes(const struct top_options *top, const struct top_answer *answer)
{
    bool is_filtered = top->category != NULL || top->role != NULL || top->module != NULL;
    if (!answer->complete)
        mt_note("the run made smaller allocations too, of more kinds than a trace keeps a table of");
    if (answer->count == 0 && is_filtered)
        mt_note("no allocation matches: memtrace top --by category, role or module lists them all");
}

/* Prints the groups, and groups beyond the limit as one row, so that the columns add up. */
static void print_groups(const struct mt_row_type *type, const struct top_answer *answer)
{
    struct mt_top_group *rows = mt_host_alloc((answer->count + 1) * sizeof *rows);
    struct mt_top_group *rest = &rows[answer->count];
    char more[MT_BYTES_TEXT];
    for (size_t i = 0; i < answer->count; i++) {
        rows[i] = answer->groups[i];
        if (rows[i].name[0] == '\0')
            rows[i].name = "(none)";
    }
    snprintf(more, sizeof more, "(%zu more)", answer->group_count - answer->count);
    *rest = (struct mt_top_group){.name = more};
    for (size_t i = answer->count; i < answer->group_count; i++) {
        rest->count += answer->groups[i].count;
        rest->total_bytes += answer->groups[i].total_bytes;
        rest->max_bytes = mt_larger(rest->max_bytes, answer->groups[i].max_bytes);
    }
    mt_rows_print(type, NULL, NULL, rows, answer->count + (answer->count < answer->group_count));
    free(rows);
}

/* Prints the rows, with columns for lines of code and private pools if any row has one. */
static void print_rows(const struct top_options *top, const struct top_answer *answer)
{
    bool has_lines = false, has_pools = false;
    for (size_t i = 0; i < answer->count && top->each; i++) {
        has_lines |= answer->rows[i].line[0] != '\0';
        has_pools |= answer->rows[i].pool[0] != '\0';
    }
    const char *fields = has_pools   ? "bytes step line pool " FIELDS
                         : has_lines ? "bytes step line " FIELDS
                         : top->each ? "bytes step " FIELDS
                                     : "bytes count total_bytes " FIELDS;
    mt_rows_print(&row_type, fields, "role phase category op", answer->rows, answer->count);
}

static mt_status ask_top(const struct mt_question *question, const void *given)
{
    const struct top_options *top = given;
    struct top_answer answer = {0};
    mt_status status = load(question, top, &answer);
    if (status == MT_OK)
        print_notes(top, &answer);
    if (status == MT_OK && top->trace.json) {
        mt_question_print_json(question, "top", top->key == NO_KEY ? &answer_type : &group_answer_types[top->key],
                               &answer);
    } else if (status == MT_OK) {
        mt_question_print_title(question);
        if (top->key == NO_KEY)
            print_rows(top, &answer);
        else
            print_groups(&group_types[top->key], &answer);
    }
    free(answer.rows);
    free(answer.groups);
    return status;
}

const struct mt_command mt_command_top = {
    .name = "top",
    .summary = "Shows the largest blocks, what each was for, and the code that allocated it.",
    .usage = "[N] [OPTIONS]",
    .details =
        "Sizes are requested bytes, in any phase. Blocks that differ only in their layer share one row, with * for\n"
        "the layer's number, their count (in the whole run, or live at the peak) and their sum. --by groups by\n"
        "role, category, module, op, phase or dtype.\n",
    .examples = "  memtrace top\n"
                "  memtrace top 20 --at peak --sort total\n"
                "  memtrace top --by module --role activation --at peak\n"
                "  memtrace top 5 --each --module \"model.layers.*.ffn\" --json\n",
    .options = options,
    MT_OPTIONS_OF(struct top_options, .trace.trace = MT_DEFAULT_TRACE, .limit = 10, .key = NO_KEY,
                  .order = USUAL_ORDER),
    .answer = &answer_type,
    .ask = ask_top,
};
