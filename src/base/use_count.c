#include "base/event.h"

#include <assert.h>

/* Adds a use; the pause before it may be the longest so far. */
static void touch(struct mt_use *use, uint64_t moment)
{
    assert(moment >= use->last && moment >= use->block); /* events are in order, and a use follows its alloc */
    if (use->reads + use->writes == 0)
        use->first = use->last = moment;
    if (moment - use->last > use->idle_to - use->idle_from) {
        use->idle_from = use->last;
        use->idle_to = moment;
    }
    use->last = moment;
}

void mt_use_add_read(struct mt_use *use, uint64_t moment)
{
    touch(use, moment);
    use->reads++;
    use->unread = false;
}

void mt_use_add_write(struct mt_use *use, uint64_t moment)
{
    touch(use, moment);
    use->writes++;
    use->unread = true;
}
