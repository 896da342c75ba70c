/* The observers of operators, in the layout of PyTorch's header of this name. */
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace at
{

enum class RecordScope : uint8_t { FUNCTION = 0, BACKWARD_FUNCTION, THIRD, FOURTH, FIFTH, USER_SCOPE, NUM_SCOPES };

struct ObserverContext {
    virtual ~ObserverContext() = default;
};

struct RecordFunction {
    explicit RecordFunction(const char *name) : name_(name)
    {
    }
    const char *name() const;

  private:
    const char *name_;
};

class RecordFunctionCallback
{
  public:
    using StartCallback = std::unique_ptr<ObserverContext> (*)(const RecordFunction &);
    using EndCallback = void (*)(const RecordFunction &, ObserverContext *);

    StartCallback start() const
    {
        return start_;
    }
    EndCallback end() const
    {
        return end_;
    }
    bool is_for(RecordScope scope) const
    {
        return scopes_[static_cast<size_t>(scope)];
    }
    bool needs_nothing() const
    {
        return sampling_prob_ == 1.0 && !needs_inputs_ && !needs_outputs_ && !needs_ids_;
    }

  private:
    StartCallback start_;
    EndCallback end_;
    double sampling_prob_ = 1.0;
    std::array<bool, static_cast<size_t>(RecordScope::NUM_SCOPES)> scopes_ = {};
    bool needs_inputs_ = false;
    bool needs_outputs_ = false;
    bool needs_ids_ = false;
};

uint64_t addGlobalCallback(RecordFunctionCallback callback);
void removeCallback(uint64_t handle);
void disableCallback(uint64_t handle);
void reenableCallback(uint64_t handle);

} // namespace at
