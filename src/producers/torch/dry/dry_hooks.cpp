/* The hooks through which PyTorch uses CUDA. PyTorch finds the class by name in a registry. */
#include "producers/torch/dry/dry_capture.h"
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_pinned.h"
#include "producers/torch/dry/dry_random.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <map>
#include <string>

namespace at
{

class CUDAHooks final : public CUDAHooksInterface
{
  public:
    explicit CUDAHooks(CUDAHooksArgs)
    {
    }
    /* No `override`, since PyTorch 2.6 lacks these two. */
    virtual bool isBuilt() const
    {
        return true;
    }
    virtual bool isAvailable() const
    {
        return true;
    }
    void init() const override
    {
    }
    bool hasCUDA() const override
    {
        return true;
    }
    bool hasCuDNN() const override
    {
        return true;
    }
    bool hasCuBLASLt() const override
    {
        return true;
    }
    bool hasCuSOLVER() const override
    {
        return true;
    }
    bool hasMAGMA() const override
    {
        return true;
    }
    std::string showConfig() const override
    {
        return "  - CUDA Runtime 13.0\n  - CuDNN 91.9\n";
    }
    bool compiledWithCuDNN() const override
    {
        return true;
    }
    bool supportsDilatedConvolutionWithCuDNN() const override
    {
        return true;
    }
    bool supportsDepthwiseConvolutionWithCuDNN() const override
    {
        return true;
    }
    bool supportsBFloat16ConvolutionWithCuDNNv8() const override
    {
        return true;
    }
    long versionCuDNN() const override
    {
        return 91900;
    }
    /* No `override`, since older versions of PyTorch lack these. */
    virtual bool supportsBFloat16RNNWithCuDNN() const
    {
        return true;
    }
    virtual long versionRuntimeCuDNN() const
    {
        return versionCuDNN();
    }
    virtual long versionCuDNNFrontend() const
    {
        return 11400;
    }
    long versionCUDART() const override
    {
        return 13000;
    }
    double batchnormMinEpsilonCuDNN() const override
    {
        return 1e-5;
    }
    /* The cache of plans stays empty. Its limit can be read and set; 4,096 is PyTorch's default. */
    int64_t cuFFTGetPlanCacheMaxSize(DeviceIndex device) const override
    {
        const auto found = most_plans_.find(device);
        return found != most_plans_.end() ? found->second : 4096;
    }
    void cuFFTSetPlanCacheMaxSize(DeviceIndex device, int64_t most) const override
    {
        TORCH_CHECK(most >= 0, "cuFFT plan cache size must be non-negative, but got ", most);
        most_plans_[device] = most;
    }
    int64_t cuFFTGetPlanCacheSize(DeviceIndex) const override
    {
        return 0;
    }
    void cuFFTClearPlanCache(DeviceIndex) const override
    {
    }
    const Generator &getDefaultGenerator(DeviceIndex device) const override
    {
        return mt_dry::default_generator(device);
    }
    Generator getNewGenerator(DeviceIndex device) const override
    {
        return mt_dry::new_generator(device);
    }
    bool hasPrimaryContext(DeviceIndex) const override
    {
        return true;
    }
    DeviceIndex current_device() const override
    {
        return mt_dry::current_device();
    }
    DeviceIndex getCurrentDevice() const override
    {
        return mt_dry::current_device();
    }
    DeviceIndex deviceCount() const override
    {
        return static_cast<DeviceIndex>(mt_dry::card_count());
    }
    int getNumGPUs() const override
    {
        return mt_dry::card_count();
    }
    void setCurrentDevice(DeviceIndex device) const override
    {
        mt_dry::set_current_device(device);
    }
    DeviceIndex exchangeDevice(DeviceIndex device) const override
    {
        return maybeExchangeDevice(device);
    }
    DeviceIndex maybeExchangeDevice(DeviceIndex device) const override
    {
        const DeviceIndex before = mt_dry::current_device();
        mt_dry::set_current_device(device);
        return before;
    }
    Device getDeviceFromPtr(void *) const override
    {
        return Device(kCUDA, mt_dry::current_device());
    }
    Allocator *getPinnedMemoryAllocator() const override
    {
        return mt_dry::pinned_allocator();
    }
    bool isPinnedPtr(const void *data) const override
    {
        return mt_dry::is_pinned(data);
    }
    Allocator *getCUDADeviceAllocator() const override
    {
        return mt_dry::allocator();
    }
    void deviceSynchronize(DeviceIndex device) const override
    {
        mt_dry::refuse_if_any_captures(device);
    }

  private:
    mutable std::map<DeviceIndex, int64_t> most_plans_;
};

C10_REGISTER_CLASS_WITH_PRIORITY(CUDAHooksRegistry, CUDAHooks, c10::REGISTRY_PREFERRED, CUDAHooks)

} // namespace at
