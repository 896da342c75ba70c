#include "cli/output/output.h"

#include "answer/answer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* More than any terminal has. */
enum { MOST_COLUMNS = 10000 };

enum { LONGEST_HINT = 512 };

void mt_output_begin(void)
{
    signal(SIGPIPE, SIG_IGN);
    /* Opened for reading, so that writes to a closed stdout fail instead of being lost. */
    int opened;
    do
        opened = open("/dev/null", O_RDONLY);
    while (opened >= 0 && opened <= STDERR_FILENO);
    if (opened > STDERR_FILENO)
        close(opened);
}

/* True if stdout is a pipe without a reader. */
static bool reader_has_left(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

mt_status mt_output_end(void)
{
    errno = 0;
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    int error = errno;
    if (is_written || reader_has_left())
        return MT_OK;
    return mt_fail(MT_NOT_WRITTEN, "can't write the output: %s",
                   error != 0 ? strerror(error) : "an earlier write failed");
}

bool mt_output_broken(void)
{
    return ferror(stdout) != 0;
}

mt_status mt_output_go_on(void)
{
    return mt_output_broken() ? mt_fail(MT_NOT_WRITTEN, "the output can't be written") : MT_OK;
}

bool mt_output_is_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

bool mt_output_is_styled(void)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    bool refused = no_color != NULL && no_color[0] != '\0';
    bool able = terminal != NULL && strcmp(terminal, "dumb") != 0;
    return mt_output_is_terminal() && !refused && able;
}

/* Returns the value of COLUMNS; 0 if it is not a number. */
static int columns_wanted(void)
{
    const char *text = getenv("COLUMNS");
    long columns = text != NULL ? strtol(text, NULL, 10) : 0;
    return columns > 0 && columns <= MOST_COLUMNS ? (int)columns : 0;
}

/* Returns the width of the terminal of a file descriptor; 0 if it is not a terminal, or unknown. */
static int columns_of(int file)
{
    struct winsize size;
    if (isatty(file) != 1)
        return 0;
    if (columns_wanted() > 0)
        return columns_wanted();
    return ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int mt_output_columns(void)
{
    return columns_of(STDOUT_FILENO);
}

static void note_left_out(const char *titles)
{
    mt_note("no room in %d columns for %s (--json has all)", mt_output_columns(), titles);
}

struct mt_screen mt_output_screen(void)
{
    return (struct mt_screen){stdout, mt_output_columns(), mt_output_width(), mt_output_is_styled(), note_left_out};
}

struct mt_table *mt_table_create(const struct mt_column *columns, size_t count)
{
    return mt_table_of_cells(mt_output_screen(), columns, count);
}

void mt_rows_print(const struct mt_row_type *type, const char *fields, const char *spare, const void *rows,
                   size_t count)
{
    const struct mt_screen screen = mt_output_screen();
    mt_screen_rows(&screen, type, fields, spare, rows, count);
}

/* Returns the width of sentences on a terminal with this many columns. */
static int width_in(int columns)
{
    assert(columns >= 0);
    if (columns == 0 || columns > MT_MOST_WIDTH)
        return MT_MOST_WIDTH;
    return columns < MT_LEAST_WIDTH ? MT_LEAST_WIDTH : columns;
}

int mt_output_width(void)
{
    return width_in(mt_output_columns());
}

void mt_print_wrapped(const char *text, size_t indent)
{
    const struct mt_screen screen = mt_output_screen();
    mt_screen_continue(&screen, text, indent);
}

void mt_print_line(struct mt_text *line)
{
    const struct mt_screen screen = mt_output_screen();
    mt_screen_line(&screen, line);
}

void mt_say(const char *format, ...)
{
    struct mt_text line = {0};
    va_list arguments;
    va_start(arguments, format);
    mt_text_add_list(&line, format, arguments);
    va_end(arguments);
    mt_print_line(&line);
}

bool mt_notes_are_on_terminal(void)
{
    return isatty(STDERR_FILENO) == 1;
}

/* Adds a line of a note, wrapped at words to the terminal's width, with names made visible. */
static void add_note_line(struct mt_text *out, const char *line, size_t bytes)
{
    struct mt_text words = {0}, visible = {0};
    mt_text_add(&words, "%.*s", (int)bytes, line);
    mt_text_add_visible(&visible, mt_text_get(&words));
    if (mt_notes_are_on_terminal())
        mt_text_add_wrapped(out, mt_text_get(&visible), 0, (size_t)width_in(columns_of(STDERR_FILENO)));
    else
        mt_text_add(out, "%s\n", mt_text_get(&visible));
    mt_text_release(&visible);
    mt_text_release(&words);
}

void mt_note(const char *format, ...)
{
    struct mt_text note = {0}, lines = {0};
    va_list arguments;
    va_start(arguments, format);
    mt_text_add(&note, "memtrace: ");
    mt_text_add_list(&note, format, arguments);
    va_end(arguments);
    for (const char *line = note.data; *line != '\0'; line += line[0] == '\n') {
        const size_t bytes = strcspn(line, "\n");
        mt_text_add(&lines, "%s", line > note.data ? "| " : "");
        add_note_line(&lines, line, bytes);
        line += bytes;
    }
    fputs(mt_text_get(&lines), stderr);
    mt_text_release(&lines);
    mt_text_release(&note);
}

mt_status mt_fail_hint(mt_status status, const char *format, ...)
{
    char hint[LONGEST_HINT];
    va_list arguments;
    assert(status != MT_OK);
    va_start(arguments, format);
    vsnprintf(hint, sizeof hint, format, arguments);
    va_end(arguments);
    return mt_fail(status, "%s; %s", mt_last_error(), hint);
}

mt_status mt_fail_writing_hint(mt_status status, const char *untraced)
{
    if (status != MT_NOT_WRITTEN)
        return status;
    if (untraced == NULL)
        return mt_fail_hint(status, "--trace FILE writes the trace elsewhere");
    return mt_fail_hint(status, "--trace FILE writes the trace elsewhere, %s none", untraced);
}

void mt_print_name(const char *name)
{
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, name);
    fputs(mt_text_get(&visible), stdout);
    mt_text_release(&visible);
}

void mt_text_add_parameter_count(struct mt_text *out, uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    for (int i = 0; i < length; i++)
        mt_text_add(out, "%s%c", i > 0 && (length - i) % 3 == 0 ? "," : "", digits[i]);
    mt_text_add(out, " parameters");
}

/* Pure ASCII for a terminal, since JSON does not escape C1 control characters. */
static size_t json_flags(void)
{
    return mt_output_is_terminal() ? JSON_ENSURE_ASCII : 0;
}

void mt_json_print(json_t *value)
{
    assert(json_is_object(value));
    json_dumpf(value, stdout, JSON_INDENT(2) | json_flags());
    json_decref(value);
    putchar('\n');
}

void mt_answer_print_json(const char *name, const struct mt_row_type *type, const void *answer)
{
    json_t *object = mt_schema_json(name);
    mt_row_add_json(type, answer, object);
    mt_json_print(object);
}

void mt_json_stream_begin(struct mt_json_stream *stream, json_t *head, const char *key)
{
    assert(json_object_size(head) > 0);
    char *text = json_dumps(head, json_flags());
    *stream = (struct mt_json_stream){0};
    /* Without the closing brace. */
    printf("%.*s, \"%s\": [", (int)strlen(text) - 1, text, key);
    free(text);
    json_decref(head);
}

void mt_json_stream_row(struct mt_json_stream *stream, json_t *row)
{
    fputs(stream->has_rows ? ",\n" : "\n", stdout);
    json_dumpf(row, stdout, json_flags());
    json_decref(row);
    stream->has_rows = true;
}

void mt_json_stream_end(struct mt_json_stream *stream)
{
    fputs(stream->has_rows ? "\n]}\n" : "]}\n", stdout);
}

void mt_csv_print(const char *field, char after)
{
    struct mt_text text = {0};
    mt_text_add_csv(&text, field);
    mt_print_name(mt_text_get(&text));
    putchar(after);
    mt_text_release(&text);
}
