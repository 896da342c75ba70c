/* The one function that throws, and so has no C between itself and PyTorch. */
#include "torch/torch_throw.h"

extern "C" {
#include "torch/memtrace_torch.h"

int mt_torch_take(int64_t bytes, int device, uint64_t stream, uint64_t *out); /* torch_library.h, which is C */

void *memtrace_torch_alloc(ssize_t size, int device, void *stream)
{
    uint64_t address = 0;
    const int status = mt_torch_take(size, device, reinterpret_cast<uintptr_t>(stream), &address);
    if (status != MT_OK)
        mt_torch_throw(static_cast<mt_status>(status), memtrace_torch_last_error());
    return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}
}
