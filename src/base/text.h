/* Words and numbers as people write and read them. */
#ifndef MT_BASE_TEXT_H
#define MT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { MT_BYTES_TEXT = 32 };

/* "1.50 GiB", "20.00 MiB", "512 B": into `text` of MT_BYTES_TEXT bytes, which it returns. */
char *mt_format_bytes(uint64_t bytes, char *text);

/* What was added or taken, always with its sign: "+1.50 GiB", "-20.00 MiB", "0 B". */
char *mt_format_difference(int64_t bytes, char *text);

/* "24GiB", "1.5 GB" (= GiB, as in the field's habit), "512", "64k": MT_USAGE for anything else. */
mt_status mt_parse_bytes(const char *text, uint64_t *out_bytes);

/* "1%", "0.5 %", "2" (= 2 %): from 0 to MT_MOST_PERCENT. MT_USAGE for anything else. */
enum { MT_MOST_PERCENT = 1000000 };
mt_status mt_parse_percent(const char *text, double *out_percent);

/* A whole number in [low, high]; `what` names it in the error ("batch"). */
mt_status mt_parse_integer(const char *what, const char *text, int64_t low, int64_t high, int64_t *out);

/* The entry of `names` (count of them) that is nearest to `word` by edit distance, or NULL if none is near enough to
 * be what was meant. */
const char *mt_nearest(const char *word, const char *const *names, size_t count);

/* Fails with MT_USAGE: `unknown model "2.7b"; did you mean "2.7B"? There are small, medium, …`. */
mt_status mt_fail_unknown(const char *what, const char *word, const char *const *names, size_t count);

/* Text that grows. Zero-initialized is empty and valid; mt_text_release gives its memory back. */
struct mt_text {
    char *data; /* NUL-terminated once anything was added; NULL while empty */
    size_t length, capacity;
};

void mt_text_add(struct mt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_text_release(struct mt_text *text);

/* What was added so far, "" if nothing was. Valid until the next addition. */
static inline const char *mt_text_get(const struct mt_text *text)
{
    return text->data != NULL ? text->data : "";
}

#endif
