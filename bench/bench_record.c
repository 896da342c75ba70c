/* What `memtrace record` costs a program, and how near its account is to the driver's: a C program, one that uses managed
 * memory and one that uses virtual, and training in PyTorch, in turns with the same programs alone. Processes of one program
 * differ by some percent, whoever watches them, so there are several of either kind, and what those that are alone differ
 * by is told too: an overhead of less is none that can be seen. card.h says how it is started; the programs are beside
 * this one.
 *
 * The account is compared with the driver at two moments, between which nobody else takes or gives anything: when the
 * program has nothing, and when it has as much as it ever has. At each the program asks the driver and waits while the
 * trace is asked; what came in between is the same memory for both. The context, code that was loaded and what else
 * the driver takes for itself is in use at both, and no part of it. Of managed memory the driver counts more than was
 * asked for, and by what it does with the pages: there the two figures are told, and none is promised.
 *
 * A program of ours takes some seconds on a card, PyTorch's a minute, most of it to start; a name measures one alone. */
#include "bench/card.h"
#include "bench/peer.h"
#include "bench/reserved_now.h"

enum { TURNS = 5, SAID_BYTES = 4096, MOST_SECONDS = 120 /* for an answer, or to start: PyTorch takes 20 */ };
enum { MOST_OVERHEAD_PERCENT = 3, MOST_DIFFERENCE_PERCENT = 1 };

/* Processes of one program: EACH that are alone, then EACH that are recorded, of which FIRST writes TRACE. */
enum { ALONE, RECORDED, KINDS, EACH = 3, FIRST = RECORDED * EACH, PROCESSES = KINDS * EACH };

/* A program that is measured. */
struct program {
    const char *name, *command;
    const char *step;           /* the request for a step's time */
    bool driver_has_more_bytes; /* than the program asks for */
};

/* What is in use at a moment, by the driver and by the trace. */
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

/* What the program took between the moments. */
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

/* What steps of a kind take: of each process the median of its turns, from the fastest to the slowest. */
struct step_times {
    double ms[EACH];
};

/* In each turn another process is first; one before those that count is to warm up. False at the first that has no answer:
 * the others may have none either, and be waited for as long. */
static bool take_turns(const struct program *program, struct peer peers[PROCESSES], struct step_times out[KINDS])
{
    double ms[PROCESSES][TURNS];
    for (int turn = -1; turn < TURNS; turn++)
        for (int i = 0; i < PROCESSES; i++) {
            int process = (turn + 1 + i) % PROCESSES;
            double answer = ask_number(&peers[process], program->step);
            if (isnan(answer))
                return false;
            if (turn >= 0)
                ms[process][turn] = answer;
        }
    for (int process = 0; process < PROCESSES; process++)
        out[process / EACH].ms[process % EACH] = median_of(ms[process], TURNS);
    for (int kind = 0; kind < KINDS; kind++)
        qsort(out[kind].ms, EACH, sizeof out[kind].ms[0], compare_numbers);
    return true;
}

static void report_costs(struct bench *bench, const struct program *program, const char *what,
                         const struct step_times times[KINDS])
{
    char name[LONGEST];
    double recorded = times[RECORDED].ms[EACH / 2], alone = times[ALONE].ms[EACH / 2];
    snprintf(name, sizeof name, "record: %s, %s, step", program->name, what);
    report(bench, name, "ms", recorded, alone, "", 0);
    snprintf(name, sizeof name, "record: %s, %s, overhead", program->name, what);
    report(bench, name, "%", (recorded / alone - 1) * 100, NAN, BENCH_AT_MOST, MOST_OVERHEAD_PERCENT);
    snprintf(name, sizeof name, "record: %s, %s, alone, the slowest process beside the fastest", program->name, what);
    report(bench, name, "%", (times[ALONE].ms[EACH - 1] / times[ALONE].ms[0] - 1) * 100, NAN, "", 0);
}

/* Where a recorded process beside FIRST writes. */
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
    struct step_times times[KINDS];
    struct peer peers[PROCESSES] = {0}, *first = &peers[FIRST];
    remove_trace();
    *first = start_recorded(bench, program, options, TRACE);
    peer_await(first);
    if (peer_is_there(first)) {
        struct moment empty = ask_moment(bench, first, "empty");
        report_bytes(bench, program, what, empty, ask_moment(bench, first, "full"));
    }
    if (peer_is_there(first) && open_others(bench, program, options, peers) && take_turns(program, peers, times))
        report_costs(bench, program, what, times);
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
    measure_ours(bench, "malloc", (struct program){.name = "C program", .step = "step 40"});
}

/* Pages come to the card as they are written: a step takes many times as long as the others'. */
static void measure_managed(struct bench *bench)
{
    measure_ours(bench, "managed",
                 (struct program){.name = "managed memory", .step = "step 10", .driver_has_more_bytes = true});
}

static void measure_virtual(struct bench *bench)
{
    measure_ours(bench, "virtual", (struct program){.name = "virtual memory", .step = "step 40"});
}

static void measure_pytorch(struct bench *bench)
{
    char command[SAID_BYTES];
    const struct program program = {.name = "PyTorch", .command = command, .step = "step 10"};
    if (bench->peers == NULL)
        return;
    snprintf(command, sizeof command, "python3 '%s/pytorch_eager.py' --model small --seq 128 --precision fp32",
             bench->peers);
    measure_recorded(bench, &program, "memory", "");
    measure_recorded(bench, &program, "kernels", "--kernels");
}

int main(int count, char **arguments)
{
    static const struct measurement measurements[] = {{"malloc", measure_malloc},
                                                      {"managed", measure_managed},
                                                      {"virtual", measure_virtual},
                                                      {"pytorch", measure_pytorch},
                                                      {NULL, NULL}};
    return measure_on_card("bench_record", measurements, count, arguments);
}
