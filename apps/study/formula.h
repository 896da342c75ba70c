/* Formulas of sizes, as shown on pages: "4·L·B·T·(C+2·F)". The displayed text is also the text that is computed, so
 * they always agree.
 *
 *   sum     = product { "+" product }
 *   product = factor { "·" factor }
 *   factor  = ( number | symbol | "(" sum ")" ) [ "²" ]
 *
 * A symbol is one letter. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The values of the symbols. */
struct mt_formula_symbols {
    uint64_t of[128]; /* by the letter's character */
};

/* Computes a formula, which must be well-formed. False, with *out unchanged, if a value overflows. */
bool mt_formula_compute(const char *formula, const struct mt_formula_symbols *symbols, uint64_t *out);
