#include "producers/file/torch_action.h"

#include <assert.h>
#include <string.h>

const char *mt_torch_action_name(mt_torch_action action)
{
    assert(action < MT_TORCH_ACTION_COUNT);
#define X(name, text) [MT_TORCH_##name] = text,
    static const char *const names[] = {MT_TORCH_ACTIONS(X)};
#undef X
    return names[action];
}

mt_torch_action mt_torch_action_find(const struct mt_value *value)
{
    const char *text = mt_value_text(value);
    mt_torch_action action = MT_TORCH_ALLOC;
    while (action < MT_TORCH_OTHER && strcmp(text, mt_torch_action_name(action)) != 0)
        action++;
    return action;
}
