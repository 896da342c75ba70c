/* Reads a trace: prints its peak by category, and its largest blocks.
 *
 *   cc ask.c -o ask $(pkg-config --cflags --libs memtrace)
 *   ./ask label.db          the newest run; ./ask label.db 1: another, by number or name */
#include <inttypes.h>
#include <memtrace.h>
#include <stdio.h>

static int fail(void)
{
    fprintf(stderr, "%s\n", memtrace_last_error());
    return 1;
}

static void print_peak(const memtrace_peak *peak)
{
    printf("peak %" PRIu64 " bytes, in step %" PRId64 ", %s, at \"%s\"\n", peak->bytes, peak->step, peak->phase,
           peak->span);
    for (size_t i = 0; i < peak->share_count; i++)
        printf("%14" PRIu64 "  %s, %" PRIu64 " blocks\n", peak->shares[i]->allocated_bytes, peak->shares[i]->category,
               peak->shares[i]->blocks);
}

static void print_top(const memtrace_top_row *const *rows, size_t count)
{
    printf("largest blocks at the peak\n");
    for (size_t i = 0; i < count; i++)
        printf("%6" PRIu64 " x %" PRIu64 "  %s %s %s, %s\n", rows[i]->count, rows[i]->bytes, rows[i]->category,
               rows[i]->dtype, rows[i]->shape, rows[i]->span);
}

int main(int argc, char **argv)
{
    memtrace_trace *trace = NULL;
    const memtrace_run_row *run = NULL;
    const memtrace_peak *peak = NULL;
    const memtrace_top_row *const *rows = NULL;
    size_t count = 0;
    if (memtrace_trace_open(argc > 1 ? argv[1] : "memtrace.db", &trace) != MEMTRACE_OK)
        return fail();
    int code = 0;
    if (memtrace_trace_find_run(trace, argc > 2 ? argv[2] : NULL, &run) != MEMTRACE_OK ||
        memtrace_trace_peak(trace, run, MEMTRACE_ALL_STEPS, MEMTRACE_ALLOCATED, &peak) != MEMTRACE_OK ||
        memtrace_trace_top(trace, run, MEMTRACE_AT_PEAK, 5, &rows, &count) != MEMTRACE_OK) {
        code = fail();
    } else {
        print_peak(peak);
        print_top(rows, count);
    }
    memtrace_free(rows);
    memtrace_free(peak);
    memtrace_trace_close(trace); /* last, since it owns the texts */
    return code;
}
