/* The columns of docs/page.md. */
#include "page/page_load.h"

#define PLAIN(column)                                                                                                  \
    {                                                                                                                  \
        .name = column, .coding = MT_PAGE_PLAIN                                                                        \
    }
#define DELTA(column)                                                                                                  \
    {                                                                                                                  \
        .name = column, .coding = MT_PAGE_DELTA                                                                        \
    }

static const struct mt_page_column event_columns[] = {DELTA("time")};
static const struct mt_page_column knot_columns[] = {DELTA("event"), DELTA("time")};
static const struct mt_page_column size_columns[] = {PLAIN("requested"), PLAIN("block")};
static const struct mt_page_column label_columns[] = {PLAIN("category"), PLAIN("role"),  PLAIN("op"),
                                                      PLAIN("phase"),    PLAIN("dtype"), PLAIN("shape"),
                                                      PLAIN("span"),     PLAIN("place"), PLAIN("layer")};
static const struct mt_page_column segment_columns[] = {PLAIN("address"), PLAIN("bytes"), PLAIN("stream"),
                                                        DELTA("mapped"), PLAIN("life")};
static const struct mt_page_column part_columns[] = {PLAIN("segment"), PLAIN("offset"), PLAIN("bytes"), PLAIN("mapped"),
                                                     PLAIN("life")};
static const struct mt_page_column block_columns[] = {DELTA("alloc"),  PLAIN("life"), PLAIN("segment"),
                                                      PLAIN("offset"), PLAIN("size"), PLAIN("label")};
static const struct mt_page_column mark_columns[] = {DELTA("event"), PLAIN("kind"), PLAIN("value"), PLAIN("span"),
                                                     PLAIN("label")};
static const struct mt_page_column use_columns[] = {PLAIN("flags"), PLAIN("reads"), PLAIN("writes"),
                                                    PLAIN("first"), PLAIN("last"),  PLAIN("idle_from"),
                                                    PLAIN("idle"),  PLAIN("source")};
static const struct mt_page_column stack_columns[] = {PLAIN("parent"), PLAIN("function"), PLAIN("file"), PLAIN("line")};
static const struct mt_page_column caller_columns[] = {PLAIN("stack")};
static const struct mt_page_column kernel_columns[] = {DELTA("start"), PLAIN("duration"), PLAIN("name"), PLAIN("label"),
                                                       PLAIN("stream")};
static const struct mt_page_column phase_columns[] = {DELTA("event"), PLAIN("name")};

#define TABLE(text, row, list)                                                                                         \
    {                                                                                                                  \
        .name = text, .row_name = row, .columns = list, .column_count = sizeof list / sizeof list[0]                   \
    }

_Static_assert(sizeof label_columns / sizeof label_columns[0] <= MT_PAGE_MOST_COLUMNS, "a table has room for them");

static const struct mt_page_table declared[MT_PAGE_TABLE_COUNT] = {
    [MT_PAGE_EVENTS] = TABLE("events", "event", event_columns),
    [MT_PAGE_KNOTS] = TABLE("knots", "knot", knot_columns),
    [MT_PAGE_SIZES] = TABLE("sizes", "size", size_columns),
    [MT_PAGE_LABELS] = TABLE("labels", "label", label_columns),
    [MT_PAGE_SEGMENTS] = TABLE("segments", "segment", segment_columns),
    [MT_PAGE_PARTS] = TABLE("parts", "part of a segment", part_columns),
    [MT_PAGE_BLOCKS] = TABLE("blocks", "block", block_columns),
    [MT_PAGE_MARKS] = TABLE("marks", "mark", mark_columns),
    [MT_PAGE_USES] = TABLE("uses", "use of block", use_columns),
    [MT_PAGE_STACKS] = TABLE("stacks", "call stack", stack_columns),
    [MT_PAGE_CALLERS] = TABLE("callers", "caller of block", caller_columns),
    [MT_PAGE_KERNELS] = TABLE("kernels", "kernel", kernel_columns),
    [MT_PAGE_PROGRAM_PHASES] = TABLE("program_phases", "program phase", phase_columns)};

void mt_page_run_declare(struct mt_page_run *page)
{
    for (int i = 0; i < MT_PAGE_TABLE_COUNT; i++)
        page->tables[i] = declared[i];
}
