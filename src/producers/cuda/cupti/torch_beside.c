#include "producers/cuda/cupti/torch_beside.h"

#include "producers/cuda/caller.h"

#include <assert.h>
#include <dlfcn.h>

bool mt_torch_beside_find(struct mt_torch_beside *out)
{
    int (*is_watching)(void) = NULL;
    *(void **)&is_watching = dlsym(RTLD_DEFAULT, "memtrace_torch_is_watching");
    *(void **)&out->take = dlsym(RTLD_DEFAULT, "memtrace_torch_outside_take");
    *(void **)&out->give = dlsym(RTLD_DEFAULT, "memtrace_torch_outside_give");
    return is_watching != NULL && out->take != NULL && out->give != NULL && is_watching();
}

void mt_torch_beside_report(const struct mt_torch_beside *beside, struct mt_listening_thread *thread,
                            const struct mt_listened_call *call, const CUpti_CallbackData *data,
                            const struct mt_call_place *place)
{
    struct mt_addressed_call addressed;
    assert(beside->take != NULL && beside->give != NULL);
    if (!mt_call_read_addressed(thread, call, data, place, &addressed))
        return;
    if (addressed.gives) {
        beside->give(addressed.address);
        return;
    }
    const char *library = mt_caller_library();
    beside->take(addressed.device, addressed.address, addressed.bytes, library != NULL ? library : addressed.op);
}
