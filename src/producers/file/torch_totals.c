#include "producers/file/torch_totals.h"

#include "base/number_map.h"
#include "producers/file/import_reader.h"
#include "producers/file/torch_action.h"

#include <assert.h>

bool mt_torch_is_list(const struct mt_value *root)
{
    return root->kind == MT_VALUE_LIST && mt_value_find(mt_value_at(root, 0), "blocks")->kind == MT_VALUE_LIST;
}

const struct mt_value *mt_torch_segments_of(const struct mt_value *root, int64_t device)
{
    if (device == MT_IMPORT_HOST)
        return mt_value_find(root, "host_segments");
    return mt_torch_is_list(root) ? root : mt_value_find(root, "segments");
}

const struct mt_value *mt_torch_events_of(const struct mt_value *root, int64_t device)
{
    return device == MT_IMPORT_HOST ? mt_value_find(root, "host_traces")
                                    : mt_value_at(mt_value_find(root, "device_traces"), (uint32_t)device);
}

static uint64_t count_events(const struct mt_value *events)
{
    struct mt_value_key action = MT_VALUE_KEY("action");
    uint64_t count = 0;
    for (uint32_t i = 0; i < mt_value_count(events); i++)
        count += mt_torch_action_find(mt_value_get(mt_value_at(events, i), &action)) <= MT_TORCH_SEGMENT_UNMAP;
    return count;
}

static uint64_t natural_of(const struct mt_value *dict, struct mt_value_key *key)
{
    int64_t integer;
    return mt_value_integer(mt_value_get(dict, key), &integer) && integer >= 0 ? (uint64_t)integer : 0;
}

/* Counts the events of each device. `counted` has the count of each list, since devices may share lists. */
static void count_traces(const struct mt_value *root, struct mt_torch_totals *out)
{
    const uint32_t traces = mt_value_count(mt_value_find(root, "device_traces"));
    struct mt_number_map counted;
    mt_number_map_create(&counted);
    out->device_count = traces < MT_TORCH_MOST_DEVICES ? traces : MT_TORCH_MOST_DEVICES;
    for (uint32_t i = 0; i < out->device_count; i++) {
        const struct mt_value *events = mt_torch_events_of(root, i);
        const uint64_t key = mt_value_count(events) > 0 ? (uint64_t)(uintptr_t)events->items : 0;
        uint64_t *count = &out->devices[i].events;
        if (key == 0 || mt_number_map_get(&counted, key, count))
            continue;
        *count = count_events(events);
        mt_number_map_put(&counted, key, *count);
    }
    mt_number_map_release(&counted);
}

/* Adds up the segments of each device. In a list of only segments, they also determine the number of devices. */
static void count_segments(const struct mt_value *root, struct mt_torch_totals *out)
{
    const struct mt_value *segments = mt_torch_segments_of(root, 0);
    struct mt_value_key number = MT_VALUE_KEY("device"), total_size = MT_VALUE_KEY("total_size");
    for (uint32_t i = 0; i < mt_value_count(segments); i++) {
        const uint64_t device = natural_of(mt_value_at(segments, i), &number);
        if (device >= MT_TORCH_MOST_DEVICES)
            continue;
        if (mt_torch_is_list(root) && device >= out->device_count)
            out->device_count = (uint32_t)device + 1;
        out->devices[device].reserved_bytes += natural_of(mt_value_at(segments, i), &total_size);
    }
}

void mt_torch_totals_count(const struct mt_value *root, struct mt_torch_totals *out)
{
    const struct mt_value *host = mt_torch_segments_of(root, MT_IMPORT_HOST);
    struct mt_value_key total_size = MT_VALUE_KEY("total_size");
    *out = (struct mt_torch_totals){0};
    count_traces(root, out);
    count_segments(root, out);
    out->device_count = out->device_count > 0 ? out->device_count : 1;
    out->host.events = count_events(mt_torch_events_of(root, MT_IMPORT_HOST));
    for (uint32_t i = 0; i < mt_value_count(host); i++)
        out->host.reserved_bytes += natural_of(mt_value_at(host, i), &total_size);
    out->has_host = mt_value_count(host) + mt_value_count(mt_torch_events_of(root, MT_IMPORT_HOST)) > 0;
}

int64_t mt_torch_totals_busiest(const struct mt_torch_totals *totals)
{
    const struct mt_torch_total *busiest = &totals->devices[0];
    assert(totals->device_count > 0);
    for (uint32_t i = 1; i < totals->device_count; i++) {
        const struct mt_torch_total *total = &totals->devices[i];
        if (total->events > busiest->events ||
            (total->events == busiest->events && total->reserved_bytes > busiest->reserved_bytes))
            busiest = total;
    }
    const bool is_idle = busiest->events == 0 && busiest->reserved_bytes == 0;
    return is_idle && totals->has_host ? MT_IMPORT_HOST : busiest - totals->devices;
}

struct mt_torch_total mt_torch_totals_without(const struct mt_torch_totals *totals, int64_t device)
{
    struct mt_torch_total sum = device != MT_IMPORT_HOST ? totals->host : (struct mt_torch_total){0};
    for (uint32_t i = 0; i < totals->device_count; i++) {
        if (i == device)
            continue;
        sum.events += totals->devices[i].events;
        sum.reserved_bytes += totals->devices[i].reserved_bytes;
    }
    return sum;
}
