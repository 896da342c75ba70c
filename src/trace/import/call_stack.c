#include "trace/import/call_stack.h"

#include "base/memory.h"
#include "base/text.h"
#include "trace/import/glob.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char operator_prefix[] = "at::_ops::";
static const char recorded_prefix[] = "torch::autograd::VariableType::";
static const char engine_prefix[] = "torch::autograd::Engine::";
static const char sum_prefix[] = "torch::autograd::InputBuffer::";
static const char apply_word[] = "::apply(";

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* True for names that end as Python's files do, and for code without a file, such as "<stdin>". */
static bool is_python_file(const char *file)
{
    size_t length = strlen(file);
    return file[0] == '<' || (length > 3 && strcmp(file + length - 3, ".py") == 0);
}

/* Adds so many characters as a name to the set. Sets *out to it and returns its number. */
static uint32_t keep_name(struct mt_name_set *names, const char *name, size_t length, const char **out)
{
    assert(length <= INT32_MAX);
    struct mt_text text = {0};
    mt_text_add(&text, "%.*s", (int)length, name);
    uint32_t number = mt_name_set_number(names, mt_text_get(&text), NULL);
    mt_text_release(&text);
    *out = mt_name_set_name(names, number);
    return number;
}

/* Returns the path with "/" between its parts, as rules and spans have it, also where Windows wrote it. */
static const char *read_path(const char *file, struct mt_name_set *names)
{
    const char *kept;
    if (strchr(file, '\\') == NULL)
        return file;
    char *path = mt_host_strdup(file);
    for (char *at = path; *at != '\0'; at++)
        *at = *at == '\\' ? '/' : *at;
    keep_name(names, path, strlen(path), &kept);
    free(path);
    return kept;
}

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

/* Reads the operator of at::_ops::NAME:: */
static void read_operator(const char *name, struct mt_name_set *names, struct mt_call_stack *out)
{
    if (!begins(name, operator_prefix))
        return;
    const char *found;
    const char *word = name + strlen(operator_prefix);
    keep_name(names, word, word_length(word), &found);
    if (out->operator_count == 0 || out->operators[out->operator_count - 1] != found)
        out->operators[out->operator_count++] = found;
}

/* Reads the operator of …::VariableType::(anonymous namespace)::NAME( */
static void read_recorded(const char *name, struct mt_name_set *names, struct mt_call_stack *out)
{
    if (out->recorded_number != 0 || !begins(name, recorded_prefix))
        return;
    const char *word = strstr(name, ")::");
    word = word != NULL ? word + strlen(")::") : name + strlen(recorded_prefix);
    size_t length = word_length(word);
    if (length > 0)
        out->recorded_number = keep_name(names, word, length, &out->recorded);
}

/* Reads the node of …::NODE::apply( */
static void read_node(const char *name, struct mt_name_set *names, struct mt_call_stack *out)
{
    if (out->node[0] != '\0' || !begins(name, "torch::autograd::"))
        return;
    const char *end = strstr(name, apply_word);
    if (end == NULL)
        return;
    const char *word = end;
    while (word > name && (isalnum((unsigned char)word[-1]) || word[-1] == '_'))
        word--;
    keep_name(names, word, (size_t)(end - word), &out->node);
}

static void read_frame(const struct mt_call_frame *frame, struct mt_name_set *names, struct mt_call_stack *out)
{
    if (frame->is_python) {
        out->has_python = true;
        out->is_recomputed |= mt_glob_fits_file("torch/utils/checkpoint.py", frame->file);
        return;
    }
    read_operator(frame->name, names, out);
    read_recorded(frame->name, names, out);
    read_node(frame->name, names, out);
    out->is_input_sum |= begins(frame->name, sum_prefix);
    out->is_engine |= begins(frame->name, engine_prefix);
}

void mt_call_stack_read(const struct mt_value *frames, struct mt_name_set *names, struct mt_call_stack *out)
{
    struct mt_value_key name = MT_VALUE_KEY("name"), file = MT_VALUE_KEY("filename"), line = MT_VALUE_KEY("line");
    uint32_t count = frames->kind == MT_VALUE_LIST ? mt_value_count(frames) : 0;
    *out = (struct mt_call_stack){.node = "", .recorded = ""};
    out->frames = mt_host_alloc((count + 1) * sizeof *out->frames);
    out->operators = mt_host_alloc((count + 1) * sizeof *out->operators);
    for (uint32_t i = 0; i < count; i++) {
        const struct mt_value *value = mt_value_at(frames, i);
        struct mt_call_frame *frame = &out->frames[out->frame_count++];
        frame->name = mt_value_text(mt_value_get(value, &name));
        frame->file = read_path(mt_value_text(mt_value_get(value, &file)), names);
        mt_value_integer(mt_value_get(value, &line), &frame->line);
        frame->is_python = is_python_file(frame->file);
        read_frame(frame, names, out);
    }
    assert(out->operator_count <= out->frame_count && (out->recorded_number == 0) == (out->recorded[0] == '\0'));
}

void mt_call_stack_release(struct mt_call_stack *stack)
{
    free(stack->frames);
    free(stack->operators);
}

bool mt_call_stack_is_forward(const struct mt_call_stack *stack)
{
    return stack->recorded_number != 0 && (!stack->is_engine || stack->is_recomputed);
}

bool mt_call_stack_is_backward(const struct mt_call_stack *stack)
{
    return stack->is_engine && !stack->is_recomputed;
}

bool mt_call_stack_is_between(const struct mt_call_stack *stack)
{
    return mt_call_stack_is_backward(stack) && stack->node[0] == '\0';
}

/* Returns the length of the name before its overload, which follows an underscore and begins with a capital or is
 * "out". */
static size_t length_without_overload(const char *name)
{
    for (size_t i = 1; name[i] != '\0'; i++)
        if (name[i] == '_' && (isupper((unsigned char)name[i + 1]) || strcmp(name + i, "_out") == 0))
            return i;
    return strlen(name);
}

const char *mt_call_stack_op(const struct mt_call_stack *stack, struct mt_name_set *names)
{
    const char *name = stack->recorded, *kept;
    if (name[0] == '\0' && stack->operator_count > 0)
        name = stack->operators[stack->operator_count - 1];
    if (name[0] == '\0')
        return "";
    keep_name(names, name, length_without_overload(name), &kept);
    return kept;
}

/* Returns the next character of an operator's name that is compared. */
static const char *skip_underscores(const char *name)
{
    return name + strspn(name, "_");
}

bool mt_node_undoes(const char *node, const char *operation)
{
    const char *end = strstr(node, "Backward");
    if (end == NULL || end == node)
        return false;
    const char *at = skip_underscores(operation);
    for (; node < end; node++, at = *at != '\0' ? at + 1 : at) {
        at = skip_underscores(at);
        if (tolower((unsigned char)*node) != tolower((unsigned char)*at))
            return false;
    }
    return *at == '\0' || *at == '_';
}
