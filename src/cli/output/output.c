#include "cli/output/output.h"

#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
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

/* A share of fewer percent rounds to 0.0. */
static const double LEAST_PERCENT = 0.05;

void mt_output_begin(void)
{
    signal(SIGPIPE, SIG_IGN);
    /* Opened for reading: what is written to a stdout that was closed must fail, not vanish. */
    int opened;
    do
        opened = open("/dev/null", O_RDONLY);
    while (opened >= 0 && opened <= STDERR_FILENO);
    if (opened > STDERR_FILENO)
        close(opened);
}

/* Whether stdout is a pipe that nobody reads any more. */
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

/* What COLUMNS says; 0: nothing of use. */
static int columns_wanted(void)
{
    const char *text = getenv("COLUMNS");
    long columns = text != NULL ? strtol(text, NULL, 10) : 0;
    return columns > 0 && columns <= MOST_COLUMNS ? (int)columns : 0;
}

int mt_output_columns(void)
{
    struct winsize size;
    if (!mt_output_is_terminal())
        return 0;
    if (columns_wanted() > 0)
        return columns_wanted();
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int mt_output_width(void)
{
    int columns = mt_output_columns();
    if (columns == 0 || columns > MT_MOST_WIDTH)
        return MT_MOST_WIDTH;
    return columns < MT_LEAST_WIDTH ? MT_LEAST_WIDTH : columns;
}

size_t mt_text_width(const char *text, size_t bytes)
{
    size_t width = 0;
    for (size_t i = 0; i < bytes; i++)
        width += !mt_continues_character(text[i]);
    return width;
}

void mt_text_add_wrapped(struct mt_text *out, const char *text, size_t indent)
{
    size_t column = indent;
    for (const char *word = text; *word != '\0';) {
        size_t bytes = strcspn(word, " "), width = mt_text_width(word, bytes);
        if (column > indent && column + 1 + width > (size_t)mt_output_width()) {
            mt_text_add(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        mt_text_add(out, "%s%.*s", column > indent ? " " : "", (int)bytes, word);
        column += width + (column > indent);
        word += bytes + (word[bytes] == ' ');
    }
    mt_text_add(out, "\n");
}

void mt_print_wrapped(const char *text, size_t indent)
{
    struct mt_text lines = {0};
    mt_text_add_wrapped(&lines, text, indent);
    fputs(mt_text_get(&lines), stdout);
    mt_text_release(&lines);
}

bool mt_notes_are_on_terminal(void)
{
    return isatty(STDERR_FILENO) == 1;
}

void mt_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("memtrace: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* C0 and C1 control characters and DEL. */
static bool is_control(const char *text, int length)
{
    const unsigned char *byte = (const unsigned char *)text;
    return (length == 1 && (byte[0] < 0x20 || byte[0] == 0x7F)) || (length == 2 && byte[0] == 0xC2 && byte[1] < 0xA0);
}

/* How many bytes at `name` may be shown as they are. */
static int visible_length(const char *name)
{
    int length = 0;
    for (;;) {
        const char *at = name + length;
        int next = *at != '\0' ? mt_utf8_length(at) : 0;
        if (next == 0 || is_control(at, next))
            return length;
        length += next;
    }
}

void mt_text_add_visible(struct mt_text *out, const char *name)
{
    for (;;) {
        int plain = visible_length(name);
        mt_text_add(out, "%.*s", plain, name);
        name += plain;
        if (*name == '\0')
            return;
        mt_text_add(out, "\\x%02x", (unsigned char)*name++);
    }
}

void mt_text_add_markup(struct mt_text *out, const char *text)
{
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, text);
    for (const char *rest = mt_text_get(&visible); *rest != '\0';) {
        int plain = (int)strcspn(rest, special);
        mt_text_add(out, "%.*s", plain, rest);
        rest += plain;
        if (*rest != '\0')
            mt_text_add(out, "%s", entities[strchr(special, *rest++) - special]);
    }
    mt_text_release(&visible);
}

/* Whether the character at `at` of `text` would mean something. A low line inside a word does not. */
static bool is_markdown(const char *text, size_t at)
{
    if (text[at] == '_')
        return at == 0 || !isalnum((unsigned char)text[at - 1]) || !isalnum((unsigned char)text[at + 1]);
    return strchr("\\`*[]<>&|~$", text[at]) != NULL;
}

void mt_text_add_markdown(struct mt_text *out, const char *text)
{
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, text);
    const char *rest = mt_text_get(&visible);
    for (size_t i = 0; rest[i] != '\0'; i++)
        mt_text_add(out, is_markdown(rest, i) ? "\\%c" : "%c", rest[i]);
    mt_text_release(&visible);
}

/* What a terminal would obey, spelled so that a shell reads it and a terminal does not: $'a\x1bb'. */
static void add_escaped_word(struct mt_text *out, const char *word)
{
    mt_text_add(out, "$'");
    while (*word != '\0') {
        int shown = visible_length(word);
        for (int i = 0; i < shown; i++)
            mt_text_add(out, word[i] == '\'' || word[i] == '\\' ? "\\%c" : "%c", word[i]);
        word += shown;
        if (*word != '\0')
            mt_text_add(out, "\\x%02x", (unsigned char)*word++);
    }
    mt_text_add(out, "'");
}

void mt_text_add_shell_word(struct mt_text *out, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-+=:,@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        mt_text_add(out, "%s", word);
        return;
    }
    if (word[visible_length(word)] != '\0') {
        add_escaped_word(out, word);
        return;
    }
    mt_text_add(out, "'");
    for (; *word != '\0'; word++)
        mt_text_add(out, *word == '\'' ? "'\\''" : "%c", *word);
    mt_text_add(out, "'");
}

void mt_print_name(const char *name)
{
    if (!mt_output_is_terminal()) {
        fputs(name, stdout);
        return;
    }
    struct mt_text visible = {0};
    mt_text_add_visible(&visible, name);
    fputs(mt_text_get(&visible), stdout);
    mt_text_release(&visible);
}

char *mt_format_share(double part, double whole, char *text)
{
    double percent = 100 * part / whole;
    if (!(whole > 0))
        snprintf(text, MT_BYTES_TEXT, "-");
    else if (percent != 0 && fabs(percent) < LEAST_PERCENT)
        snprintf(text, MT_BYTES_TEXT, percent > 0 ? "<0.1 %%" : ">-0.1 %%");
    else
        snprintf(text, MT_BYTES_TEXT, "%.1f %%", percent);
    return text;
}

void mt_print_parameter_count(uint64_t count)
{
    if (count >= 1000000000)
        printf("%.2f billion parameters", (double)count / 1e9);
    else if (count >= 1000000)
        printf("%.2f million parameters", (double)count / 1e6);
    else
        printf("%" PRIu64 " parameters", count);
}

static json_t *json_of_damaged(const char *text)
{
    struct mt_text repaired = {0};
    mt_utf8_add_repaired(&repaired, text);
    json_t *json = json_string(mt_text_get(&repaired));
    mt_text_release(&repaired);
    return json;
}

json_t *mt_json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *json = json_string(text);
    return json != NULL ? json : json_of_damaged(text);
}

json_t *mt_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Pure ASCII for a terminal: JSON lets C1 control characters pass. */
static size_t json_flags(void)
{
    return mt_output_is_terminal() ? JSON_ENSURE_ASCII : 0;
}

void mt_json_print(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | json_flags());
    json_decref(value);
    putchar('\n');
}

void mt_json_stream_begin(struct mt_json_stream *stream, json_t *head, const char *key)
{
    char *text = json_dumps(head, json_flags());
    *stream = (struct mt_json_stream){0};
    /* Without the brace that closes it. */
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

/* Quotes are doubled, and the field is put between two. */
static void add_quoted(struct mt_text *out, const char *field)
{
    mt_text_add(out, "\"");
    while (*field != '\0') {
        size_t length = strcspn(field, "\"");
        mt_text_add(out, "%.*s%s", (int)length, field, field[length] == '"' ? "\"\"" : "");
        field += length + (field[length] == '"');
    }
    mt_text_add(out, "\"");
}

void mt_text_add_csv(struct mt_text *out, const char *field)
{
    if (field[strcspn(field, ",\"\r\n")] != '\0')
        add_quoted(out, field);
    else
        mt_text_add(out, "%s", field);
}

void mt_csv_print(const char *field, char after)
{
    struct mt_text text = {0};
    mt_text_add_csv(&text, field);
    mt_print_name(mt_text_get(&text));
    putchar(after);
    mt_text_release(&text);
}
