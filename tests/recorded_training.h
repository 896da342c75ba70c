/* A training run whose events and uses are kept (recording.h). */
#pragma once

#include "producers/model/training.h"
#include "recording.h"

/* Trains on `device` (a spelling) with allocator settings `alloc`; `stats` (may be NULL) are those at the end. */
static inline mt_status recording_train(struct recording *recording, const char *device, const char *alloc,
                                        const struct mt_training_config *config,
                                        const struct mt_training_observer *observer, struct mt_alloc_stats *stats)
{
    struct mt_device *opened = NULL;
    struct mt_alloc *allocator = NULL;
    struct mt_alloc_settings settings;
    struct mt_sink sink = recording_sink(recording);
    mt_status status = mt_alloc_settings_parse(alloc, &settings);
    if (status == MT_OK)
        status = mt_model_device_open(device, &opened);
    if (status == MT_OK)
        status = mt_alloc_create(opened, &sink, &settings, &allocator);
    if (status == MT_OK)
        status = mt_training_run(opened, allocator, config, observer);
    if (allocator != NULL && stats != NULL)
        mt_alloc_stats(allocator, stats);
    if (allocator != NULL)
        mt_alloc_destroy(allocator);
    if (opened != NULL)
        mt_device_close(opened);
    return status;
}
