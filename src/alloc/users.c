/* Who uses a block beside its own stream: told by mt_alloc_use_on, and heeded when the block is given back.
 *
 *   own stream    ── take ── write ────────────────── (wait) ── reuse
 *   another             └─ wait ── read ── read ──┐      ▲
 *                                     give: ──────┴──────┘ follow
 *
 * The wait is one of the device's queues: the host goes on at once. */
#include "alloc/block.h"
#include "base/memory.h"

static struct mt_user *user_create(struct mt_block_store *store)
{
    struct mt_user *user = store->spare_user;
    if (user == NULL)
        return mt_host_alloc(sizeof *user);
    store->spare_user = user->next;
    return user;
}

static bool is_used_on(const struct mt_block *block, mt_stream stream)
{
    if (stream == block->segment->stream)
        return true;
    const struct mt_user *user = block->users;
    while (user != NULL && user->stream != stream)
        user = user->next;
    return user != NULL;
}

void mt_alloc_use_on(struct mt_alloc *alloc, struct mt_block *block, mt_stream stream)
{
    mt_biased_lock_take(&alloc->lock);
    if (!is_used_on(block, stream)) {
        struct mt_user *user = user_create(&alloc->store);
        *user = (struct mt_user){.next = block->users, .stream = stream};
        block->users = user;
    }
    mt_biased_lock_give(&alloc->lock);
}

void mt_block_forget_users(struct mt_alloc *alloc, struct mt_block *block)
{
    while (block->users != NULL) {
        struct mt_user *user = block->users;
        block->users = user->next;
        user->next = alloc->store.spare_user;
        alloc->store.spare_user = user;
    }
}

/* A queue that can't wait for another is broken, or its device is; waiting here for everything is what is left to
 * do. */
void mt_block_follow_users(struct mt_alloc *alloc, struct mt_block *block)
{
    for (const struct mt_user *user = block->users; user != NULL; user = user->next)
        if (mt_device_follow(alloc->device, block->segment->stream, user->stream) != MT_OK)
            (void)mt_device_synchronize(alloc->device);
    mt_block_forget_users(alloc, block);
}
