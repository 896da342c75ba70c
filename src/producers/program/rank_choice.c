#include "producers/program/rank_choice.h"

#include <assert.h>

void mt_rank_choice_begin(int64_t ranks, struct mt_rank_choice *out)
{
    *out = (struct mt_rank_choice){.ranks = ranks};
    assert(ranks > 0);
    for (int64_t factor = 2; ranks > 1; factor++) {
        if (factor * factor > ranks)
            factor = ranks;
        for (; ranks % factor == 0; ranks /= factor) {
            assert(out->digits < MT_MOST_DIGITS);
            out->radix[out->digits++] = factor;
        }
    }
}

/* Calls `visit` with each digit and the two ranks that differ from rank 0 only in it: by its least and its greatest
 * value. */
static void each_digit(const struct mt_rank_choice *choice,
                       void (*visit)(void *context, int digit, int64_t least, int64_t most), void *context)
{
    int64_t stride = 1;
    for (int digit = 0; digit < choice->digits; digit++) {
        visit(context, digit, stride, stride * (choice->radix[digit] - 1));
        stride *= choice->radix[digit];
    }
    assert(stride == choice->ranks);
}

struct adding {
    void (*add)(void *context, int64_t rank);
    void *context;
};

static void add_both(void *context, int digit, int64_t least, int64_t most)
{
    const struct adding *adding = context;
    (void)digit;
    adding->add(adding->context, least);
    adding->add(adding->context, most);
}

void mt_rank_choice_first(const struct mt_rank_choice *choice, void (*add)(void *context, int64_t rank), void *context)
{
    struct adding adding = {add, context};
    add(context, 0);
    each_digit(choice, add_both, &adding);
    add(context, choice->ranks - 1);
}

struct learning {
    struct mt_rank_choice *choice;
    bool (*is_like_first)(void *context, int64_t rank);
    void *context;
};

static void learn_digit(void *context, int digit, int64_t least, int64_t most)
{
    const struct learning *learning = context;
    const bool is_like =
        learning->is_like_first(learning->context, least) && learning->is_like_first(learning->context, most);
    learning->choice->counts[digit] = !is_like;
}

void mt_rank_choice_learn(struct mt_rank_choice *choice, bool (*is_like_first)(void *context, int64_t rank),
                          void *context)
{
    struct learning learning = {choice, is_like_first, context};
    each_digit(choice, learn_digit, &learning);
}

int64_t mt_rank_choice_stand_in(const struct mt_rank_choice *choice, int64_t rank)
{
    int64_t stride = 1, found = 0;
    assert(rank >= 0 && rank < choice->ranks);
    for (int digit = 0; digit < choice->digits; digit++) {
        if (choice->counts[digit])
            found += rank / stride % choice->radix[digit] * stride;
        stride *= choice->radix[digit];
    }
    return found;
}
