/* Skips random numbers of the host's generator in a time that does not depend on their count.
 *
 * The generator's state is 624 words x[0..623], and x[k + 624] follows from x[k], x[k + 1] and x[k + 397] by a linear
 * map over GF(2) with a characteristic polynomial p of degree 19937. So x[k + n] is the sum of those x[k + i] whose
 * coefficient in t^n mod p is 1 (Haramoto et al., "Efficient Jump Ahead for F2-Linear Random Number Generators",
 * 2008). */
#pragma once

#include <ATen/core/MT19937RNGEngine.h>

#include <cstdint>

namespace mt_dry
{

/* Leaves an engine as if it had returned `count` numbers. Takes about a millisecond. Any thread. */
void skip_numbers(at::mt19937 *engine, uint64_t count);

} // namespace mt_dry
