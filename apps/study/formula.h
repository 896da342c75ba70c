/* Formulas of sizes, as a page shows them: "4·L·B·T·(C+2·F)". The text that is read is the text that is computed, so the two
 * cannot disagree.
 *
 *   sum     = product { "+" product }
 *   product = factor { "·" factor }
 *   factor  = ( number | symbol | "(" sum ")" ) [ "²" ]
 *
 * A symbol is one letter. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The values of the letters. */
struct mt_formula_symbols {
    uint64_t of[128]; /* by the letter's character */
};

/* Computes a formula, which is well-formed. False, and *out untouched, if a value on the way does not fit. */
bool mt_formula_compute(const char *formula, const struct mt_formula_symbols *symbols, uint64_t *out);
