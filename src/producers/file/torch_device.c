#include "producers/file/torch_device.h"

#include <assert.h>
#include <string.h>

const char *mt_torch_device_name(mt_torch_device device)
{
    static const char *const names[MT_TORCH_DEVICE_COUNT] = {
        [MT_TORCH_CUDA] = "PyTorch snapshot",
        [MT_TORCH_XPU] = "XPU (PyTorch snapshot)",
        [MT_TORCH_ASCEND] = "Ascend NPU (PyTorch snapshot)",
        [MT_TORCH_MTIA] = "MTIA (PyTorch snapshot)",
        [MT_TORCH_NEURON] = "Neuron (PyTorch snapshot)",
        [MT_TORCH_MLX] = "MLX (snapshot)",
        [MT_TORCH_HOST] = "pinned host memory (PyTorch snapshot)",
    };
    assert(device < MT_TORCH_DEVICE_COUNT);
    return names[device];
}

/* Parts of the names of C++ functions, and of Python's and C++'s files, that only one kind of device has. */
static const struct mark {
    const char *function, *file;
    mt_torch_device device;
} marks[] = {
    {"c10::xpu::", "/torch/xpu/", MT_TORCH_XPU},     {"c10_npu::", "/torch_npu/", MT_TORCH_ASCEND},
    {"mtia::", "/torch/mtia/", MT_TORCH_MTIA},       {"torch_neuronx::", "/torch_neuronx/", MT_TORCH_NEURON},
    {"mlx::core::", "-packages/mlx/", MT_TORCH_MLX},
};

/* The environment variables with the allocators' settings. XPU uses the name that all devices share and, unlike CUDA,
 * has no limit for splitting. */
static const struct variable {
    const char *name;
    mt_torch_device device;
} variables[] = {
    {"PYTORCH_CUDA_ALLOC_CONF", MT_TORCH_CUDA},
    {"PYTORCH_NPU_ALLOC_CONF", MT_TORCH_ASCEND},
    {"PYTORCH_ALLOC_CONF", MT_TORCH_XPU},
};
enum { VARIABLE_COUNT = sizeof variables / sizeof variables[0] };

const char *mt_torch_device_configuration(const struct mt_value *settings)
{
    for (int i = 0; i < VARIABLE_COUNT; i++) {
        const struct mt_value *said = mt_value_find(settings, variables[i].name);
        if (said->kind == MT_VALUE_TEXT)
            return mt_value_text(said);
    }
    return "";
}

static mt_torch_device device_of_settings(const struct mt_value *settings)
{
    for (int i = 0; i < VARIABLE_COUNT; i++) {
        const bool is_common = strcmp(variables[i].name, "PYTORCH_ALLOC_CONF") == 0;
        if (mt_value_find(settings, variables[i].name)->kind == MT_VALUE_TEXT)
            return is_common && mt_value_find(settings, "max_split_size")->kind != MT_VALUE_NONE ? MT_TORCH_CUDA
                                                                                                 : variables[i].device;
    }
    return MT_TORCH_CUDA;
}

/* A search under way. */
struct search {
    struct mt_value_key frames, name, filename;
    uint32_t left; /* dicts and frames that may still be read */
};

/* Returns the kind of device that a call stack shows; MT_TORCH_CUDA if it shows none. */
static mt_torch_device device_of_frames(struct search *search, const struct mt_value *frames)
{
    for (uint32_t i = 0; i < mt_value_count(frames) && search->left > 0; i++, search->left--) {
        const char *name = mt_value_text(mt_value_get(mt_value_at(frames, i), &search->name));
        const char *file = mt_value_text(mt_value_get(mt_value_at(frames, i), &search->filename));
        for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++)
            if (strstr(name, marks[k].function) != NULL || strstr(file, marks[k].file) != NULL)
                return marks[k].device;
    }
    return MT_TORCH_CUDA;
}

/* The same for all dicts of a list, such as events or blocks. */
static mt_torch_device device_of_list(struct search *search, const struct mt_value *list)
{
    mt_torch_device device = MT_TORCH_CUDA;
    for (uint32_t i = 0; i < mt_value_count(list) && search->left > 0 && device == MT_TORCH_CUDA; i++, search->left--)
        device = device_of_frames(search, mt_value_get(mt_value_at(list, i), &search->frames));
    return device;
}

/* The same for the devices' events and the segments' blocks. */
static mt_torch_device device_of_stacks(const struct mt_value *traces, const struct mt_value *segments)
{
    enum { MOST_FRAMES = 20000 };
    struct search search = {MT_VALUE_KEY("frames"), MT_VALUE_KEY("name"), MT_VALUE_KEY("filename"),
                            .left = MOST_FRAMES};
    mt_torch_device device = MT_TORCH_CUDA;
    for (uint32_t i = 0; i < mt_value_count(traces) && device == MT_TORCH_CUDA; i++)
        device = device_of_list(&search, mt_value_at(traces, i));
    for (uint32_t i = 0; i < mt_value_count(segments) && device == MT_TORCH_CUDA; i++)
        device = device_of_list(&search, mt_value_find(mt_value_at(segments, i), "blocks"));
    return device;
}

/* True if a trace begins with the workspaces that torch_npu writes before the events of a device. */
static bool begins_with_workspace(const struct mt_value *traces)
{
    for (uint32_t i = 0; i < mt_value_count(traces); i++)
        if (mt_value_is(mt_value_find(mt_value_at(mt_value_at(traces, i), 0), "action"), "workspace_snapshot"))
            return true;
    return false;
}

mt_torch_device mt_torch_device_find(const struct mt_value *root)
{
    const struct mt_value *traces = mt_value_find(root, "device_traces");
    if (begins_with_workspace(traces))
        return MT_TORCH_ASCEND;
    const mt_torch_device device = device_of_settings(mt_value_find(root, "allocator_settings"));
    return device != MT_TORCH_CUDA
               ? device
               : device_of_stacks(traces, root->kind == MT_VALUE_LIST ? root : mt_value_find(root, "segments"));
}
