#include "study/formula.h"

#include "base/checked.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

static const char TIMES[] = "·", SQUARED[] = "²";

/* The state of parsing a formula. Invariant: after an overflow, `fits` stays false. */
struct reader {
    const char *at; /* the rest of the text */
    const struct mt_formula_symbols *symbols;
    bool fits;
};

static uint64_t read_sum(struct reader *reader);

/* Skips the text if it is next. */
static bool take(struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(reader->at, text, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static uint64_t multiply(struct reader *reader, uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    reader->fits = reader->fits && mt_checked_mul(a, b, &product);
    return product;
}

static uint64_t read_number(struct reader *reader)
{
    uint64_t number = 0;
    assert(isdigit((unsigned char)*reader->at));
    while (isdigit((unsigned char)*reader->at))
        number = 10 * number + (uint64_t)(*reader->at++ - '0');
    return number;
}

static uint64_t read_factor(struct reader *reader)
{
    uint64_t factor;
    if (take(reader, "(")) {
        factor = read_sum(reader);
        bool closes = take(reader, ")");
        assert(closes);
        (void)closes;
    } else {
        bool is_symbol = isalpha((unsigned char)*reader->at);
        factor = is_symbol ? reader->symbols->of[(unsigned char)*reader->at++] : read_number(reader);
    }
    return take(reader, SQUARED) ? multiply(reader, factor, factor) : factor;
}

static uint64_t read_product(struct reader *reader)
{
    uint64_t product = read_factor(reader);
    while (take(reader, TIMES))
        product = multiply(reader, product, read_factor(reader));
    return product;
}

static uint64_t read_sum(struct reader *reader)
{
    uint64_t sum = read_product(reader);
    while (take(reader, "+"))
        reader->fits = mt_checked_add(sum, read_product(reader), &sum) && reader->fits;
    return sum;
}

bool mt_formula_compute(const char *formula, const struct mt_formula_symbols *symbols, uint64_t *out)
{
    struct reader reader = {.at = formula, .symbols = symbols, .fits = true};
    uint64_t value = read_sum(&reader);
    assert(*reader.at == '\0');
    if (reader.fits)
        *out = value;
    return reader.fits;
}
