/* Two emitters become one sequence: the allocator and the notes of a program emit from threads of their own, and the
 * events that arrive obey base/event.h as if there were one emitter. */
#include "alloc_opening.h"
#include "base/interner.h"
#include "base/random.h"
#include "event_shadow.h"
#include "run/locked_sink.h"
#include "seed.h"
#include "trace/store/foreign.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SLOTS = 30, ROUNDS = 4000, MIB = 1 << 20, SEGMENT_UNIT = 2 * MIB /* the shadow needs whole ones */ };

struct target {
    struct mt_interner *interner;
    struct shadow shadow;
    struct mt_sink sink;
};

static void take_event(void *context, const struct mt_event *event)
{
    shadow_apply(&((struct target *)context)->shadow, event);
}

static mt_label_id intern_label(void *context, const struct mt_label *label)
{
    return mt_interner_label(((struct target *)context)->interner, label, NULL);
}

static mt_category intern_category(void *context, const char *name)
{
    return mt_interner_category(((struct target *)context)->interner, name);
}

static mt_frame_id intern_frame(void *context, const struct mt_frame *frame)
{
    return mt_interner_frame(((struct target *)context)->interner, frame, NULL);
}

static mt_stack_id intern_stack(void *context, mt_stack_id parent, mt_frame_id frame)
{
    return mt_interner_stack(((struct target *)context)->interner, parent, frame, NULL);
}

static struct target *make_target(void)
{
    struct target *target = calloc(1, sizeof *target);
    target->interner = mt_interner_create();
    target->sink = (struct mt_sink){.context = target,
                                    .emit = take_event,
                                    .intern_label = intern_label,
                                    .intern_category = intern_category,
                                    .intern_frame = intern_frame,
                                    .intern_stack = intern_stack};
    return target;
}

static void free_target(struct target *target)
{
    mt_interner_destroy(target->interner);
    free(target);
}

/* The random actions of each of the two. */
struct actor {
    const struct mt_sink *sink;
    uint64_t seed;
    struct mt_alloc *alloc;     /* of one */
    struct mt_foreign *foreign; /* of the other */
    struct mt_block *blocks[SLOTS];
    bool is_noted[SLOTS];
    uint64_t live_bytes;
};

static mt_label_id label_of(const struct mt_sink *sink, unsigned number)
{
    struct mt_label label = {.category = MT_CATEGORY_OTHER, .op = "", .layer = -1, .dims = 1, .shape = {number}};
    return sink->intern_label(sink->context, &label);
}

static uint64_t next(struct actor *actor)
{
    return mt_splitmix64(actor->seed++);
}

static void *allocate(void *given)
{
    struct actor *actor = given;
    for (int i = 0; i < ROUNDS; i++) {
        struct mt_block **block = &actor->blocks[next(actor) % SLOTS];
        if (*block != NULL) {
            actor->live_bytes -= mt_block_requested_bytes(*block);
            mt_alloc_give(actor->alloc, *block);
            *block = NULL;
        } else {
            uint64_t bytes = 1 + next(actor) % (4 * MIB);
            assert_int_equal(mt_alloc_take(actor->alloc, bytes, 0, label_of(actor->sink, (unsigned)i % 9), 0, block),
                             MT_OK);
            actor->live_bytes += bytes;
        }
        if (i % 500 == 0)
            mt_alloc_release_cached(actor->alloc);
    }
    return NULL;
}

static void *note(void *given)
{
    struct actor *actor = given;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned slot = (unsigned)(next(actor) % SLOTS);
        struct mt_foreign_block block = {.address = (uint64_t)(slot + 1) << 50,
                                         .requested_bytes = (slot + 1u) * SEGMENT_UNIT};
        if (actor->is_noted[slot]) {
            mt_foreign_give(actor->foreign, 0, block.address);
            actor->live_bytes -= block.requested_bytes;
        } else {
            block.label = label_of(actor->sink, 1000);
            mt_foreign_take(actor->foreign, 0, &block);
            actor->live_bytes += block.requested_bytes;
        }
        actor->is_noted[slot] = !actor->is_noted[slot];
    }
    return NULL;
}

static void what_two_emit_is_one_sequence(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    struct target *target = make_target();
    struct mt_locked_sink locked;
    mt_locked_sink_create(&locked, &target->sink, 2);
    struct actor allocator = {.sink = &locked.sources[0].sink, .seed = seed};
    struct actor noter = {.sink = &locked.sources[1].sink, .seed = ~seed};
    struct mt_device *device = open_device("sim");
    allocator.alloc = create_alloc(device, "policy=torch", allocator.sink);
    noter.foreign = mt_foreign_create(noter.sink);

    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, allocate, &allocator), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, note, &noter), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    assert_int_equal(target->shadow.contradictions, 0);
    assert_int_equal(target->shadow.next_sequence, locked.sequence);
    assert_true(locked.sequence >= 2 * ROUNDS);
    assert_int_equal(target->shadow.requested_bytes, allocator.live_bytes + noter.live_bytes);
    mt_foreign_destroy(noter.foreign);
    mt_alloc_destroy(allocator.alloc);
    mt_device_close(device);
    mt_locked_sink_release(&locked);
    free_target(target);
}

static void names_of_categories_are_shared(void **state)
{
    (void)state;
    struct target *target = make_target();
    struct mt_locked_sink locked;
    mt_locked_sink_create(&locked, &target->sink, 2);
    mt_category mine = mt_sink_category(&locked.sources[0].sink, "Mine");
    assert_true(mine >= MT_CATEGORY_COUNT);
    assert_int_equal(mt_sink_category(&locked.sources[1].sink, "Mine"), mine);
    assert_int_equal(mt_sink_category(&locked.sources[1].sink, "Param"), MT_CATEGORY_PARAM);
    mt_locked_sink_release(&locked);
    free_target(target);
}

static void call_stacks_are_shared(void **state)
{
    (void)state;
    struct target *target = make_target();
    const struct mt_frame caller = {"main", "train.py", 40}, callee = {"forward", "model.py", 12};
    struct mt_locked_sink locked;
    mt_locked_sink_create(&locked, &target->sink, 2);
    const struct mt_sink *one = &locked.sources[0].sink, *other = &locked.sources[1].sink;
    mt_stack_id main_stack = mt_sink_stack(one, 0, &caller), stack = mt_sink_stack(one, main_stack, &callee);
    assert_true(main_stack != 0 && stack != 0 && stack != main_stack);
    assert_int_equal(mt_sink_stack(other, 0, &caller), main_stack);
    assert_int_equal(mt_sink_stack(other, main_stack, &callee), stack);
    const struct mt_stack *known = mt_interner_find_stack(target->interner, stack);
    assert_int_equal(known->parent, main_stack);
    assert_string_equal(mt_interner_find_frame(target->interner, known->frame)->function, "forward");
    mt_locked_sink_release(&locked);
    free_target(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_two_emit_is_one_sequence),
        cmocka_unit_test(names_of_categories_are_shared),
        cmocka_unit_test(call_stacks_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
