/* What `memtrace record` costs a program, and how near its account is to the driver's: a C program, one that uses managed
 * memory and one that uses virtual, and training in PyTorch, each in turns with the same program on its own, and with that
 * once more, whose difference from itself is what the figure for the overhead can't tell from nothing. card.h says how it
 * is started; the programs are beside this one.
 *
 * The account is compared with the driver at two moments, between which nobody else takes or gives anything: when the
 * program has nothing, and when it has as much as it ever has. At each the program asks the driver and waits while the
 * trace is asked; what came in between is the same memory for both. The context, code that was loaded and what else
 * the driver takes for itself is in use at both, and no part of it. */
#include "bench/card.h"
#include "bench/peer.h"
#include "bench/reserved_now.h"

enum { TURNS = 9, SAID_BYTES = 4096 };
enum { MOST_OVERHEAD_PERCENT = 3, MOST_DIFFERENCE_PERCENT = 1 };

/* Processes of one program. */
enum { ALONE, RECORDED, ALONE_AGAIN, PROCESSES };

/* A program that is measured. */
struct program {
    const char *name, *command;
    const char *step; /* the request for a step's time */
};

/* What is in use at a moment, by the driver and by the trace. */
struct moment {
    double driver_bytes, trace_bytes;
};

static struct peer open_recorded(const struct bench *bench, const struct program *program, const char *options)
{
    char command[SAID_BYTES];
    snprintf(command, sizeof command, "exec '%s' record --trace " TRACE " %s -- %s", bench->asker.program, options,
             program->command);
    return peer_open(command);
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
    report(bench, name, "%", fabs(bytes / driver_bytes - 1) * 100, NAN, BENCH_AT_MOST, MOST_DIFFERENCE_PERCENT);
}

/* Medians of the turns, in each of which another process is first. */
static void take_turns(const struct program *program, struct peer peers[PROCESSES], double out_ms[PROCESSES])
{
    double ms[PROCESSES][TURNS];
    for (int process = 0; process < PROCESSES; process++)
        ask_number(&peers[process], program->step); /* to warm up */
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < PROCESSES; i++) {
            int process = (turn + i) % PROCESSES;
            ms[process][turn] = ask_number(&peers[process], program->step);
        }
    for (int process = 0; process < PROCESSES; process++)
        out_ms[process] = median_of(ms[process], TURNS);
}

static void report_costs(struct bench *bench, const struct program *program, const char *what,
                         const double ms[PROCESSES])
{
    char name[LONGEST];
    snprintf(name, sizeof name, "record: %s, %s, step", program->name, what);
    report(bench, name, "ms", ms[RECORDED], ms[ALONE], "", 0);
    snprintf(name, sizeof name, "record: %s, %s, overhead", program->name, what);
    report(bench, name, "%", (ms[RECORDED] / ms[ALONE] - 1) * 100, NAN, BENCH_AT_MOST, MOST_OVERHEAD_PERCENT);
    snprintf(name, sizeof name, "record: %s, %s, the program alone beside itself", program->name, what);
    report(bench, name, "%", (ms[ALONE_AGAIN] / ms[ALONE] - 1) * 100, NAN, "", 0);
}

/* The others are started when the moments have passed. False if one can't be. */
static bool open_others(const struct program *program, struct peer peers[PROCESSES])
{
    peers[ALONE] = peer_open(program->command);
    peers[ALONE_AGAIN] = peer_open(program->command);
    return peer_is_there(&peers[ALONE]) && peer_is_there(&peers[ALONE_AGAIN]);
}

static void measure_recorded(struct bench *bench, const struct program *program, const char *what, const char *options)
{
    double ms[PROCESSES];
    struct peer peers[PROCESSES] = {0};
    remove_trace();
    peers[RECORDED] = open_recorded(bench, program, options);
    if (peer_is_there(&peers[RECORDED])) {
        struct moment empty = ask_moment(bench, &peers[RECORDED], "empty");
        report_bytes(bench, program, what, empty, ask_moment(bench, &peers[RECORDED], "full"));
    }
    if (peer_is_there(&peers[RECORDED]) && open_others(program, peers)) {
        take_turns(program, peers, ms);
        report_costs(bench, program, what, ms);
    } else {
        fail(bench, program->name);
    }
    for (int process = 0; process < PROCESSES; process++)
        peer_close(&peers[process]);
}

static void measure_c(struct bench *bench)
{
    static const char *const kinds[] = {"malloc", "managed", "virtual"}, *const names[] = {"C program",
                                                                                           "managed memory",
                                                                                           "virtual memory"};
    char folder[SAID_BYTES / 2], command[SAID_BYTES];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    *(strrchr(folder, '/') != NULL ? strrchr(folder, '/') : folder) = '\0';
    for (int i = 0; i < 3; i++) {
        const struct program program = {names[i], command, "step 40"};
        snprintf(command, sizeof command, "'%s/peer_record' %s", folder, kinds[i]);
        measure_recorded(bench, &program, "memory", "");
    }
}

static void measure_pytorch(struct bench *bench)
{
    char command[SAID_BYTES];
    const struct program program = {"PyTorch", command, "step 10"};
    if (bench->peers == NULL)
        return;
    snprintf(command, sizeof command, "python3 '%s/pytorch_eager.py' --model small --seq 128 --precision fp32",
             bench->peers);
    measure_recorded(bench, &program, "memory", "");
    measure_recorded(bench, &program, "kernels", "--kernels");
}

static void measure_all(struct bench *bench)
{
    measure_c(bench);
    measure_pytorch(bench);
}

int main(int count, char **arguments)
{
    static const struct measurement measurements[] = {{"record", measure_all}, {NULL, NULL}};
    return measure_on_card("bench_record", measurements, count, arguments);
}
