/* The figures of a benchmark, as tools/bench reads them: one line on stdout for each, its fields split by tabs. All
 * other output of a benchmark goes to stderr.
 *
 *   what   unit   ours   peer   bound   target
 *
 * An empty peer: there is nothing to compare with. An empty bound and target: nothing was promised. */
#pragma once

#include <math.h>
#include <stdio.h>

#define BENCH_AT_MOST "<="
#define BENCH_AT_LEAST ">="

/* `peer` is NAN where there is none; `bound` is one of the above, or "" with a target that is not read. */
static inline void bench_report(const char *what, const char *unit, double ours, double peer, const char *bound,
                                double target)
{
    printf("%s\t%s\t%.6g\t", what, unit, ours);
    if (!isnan(peer))
        printf("%.6g", peer);
    printf("\t%s\t", bound);
    if (bound[0])
        printf("%.6g", target);
    printf("\n");
    fflush(stdout);
}
