/* The accumulation experiment, computed anew. */
#include "study/accumulation.h"
#include "study/report_sections.h"

#include <math.h>
#include <stdio.h>

enum { ADDITIONS = 1000 };
static const double ADDEND = 0.01;

static void add_row(struct mt_page *page, const struct mt_accumulation *way)
{
    char text[MT_BYTES_TEXT];
    double rounded = mt_float_round(way->addend, ADDEND), sum = mt_accumulate(way, ADDITIONS, ADDEND);
    mt_page_cell(page, way->sum->name);
    mt_page_cell(page, way->addend->name);
    snprintf(text, sizeof text, "%.10f", rounded);
    mt_page_cell_number(page, rounded, text);
    snprintf(text, sizeof text, "%.4f", sum);
    mt_page_cell_number(page, sum, text);
    snprintf(text, sizeof text, "%+.4f", sum - ADDITIONS * ADDEND);
    mt_page_cell_number(page, sum - ADDITIONS * ADDEND, text);
    snprintf(text, sizeof text, fabs(rounded - ADDEND) * ADDITIONS < 1e-4 ? "%+.1e" : "%+.4f",
             ADDITIONS * (rounded - ADDEND));
    mt_page_cell_number(page, ADDITIONS * (rounded - ADDEND), text);
}

/* Where the sum no longer grows: half of the distance to its next number is not less than the addend. */
static void say_standstill(struct mt_page *page, const struct mt_accumulation *way)
{
    double sum = mt_accumulate(way, ADDITIONS, ADDEND), addend = mt_float_round(way->addend, ADDEND);
    if (mt_float_round(way->sum, sum + addend) != sum)
        return;
    int exponent;
    frexp(sum, &exponent);
    mt_page_say(
        page,
        "A %s sum of %s addends stands still at %g: the next number of the format is %g further, and %.6f, less "
        "than half of that, rounds back.",
        way->sum->name, way->addend->name, sum, ldexp(1, exponent - way->sum->significand_bits), addend);
}

static void say_sums(struct mt_page *page, const struct mt_accumulation *ways, size_t count)
{
    double narrow = 0, wide = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs(mt_accumulate(&ways[i], ADDITIONS, ADDEND) - ADDITIONS * ADDEND);
        bool is_wide = ways[i].sum->significand_bits >= 24;
        *(is_wide ? &wide : &narrow) = fmax(is_wide ? wide : narrow, error);
    }
    mt_page_say(page,
                "With the sum in fp32 the error is at most %.4f: the rounding of the addend itself, as the last column "
                "shows. With the sum in 16 bits it reaches %.4f, because every addition rounds. So sums are kept in "
                "fp32, whatever is added.",
                wide, narrow);
}

mt_status mt_report_accumulation(struct mt_report *report)
{
    static const struct mt_column columns[] = {
        {"sum in", MT_ALIGN_LEFT},  {"addends in", MT_ALIGN_LEFT}, {"0.01 is", MT_ALIGN_RIGHT},
        {"result", MT_ALIGN_RIGHT}, {"error", MT_ALIGN_RIGHT},     {"of the addends' rounding", MT_ALIGN_RIGHT}};
    struct mt_page *page = report->page;
    size_t count;
    const struct mt_accumulation *ways = mt_accumulations(&count);
    mt_page_section(page, "accumulation", "Accumulation");
    mt_page_table(page, "accumulation", "0.01 added 1000 times", columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < count; i++)
        add_row(page, &ways[i]);
    say_sums(page, ways, count);
    for (size_t i = 0; i < count; i++)
        say_standstill(page, &ways[i]);
    return MT_OK;
}
