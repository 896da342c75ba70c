/* Sizes, numbers and names as people write and read them, and text that grows. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/plain_text.h"
#include "base/status.h"

enum { MT_BYTES_TEXT = 32 };

/* Writes a size as "1.50 GiB", "20.00 MiB" or "512 B" to `text`, of MT_BYTES_TEXT bytes. Returns `text`. */
char *mt_format_bytes(uint64_t bytes, char *text);

/* Writes a difference of sizes with its sign, as "+1.50 GiB", "-20.00 MiB" or "0 B". Returns `text`. */
char *mt_format_difference(int64_t bytes, char *text);

/* The same as text that is valid until the end of the block: MT_SIZE(4096) is "4.00 KiB". */
#define MT_SIZE(bytes) mt_format_bytes((bytes), (char[MT_BYTES_TEXT]){0})
#define MT_SIZE_DIFFERENCE(bytes) mt_format_difference((bytes), (char[MT_BYTES_TEXT]){0})

/* Reads a size: "24GiB", "1.5 GB" (GiB is meant, as is the habit of the field), "512" or "64k". Fails with MT_USAGE for
 * anything else. */
mt_status mt_parse_bytes(const char *text, uint64_t *out_bytes);

/* Reads the same of a budget. Fails with MT_USAGE also for a number of 1 to 4095 without a unit, which was forgotten:
 * "52B" is spelled out. */
mt_status mt_parse_size(const char *text, uint64_t *out_bytes);

/* Reads a percentage from 0 to MT_MOST_PERCENT: "1%", "0.5 %" or "2" (2 %). Fails with MT_USAGE for anything else. */
enum { MT_MOST_PERCENT = 1000000 };
mt_status mt_parse_percent(const char *text, double *out_percent);

/* Reads a whole number from `low` to `high`. Fails with MT_USAGE for anything else; `what` names it then ("batch"). */
mt_status mt_parse_integer(const char *what, const char *text, int64_t low, int64_t high, int64_t *out);

/* Returns the name that is nearest to `word` by edit distance, or begins with it; NULL if none is near enough to be
 * what was meant. */
const char *mt_nearest(const char *word, const char *const *names, size_t count);

/* Fails with MT_USAGE and `unknown model "2.7b"; did you mean "2.7B"? There are small, medium, …`, and the three
 * nearest where there are many. Of more names than are easily read it tells how many there are. */
mt_status mt_fail_unknown(const char *what, const char *word, const char *const *names, size_t count);

/* True if the text is what is wanted, or ends so; NULL: any is. */
bool mt_is_text(const char *wanted, const char *text);
bool mt_ends_with(const char *text, const char *end);

/* Text that grows. All zero: empty. Invariant: length < capacity, or both are 0 and data is NULL. */
struct mt_text {
    char *data; /* NUL-terminated once anything was added; NULL while empty */
    size_t length, capacity;
};

/* Adds formatted text at the end. */
void mt_text_add(struct mt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_text_add_list(struct mt_text *text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* Frees the memory; the text is empty afterwards. */
void mt_text_release(struct mt_text *text);

/* Returns the text so far, "" if nothing was added. Valid until the next addition. */
static inline const char *mt_text_get(const struct mt_text *text)
{
    return text->data != NULL ? text->data : "";
}

/* ---- UTF-8 in names that other programs gave ---- */

/* Returns the bytes of the well-formed character at `text` (RFC 3629, table of section 4); 0 if there is none. NUL is a
 * character of 1 byte, and no character reaches past it. */
int mt_utf8_length(const char *text);

/* Adds `text`, with U+FFFD for each byte that is part of no character. */
void mt_utf8_add_repaired(struct mt_text *out, const char *text);
