#include "producers/torch/torch_plan.h"

#include "base/lock.h"
#include "device/device.h"
#include "operators/operator_plan.h"
#include "producers/torch/torch_convolution.h"
#include "producers/torch/torch_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UNKNOWN = 512, LONGEST_NAME = 96 };

/* An operator that is not in the table. */
struct unknown {
    char name[LONGEST_NAME];
    uint64_t calls, bytes;
};

static struct {
    struct mt_lock lock;
    struct mt_card card; /* the simulated one; its name is empty until it is asked for */
    struct unknown unknown[MOST_UNKNOWN];
    int unknown_count;
} plans;

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

static struct unknown *find_unknown(const char *name)
{
    for (int i = 0; i < plans.unknown_count; i++)
        if (strcmp(plans.unknown[i].name, name) == 0)
            return &plans.unknown[i];
    if (plans.unknown_count == MOST_UNKNOWN)
        return NULL;
    struct unknown *added = &plans.unknown[plans.unknown_count++];
    snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

void memtrace_torch_count_unknown(const char *name, uint64_t bytes)
{
    mt_lock_take(&plans.lock);
    struct unknown *found = find_unknown(name);
    if (found != NULL) {
        found->calls++;
        found->bytes += bytes;
    }
    mt_lock_give(&plans.lock);
}

const char *memtrace_torch_unknown(int place, uint64_t *out_calls, uint64_t *out_bytes)
{
    const char *name = NULL;
    mt_lock_take(&plans.lock);
    if (place >= 0 && place < plans.unknown_count) {
        name = plans.unknown[place].name;
        *out_calls = plans.unknown[place].calls;
        *out_bytes = plans.unknown[place].bytes;
    }
    mt_lock_give(&plans.lock);
    return name;
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
    return mt_torch_convolutions_estimate(place, out_calls);
}
