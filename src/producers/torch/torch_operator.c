#include "producers/torch/torch_operator.h"

#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_backward.h"
#include "producers/torch/torch_generated.h"
#include "producers/torch/torch_matmul.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators within more than these are not kept. */
enum { MOST_OPERATORS = 64 };

/* Invariant: open[0 .. depth) have begun and not ended, outermost first. A later call may have the same address. */
static _Thread_local struct operators {
    uint32_t depth;
    uint64_t begun;
    struct {
        const void *call;
        const char *name;
        uint64_t number; /* of the call, from 1 */
    } open[MOST_OPERATORS];
} operators;

void mt_torch_operator_begin(const void *call, const char *name)
{
    assert(name != NULL && operators.depth <= MOST_OPERATORS);
    if (operators.depth == MOST_OPERATORS)
        return;
    operators.open[operators.depth].call = call;
    operators.open[operators.depth].number = ++operators.begun;
    operators.open[operators.depth++].name = name;
}

/* Also ends those within it. One that was not kept, or began in another thread, is none of these. */
void mt_torch_operator_end(const void *call)
{
    for (uint32_t i = operators.depth; i > 0; i--)
        if (operators.open[i - 1].call == call) {
            operators.depth = i - 1;
            return;
        }
}

/* True for an operator that only takes memory, for the one around it. */
static bool only_takes(const char *name)
{
    static const char *const beginnings[] = {"aten::empty", "aten::new_empty", "aten::resize_"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* Returns the number of the operator that a block is named after; 0 if no operator is open. */
static uint16_t operator_now(struct mt_torch_names *names)
{
    uint16_t innermost = 0;
    for (uint32_t i = 0; i < operators.depth; i++) {
        const char *name = operators.open[i].name;
        bool has_kernel;
        if (only_takes(name) && (innermost != 0 || i + 1 < operators.depth))
            continue;
        innermost = mt_torch_names_operator(names, name, &has_kernel);
        if (has_kernel)
            break;
    }
    return innermost;
}

/* A program's own conversion begins with the operator of a method: aten::to, or aten::_to_copy.
 *
 *   aten::linear ▶ aten::to ▶ aten::_to_copy ▶ aten::copy_     autocast's */
bool mt_torch_operator_is_inner_cast(void)
{
    if (operators.depth == 0 || strcmp(operators.open[0].name, "aten::to") == 0)
        return false;
    for (uint32_t i = operators.depth; i > 1; i--)
        if (strcmp(operators.open[i - 1].name, "aten::_to_copy") == 0)
            return true;
    return false;
}

/* ---- nodes of autograd ---- */

enum { LONGEST_NAME = 128 };

/* Returns the class's own name, without its namespaces and parameters: each part of "N5torch8autograd11MmBackward0E"
 * comes after its length. */
static const char *read_class(const char *text, char out[LONGEST_NAME])
{
    const char *name = text;
    size_t length = 0;
    text += *text == 'N';
    while (*text >= '1' && *text <= '9') {
        length = (size_t)atoi(text);
        text += strspn(text, "0123456789");
        name = text;
        text += strnlen(text, length);
    }
    snprintf(out, LONGEST_NAME, "%.*s", (int)length, name);
    return strcmp(out, "PyNode") == 0 ? "autograd.Function" : out; /* of Python, whose name takes Python's lock */
}

struct mt_torch_label mt_torch_operator_label(struct mt_torch_names *names)
{
    char own[LONGEST_NAME];
    const char *class_name;
    struct mt_torch_label label = mt_torch_label_here(&class_name);
    mt_torch_generated_label(names, &label);
    label.operator_number = operator_now(names);
    if (label.operator_number == 0 && class_name != NULL)
        label.operator_number = mt_torch_names_operator(names, read_class(class_name, own), NULL);
    return label;
}

bool mt_torch_operator_gets_workspace(struct mt_torch_names *names, const struct mt_torch_label *label, uint64_t bytes)
{
    for (uint32_t i = operators.depth; i > 0; i--)
        if (!only_takes(operators.open[i - 1].name))
            return mt_torch_is_matmul_workspace(operators.open[i - 1].name, operators.open[i - 1].number, bytes);
    return label->operator_number > 0 &&
           mt_torch_is_matmul_workspace(mt_torch_names_operator_name(names, label->operator_number), 0, bytes);
}

/* ---- the observer ---- */

static const struct mt_torch_observer *_Atomic observer;
static atomic_bool is_paused;

void mt_torch_operator_observe(const struct mt_torch_observer *given)
{
    observer = given;
    is_paused = false;
}

/* Pauses and resumes only where that changes something: after each, PyTorch's threads look for their observers anew. */
void mt_torch_operator_phase(mt_phase phase)
{
    const struct mt_torch_observer *now = observer;
    const bool pauses = phase == MT_PHASE_BACKWARD;
    if (now == NULL || atomic_exchange(&is_paused, pauses) == pauses)
        return;
    if (pauses)
        now->pause();
    else
        now->resume();
}
