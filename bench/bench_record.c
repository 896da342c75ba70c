/* What `memtrace record` costs a program, and how near its account is to the driver's: a C program, one that uses virtual
 * memory, and training in PyTorch, each in turns with the same program on its own. card.h says how it is started; the
 * programs in C are beside this one.
 *
 * The driver's figure for what they hold is asked by themselves, while nobody else runs. */
#include "bench/card.h"
#include "bench/peer.h"

enum { TURNS = 5, SAID_BYTES = 4096, PARTS_OF_ANSWER = 4 };
enum { MOST_OVERHEAD_PERCENT = 3, MOST_DIFFERENCE_PERCENT = 1 };

/* A program that is measured. */
struct program {
    const char *name, *command;
    const char *step;   /* the request for a step's time */
    const char *memory; /* and for the bytes that the driver gave it since its context was made */
};

static void open_recorded(const struct bench *bench, const struct program *program, const char *options,
                          struct peer *out)
{
    char command[SAID_BYTES];
    snprintf(command, sizeof command, "exec '%s' record --trace " TRACE " %s -- %s", bench->asker.program, options,
             program->command);
    *out = peer_open(command);
}

static double ask_number(struct peer *peer, const char *request, int field)
{
    double numbers[PARTS_OF_ANSWER];
    peer_ask(peer, numbers, PARTS_OF_ANSWER, "%s", request);
    return numbers[field];
}

/* Medians of the turns. */
static void take_turns(const struct program *program, struct peer *alone, struct peer *recorded, double *out_alone_ms,
                       double *out_recorded_ms)
{
    double alone_ms[TURNS], recorded_ms[TURNS];
    ask_number(alone, program->step, 0); /* to warm up, as the other is */
    for (int turn = 0; turn < TURNS; turn++) {
        alone_ms[turn] = ask_number(alone, program->step, 0);
        recorded_ms[turn] = ask_number(recorded, program->step, 0);
    }
    *out_alone_ms = median_of(alone_ms, TURNS);
    *out_recorded_ms = median_of(recorded_ms, TURNS);
}

static void report_costs(struct bench *bench, const struct program *program, const char *what, double alone_ms,
                         double recorded_ms)
{
    char name[LONGEST];
    snprintf(name, sizeof name, "record: %s, %s, step", program->name, what);
    report(bench, name, "ms", recorded_ms, alone_ms, "", 0);
    snprintf(name, sizeof name, "record: %s, %s, overhead", program->name, what);
    report(bench, name, "%", (recorded_ms / alone_ms - 1) * 100, NAN, BENCH_AT_MOST, MOST_OVERHEAD_PERCENT);
}

/* The trace's peak beside what the program was given. */
static void report_bytes(struct bench *bench, const struct program *program, double given_bytes)
{
    char name[LONGEST];
    json_t *answer = ask_json(&bench->asker, "peak --json --trace " TRACE);
    const json_t *value = json_object_get(answer, "reserved_bytes");
    double bytes = json_is_integer(value) ? (double)json_integer_value(value) : NAN;
    json_decref(answer);
    snprintf(name, sizeof name, "record: %s, peak", program->name);
    report(bench, name, "MiB", bytes / 1048576, given_bytes / 1048576, "", 0);
    snprintf(name, sizeof name, "record: %s, peak off the driver's", program->name);
    report(bench, name, "%", fabs(bytes / given_bytes - 1) * 100, NAN, BENCH_AT_MOST, MOST_DIFFERENCE_PERCENT);
}

static void measure_recorded(struct bench *bench, const struct program *program, const char *what, const char *options)
{
    double alone_ms, recorded_ms;
    struct peer alone = {0}, recorded;
    remove_trace();
    open_recorded(bench, program, options, &recorded);
    ask_number(&recorded, program->step, 0);                        /* to warm up */
    double given_bytes = ask_number(&recorded, program->memory, 0); /* while nobody else takes or gives any */
    if (peer_is_there(&recorded))
        alone = peer_open(program->command);
    if (!peer_is_there(&alone)) {
        fail(bench, program->name);
        peer_close(&recorded);
        return;
    }
    take_turns(program, &alone, &recorded, &alone_ms, &recorded_ms);
    peer_close(&alone);
    peer_close(&recorded);
    report_costs(bench, program, what, alone_ms, recorded_ms);
    report_bytes(bench, program, given_bytes);
}

static void measure_c(struct bench *bench)
{
    static const char *const kinds[] = {"malloc", "virtual"}, *const names[] = {"C program", "virtual memory"};
    char folder[SAID_BYTES / 2], command[SAID_BYTES];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    *(strrchr(folder, '/') != NULL ? strrchr(folder, '/') : folder) = '\0';
    for (int i = 0; i < 2; i++) {
        const struct program program = {names[i], command, "step 40", "memory"};
        snprintf(command, sizeof command, "'%s/peer_record' %s", folder, kinds[i]);
        measure_recorded(bench, &program, "memory", "");
    }
}

static void measure_pytorch(struct bench *bench)
{
    char command[SAID_BYTES];
    const struct program program = {"PyTorch", command, "step 20", "memory"};
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
