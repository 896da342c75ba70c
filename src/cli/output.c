#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    return mt_fail(MT_FAILED, "can't write the output: %s", error != 0 ? strerror(error) : "an earlier write failed");
}

bool mt_output_broken(void)
{
    return ferror(stdout) != 0;
}

mt_status mt_output_go_on(void)
{
    return mt_output_broken() ? mt_fail(MT_FAILED, "the output can't be written") : MT_OK;
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

/* Whether all of `byte[1]` to `byte[extra]` continue a UTF-8 sequence. The text's NUL does not, so none is passed. */
static bool continues(const unsigned char *byte, int extra)
{
    for (int i = 1; i <= extra; i++)
        if ((byte[i] & 0xC0) != 0x80)
            return false;
    return true;
}

/* The length of the well-formed UTF-8 character at `byte`, 0 if there is none (RFC 3629, table of section 4). */
static int utf8_length(const unsigned char *byte)
{
    unsigned char lead = byte[0];
    if (lead < 0x80)
        return 1;
    int extra = lead >= 0xF0 && lead <= 0xF4  ? 3
                : lead >= 0xE0 && lead < 0xF0 ? 2
                : lead >= 0xC2 && lead < 0xE0 ? 1
                                              : 0;
    if (extra == 0 || !continues(byte, extra))
        return 0;
    bool too_long = (lead == 0xE0 && byte[1] < 0xA0) || (lead == 0xF0 && byte[1] < 0x90);
    bool no_character = (lead == 0xED && byte[1] > 0x9F) || (lead == 0xF4 && byte[1] > 0x8F);
    return too_long || no_character ? 0 : extra + 1;
}

/* C0 and C1 control characters and DEL. */
static bool is_control(const unsigned char *byte, int length)
{
    return (length == 1 && (byte[0] < 0x20 || byte[0] == 0x7F)) || (length == 2 && byte[0] == 0xC2 && byte[1] < 0xA0);
}

/* How many bytes at `name` may be shown as they are. */
static int visible_length(const char *name)
{
    int length = 0;
    for (;;) {
        const unsigned char *byte = (const unsigned char *)name + length;
        int next = *byte != '\0' ? utf8_length(byte) : 0;
        if (next == 0 || is_control(byte, next))
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

/* `text` with U+FFFD for each byte that is not UTF-8. */
static json_t *json_of_damaged(const char *text)
{
    struct mt_text repaired = {0};
    for (const unsigned char *byte = (const unsigned char *)text; *byte != '\0';) {
        int length = utf8_length(byte);
        mt_text_add(&repaired, "%.*s", length > 0 ? length : 3, length > 0 ? (const char *)byte : "\xEF\xBF\xBD");
        byte += length > 0 ? length : 1;
    }
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

/* The field with its quotes doubled, in quotes. */
static void print_quoted(const char *field)
{
    struct mt_text quoted = {0};
    for (const char *rest = field; *rest != '\0'; rest++)
        mt_text_add(&quoted, *rest == '"' ? "\"\"" : "%c", *rest);
    putchar('"');
    mt_print_name(mt_text_get(&quoted));
    putchar('"');
    mt_text_release(&quoted);
}

void mt_csv_print(const char *field, char after)
{
    if (field[strcspn(field, ",\"\r\n")] != '\0')
        print_quoted(field);
    else
        mt_print_name(field);
    putchar(after);
}
