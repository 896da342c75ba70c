#include "producers/torch/dry/dry_mersenne.h"

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace mt_dry
{

namespace
{

constexpr int WORDS = at::MERSENNE_STATE_N, MIDDLE = at::MERSENNE_STATE_M;
constexpr int DEGREE = 19937, LIMBS = DEGREE / 64 + 1;
constexpr uint64_t FEW_BLOCKS = 512; /* faster one by one */

using mersenne_state = std::array<uint32_t, WORDS>;
using polynomial = std::array<uint64_t, LIMBS>; /* bit i: the coefficient of t^i */
using product = std::array<uint64_t, 2 * LIMBS>;
typedef uint32_t lanes __attribute__((vector_size(32))); /* of a state */

/* Returns the exponents of p below DEGREE. With X = t^624 + t^397, Y = t^623 + t^396 and the bits a[i] of the matrix,
 * p = X (Y^31 + a[0] Y^30 + ... + a[30]) + a[31] (Matsumoto and Nishimura, "Mersenne Twister", 1998, appendix A). */
std::vector<int> exponents()
{
    std::vector<bool> has(DEGREE + 1);
    const auto toggle = [&](int exponent) { has[exponent] = !has[exponent]; };
    for (int power = 0; power <= 31; power++) {
        if (power < 31 && (at::MATRIX_A >> (30 - power) & 1) == 0)
            continue;
        for (int i = 0; i <= power; i++)
            if ((power & i) == i) { /* the binomial coefficient is odd */
                toggle((WORDS - 1) * (power - i) + (MIDDLE - 1) * i + WORDS);
                toggle((WORDS - 1) * (power - i) + (MIDDLE - 1) * i + MIDDLE);
            }
    }
    if (at::MATRIX_A >> 31 != 0)
        toggle(0);
    std::vector<int> found;
    for (int i = 0; i < DEGREE; i++)
        if (has[i])
            found.push_back(i);
    return found;
}

void add_at(product *sum, int bit, uint64_t limb)
{
    (*sum)[bit / 64] ^= limb << bit % 64;
    if (bit % 64 != 0)
        (*sum)[bit / 64 + 1] ^= limb >> (64 - bit % 64);
}

/* Returns a product modulo p, whose second exponent is more than a limb below the first. */
polynomial reduce(product *from)
{
    static const std::vector<int> others = exponents();
    polynomial rest;
    for (int i = 2 * LIMBS - 1; i >= LIMBS - 1; i--) {
        const int low = i == LIMBS - 1 ? DEGREE % 64 : 0; /* bits of the last limb that stay */
        const uint64_t limb = (*from)[i] >> low;
        (*from)[i] ^= limb << low;
        for (const int exponent : others)
            add_at(from, i * 64 + low - DEGREE + exponent, limb);
    }
    std::memcpy(rest.data(), from->data(), sizeof rest);
    return rest;
}

/* Returns the square of a polynomial, times t if asked, before it is reduced. */
product square(const polynomial &root, int shift)
{
    product made{};
    for (int i = 0; i < DEGREE; i++)
        if (root[i / 64] >> i % 64 & 1)
            made[(2 * i + shift) / 64] |= uint64_t{1} << (2 * i + shift) % 64;
    return made;
}

/* Returns t^exponent mod p. */
polynomial power_of_t(uint64_t exponent)
{
    polynomial power{1};
    for (int bit = 63; bit >= 0; bit--) {
        product next = square(power, static_cast<int>(exponent >> bit & 1));
        power = reduce(&next);
    }
    return power;
}

/* Returns t^exponent mod p, which is computed once: models repeat the shapes of their weights. */
const polynomial &known_power(uint64_t exponent)
{
    static std::mutex lock;
    static std::map<uint64_t, polynomial> powers;
    const std::lock_guard<std::mutex> hold(lock);
    const auto found = powers.find(exponent);
    return found != powers.end() ? found->second : powers.emplace(exponent, power_of_t(exponent)).first->second;
}

/* Appends words to the words of a state. */
void extend(std::vector<uint32_t> *words, size_t count)
{
    for (size_t k = words->size() - WORDS, end = k + count; k < end; k++) {
        const uint32_t mixed = ((*words)[k] & at::UMASK) | ((*words)[k + 1] & at::LMASK);
        words->push_back((*words)[k + MIDDLE] ^ mixed >> 1 ^ ((mixed & 1) != 0 ? at::MATRIX_A : 0));
    }
}

void step(mersenne_state *words)
{
    std::vector<uint32_t> longer(words->begin(), words->end());
    extend(&longer, WORDS);
    std::copy(longer.end() - WORDS, longer.end(), words->begin());
}

/* Sets a state to the sum of those after i words, for each exponent i. */
void apply(const polynomial &sum, mersenne_state *words)
{
    std::vector<uint32_t> longer(words->begin(), words->end());
    std::array<lanes, WORDS / 8> total{}, one;
    extend(&longer, DEGREE);
    for (int i = 0; i < DEGREE; i++) {
        if ((sum[i / 64] >> i % 64 & 1) == 0)
            continue;
        std::memcpy(&one, &longer[i], sizeof one);
        for (size_t k = 0; k < one.size(); k++)
            total[k] ^= one[k];
    }
    std::memcpy(words->data(), &total, sizeof total);
}

/* Replaces a state by the state `count` blocks of 624 words later. The first block clears the 31 bits of x[0] that no
 * later word depends on and that do not satisfy the recurrence. */
void skip_blocks(uint64_t count, mersenne_state *words)
{
    const bool is_many = count > FEW_BLOCKS;
    for (uint64_t i = 0; i < (is_many ? 1 : count); i++)
        step(words);
    if (is_many)
        apply(known_power((count - 1) * WORDS), words);
}

} // namespace

void skip_numbers(at::mt19937 *engine, uint64_t count)
{
    at::mt19937_data_pod data = engine->data();
    const uint64_t used = data.left_ == 1 ? WORDS : data.next_; /* of the present block */
    const uint64_t end = used + count, blocks = end == 0 ? 0 : (end - 1) / WORDS;
    if (count == 0)
        return;
    skip_blocks(blocks, &data.state_);
    data.next_ = static_cast<uint32_t>(end - blocks * WORDS);
    data.left_ = static_cast<int>(WORDS - data.next_ + 1);
    engine->set_data(data);
}

} // namespace mt_dry
