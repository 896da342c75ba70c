#include "base/toml_file.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* A place in the text. */
struct parser {
    const char *at;
    int line;
};

static bool is_bare(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '_' || byte == '-';
}

static void skip_blanks(struct parser *parser)
{
    parser->at += strspn(parser->at, " \t");
}

/* Skips a comment, up to the end of the line. Fails for a control character in it. */
static mt_status skip_comment(struct parser *parser)
{
    if (*parser->at != '#')
        return MT_OK;
    for (; *parser->at != '\0' && *parser->at != '\n'; parser->at++)
        if ((unsigned char)*parser->at < ' ' && *parser->at != '\t' && parser->at[1] != '\n')
            return mt_fail(MT_USAGE, "a comment has a control character");
    return MT_OK;
}

/* Skips the line end; false if there is none. */
static bool skip_line_end(struct parser *parser)
{
    parser->at += parser->at[0] == '\r' && parser->at[1] == '\n';
    if (*parser->at != '\n')
        return false;
    parser->at++;
    parser->line++;
    return true;
}

/* Skips blanks, comments and line ends. */
static mt_status skip_space(struct parser *parser)
{
    do {
        skip_blanks(parser);
        MT_TRY(skip_comment(parser));
    } while (skip_line_end(parser));
    return MT_OK;
}

static mt_status end_line(struct parser *parser)
{
    skip_blanks(parser);
    MT_TRY(skip_comment(parser));
    if (*parser->at == '\0' || skip_line_end(parser))
        return MT_OK;
    return mt_fail(MT_USAGE, "unexpected \"%.*s\"", (int)strcspn(parser->at, "\r\n"), parser->at);
}

/* Reads a bare name of a key or a table. */
static mt_status read_name(struct parser *parser, const char *what, struct mt_text *out)
{
    const char *begin = parser->at;
    while (is_bare(*parser->at))
        parser->at++;
    if (parser->at == begin)
        return mt_fail(MT_USAGE, "a %s is letters, digits, - and _ without quotes", what);
    mt_text_add(out, "%.*s", (int)(parser->at - begin), begin);
    skip_blanks(parser);
    return *parser->at == '.' ? mt_fail(MT_USAGE, "a %s with dots is not supported", what) : MT_OK;
}

/* ---- values ---- */

/* Adds the character that an escape stands for. */
static mt_status read_escape(struct parser *parser, struct mt_text *out)
{
    static const char names[] = "btnfr\"\\", bytes[] = "\b\t\n\f\r\"\\";
    const char *found = *parser->at != '\0' ? strchr(names, *parser->at) : NULL;
    if (found == NULL)
        return mt_fail(MT_USAGE, "\\%.1s in a string is not supported", parser->at);
    mt_text_add(out, "%c", bytes[found - names]);
    parser->at++;
    return MT_OK;
}

/* Reads a string, with the quote that it begins with. */
static mt_status read_string(struct parser *parser, struct mt_text *out)
{
    const char quote = *parser->at++;
    if (parser->at[0] == quote && parser->at[1] == quote)
        return mt_fail(MT_USAGE, "strings of several lines are not supported");
    while (*parser->at != quote) {
        const unsigned char byte = (unsigned char)*parser->at;
        if (byte == '\0' || byte == '\n' || byte == '\r')
            return mt_fail(MT_USAGE, "a string has no closing %c", quote);
        if (byte < ' ' && byte != '\t')
            return mt_fail(MT_USAGE, "a string has a control character");
        parser->at++;
        if (byte == '\\' && quote == '"')
            MT_TRY(read_escape(parser, out));
        else
            mt_text_add(out, "%c", byte);
    }
    parser->at++;
    return MT_OK;
}

/* Reads a string, and adds it to the value. */
static mt_status add_string(struct parser *parser, struct mt_toml_value *value)
{
    struct mt_text text = {0};
    mt_status status = read_string(parser, &text);
    if (status == MT_OK)
        *MT_HOST_ADD(value->texts, value->count) = mt_host_strdup(mt_text_get(&text));
    mt_text_release(&text);
    return status;
}

static bool is_quote(char byte)
{
    return byte == '"' || byte == '\'';
}

static mt_status read_strings(struct parser *parser, struct mt_toml_value *value)
{
    value->kind = MT_TOML_STRINGS;
    parser->at++;
    for (;;) {
        MT_TRY(skip_space(parser));
        if (is_quote(*parser->at)) {
            MT_TRY(add_string(parser, value));
            MT_TRY(skip_space(parser));
            if (*parser->at == ',') {
                parser->at++;
                continue;
            }
        }
        if (*parser->at != ']')
            return mt_fail(MT_USAGE, "a list has strings with commas between, and ends with ]");
        parser->at++;
        return MT_OK;
    }
}

/* Reads a number as TOML writes it: without leading zeros. */
static mt_status read_number(const char *word, int64_t *out)
{
    const char *digits = word + (word[0] == '-');
    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0' || (digits[0] == '0' && digits[1] != '\0'))
        return mt_fail(MT_USAGE, "\"%s\" is no value: write \"text\", 12, true or [\"text\"]", word);
    return mt_parse_integer("number", word, INT64_MIN, INT64_MAX, out);
}

/* Reads true, false or a number. */
static mt_status read_word(struct parser *parser, struct mt_toml_value *value)
{
    struct mt_text text = {0};
    const size_t length = strcspn(parser->at, " \t\r\n#,]");
    mt_text_add(&text, "%.*s", (int)length, parser->at);
    parser->at += length;
    const char *word = mt_text_get(&text);
    const bool is_true = strcmp(word, "true") == 0, is_boolean = is_true || strcmp(word, "false") == 0;
    value->kind = is_boolean ? MT_TOML_BOOLEAN : MT_TOML_INTEGER;
    value->number = is_true;
    mt_status status = is_boolean ? MT_OK : read_number(word, &value->number);
    mt_text_release(&text);
    return status;
}

static mt_status read_value(struct parser *parser, struct mt_toml_value *out)
{
    out->line = parser->line;
    if (is_quote(*parser->at))
        return add_string(parser, out);
    return *parser->at == '[' ? read_strings(parser, out) : read_word(parser, out);
}

static void release_value(struct mt_toml_value *value)
{
    for (size_t i = 0; i < value->count; i++)
        free(value->texts[i]);
    free(value->texts);
}

/* ---- lines ---- */

static mt_status read_table(struct parser *parser, const struct mt_toml_taker *taker)
{
    struct mt_text name = {0};
    parser->at++;
    skip_blanks(parser);
    mt_status status = *parser->at == '[' ? mt_fail(MT_USAGE, "lists of tables, [[…]], are not supported")
                                          : read_name(parser, "table's name", &name);
    if (status == MT_OK && *parser->at++ != ']')
        status = mt_fail(MT_USAGE, "a table's name ends with ]");
    MT_THEN(status, taker->begin_table(taker->context, name.data));
    MT_THEN(status, end_line(parser));
    mt_text_release(&name);
    return status;
}

static mt_status read_pair(struct parser *parser, const struct mt_toml_taker *taker)
{
    struct mt_text key = {0};
    struct mt_toml_value value = {0};
    mt_status status = read_name(parser, "key", &key);
    if (status == MT_OK && *parser->at++ != '=')
        status = mt_fail(MT_USAGE, "a key is followed by =");
    if (status == MT_OK)
        skip_blanks(parser);
    MT_THEN(status, read_value(parser, &value));
    MT_THEN(status, taker->take(taker->context, key.data, &value));
    MT_THEN(status, end_line(parser));
    release_value(&value);
    mt_text_release(&key);
    return status;
}

mt_status mt_toml_parse(const char *name, const char *text, const struct mt_toml_taker *taker)
{
    struct parser parser = {text, 1};
    int line = 1;
    mt_status status = skip_space(&parser);
    while (status == MT_OK && *parser.at != '\0') {
        line = parser.line;
        status = *parser.at == '[' ? read_table(&parser, taker) : read_pair(&parser, taker);
        MT_THEN(status, skip_space(&parser));
    }
    return status == MT_OK ? status : mt_fail_context(status, "%s: line %d", name, line);
}

/* Reads a whole file, which is text. */
static mt_status read_file(const char *path, struct mt_text *out)
{
    char bytes[4096];
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return mt_fail(MT_USAGE, "%s can't be read: %s", path, strerror(errno));
    bool is_text = true;
    for (size_t count; is_text && (count = fread(bytes, 1, sizeof bytes, file)) > 0;) {
        is_text = memchr(bytes, '\0', count) == NULL && out->length + count <= MOST_BYTES;
        mt_text_add(out, "%.*s", (int)count, bytes);
    }
    const bool failed = ferror(file) != 0;
    fclose(file);
    if (failed)
        return mt_fail(MT_USAGE, "%s can't be read", path);
    return is_text ? MT_OK : mt_fail(MT_USAGE, "%s is no TOML: it has NUL characters, or more than 1 MiB", path);
}

mt_status mt_toml_read(const char *path, const struct mt_toml_taker *taker)
{
    struct mt_text text = {0};
    mt_status status = read_file(path, &text);
    MT_THEN(status, mt_toml_parse(path, mt_text_get(&text), taker));
    mt_text_release(&text);
    return status;
}
