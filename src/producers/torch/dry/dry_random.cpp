#include "producers/torch/dry/dry_random.h"

#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_library.h"

#include <ATen/core/Tensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

namespace mt_dry
{

namespace
{

constexpr uint64_t OFFSET_STEP = 4; /* PyTorch's offsets are multiples of it */

bool gives_default;

struct random_state {
    uint64_t seed, offset;
};

class generator final : public c10::GeneratorImpl
{
  public:
    explicit generator(c10::DeviceIndex device)
        : GeneratorImpl(c10::Device(c10::DeviceType::CUDA, device), c10::DispatchKeySet(c10::DispatchKey::CUDA)),
          state_{c10::default_rng_seed_val, 0}
    {
    }
    void set_current_seed(uint64_t seed) override
    {
        state_ = {seed, 0};
    }
    void set_offset(uint64_t offset) override
    {
        state_.offset = offset;
    }
    uint64_t get_offset() const override
    {
        return state_.offset;
    }
    uint64_t current_seed() const override
    {
        return state_.seed;
    }
    uint64_t seed() override
    {
        set_current_seed(c10::detail::getNonDeterministicRandom());
        return state_.seed;
    }
    void set_state(const c10::TensorImpl &from) override
    {
        TORCH_CHECK(from.numel() == sizeof state_ && from.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                    "a generator's state on a card has 16 bytes");
        std::memcpy(&state_, from.data(), sizeof state_);
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override
    {
        at::Tensor made = at::detail::empty_cpu({sizeof state_}, c10::ScalarType::Byte);
        std::memcpy(made.data_ptr(), &state_, sizeof state_);
        return made.getIntrusivePtr();
    }
    void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl> &from) override
    {
        state_ = static_cast<generator &>(*from).state_;
    }
    c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override
    {
        return clone();
    }

    /* Returns an engine for one call, and advances to the next. */
    at::mt19937 draw()
    {
        const std::lock_guard<std::mutex> hold(mutex_);
        const uint64_t seed = state_.seed + std::exchange(state_.offset, state_.offset + OFFSET_STEP);
        return at::mt19937(seed);
    }

  private:
    GeneratorImpl *clone_impl() const override
    {
        auto *made = new generator(device().index());
        made->state_ = state_;
        return made;
    }

    random_state state_;
};

at::CPUGeneratorImpl *cpu_generator()
{
    return at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
}

} // namespace

const at::Generator &default_generator(c10::DeviceIndex device)
{
    static std::mutex lock;
    static std::array<at::Generator, MOST_CARDS> generators;
    const std::lock_guard<std::mutex> hold(lock);
    at::Generator &found = generators.at(device < 0 ? current_device() : device);
    if (!found.defined())
        found = at::make_generator<generator>(device < 0 ? current_device() : device);
    return found;
}

at::Generator new_generator(c10::DeviceIndex device)
{
    if (gives_default)
        return default_generator(device);
    return at::make_generator<generator>(device < 0 ? current_device() : device);
}

random_loan::random_loan(const at::Generator &lender)
{
    at::CPUGeneratorImpl *cpu = cpu_generator();
    const std::lock_guard<std::mutex> hold(cpu->mutex_);
    engine_ = cpu->engine();
    next_float_ = cpu->next_float_normal_sample();
    next_double_ = cpu->next_double_normal_sample();
    cpu->set_engine(static_cast<generator *>(lender.unsafeGetGeneratorImpl())->draw());
    cpu->set_next_float_normal_sample(std::nullopt);
    cpu->set_next_double_normal_sample(std::nullopt);
}

random_loan::~random_loan()
{
    at::CPUGeneratorImpl *cpu = cpu_generator();
    const std::lock_guard<std::mutex> hold(cpu->mutex_);
    cpu->set_engine(engine_);
    cpu->set_next_float_normal_sample(next_float_);
    cpu->set_next_double_normal_sample(next_double_);
}

} // namespace mt_dry

void memtrace_dry_gives_default(int is_on)
{
    mt_dry::gives_default = is_on != 0;
}
