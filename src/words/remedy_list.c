#include "words/remedy_list.h"

#include "base/memory.h"

#include <stdlib.h>

struct mt_remedy *mt_remedy_list_add(struct mt_remedy_list *remedies)
{
    struct mt_remedy *remedy = MT_HOST_ADD(remedies->items, remedies->count);
    *remedy = (struct mt_remedy){0};
    return remedy;
}

void mt_remedy_list_release(struct mt_remedy_list *remedies)
{
    for (size_t i = 0; i < remedies->count; i++) {
        mt_text_release(&remedies->items[i].what);
        mt_text_release(&remedies->items[i].how);
        mt_text_release(&remedies->items[i].change);
    }
    free(remedies->items);
    *remedies = (struct mt_remedy_list){0};
}

void mt_remedy_print(const struct mt_remedy *remedy, const struct mt_screen *screen)
{
    mt_screen_say(screen, "%s", mt_text_get(&remedy->what));
    if (remedy->how.length > 0)
        mt_screen_say(screen, "→ %s", mt_text_get(&remedy->how));
}
