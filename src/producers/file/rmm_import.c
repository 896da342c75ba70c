/* A log of RMM, the RAPIDS Memory Manager, as a run: CSV with the columns Thread, Time, Action, Pointer, Size, Stream,
 * in any order, and a line for each event. A log has no call stacks and no segments, so each block is a segment of its
 * own.
 *
 * The CSV follows RFC 4180: fields may be quoted, and quoted fields may contain commas, line ends, and doubled quotes.
 * Times are times of day, without a date: a time half a day before the last one is of the next day. Or they are seconds
 * since 1970, as in RMM's manual. A log is written in pieces, so the log of a killed program may end within a line. */
#include "producers/file/import_reader.h"
#include "producers/file/plain_labels.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DAY_NS (UINT64_C(24) * 3600 * 1000000000)

enum { FIELD_BYTES = 64, MOST_FIELDS = 16 };

typedef enum log_column {
    COLUMN_TIME,
    COLUMN_ACTION,
    COLUMN_POINTER,
    COLUMN_SIZE,
    COLUMN_STREAM,
    COLUMN_COUNT
} log_column;

static const char *const column_names[COLUMN_COUNT] = {"Time", "Action", "Pointer", "Size", "Stream"};

/* The fields of a line. Longer fields are truncated, since no known field is longer. */
struct line {
    char fields[MOST_FIELDS][FIELD_BYTES];
    int count;
};

struct log {
    const unsigned char *at, *end;
    int columns[COLUMN_COUNT]; /* the number of each column's field in a line */
    uint64_t lines;            /* read so far */
    uint64_t number;           /* of the current line, where it begins */
    struct mt_foreign *foreign;
    struct mt_plain_labels *labels;
    uint64_t first_ns, last_ns, days_ns; /* times of the day, of the first and last line; days since the first, in ns */
    bool has_time;
    bool has_date; /* times are since 1970 */
    bool is_cut;   /* the last line has no end, and could not be read */
    uint64_t allocates, frees, failures;
    bool ends_refused;            /* nothing was allocated after the last failure */
    struct mt_import_sizes sizes; /* of allocations */
};

/* Reads up to a comma or the end of the line, and stops before it. `field` is zeroed on entry, and stays
 * NUL-terminated. */
static void read_field(struct log *log, char *field)
{
    assert(log->at <= log->end);
    size_t length = 0;
    bool is_quoted = false;
    for (; log->at < log->end; log->at++) {
        unsigned char byte = *log->at;
        if (!is_quoted && (byte == ',' || byte == '\n'))
            return;
        bool is_doubled = byte == '"' && is_quoted && log->end - log->at > 1 && log->at[1] == '"';
        log->at += is_doubled;
        log->lines += byte == '\n';
        if (byte == '"' && !is_doubled)
            is_quoted = !is_quoted;
        else if (byte != '\r' && length + 1 < FIELD_BYTES)
            field[length++] = (char)byte;
    }
}

/* Skips the byte and returns true, if it is the next one. */
static bool skip(struct log *log, unsigned char byte)
{
    if (log->at == log->end || *log->at != byte)
        return false;
    log->at++;
    return true;
}

/* Reads a line. False at the end of the log. */
static bool next_line(struct log *log, struct line *line)
{
    if (log->at == log->end)
        return false;
    log->number = ++log->lines;
    *line = (struct line){0};
    do {
        char field[FIELD_BYTES] = "";
        read_field(log, field);
        if (line->count < MOST_FIELDS)
            memcpy(line->fields[line->count++], field, sizeof field);
    } while (skip(log, ','));
    (void)skip(log, '\n');
    return true;
}

static mt_status fail_line(const struct log *log, const char *what, const char *field)
{
    return mt_fail(MT_BAD_TRACE, "line %" PRIu64 " of the log has no %s, but \"%s\"", log->number, what, field);
}

/* Finds the columns in the first line. False if one is missing. */
static bool read_header(struct log *log)
{
    struct line line;
    int found = 0;
    if (!next_line(log, &line))
        return false;
    for (int column = 0; column < COLUMN_COUNT; column++)
        for (int i = 0; i < line.count; i++)
            if (strcmp(line.fields[i], column_names[column]) == 0) {
                log->columns[column] = i;
                found++;
                break;
            }
    return found == COLUMN_COUNT;
}

static bool recognizes(const struct mt_import_input *input)
{
    return read_header(&(struct log){.at = input->file.data, .end = input->file.data + input->file.length});
}

/* Reads a decimal number, a hexadecimal one after "0x", or printf's "(nil)". */
static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    *out = 0;
    if (strcmp(text, "(nil)") == 0)
        return true;
    bool is_hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    if (!isdigit((unsigned char)text[0]))
        return false;
    *out = strtoull(text, &end, is_hexadecimal ? 16 : 10);
    return *end == '\0';
}

/* Adds a fraction of a second: ".123456" or ":123456"; "" adds nothing. */
static bool read_fraction(const char *text, uint64_t *ns)
{
    if (*text == '\0')
        return true;
    uint64_t unit_ns = 100000000;
    for (text++; isdigit((unsigned char)*text); text++, unit_ns /= 10)
        *ns += (uint64_t)(*text - '0') * unit_ns;
    return *text == '\0';
}

/* Reads a time of the day, "14:05:07.123456" or "14:05:07:123456", or seconds since 1970, "1634567890.123456". */
static bool read_time(const char *text, uint64_t *out_ns, bool *out_has_date)
{
    const uint64_t most_of_day = 1000000, most_of_date = UINT64_C(10000000000);
    uint64_t parts[3] = {0};
    int count = 0;
    char *end = (char *)text;
    do {
        text = end + (count > 0);
        if (!isdigit((unsigned char)*text))
            return false;
        parts[count] = strtoull(text, &end, 10);
    } while (++count < 3 && *end == ':');
    *out_has_date = count == 1;
    uint64_t most = *out_has_date ? most_of_date : most_of_day;
    if (count == 2 || parts[0] > most || parts[1] > most || parts[2] > most)
        return false;
    *out_ns = *out_has_date ? parts[0] : (parts[0] * 60 + parts[1]) * 60 + parts[2];
    *out_ns *= UINT64_C(1000000000);
    return read_fraction(end, out_ns);
}

static const char *field_of(const struct log *log, const struct line *line, log_column column)
{
    assert(column < COLUMN_COUNT && log->columns[column] >= 0 && log->columns[column] < MOST_FIELDS);
    return log->columns[column] < line->count ? line->fields[log->columns[column]] : "";
}

/* Returns the time since the first line. */
static uint64_t run_time(struct log *log, uint64_t day_ns)
{
    if (!log->has_time)
        log->first_ns = day_ns;
    else if (!log->has_date && day_ns + DAY_NS / 2 < log->last_ns)
        log->days_ns += DAY_NS;
    log->has_time = true;
    assert(log->days_ns % DAY_NS == 0);
    log->last_ns = day_ns;
    uint64_t now = log->days_ns + day_ns;
    return now > log->first_ns ? now - log->first_ns : 0;
}

static mt_status replay_allocate(struct log *log, uint64_t now, struct mt_foreign_block *block)
{
    assert(log->foreign != NULL && log->labels != NULL);
    mt_status status = mt_import_sizes_add(&log->sizes, block->requested_bytes);
    if (status != MT_OK)
        return mt_fail_context(status, "line %" PRIu64 " of the log", log->number);
    log->allocates++;
    log->ends_refused = false;
    mt_plain_labels_give(log->labels, "", "", block);
    mt_plain_labels_count(log->labels, block);
    mt_foreign_take(log->foreign, now, block);
    return MT_OK;
}

/* A refused size may be any number that fits a column of the trace. */
static mt_status replay_failure(struct log *log, uint64_t now, struct mt_foreign_block *block)
{
    if (block->requested_bytes > INT64_MAX)
        return mt_fail(MT_BAD_TRACE, "line %" PRIu64 " of the log has a size of %" PRIu64 " bytes", log->number,
                       block->requested_bytes);
    log->failures++;
    log->ends_refused = true;
    mt_plain_labels_give(log->labels, "", "", block);
    mt_foreign_oom(log->foreign, now, block);
    return MT_OK;
}

static mt_status replay_line(struct log *log, const struct line *line)
{
    struct mt_foreign_block block = {0};
    uint64_t day_ns;
    const char *action = field_of(log, line, COLUMN_ACTION), *pointer = field_of(log, line, COLUMN_POINTER);
    if (!read_time(field_of(log, line, COLUMN_TIME), &day_ns, &log->has_date))
        return fail_line(log, "time of day, or since 1970,", field_of(log, line, COLUMN_TIME));
    if (!read_number(field_of(log, line, COLUMN_SIZE), &block.requested_bytes))
        return fail_line(log, "size", field_of(log, line, COLUMN_SIZE));
    if (!read_number(field_of(log, line, COLUMN_STREAM), &block.stream))
        return fail_line(log, "stream", field_of(log, line, COLUMN_STREAM));
    bool fails = strcmp(action, "allocate failure") == 0;
    if (!read_number(pointer, &block.address) && !fails)
        return fail_line(log, "pointer", pointer);
    uint64_t now = run_time(log, day_ns);
    if (strcmp(action, "free") == 0 || strcmp(action, "deallocate") == 0) {
        log->frees++;
        mt_foreign_give(log->foreign, now, block.address);
        return MT_OK;
    }
    if (!fails && strcmp(action, "allocate") != 0)
        return fail_line(log, "action that is known", action);
    return fails ? replay_failure(log, now, &block) : replay_allocate(log, now, &block);
}

/* True if the line is the last, and lacks a line end. */
static bool is_unended(const struct log *log)
{
    return log->at == log->end && log->end[-1] != '\n';
}

static mt_status replay_lines(struct log *log)
{
    struct line line;
    while (next_line(log, &line)) {
        bool is_empty = line.count == 1 && line.fields[0][0] == '\0';
        mt_status status = is_empty ? MT_OK : replay_line(log, &line);
        if (status != MT_OK && !is_unended(log))
            return status;
        log->is_cut = status != MT_OK;
    }
    return MT_OK;
}

static mt_status replay(const struct mt_import_input *input, const struct mt_sink *sink, struct mt_import_report *out)
{
    struct log log = {.at = input->file.data, .end = input->file.data + input->file.length};
    if (!read_header(&log))
        return mt_fail(MT_BAD_TRACE, "it has no line with the columns of RMM's logs: Thread,Time,Action,Pointer,Size,"
                                     "Stream");
    log.foreign = mt_foreign_create(sink);
    log.labels = mt_plain_labels_create(input->rules, sink);
    mt_status status = replay_lines(&log);
    mt_import_count(out, "allocate", log.allocates);
    mt_import_count(out, "free", log.frees);
    mt_import_count(out, "allocate failure", log.failures);
    out->device = MT_IMPORT_ANY_DEVICE;
    out->ends_refused = log.ends_refused;
    out->is_cut = log.is_cut;
    out->foreign = mt_foreign_counts(log.foreign);
    out->coverage = mt_plain_labels_coverage(log.labels);
    assert(out->coverage.all_blocks == log.allocates);
    mt_plain_labels_destroy(log.labels);
    mt_foreign_destroy(log.foreign);
    return status;
}

const struct mt_import_reader mt_rmm_reader = {
    .kind = MT_IMPORT_RMM,
    .source = {.title = "RMM log (CSV)", .format = "RMM log", .device = "RMM log"},
    .recognizes = recognizes,
    .replay = replay,
};
