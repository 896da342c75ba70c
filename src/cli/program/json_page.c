#include "cli/program/help_pages.h"

#include "answer/answer.h"

#include <assert.h>
#include <string.h>

static const char introduction[] =
    "# The JSON of the command line\n"
    "\n"
    "Every command that prints data has `--json`. The answer is one object on stdout; notes and progress stay on\n"
    "stderr. `schema` names the answer, and grows a number when a field changes its meaning or goes away; new fields "
    "may\n"
    "come at any time. Bytes, nanoseconds and counts are integers. `x[]` is a list; `x?` may be null: what is not "
    "known\n"
    "is never 0.\n"
    "\n"
    "An answer about one run begins with\n"
    "\n"
    "```\n"
    "schema                    memtrace.COMMAND/NUMBER\n"
    "run                       its number in the trace\n"
    "name?                     of --name\n"
    "state                     running, done, failed, oom, interrupted or damaged\n"
    "device                    sim:h200, cpu, …\n"
    "```\n"
    "\n"
    "[Terms](terms.md), [categories](categories.md) and the [tables](schema.md) of a trace explain the words. Steps "
    "are\n"
    "numbered from 0; null: before the first. Events between two steps count with the earlier one. `memtrace help` "
    "lists\n"
    "the exit codes. `memtrace help --json-fields` prints this page.\n";

/* Text about an answer, before its fields. */
static const struct remark {
    const char *command;
    const char *schema; /* NULL: the command's name */
    const char *words;
} remarks[] = {
    {"run", NULL, "Printed when the run has ended. One that is out of device memory prints it too, and exits with 5."},
    {"sweep", NULL,
     "A row is a cell, in the order of the grid. One that was in the trace counts as done or oom, too.\n"
     "Of a program's arguments it answers with memtrace.sweep_program/1: `trace`, `device`, `done`, `oom`, `failed`,\n"
     "and `rows[]` of `run?`, `state`, the values by name, `allocated_bytes?`, `reserved_bytes?`, and `told`."},
    {"top", NULL,
     "Blocks are equal if they differ only in the layer. With `--by KEY`, each of `rows` has a field of the\n"
     "key's name, and `total_bytes`, `count` and `max_bytes` of its blocks."},
    {"events", NULL, "Written as it is read, so that an answer of any length needs little memory."},
    {"kernels", NULL, "About a run with `--kernels`."},
    {"used", NULL, "A run on a device without a driver has no answer, and exits with 2."},
    {"fit", NULL,
     "Exits with 1 if the run does not fit. `run` and `name` are null where options described it.\n"
     "About a run that can't be made again it answers with memtrace.fit_replay/1: `on`, the device; `memory_bytes`,\n"
     "`reserve_bytes`, `capacity_bytes` and `fits`; `room_bytes`, below 0 if it lacks them; `alloc` of replays;\n"
     "`peak` of the run and `replayed`, without a limit; `changes[]` and `left_out[]` as of advise, where `fits` is\n"
     "true of a change with which the run fits; `largest_batch?`, `largest_batch_factor?` of the run's batch,\n"
     "`batch_is_assumed`; of --with's run `other_peak?` and `other_replayed?`, the run with that batch; and\n"
     "`smallest_card?`.\n"
     "About a program it answers with memtrace.fit_program/2: `program`, `on`, `memory_bytes`, `reserve_bytes`,\n"
     "`capacity_bytes`, `fits`, `room_bytes` and `peak` likewise; `bytes` of the GPU on which most is needed, and\n"
     "`outside`, the part of them outside of PyTorch's allocator; `rank?` that needs most of it, and `sharers?`, the\n"
     "ranks that use it and are summed; `changes[]`, single ones first, of\n"
     "`kind` (names with commas between), `change`, `hint` (the lines to write), `where`, `peak`, `fits` and\n"
     "`difference_bytes`; `left_out[]` of `kind` and `reason`; `remedy?`, the `kind` that makes it fit;\n"
     "`smallest_card?`; and `ended_by` to `zeroed[]` as of dry-run, among them `unknown[]`.\n"
     "With `--quiet`, `--annotate`, `--summary` or `--and` it answers with memtrace.fit_need/1: `exit_code`,\n"
     "`reason?` why there is no answer, `on`, `fits`, `by_reuse` (it fits since cached memory is freed,\n"
     "though `bytes` are more than the card's), `certain` (nothing that could take memory is unknown),\n"
     "`rank?`, `bytes?` of a GPU, `outside`, `card`, `free`, `short`; `programs[]` of `program`, `rank?`,\n"
     "`sharers?` (ranks that use its GPU, which are summed), `bytes?`, `reserved?`, `outside?`; and `ended_by` to "
     "`zeroed[]`, as of dry-run: of each program,\n"
     "and of the one that needs most.\n"
     "With `--largest` it answers with memtrace.fit_largest/1: `program`, `on`, `memory_bytes`, `reserve_bytes`,\n"
     "`name` and `values` of the argument, `fits` (some value does), `seconds`, `trials[]` by value, and `answers[]`,\n"
     "one for each combination of `--vary`'s values, which are fields by name. An answer has `largest?`, the trial of\n"
     "the largest value that fits; `next?`, of the next larger one; `too_large?`, of the smallest that does not fit;\n"
     "`exception?`, of one that does not fit although a larger one does; and `is_last`: no larger value was allowed.\n"
     "A trial has the values, `value`, `state` (fits, short, failed or killed), `peak?`, `rank?` whose peak it is,\n"
     "`outside_bytes?`, `needed_bytes?`, `room_bytes?`, below 0 if it lacks them, and `words?`: why it has no peak."},
    {"diff", NULL,
     "Compares the runs `a` and `b`: each `delta_bytes` and each cause is b less a, the largest first.\n"
     "With `--by KEY` there are `by`, its name, and `groups[]`, which sum to the allocated peaks: a field of "
     "that name,\n"
     "and `a_bytes` to `b_blocks` as of `rows`."},
    {"advise", NULL, "Savings do not add up: two findings may speak of the same bytes."},
    {"oom", NULL, "About the last request that was not met."},
    {"check", NULL,
     "Exits with 1 if the run does not keep to the budget. `check --self-test` answers with\n"
     "memtrace.check_self_test/1: `works`, and `rows[]` of `criterion`, `expected` and `held`. About programs `check`\n"
     "answers with memtrace.check_programs/1: `passed`, and `budgets[]` of `budget`, its name, and the fields of\n"
     "memtrace.fit_need/1."},
    {"report", NULL,
     "The page of `memtrace report`, with exact numbers where the page rounds, and `findings`, with which it begins."},
    {"attention", NULL, "Memory is without the workspaces of matrix products."},
    {"export", "export_blocks",
     "`export events` and `export peaks` are memtrace.export_events/2 and memtrace.export_peaks/1, with the columns "
     "of\n"
     "[their tables](export.md). Whole runs have the form of the programs that they are for."},
    {"sql", NULL, "- `columns`: their names\n- `rows`: a list of values each; a blob is the text `x'0a1b'`"},
};

/* The types described so far; each is described once. */
enum { MOST_TYPES = 160, DEEPEST = 8, MEANING_COLUMN = 26 };
struct page {
    struct mt_text *out;
    const struct mt_command *command; /* that is being described */
    const char *row;                  /* the field whose row is being described; NULL: the answer itself */
    struct seen {
        const struct mt_row_type *type;
        const struct mt_command *command; /* of the answer with it */
        const char *field;                /* where it was described; NULL: the answer itself */
    } seen[MOST_TYPES];
    size_t seen_count;
};

static const struct seen *find_seen(const struct page *page, const struct mt_row_type *type)
{
    for (size_t i = 0; i < page->seen_count; i++)
        if (page->seen[i].type == type)
            return &page->seen[i];
    return NULL;
}

static void add_seen(struct page *page, const struct mt_row_type *type, const struct mt_command *command,
                     const char *field)
{
    assert(page->seen_count < MOST_TYPES);
    page->seen[page->seen_count++] = (struct seen){type, command, field};
}

/* Adds "by_category", "oom of steps" or "peak". */
static void add_place(const struct page *page, const struct seen *seen)
{
    if (seen->field != NULL)
        mt_text_add(page->out, "%s", seen->field);
    if (seen->field == NULL || seen->command != page->command)
        mt_text_add(page->out, "%s%s", seen->field != NULL ? " of " : "", seen->command->name);
}

/* True if one line can describe both fields. */
static bool is_alike(const struct mt_field *a, const struct mt_field *b)
{
    return b->name != NULL && b->name[0] != '\0' && !b->is_shown_only && a->of == b->of && a->meaning == NULL &&
           b->meaning == NULL;
}

/* Adds "rows[]", or "step?" of a field that may be null. */
static void add_name(const struct mt_field *field, struct mt_text *out)
{
    const char *type = mt_field_json_type(field);
    bool is_list = strncmp(type, "list", strlen("list")) == 0;
    mt_text_add(out, "%s%s%s", field->name[0] != '\0' ? field->name : "…", is_list ? "[]" : "",
                strchr(type, '?') != NULL ? "?" : "");
}

/* Adds words without their backquotes. */
static void add_meaning(struct page *page, const char *meaning)
{
    for (; *meaning != '\0'; meaning++)
        if (*meaning != '`')
            mt_text_add(page->out, "%c", *meaning);
}

/* Adds "op, phase?     in which …" without its end, and returns the last field described by it. */
static const struct mt_field *add_names(struct page *page, const struct mt_field *field, int depth)
{
    struct mt_text names = {0};
    mt_text_add(&names, "%*s", 2 * depth, "");
    add_name(field, &names);
    for (; is_alike(field, field + 1); field++) {
        mt_text_add(&names, ", ");
        add_name(field + 1, &names);
    }
    if (field->meaning != NULL)
        mt_text_add(page->out, "%-*s ", MEANING_COLUMN - 1, names.data);
    else
        mt_text_add(page->out, "%s", names.data);
    if (field->meaning != NULL)
        add_meaning(page, field->meaning);
    mt_text_release(&names);
    return field;
}

static void add_fields(struct page *page, const struct mt_row_type *type, int depth);

/* Adds the fields of a row inside a row, or where they are described. */
static void add_inner(struct page *page, const struct mt_field *field, int depth)
{
    const struct seen *seen = find_seen(page, field->of);
    if (seen != NULL) {
        mt_text_add(page->out, "%s as of ", field->meaning != NULL ? ";" : ",");
        add_place(page, seen);
        mt_text_add(page->out, "\n");
        return;
    }
    mt_text_add(page->out, "\n");
    add_seen(page, field->of, page->command, field->name);
    const char *outer = page->row;
    page->row = field->name;
    add_fields(page, field->of, depth + 1);
    page->row = outer;
}

/* Returns the last field of a row in JSON, which may be in a part. */
static const struct mt_field *last_field(const struct mt_row_type *type)
{
    const struct mt_field *last = type->fields;
    while (last[1].name != NULL && !last[1].is_shown_only)
        last++;
    return last->kind == MT_FIELD_PART ? last_field(last->of) : last;
}

/* Adds the fields of a part or, if another row on the page has them, only the first and the last. */
static void add_part(struct page *page, const struct mt_field *part, int depth)
{
    const struct seen *seen = find_seen(page, part->of);
    if (seen == NULL) {
        add_seen(page, part->of, page->command, page->row);
        add_fields(page, part->of, depth);
        return;
    }
    mt_text_add(page->out, "%*s%s to %s, as of ", 2 * depth, "", part->of->fields->name, last_field(part->of)->name);
    add_place(page, seen);
    mt_text_add(page->out, "\n");
}

static void add_fields(struct page *page, const struct mt_row_type *type, int depth)
{
    assert(depth < DEEPEST);
    for (const struct mt_field *field = type->fields; field->name != NULL; field++) {
        if (field->is_shown_only)
            continue;
        if (field->kind == MT_FIELD_PART) {
            add_part(page, field, depth);
            continue;
        }
        field = add_names(page, field, depth);
        if (field->of != NULL)
            add_inner(page, field, depth);
        else
            mt_text_add(page->out, "\n");
    }
}

static const struct remark *find_remark(const struct mt_command *command)
{
    for (size_t i = 0; i < sizeof remarks / sizeof remarks[0]; i++)
        if (strcmp(remarks[i].command, command->name) == 0)
            return &remarks[i];
    return NULL;
}

static void add_answer(struct page *page, const struct mt_command *command)
{
    const struct remark *remark = find_remark(command);
    if (command->answer == NULL && remark == NULL)
        return;
    const char *schema = remark != NULL && remark->schema != NULL ? remark->schema : command->name;
    mt_text_add(page->out, "%s## memtrace.%s/%d\n", page->out->length > 0 ? "\n" : "", schema,
                mt_schema_number(schema));
    if (remark != NULL)
        mt_text_add(page->out, "%s\n%s", remark->words, command->answer != NULL ? "\n" : "");
    if (command->answer == NULL)
        return;
    page->command = command;
    mt_text_add(page->out, "```\n");
    add_fields(page, command->answer, 0);
    mt_text_add(page->out, "```\n");
}

void mt_json_page_add(const struct mt_command *command, struct mt_text *out)
{
    struct page page = {.out = out};
    for (size_t i = 0; mt_commands[i] != NULL; i++)
        if (mt_commands[i]->answer != NULL && (command == NULL || command == mt_commands[i]))
            add_seen(&page, mt_commands[i]->answer, mt_commands[i], NULL);
    if (command != NULL) {
        add_answer(&page, command);
        return;
    }
    mt_text_add(out, "%s", introduction);
    for (size_t i = 0; mt_commands[i] != NULL; i++)
        add_answer(&page, mt_commands[i]);
}
