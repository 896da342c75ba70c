/* memtrace used: who holds the memory that the driver says this process has. */
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/way_out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct mt_option options[] = {MT_TRACE_OPTIONS};

enum { ROWS = 6 };

/* A part of what is used. */
struct part {
    const char *key, *name, *meaning;
    int64_t bytes;
};

static void list_parts(const struct mt_used_row *used, struct part parts[ROWS])
{
    const struct part listed[ROWS] = {
        {"requested_bytes", "requested", "by tensors and workspaces that are live, as they asked", used->requested},
        {"rounding_bytes", "rounding", "what their blocks have beyond that", used->rounding},
        {"cached_bytes", "cached", "segments taken from the device that no block holds: free for reuse", used->cached},
        {"context_bytes", "context", "CUDA's context and the modules with the kernels", used->context},
        {"library_bytes", "libraries", "what cuBLAS and others took for themselves when they began", used->libraries},
        {"unexplained_bytes", "unexplained", "what the driver counts besides", used->unexplained},
    };
    memcpy(parts, listed, sizeof listed);
}

static double share_of(int64_t bytes, int64_t whole)
{
    return whole > 0 ? (double)bytes / (double)whole : NAN;
}

/* Sums that are told apart by their sign: a part may be below 0 where two sources disagree. */
static char *format_signed_bytes(int64_t bytes, char *text)
{
    if (bytes >= 0)
        return mt_format_bytes((uint64_t)bytes, text);
    char magnitude[MT_BYTES_TEXT];
    snprintf(text, MT_BYTES_TEXT, "-%.*s", MT_BYTES_TEXT - 2, mt_format_bytes(-(uint64_t)bytes, magnitude));
    return text;
}

static void add_row(struct mt_table *table, const char *name, int64_t bytes, int64_t whole, const char *meaning)
{
    char text[MT_BYTES_TEXT];
    mt_table_add(table, name);
    mt_table_add(table, format_signed_bytes(bytes, text));
    mt_table_add_share(table, (double)bytes, (double)whole);
    mt_table_add(table, meaning);
}

static void print_moment(const struct mt_used_row *used)
{
    char text[MT_BYTES_TEXT];
    if (used->step < 0)
        puts("Read from the driver before the first step:");
    else
        printf("Read from the driver at the end of %s:\n", mt_format_step(used->step, text));
}

static void print_card(const struct mt_used_row *used)
{
    char free[MT_BYTES_TEXT], total[MT_BYTES_TEXT];
    if (used->free >= 0 && used->total >= 0)
        printf("\nThe card has %s, of which %s are free.\n", mt_format_bytes((uint64_t)used->total, total),
               mt_format_bytes((uint64_t)used->free, free));
}

static void print_table(const struct mt_question *question, const struct mt_used_row *used)
{
    static const struct mt_column columns[] = {{"held by", MT_ALIGN_LEFT},
                                               {"bytes", MT_ALIGN_RIGHT},
                                               {"share", MT_ALIGN_RIGHT},
                                               {"what it is", MT_ALIGN_LEFT}};
    struct part parts[ROWS];
    list_parts(used, parts);
    mt_question_print_title(question);
    print_moment(used);
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < ROWS; i++)
        add_row(table, parts[i].name, parts[i].bytes, used->used, parts[i].meaning);
    add_row(table, "used", used->used, used->used, "the driver's figure for this process: the sum of the above");
    mt_table_print(table);
    mt_table_destroy(table);
    print_card(used);
}

static json_t *known_bytes(int64_t bytes)
{
    return bytes < 0 ? json_null() : json_integer(bytes);
}

static void print_json(const struct mt_question *question, const struct mt_used_row *used)
{
    json_t *object = mt_question_json(question, "used"), *rows = json_array();
    struct part parts[ROWS];
    list_parts(used, parts);
    json_object_set_new(object, "step", used->step < 0 ? json_null() : json_integer(used->step));
    json_object_set_new(object, "used_bytes", json_integer(used->used));
    for (int i = 0; i < ROWS; i++) {
        json_object_set_new(object, parts[i].key, json_integer(parts[i].bytes));
        json_array_append_new(rows,
                              json_pack("{s:s, s:I, s:o}", "name", parts[i].name, "bytes", (json_int_t)parts[i].bytes,
                                        "share", mt_json_number(share_of(parts[i].bytes, used->used))));
    }
    json_object_set_new(object, "rows", rows);
    json_object_set_new(object, "card_free_bytes", known_bytes(used->free));
    json_object_set_new(object, "card_total_bytes", known_bytes(used->total));
    mt_json_print(object);
}

static mt_status run_used(const void *given)
{
    const struct mt_trace_options *trace = given;
    struct mt_question question;
    mt_status status = mt_question_open(trace, &question);
    if (status != MT_OK)
        return status;
    struct mt_used_row used;
    status = mt_trace_used(question.trace, question.run, &used);
    if (status == MT_USAGE)
        mt_fail_way_out(status, "memtrace peak says what the run took, memtrace run --device cuda asks a driver");
    if (status == MT_OK)
        (trace->json ? print_json : print_table)(&question, &used);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_used = {
    .name = "used",
    .summary = "Shows who holds the memory that the driver says the process has, the memory that is not ours included.",
    .usage = "[OPTIONS]",
    .details =
        "The parts add up to the driver's figure to the byte. It is read at the end of the last step (of a run that\n"
        "did not get there, before the first). Requested, rounding and cached are the allocator's and add up to what\n"
        "it reserved; context and libraries were measured as they started; what is left is unexplained, and below\n"
        "zero if the driver counts less than the parts. Runs on sim and cpu have no driver to ask.\n",
    .examples = "  memtrace run --device cuda --model small && memtrace used || echo 'there is no GPU here'\n",
    .options = options,
    .defaults = &(const struct mt_trace_options){.trace = MT_DEFAULT_TRACE},
    .options_bytes = sizeof(struct mt_trace_options),
    .run = run_used,
};
