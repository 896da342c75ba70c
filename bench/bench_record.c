/* Overhead of `memtrace record`, and the difference between its account and the driver's. The programs are a C
 * program, one that uses managed memory, one that uses virtual memory, and training in PyTorch. They run in turns with
 * the same programs alone. card.h says how to start the benchmark; the programs are beside this one.
 *
 * A shared host varies in speed over time, and from processor to processor, by more than the overhead. So there are
 * several processes of either kind, all on the same two processors. Turns are many and as short as some milliseconds.
 * The figure is the median of the differences of the kinds within a turn. The difference between the processes that
 * are alone is reported, too: a smaller overhead can't be seen.
 *
 * The account is compared with the driver at two moments: when the program has nothing, and when it has as much as it
 * ever has. Nobody else takes or gives anything between them. At each the program asks the driver, and waits while the
 * trace is asked; the difference of the two moments is the same memory for both. The context, loaded code and the
 * driver's own memory are in use at both moments, and so are no part of it. Of managed memory the driver counts more
 * than the program asked for, depending on its use of the pages: there the two figures are reported without a target.
 *
 * A program of ours takes some seconds on a card. PyTorch's takes a minute, most of it to start. A name measures one
 * alone. */
#include "bench/card.h"
#include "bench/peer.h"
#include "bench/reserved_now.h"

#include <sched.h>

enum { MOST_TURNS = 200, SAID_BYTES = 4096, MOST_SECONDS = 120 /* for an answer, or to start: PyTorch takes 20 */ };
enum { PROCESSORS = 2 /* a program's own thread and those that it leaves work to */ };
enum { MOST_OVERHEAD_PERCENT = 3, MOST_DIFFERENCE_PERCENT = 1 };

/* Processes of one program: EACH that are alone, then EACH that are recorded, of which FIRST writes TRACE. */
enum { ALONE, RECORDED, KINDS, EACH = 3, FIRST = RECORDED * EACH, PROCESSES = KINDS * EACH };

/* A program that is measured. */
struct program {
    const char *name, *command;
    const char *step;           /* the request for a step's time, of some steps */
    int turns;                  /* at most MOST_TURNS */
    bool driver_has_more_bytes; /* than the program asks for */
};

/* Bytes in use at a moment, by the driver and by the trace. */
struct moment {
    double driver_bytes, trace_bytes;
};

static struct peer start(const char *command)
{
    struct peer peer = peer_start(command);
    peer.most_seconds = MOST_SECONDS;
    return peer;
}

static struct peer start_recorded(const struct bench *bench, const struct program *program, const char *options,
                                  const char *trace)
{
    char command[SAID_BYTES];
    snprintf(command, sizeof command, "exec '%s' record --trace %s %s -- %s", bench->asker.program, trace, options,
             program->command);
    return start(command);
}

static double ask_number(struct peer *peer, const char *request)
{
    double number;
    peer_ask(peer, &number, 1, "%s", request);
    return number;
}

/* Brings the recorded program to a moment, at which it stays until it is asked for something else. */
static struct moment ask_moment(struct bench *bench, struct peer *recorded, const char *request)
{
    struct moment moment = {.driver_bytes = ask_number(recorded, request)};
    usleep(RESERVED_SETTLES_US);
    moment.trace_bytes = number_of(bench, RESERVED_NOW_SQL);
    return moment;
}

/* Reports the bytes that the program took between the moments, by the trace and by the driver. */
static void report_bytes(struct bench *bench, const struct program *program, const char *what, struct moment empty,
                         struct moment full)
{
    char name[LONGEST];
    double bytes = full.trace_bytes - empty.trace_bytes, driver_bytes = full.driver_bytes - empty.driver_bytes;
    snprintf(name, sizeof name, "record: %s, %s, held at most", program->name, what);
    report(bench, name, "MiB", bytes / 1048576, driver_bytes / 1048576, "", 0);
    snprintf(name, sizeof name, "record: %s, %s, held at most, off the driver's", program->name, what);
    report(bench, name, "%", fabs(bytes / driver_bytes - 1) * 100, NAN,
           program->driver_has_more_bytes ? "" : BENCH_AT_MOST, MOST_DIFFERENCE_PERCENT);
}

/* Milliseconds of a step, by process and turn. */
struct times {
    int turns;
    double ms[PROCESSES][MOST_TURNS];
};

/* In each turn another process is first; the one before those that count is to warm up. False at the first that has no
 * answer: the others may have none either, and be waited for as long. */
static bool take_turns(const struct program *program, struct peer peers[PROCESSES], struct times *out)
{
    out->turns = program->turns;
    for (int turn = -1; turn < program->turns; turn++)
        for (int i = 0; i < PROCESSES; i++) {
            int process = (turn + 1 + i) % PROCESSES;
            double ms = ask_number(&peers[process], program->step);
            if (isnan(ms))
                return false;
            if (turn >= 0)
                out->ms[process][turn] = ms;
        }
    return true;
}

/* Of a kind's processes in a turn. */
static double turn_median(const struct times *times, int kind, int turn)
{
    double ms[EACH];
    for (int i = 0; i < EACH; i++)
        ms[i] = times->ms[kind * EACH + i][turn];
    return median_of(ms, EACH);
}

static double kind_median(const struct times *times, int kind)
{
    double ms[MOST_TURNS];
    for (int turn = 0; turn < times->turns; turn++)
        ms[turn] = turn_median(times, kind, turn);
    return median_of(ms, times->turns);
}

/* Of what a turn's recorded processes take over what those take that are alone. */
static double median_ratio(const struct times *times)
{
    double ratios[MOST_TURNS];
    for (int turn = 0; turn < times->turns; turn++)
        ratios[turn] = turn_median(times, RECORDED, turn) / turn_median(times, ALONE, turn);
    return median_of(ratios, times->turns);
}

/* The slowest process that is alone over the fastest, each by its median. */
static double alone_ratio(struct times *times)
{
    double ms[EACH];
    for (int i = 0; i < EACH; i++)
        ms[i] = median_of(times->ms[ALONE * EACH + i], times->turns);
    qsort(ms, EACH, sizeof ms[0], compare_numbers);
    return ms[EACH - 1] / ms[0];
}

/* Times are given up: their order is lost. */
static void report_costs(struct bench *bench, const struct program *program, const char *what, struct times *times)
{
    char name[LONGEST];
    snprintf(name, sizeof name, "record: %s, %s, step", program->name, what);
    report(bench, name, "ms", kind_median(times, RECORDED), kind_median(times, ALONE), "", 0);
    snprintf(name, sizeof name, "record: %s, %s, overhead", program->name, what);
    report(bench, name, "%", (median_ratio(times) - 1) * 100, NAN, BENCH_AT_MOST, MOST_OVERHEAD_PERCENT);
    snprintf(name, sizeof name, "record: %s, %s, alone, the slowest process beside the fastest", program->name, what);
    report(bench, name, "%", (alone_ratio(times) - 1) * 100, NAN, "", 0);
}

/* Writes the name of the trace of a recorded process other than FIRST into `trace`, and returns it. */
static const char *other_trace(char trace[LONGEST], int process)
{
    snprintf(trace, LONGEST, "other-%d.db", process);
    return trace;
}

/* Starts all but FIRST, and waits for them. False if there is one that can't be had. */
static bool open_others(const struct bench *bench, const struct program *program, const char *options,
                        struct peer peers[PROCESSES])
{
    bool are_there = true;
    char trace[LONGEST];
    for (int process = 0; process < PROCESSES; process++)
        if (process < FIRST)
            peers[process] = start(program->command);
        else if (process > FIRST)
            peers[process] = start_recorded(bench, program, options, other_trace(trace, process));
    for (int process = 0; process < PROCESSES; process++) {
        if (process != FIRST)
            peer_await(&peers[process]);
        are_there &= peer_is_there(&peers[process]);
    }
    return are_there;
}

static void close_all(struct peer peers[PROCESSES])
{
    char trace[LONGEST];
    for (int process = 0; process < PROCESSES; process++) {
        peer_close(&peers[process]);
        remove_trace_at(other_trace(trace, process));
    }
}

static void measure_recorded(struct bench *bench, const struct program *program, const char *what, const char *options)
{
    struct times times;
    struct peer peers[PROCESSES] = {0}, *first = &peers[FIRST];
    remove_trace();
    *first = start_recorded(bench, program, options, TRACE);
    peer_await(first);
    if (peer_is_there(first)) {
        struct moment empty = ask_moment(bench, first, "empty");
        report_bytes(bench, program, what, empty, ask_moment(bench, first, "full"));
    }
    if (peer_is_there(first) && open_others(bench, program, options, peers) && take_turns(program, peers, &times))
        report_costs(bench, program, what, &times);
    else
        fail(bench, program->name);
    close_all(peers);
}

/* peer_record, which lies beside this program, with memory of that kind. */
static void measure_ours(struct bench *bench, const char *kind, struct program program)
{
    char folder[SAID_BYTES / 2], command[SAID_BYTES];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    *(strrchr(folder, '/') != NULL ? strrchr(folder, '/') : folder) = '\0';
    snprintf(command, sizeof command, "'%s/peer_record' %s", folder, kind);
    program.command = command;
    measure_recorded(bench, &program, "memory", "");
}

static void measure_malloc(struct bench *bench)
{
    measure_ours(bench, "malloc", (struct program){.name = "C program", .step = "step 40", .turns = 60});
}

/* Pages come to the card as they are written: a step takes many times as long as the others'. */
static void measure_managed(struct bench *bench)
{
    measure_ours(
        bench, "managed",
        (struct program){.name = "managed memory", .step = "step 4", .turns = 60, .driver_has_more_bytes = true});
}

static void measure_virtual(struct bench *bench)
{
    measure_ours(bench, "virtual", (struct program){.name = "virtual memory", .step = "step 40", .turns = 60});
}

static void measure_pytorch(struct bench *bench)
{
    char command[SAID_BYTES];
    const struct program program = {.name = "PyTorch", .command = command, .step = "next 1", .turns = 150};
    if (bench->peers == NULL)
        return;
    snprintf(command, sizeof command, "python3 '%s/pytorch_eager.py' --model small --seq 128 --precision fp32",
             bench->peers);
    measure_recorded(bench, &program, "memory", "");
    measure_recorded(bench, &program, "kernels", "--kernels");
}

/* This process and all that it starts, on the last of those that it may use: the first ones serve devices, too. */
static void stay_on_processors(void)
{
    cpu_set_t allowed, chosen;
    CPU_ZERO(&chosen);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&chosen) < PROCESSORS; cpu--)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &chosen);
    (void)sched_setaffinity(0, sizeof chosen, &chosen);
}

int main(int count, char **arguments)
{
    static const struct measurement measurements[] = {{"malloc", measure_malloc},
                                                      {"managed", measure_managed},
                                                      {"virtual", measure_virtual},
                                                      {"pytorch", measure_pytorch},
                                                      {NULL, NULL}};
    stay_on_processors();
    return measure_on_card("bench_record", measurements, count, arguments);
}
