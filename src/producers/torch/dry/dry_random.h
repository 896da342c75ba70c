/* Random numbers of a card: a seed and an offset, as in CUDA's generators, in a state of 16 bytes.
 *
 * The numbers themselves come from the CPU's generator. A CPU kernel that runs instead of a card's draws from PyTorch's
 * default generator, which has the card's seed and offset during that call. So the program draws the same numbers on
 * the host as it would with a card. */
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>

#include <optional>

namespace mt_dry
{

/* Returns a card's default generator. */
const at::Generator &default_generator(c10::DeviceIndex device);

/* Returns a new generator; while memtrace_dry_gives_default is on, the default one. */
at::Generator new_generator(c10::DeviceIndex device);

/* Makes the CPU's default generator stand in for a card's until the end of the scope.
 *
 * Threads: others that draw from the CPU's generator meanwhile see the card's. */
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
