#include "words/role_words.h"

#include "base/label.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static bool is(const char *word, const char *other)
{
    return strcmp(word, other) == 0;
}

/* True if the block was live in another phase, or step, than the one that took it. */
static bool is_outliving(const struct mt_explained_row *block)
{
    return !block->is_freed || block->freed.step != block->taken.step || !is(block->freed.phase, block->phase);
}

/* The lives of roles, by which they are inferred. */
static const struct {
    const char *role, *phases;
    bool outlives;
    const char *words;
} lives[] = {
    {"parameter", "init", true, "it was there before the first forward, and stayed"},
    {"optimizer state", "optimizer", true, "the optimizer took it, and it outlived the update"},
    {"gradient", "backward", true, "backward took it, and it outlived backward"},
    {"activation", "forward loss", true, "forward took it, and it was live after forward"},
    {"temporary", "init forward loss backward optimizer", false, "it was freed in the phase that took it"},
    {"input", "forward init", true, "it was taken outside of modules, and forward found it there"},
};

/* Returns the words for the block's life; NULL if its role does not follow from that. */
static const char *life_of(const struct mt_explained_row *block)
{
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++)
        if (is(block->role, lives[i].role) && strstr(lives[i].phases, block->phase) != NULL &&
            (is_outliving(block) == lives[i].outlives || is(block->role, mt_role_name(MT_ROLE_INPUT))))
            return lives[i].words;
    return NULL;
}

static bool is_of_init(const struct mt_explained_row *block)
{
    return is(block->phase, mt_phase_name(MT_PHASE_INIT));
}

/* True if nothing is known of its role. */
static bool has_no_role(const struct mt_explained_row *block)
{
    return is(block->role, mt_role_name(MT_ROLE_OTHER)) || is(block->role, mt_role_name(MT_ROLE_UNKNOWN));
}

/* True if blocks of its size from before the first step have several roles: which has which is not known. */
static bool is_one_of_equals(const struct mt_explained_row *block)
{
    assert(block->alike_of_role <= block->alike);
    return is_of_init(block) && !block->is_freed && block->alike_of_role < block->alike;
}

const char *mt_role_sureness(const struct mt_explained_row *block)
{
    if (is(block->found, ""))
        return "unknown";
    if (!is(block->found, mt_role_source_name(MT_ROLE_SOURCE_INFERRED)))
        return "certain";
    if (is_one_of_equals(block) || (life_of(block) == NULL && is_of_init(block)) || has_no_role(block))
        return "a guess";
    return "likely";
}

void mt_role_evidence(const struct mt_explained_row *block, struct mt_text *text)
{
    const char *life = life_of(block);
    if (is(block->found, ""))
        mt_text_add(text, "an older program stored the run without saying");
    else if (is(block->found, mt_role_source_name(MT_ROLE_SOURCE_DECLARED)))
        mt_text_add(text, "the program said so");
    else if (is(block->found, mt_role_source_name(MT_ROLE_SOURCE_OBSERVED)))
        mt_text_add(text, "a hook in the program saw what the tensor is");
    else if (is_one_of_equals(block))
        mt_text_add(text,
                    "%" PRId64 " blocks of its size were there before the first step, and sizes say that %" PRId64
                    " of them have this role",
                    block->alike, block->alike_of_role);
    else if (life == NULL && is_of_init(block) && block->is_freed)
        mt_text_add(text, "it was there before the first step, and %s freed it", block->freed.phase);
    else if (has_no_role(block))
        mt_text_add(text, "neither its lifetime nor a rule determines it");
    else
        mt_text_add(text, "%s", life != NULL ? life : "a rule for its call stack or size says so");
}
