#include "page/page_table.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>

void mt_page_table_add(struct mt_page_table *table, const uint64_t *values)
{
    for (size_t i = 0; i < table->column_count; i++)
        mt_packed_list_add(&table->values[i], values[i]);
    table->row_count++;
}

void mt_page_table_fill(struct mt_page_table *table, size_t count)
{
    static const uint64_t zeros[MT_PAGE_MOST_COLUMNS];
    assert(table->row_count <= count);
    while (table->row_count < count)
        mt_page_table_add(table, zeros);
}

void mt_page_table_clear(struct mt_page_table *table)
{
    for (size_t i = 0; i < table->column_count; i++)
        mt_packed_list_release(&table->values[i]);
    table->row_count = 0;
}

size_t mt_page_table_chunks(const struct mt_page_table *table)
{
    return (table->row_count + MT_PAGE_PART_ROWS - 1) / MT_PAGE_PART_ROWS;
}

/* Returns the number to store for a row, before division by the unit. *previous is the value of the row before, and
 * becomes that of this row. */
static uint64_t stored_number(const struct mt_page_table *table, size_t index, size_t row, uint64_t *previous)
{
    uint64_t value = mt_page_table_value(table, index, row);
    uint64_t number = table->columns[index].coding == MT_PAGE_DELTA ? value - *previous : value;
    *previous = value;
    return number;
}

uint64_t mt_page_table_first(const struct mt_page_table *table, size_t index, size_t part)
{
    assert(index < table->column_count && part * MT_PAGE_PART_ROWS < table->row_count);
    return mt_page_table_value(table, index, part * MT_PAGE_PART_ROWS);
}

static int bytes_of(uint64_t number)
{
    int bytes = 0;
    for (; number != 0; number >>= 8)
        bytes++;
    return bytes;
}

/* Returns the largest power of two that divides all numbers; `bits` is their bitwise or. */
static uint64_t common_unit(uint64_t bits)
{
    return bits != 0 ? bits & -bits : 1;
}

static mt_status fail_on_row(const struct mt_page_table *table, size_t index, size_t row, uint64_t value,
                             const char *what)
{
    return mt_fail(MT_BAD_TRACE, "no page can show this run: %s %zu has %" PRIu64 " as its %s, %s", table->row_name,
                   row, value, table->columns[index].name, what);
}

static mt_status check_value(const struct mt_page_table *table, size_t index, size_t row, uint64_t value,
                             uint64_t previous)
{
    if (value > MT_PAGE_MOST_VALUE)
        return fail_on_row(table, index, row, value, "more than a browser counts to");
    if (table->columns[index].coding == MT_PAGE_DELTA && value < previous)
        return fail_on_row(table, index, row, value, "less than the one before it: the trace is damaged");
    return MT_OK;
}

static mt_status measure_column(struct mt_page_table *table, size_t index)
{
    uint64_t bits = 0, highest = 0, value = table->row_count > 0 ? mt_page_table_first(table, index, 0) : 0;
    size_t highest_row = 0;
    for (size_t row = 0; row < table->row_count; row++) {
        uint64_t previous = value, number = stored_number(table, index, row, &value);
        MT_TRY(check_value(table, index, row, value, previous));
        bits |= number;
        highest_row = number > highest ? row : highest_row;
        highest = number > highest ? number : highest;
    }
    uint64_t unit = common_unit(bits);
    int width = bytes_of(highest / unit);
    assert((unit & (unit - 1)) == 0 && highest % unit == 0);
    table->shape[index] = (struct mt_page_shape){.width = width, .unit = unit};
    if (width <= MT_PAGE_MOST_WIDTH)
        return MT_OK;
    return fail_on_row(table, index, highest_row, highest, "more than six bytes hold");
}

mt_status mt_page_table_measure(struct mt_page_table *table, size_t *next_chunk)
{
    assert(table->column_count <= MT_PAGE_MOST_COLUMNS && *next_chunk > 0);
    table->first_chunk = *next_chunk;
    *next_chunk += mt_page_table_chunks(table);
    for (size_t i = 0; i < table->column_count; i++)
        MT_TRY(measure_column(table, i));
    return MT_OK;
}

static size_t row_bytes(const struct mt_page_table *table)
{
    size_t bytes = 0;
    for (size_t i = 0; i < table->column_count; i++)
        bytes += (size_t)table->shape[i].width;
    return bytes;
}

/* Writes `count` rows from `first` on as `width` planes of `count` bytes, the lowest bytes first. */
static void encode_column(const struct mt_page_table *table, size_t index, size_t first, size_t count,
                          unsigned char *planes)
{
    struct mt_page_shape shape = table->shape[index];
    assert(shape.unit > 0 && shape.width >= 0 && shape.width <= MT_PAGE_MOST_WIDTH);
    int shift = __builtin_ctzll(shape.unit);
    uint64_t previous = count > 0 ? mt_page_table_value(table, index, first) : 0;
    for (size_t i = 0; i < count && shape.width > 0; i++) {
        uint64_t number = stored_number(table, index, first + i, &previous) >> shift;
        for (int byte = 0; byte < shape.width; byte++, number >>= 8)
            planes[(size_t)byte * count + i] = (unsigned char)number;
        assert(number == 0);
    }
}

/* Encodes up to `most` rows from `first` on. */
static unsigned char *encode_rows(const struct mt_page_table *table, size_t first, size_t most, size_t *out_bytes)
{
    assert(first <= table->row_count);
    size_t left = table->row_count - first, count = left < most ? left : most;
    unsigned char *bytes = mt_host_alloc(count * row_bytes(table) + 1), *at = bytes;
    for (size_t i = 0; i < table->column_count; i++) {
        encode_column(table, i, first, count, at);
        at += count * (size_t)table->shape[i].width;
    }
    *out_bytes = (size_t)(at - bytes);
    assert(*out_bytes == count * row_bytes(table));
    return bytes;
}

unsigned char *mt_page_table_encode(const struct mt_page_table *table, size_t part, size_t *out_bytes)
{
    return encode_rows(table, part * MT_PAGE_PART_ROWS, MT_PAGE_PART_ROWS, out_bytes);
}

unsigned char *mt_page_table_sample(const struct mt_page_table *table, size_t *out_bytes)
{
    return encode_rows(table, table->row_count / 2, MT_PAGE_SAMPLE_ROWS, out_bytes);
}
