#include "producers/torch/torch_plan.h"

#include "base/lock.h"
#include "device/device.h"
#include "operators/operator_plan.h"
#include "producers/torch/torch_convolution.h"
#include "producers/torch/torch_library.h"
#include "run/live_bounds.h"
#include "run/live_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COUNTED = 512, LONGEST_NAME = 96 };

/* The calls of operators, each by its name. */
struct counts {
    struct {
        char name[LONGEST_NAME];
        uint64_t calls, bytes;
    } rows[MOST_COUNTED];
    int count;
};

static struct {
    struct mt_lock lock;
    struct mt_card card;   /* the simulated one; its name is empty until it is asked for */
    struct counts unknown; /* not in the table */
    struct counts guessed; /* whose plan has MT_INNER_GUESS */
} plans = {.lock = MT_LOCK(MT_RANK_PLANS)};

/* Returns the simulated card; without one, the reference card. */
static struct mt_card find_card(void)
{
    struct mt_device *device = NULL;
    struct mt_card card = mt_card_reference();
    const char *spelling = mt_torch_simulated();
    if (spelling != NULL && mt_device_open(spelling, &device) == MT_OK) {
        card = device->card;
        mt_device_close(device);
    }
    card.matmul_workspace_bytes =
        mt_matmul_workspace(secure_getenv("CUBLAS_WORKSPACE_CONFIG"), card.matmul_workspace_bytes);
    return card;
}

static const struct mt_card *card_now(void)
{
    mt_lock_take(&plans.lock);
    if (plans.card.name[0] == '\0')
        plans.card = find_card();
    mt_lock_give(&plans.lock);
    return &plans.card;
}

int memtrace_torch_has_plan(const char *name)
{
    const struct mt_operator_row *row = mt_operator_find(name);
    return row == NULL ? MT_INNER_UNKNOWN : row->rule != NULL;
}

int memtrace_torch_plan(const struct mt_operator_call *call, struct mt_inner *out)
{
    return mt_operator_plan(card_now(), mt_torch_convolutions(), call, out);
}

int memtrace_torch_attention(const struct mt_attention_request *request)
{
    return mt_attention_choose(card_now(), request);
}

/* Counts a call. Operators beyond the most that are kept are left out. */
static void add_call(struct counts *counts, const char *name, uint64_t bytes)
{
    int i = 0;
    mt_lock_take(&plans.lock);
    while (i < counts->count && strcmp(counts->rows[i].name, name) != 0)
        i++;
    if (i == counts->count && i < MOST_COUNTED)
        snprintf(counts->rows[counts->count++].name, sizeof counts->rows[i].name, "%s", name);
    if (i < counts->count) {
        counts->rows[i].calls++;
        counts->rows[i].bytes += bytes;
    }
    mt_lock_give(&plans.lock);
}

/* Returns the name at that place, NULL after the last. */
static const char *read_count(const struct counts *counts, int place, uint64_t *out_calls, uint64_t *out_bytes)
{
    const char *name = NULL;
    mt_lock_take(&plans.lock);
    if (place >= 0 && place < counts->count) {
        name = counts->rows[place].name;
        *out_calls = counts->rows[place].calls;
        *out_bytes = counts->rows[place].bytes;
    }
    mt_lock_give(&plans.lock);
    return name;
}

void memtrace_torch_count_unknown(const char *name, uint64_t bytes)
{
    add_call(&plans.unknown, name, bytes);
}

void memtrace_torch_count_guess(const char *name)
{
    add_call(&plans.guessed, name, 0);
}

void memtrace_torch_about(int device, int64_t bytes, const struct mt_byte_range *range)
{
    struct mt_live_run *run = mt_torch_run_of(device);
    if (run != NULL && bytes >= 0)
        mt_live_run_estimate(run, (uint64_t)bytes,
                             &(struct mt_estimate_range){(uint64_t)range->low, (uint64_t)range->high});
}

const char *memtrace_torch_unknown(int place, uint64_t *out_calls, uint64_t *out_bytes)
{
    return read_count(&plans.unknown, place, out_calls, out_bytes);
}

void memtrace_torch_took(int way)
{
    mt_torch_convolutions_took(way);
}

void memtrace_torch_tried(void)
{
    mt_torch_convolutions_tried();
}

void memtrace_torch_keep_cache(int keeps_cache)
{
    mt_torch_convolutions_keep_cache(keeps_cache != 0);
}

void memtrace_torch_cudnn(const char *program, const char *library, const char *folder)
{
    mt_torch_convolutions_ask(program, library, folder);
}

const char *memtrace_torch_estimate(int place, uint64_t *out_calls)
{
    uint64_t bytes;
    int convolutions = 0;
    const char *words = mt_torch_convolutions_estimate(place, out_calls);
    while (mt_torch_convolutions_estimate(convolutions, &bytes) != NULL)
        convolutions++;
    return words != NULL ? words : read_count(&plans.guessed, place - convolutions, out_calls, &bytes);
}
