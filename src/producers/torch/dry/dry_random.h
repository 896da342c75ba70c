/* Random numbers of a card: a seed and an offset, as CUDA's generators have, in a state of 16 bytes.
 *
 * The numbers themselves are the CPU's. A kernel for the CPU that runs in the place of a card's takes them from PyTorch's
 * default generator, which is lent the card's seed and offset for that call, so the program's own numbers on the host are
 * those that it would see beside a card. */
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>

#include <optional>

namespace mt_dry
{

/* Returns the generator that a card has from the beginning. */
const at::Generator &default_generator(c10::DeviceIndex device);

/* Returns a new one; while memtrace_dry_gives_default is on, the default one. */
at::Generator new_generator(c10::DeviceIndex device);

/* Has the CPU's default generator stand in for a card's until the end of the scope.
 *
 * Threads: those that draw from the CPU's generator at the same time see the card's. */
class random_loan
{
  public:
    explicit random_loan(const at::Generator &lender);
    ~random_loan();
    random_loan(const random_loan &) = delete;
    random_loan &operator=(const random_loan &) = delete;

  private:
    at::mt19937 engine_; /* of the CPU's */
    std::optional<float> next_float_;
    std::optional<double> next_double_;
};

} // namespace mt_dry
