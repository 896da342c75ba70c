/* Requirements for an import of a PyTorch training step: the module of activations, and a category for every block. */
#pragma once

#include "recorder_fixture.h"

/* Expects that 95 % of a run's activation bytes are in spans of a module's forward. */
static inline void expect_activations_in_modules(const char *trace, int run)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT ifnull(sum(requested_bytes * (path LIKE '%%forward:%%')) * 100 / sum(requested_bytes), 0)"
             " FROM run JOIN event ON event.id BETWEEN first_event AND first_event + event_count - 1"
             " JOIN label ON label.run = run.id AND label.id = event.label"
             " LEFT JOIN span ON span.run = run.id AND span.id = label.span"
             " WHERE run.id = %d AND kind = 2 AND role = 'activation'",
             run);
    int64_t percent = sql_integer(trace, sql);
    if (percent < 95)
        fail_msg("run %d: %lld %% of activations lie in modules", run, (long long)percent);
}

/* Expects that at most 1 % of the peak has no category. */
static inline void expect_hardly_any_other(const char *trace, int run)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM summary_peak_category JOIN summary_peak USING (run, step, measure) WHERE run = %d"
             " AND category = 'Other' AND summary_peak_category.allocated_bytes * 100 > summary_peak.bytes",
             run);
    assert_int_equal(sql_integer(trace, sql), 0);
}
