#include "producers/file/profile_frames.h"

#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char operator_prefix[] = "aten::";
static const char engine_prefix[] = "autograd::engine::evaluate_function: ";
static const char module_prefix[] = "nn.Module: ";
static const char optimizer_prefix[] = "Optimizer.";

/* The list under construction. A call adds at most three frames, and one is added at the end. */
struct list {
    struct mt_value_store *store;
    struct mt_value frames[3 * MT_PROFILE_MOST_OPEN + 1];
    uint32_t count;
    bool is_recorded; /* the operator for which autograd keeps a node was found */
    bool is_backward, is_update, has_python, has_module;
    const char *annotation; /* the innermost; NULL: none */
};

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static const char *text_at(const struct mt_value *event, const char *key)
{
    return mt_value_text(mt_value_find(event, key));
}

/* True for the name of a node of autograd: "MulBackward0", "torch::autograd::AccumulateGrad". */
static bool is_node(const char *name)
{
    return strstr(name, "Backward") != NULL || begins(name, "torch::autograd::");
}

/* Older traces call the category of operators "Operator", and give it to annotations, too. */
static mt_profile_kind kind_of_operator(const char *name)
{
    if (begins(name, operator_prefix))
        return MT_PROFILE_OPERATOR;
    if (begins(name, engine_prefix))
        return MT_PROFILE_ENGINE;
    if (begins(name, optimizer_prefix))
        return MT_PROFILE_OPTIMIZER;
    if (begins(name, "ProfilerStep#"))
        return MT_PROFILE_ANNOTATION;
    return is_node(name) ? MT_PROFILE_NODE : MT_PROFILE_OTHER;
}

mt_profile_kind mt_profile_kind_of(const struct mt_value *event)
{
    const char *category = text_at(event, "cat"), *name = text_at(event, "name");
    if (strcmp(category, "cpu_op") == 0 || strcmp(category, "Operator") == 0)
        return kind_of_operator(name);
    if (strcmp(category, "user_annotation") == 0)
        return begins(name, optimizer_prefix) ? MT_PROFILE_OPTIMIZER : MT_PROFILE_ANNOTATION;
    if (strcmp(category, "python_function") == 0 || strcmp(category, "Python") == 0)
        return begins(name, module_prefix) ? MT_PROFILE_MODULE : MT_PROFILE_PYTHON;
    return MT_PROFILE_OTHER;
}

static mt_status add_frame(struct list *list, const char *name, const char *file, int64_t line)
{
    assert(list->count < sizeof list->frames / sizeof list->frames[0]);
    struct mt_value pairs[6] = {[5] = {.kind = MT_VALUE_INTEGER, .integer = line}};
    MT_TRY(mt_value_store_text(list->store, "name", 4, &pairs[0]));
    MT_TRY(mt_value_store_text(list->store, name, (uint32_t)strlen(name), &pairs[1]));
    MT_TRY(mt_value_store_text(list->store, "filename", 8, &pairs[2]));
    MT_TRY(mt_value_store_text(list->store, file, (uint32_t)strlen(file), &pairs[3]));
    MT_TRY(mt_value_store_text(list->store, "line", 4, &pairs[4]));
    return mt_value_store_share(list->store, MT_VALUE_DICT, pairs, 6, &list->frames[list->count++]);
}

/* Adds a frame of C++, PREFIX NAME SUFFIX. */
static mt_status add_native(struct list *list, const char *prefix, const char *name, const char *suffix)
{
    struct mt_text text = {0};
    mt_text_add(&text, "%s%s%s", prefix, name, suffix);
    mt_status status = add_frame(list, mt_text_get(&text), "", 0);
    mt_text_release(&text);
    return status;
}

/* Adds the operator. Autograd keeps a node for the innermost one with a sequence number. */
static mt_status add_operator(struct list *list, const struct mt_value *event)
{
    const char *name = text_at(event, "name") + strlen(operator_prefix);
    int64_t number = -1;
    mt_value_integer(mt_value_find(mt_value_find(event, "args"), "Sequence number"), &number);
    if (number >= 0 && !list->is_recorded) {
        list->is_recorded = true;
        MT_TRY(add_native(list, "torch::autograd::VariableType::", name, "("));
    }
    return add_native(list, "at::_ops::", name, "::call(");
}

static mt_status add_node(struct list *list, const char *name)
{
    const char *last = strrchr(name, ':');
    return add_native(list, "torch::autograd::", last != NULL ? last + 1 : name, "::apply(");
}

/* Adds the parts of "model.py(12): forward". Adds other texts, which are not frames of Python, unchanged. */
static mt_status add_python(struct list *list, const char *name)
{
    const char *end = strstr(name, "): "), *open = end;
    while (open != NULL && open > name && isdigit((unsigned char)open[-1]))
        open--;
    if (end == NULL || open <= name + 1 || open[-1] != '(' || open == end)
        return add_frame(list, name, "", 0);
    struct mt_text file = {0};
    mt_text_add(&file, "%.*s", (int)(open - 1 - name), name);
    mt_status status = add_frame(list, end + strlen("): "), mt_text_get(&file), (int64_t)strtol(open, NULL, 10));
    mt_text_release(&file);
    return status;
}

static mt_status add_python_once(struct list *list, struct mt_profile_call *call)
{
    list->has_python = true;
    if (call->frame.kind == MT_VALUE_NONE) {
        MT_TRY(add_python(list, text_at(call->event, "name")));
        call->frame = list->frames[list->count - 1];
        return MT_OK;
    }
    list->frames[list->count++] = call->frame;
    return MT_OK;
}

static mt_status add_call(struct list *list, struct mt_profile_call *call)
{
    const char *name = text_at(call->event, "name");
    switch (call->kind) {
    case MT_PROFILE_OPERATOR:
        return add_operator(list, call->event);
    case MT_PROFILE_ENGINE:
        list->is_backward = true;
        return add_frame(list, "torch::autograd::Engine::evaluate_function(", "", 0);
    case MT_PROFILE_NODE:
        return add_node(list, name);
    case MT_PROFILE_PYTHON:
        return add_python_once(list, call);
    case MT_PROFILE_MODULE:
        list->has_module = true;
        return add_frame(list, name + strlen(module_prefix), MT_MODULE_FILE, 0);
    case MT_PROFILE_OPTIMIZER:
        list->is_update = true;
        return add_frame(list, "step", "torch/optim/optimizer.py", 0);
    default:
        if (list->annotation == NULL && !begins(name, "ProfilerStep#"))
            list->annotation = name;
        return MT_OK;
    }
}

/* Adds the outermost frame as a snapshot would have it. An operator that autograd recorded is part of a module's call.
 * Everything else outside backward and updates belongs to the program. */
static mt_status add_program(struct list *list)
{
    if (list->is_backward || list->is_update || list->has_python)
        return MT_OK;
    const char *program = list->annotation != NULL ? list->annotation : "program";
    if (!list->has_module)
        MT_TRY(add_frame(list, program, MT_PROGRAM_FILE, 0));
    return list->is_recorded || list->has_module ? add_frame(list, "_call_impl", "torch/nn/modules/module.py", 0)
                                                 : MT_OK;
}

mt_status mt_profile_frames(struct mt_value_store *store, struct mt_profile_call *calls, uint32_t count,
                            struct mt_value *out)
{
    assert(count <= MT_PROFILE_MOST_OPEN);
    struct list list = {.store = store};
    for (uint32_t i = count; i > 0; i--)
        MT_TRY(add_call(&list, &calls[i - 1]));
    MT_TRY(add_program(&list));
    return mt_value_store_share(store, MT_VALUE_LIST, list.frames, list.count, out);
}

mt_status mt_profile_frame(struct mt_value_store *store, const char *name, const char *file, struct mt_value *out)
{
    struct list list = {.store = store};
    MT_TRY(add_frame(&list, name, file, 0));
    return mt_value_store_share(store, MT_VALUE_LIST, list.frames, list.count, out);
}
