#include "base/flat_json.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_PRINTABLE = 0x20, UNICODE_DIGITS = 4, HEXADECIMAL = 16 };

/* ---- writing ---- */

static void add_quoted(struct mt_text *out, const char *text)
{
    mt_text_add(out, "\"");
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            mt_text_add(out, "\\%c", *text);
        else if ((unsigned char)*text < LEAST_PRINTABLE)
            mt_text_add(out, "\\u%04x", (unsigned)*text);
        else
            mt_text_add(out, "%c", *text);
    mt_text_add(out, "\"");
}

/* Opens the object for another member. */
static void add_name(struct mt_text *object, const char *name)
{
    if (object->length > 0)
        object->data[--object->length] = '\0'; /* the closing brace */
    mt_text_add(object, "%s", object->length > 0 ? ", " : "{");
    add_quoted(object, name);
    mt_text_add(object, ": ");
}

void mt_flat_json_add_text(struct mt_text *object, const char *name, const char *value)
{
    if (value == NULL)
        return;
    add_name(object, name);
    add_quoted(object, value);
    mt_text_add(object, "}");
}

void mt_flat_json_add_number(struct mt_text *object, const char *name, double value)
{
    add_name(object, name);
    mt_text_add(object, "%.17g}", value);
}

/* ---- reading ---- */

/* Adds the character behind a backslash at *text, and moves to its last letter. */
static void add_escaped(struct mt_text *out, const char **text)
{
    static const char letters[] = "bfnrt", characters[] = "\b\f\n\r\t";
    const char *found = **text != '\0' ? strchr(letters, **text) : NULL;
    char digits[UNICODE_DIGITS + 1] = "";
    if (**text == 'u' && strlen(*text) > UNICODE_DIGITS) {
        memcpy(digits, *text + 1, UNICODE_DIGITS);
        *text += UNICODE_DIGITS;
        mt_text_add(out, "%c", (int)strtol(digits, NULL, HEXADECIMAL)); /* a control character */
        return;
    }
    mt_text_add(out, "%c", found != NULL ? characters[found - letters] : **text);
}

/* Reads a text in quotes, or a number or word, at `text`. Returns the place behind it. */
static const char *read_value(const char *text, struct mt_text *out)
{
    if (*text != '"') {
        const size_t length = strcspn(text, ",} ");
        mt_text_add(out, "%.*s", (int)length, text);
        return text + length;
    }
    for (text++; *text != '"' && *text != '\0'; text++)
        if (*text == '\\' && text[1] != '\0') {
            text++;
            add_escaped(out, &text);
        } else {
            mt_text_add(out, "%c", *text);
        }
    return *text == '"' ? text + 1 : text;
}

static const char *skip(const char *text)
{
    return text + strspn(text, "{,: \t\n");
}

char *mt_flat_json_find(const char *object, const char *name)
{
    char *found = NULL;
    for (const char *rest = skip(object); *rest == '"'; rest = skip(rest)) {
        struct mt_text key = {0}, value = {0};
        rest = read_value(skip(read_value(rest, &key)), &value);
        if (strcmp(mt_text_get(&key), name) == 0) {
            free(found);
            found = mt_host_strdup(mt_text_get(&value));
        }
        mt_text_release(&key);
        mt_text_release(&value);
    }
    return found;
}
