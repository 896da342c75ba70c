#include "operators/cudnn/helper/cudnn_backend.h"

#include "base/memory.h"

#include <assert.h>
#include <dlfcn.h>

/* cuDNN ends the process without this library, which it loads by these names: with CUDA 13, with CUDA 12. */
static bool has_cublas(void)
{
    return dlopen("libcublasLt.so.13", RTLD_LAZY | RTLD_GLOBAL) != NULL ||
           dlopen("libcublasLt.so.12", RTLD_LAZY | RTLD_GLOBAL) != NULL;
}

const char *cudnn_backend_load(const char *path, struct cudnn_backend *out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    *out = (struct cudnn_backend){0};
    if (library == NULL)
        return dlerror();
    const struct {
        const char *name;
        void **place;
    } functions[] = {{"cudnnBackendCreateDescriptor", (void **)&out->create},
                     {"cudnnBackendSetAttribute", (void **)&out->set},
                     {"cudnnBackendGetAttribute", (void **)&out->get},
                     {"cudnnBackendFinalize", (void **)&out->finalize},
                     {"cudnnBackendDestroyDescriptor", (void **)&out->destroy},
                     {"cudnnSetCallback", (void **)&out->set_callback},
                     {"cudnnGetVersion", (void **)&out->version}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if ((*functions[i].place = dlsym(library, functions[i].name)) == NULL)
            return "it is no cuDNN 9";
    return has_cublas() ? NULL : "cuDNN needs libcublasLt, which is missing: pip install nvidia-cublas";
}

cudnn_descriptor cudnn_make(struct cudnn_backend *backend, enum cudnn_kind kind)
{
    cudnn_descriptor made = NULL;
    backend->has_failed |= backend->create(kind, &made) != 0;
    if (made != NULL)
        *MT_HOST_ADD(backend->made, backend->count) = made;
    return made;
}

void cudnn_set(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute, enum cudnn_type type,
               int64_t count, const void *values)
{
    if (!backend->has_failed)
        backend->has_failed = backend->set(descriptor, attribute, type, count, values) != 0;
}

void cudnn_set_descriptor(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute,
                          cudnn_descriptor value)
{
    cudnn_set(backend, descriptor, attribute, CUDNN_TYPE_DESCRIPTOR, 1, &value);
}

void cudnn_finish(struct cudnn_backend *backend, cudnn_descriptor descriptor)
{
    if (!backend->has_failed)
        backend->has_failed = backend->finalize(descriptor) != 0;
}

int64_t cudnn_get(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute, enum cudnn_type type,
                  int64_t most, void *values)
{
    int64_t count = 0;
    if (!backend->has_failed)
        backend->has_failed = backend->get(descriptor, attribute, type, most, &count, values) != 0;
    if (backend->has_failed || count < 0)
        return 0;
    return most > 0 && count > most ? most : count;
}

int64_t cudnn_get_number(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute)
{
    int64_t number = -1;
    return cudnn_get(backend, descriptor, attribute, CUDNN_TYPE_INT64, 1, &number) == 1 ? number : -1;
}

void cudnn_release_to(struct cudnn_backend *backend, int64_t count)
{
    assert(count >= 0);
    while (backend->count > count)
        backend->destroy(backend->made[--backend->count]);
    backend->has_failed = false;
}
