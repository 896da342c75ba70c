/* The host refuses memory, at any call: the program gives the right answer or none, and a watched program continues.
 * failing_malloc.c refuses. Not under sanitizers, which have their own malloc. */
#include "program.h"
#include "seed.h"

#include <inttypes.h>
#include <memtrace.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OWN_MALLOC 1
#else
#define HAS_OWN_MALLOC 0
#endif

enum { ATTACKS = 70, GUEST_CODE = 42, GUEST_BLOCKS = 3000 };

/* Precedes a command whose memory is refused. */
#define REFUSING "LD_PRELOAD=./refusing.so "

static const char *program; /* of this test, which is the guest, too */

static void skip_with_own_malloc(void)
{
    if (HAS_OWN_MALLOC)
        skip();
}

static int set_up(void **state)
{
    *state = enter_folder("failing_memory");
    assert_int_equal(symlink(MT_FAILING_MALLOC, "refusing.so"), 0); /* LD_PRELOAD takes no path with a space */
    const struct said *said =
        MEMTRACE("run --device sim:h100 --model small --layers 1 --batch 1 --seq 64 --steps 2 --trace whole.db");
    if (said->code != 0)
        fail_msg("%s", said->err);
    return 0;
}

/* Returns the number of allocations of a command. */
static uint64_t count_calls(void)
{
    uint64_t calls = 0;
    FILE *file = fopen("count.txt", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%" SCNu64, &calls), 1);
    fclose(file);
    return calls;
}

/* Commands whose answers are compared. If one writes a file, the file is printed, so that it is compared, too. */
static const char *const commands[] = {
    "peak --json --trace t.db",
    "top --each --json --trace t.db",
    "runs --json --trace t.db",
    "advise --json --trace t.db",
    "verify --json --trace t.db",
    "diff 1 1 --json --trace t.db",
    "export --format perfetto -o - --trace t.db",
    "export --format csv -o o.csv.gz --trace t.db && cat o.csv.gz",
    "timeline -o o.html --trace t.db && cat o.html",
    "export --format pickle -o o.pickle --trace t.db && cat o.pickle",
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static uint64_t hash_of(const char *path)
{
    uint64_t hash = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int byte; (byte = fgetc(file)) != EOF;)
        hash = mt_splitmix64(hash ^ (uint64_t)byte);
    fclose(file);
    return hash;
}

/* A partial file is not left either. */
static void an_answer_is_right_or_none(void **state)
{
    (void)state;
    skip_with_own_malloc();
    const uint64_t seed = take_seed(), attacks = attack_count(ATTACKS) / COMMANDS;
    for (int i = 0; i < COMMANDS; i++) {
        shell("cp whole.db t.db; rm -f o.*; " REFUSING "MT_FAIL_COUNT=count.txt \"$M\" %s", commands[i]);
        const uint64_t whole = hash_of("out.txt"), calls = count_calls();
        for (uint64_t attack = 0; attack < attacks; attack++) {
            const uint64_t random = mt_splitmix64(seed + (uint64_t)i * attacks + attack);
            const uint64_t at = 1 + random / 4 % (random % 2 == 0 ? calls : calls < 400 ? calls : 400);
            const struct said *said = shell("rm -f o.*; " REFUSING "MT_FAIL_AT=%" PRIu64 " %s \"$M\" %s", at,
                                            random / 2 % 2 == 0 ? "MT_FAIL_ON=1" : "", commands[i]);
            if (said->code == 0 ? hash_of("out.txt") != whole : said->code != 7 && said->code != 1 && said->code != 6)
                fail_msg("%s: call %" PRIu64 " refused: exit code %d, %s", commands[i], at, said->code, said->err);
            assert_int_equal(shell("ls o.*.[0-9]* 2>/dev/null | grep -q .")->code, 1);
        }
    }
}

static void the_end_has_a_code_and_says_how_much_was_asked(void **state)
{
    (void)state;
    skip_with_own_malloc();
    const struct said *said = MEMTRACE("peak --trace whole.db");
    assert_int_equal(said->code, 0);
    said = shell(REFUSING "MT_FAIL_AT=300 MT_FAIL_ON=1 \"$M\" peak --trace whole.db");
    assert_int_equal(said->code, 7);
    assert_says(said->err, "memtrace: out of host memory (");
    assert_says(said->err, " bytes were requested)");
}

/* A program with its own run, which prints the number of its allocated blocks. */
static int be_guest(void)
{
    const memtrace_run_options options = {.size = sizeof options, .trace = "guest.db", .device = "sim"};
    memtrace_run *run = NULL;
    uint64_t address;
    const bool is_recorded = memtrace_run_open(&options, &run) == MEMTRACE_OK;
    for (int i = 0; is_recorded && i < GUEST_BLOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d", i);
        const memtrace_label label = {.size = sizeof label, .op = name, .category = "FFN"};
        if (memtrace_take(run, 512 + (uint64_t)i, 0, &label, &address) == MEMTRACE_OK && i % 2 == 0)
            memtrace_give(run, address);
    }
    if (is_recorded)
        memtrace_run_close(run, MEMTRACE_RUN_DONE);
    return GUEST_CODE;
}

/* And the recording until then is readable. */
static void a_watched_program_goes_on(void **state)
{
    (void)state;
    skip_with_own_malloc();
    const uint64_t seed = take_seed();
    shell("rm -f guest.db*; " REFUSING "MT_FAIL_COUNT=count.txt '%s' guest", program);
    const uint64_t calls = count_calls();
    for (uint64_t attack = 0; attack < attack_count(ATTACKS); attack++) {
        const uint64_t at = 1 + mt_splitmix64(seed + attack) % calls;
        const struct said *said = shell("rm -f guest.db*; " REFUSING "MT_FAIL_AT=%" PRIu64 " '%s' guest", at, program);
        if (said->code != GUEST_CODE)
            fail_msg("call %" PRIu64 " refused: exit code %d, %s", at, said->code, said->err);
        if (access("guest.db", F_OK) != 0 || shell("\"$M\" runs --trace guest.db")->code == 3)
            continue;
        said = shell("\"$M\" peak --trace guest.db");
        if (said->code != 0 && strstr(said->err, "holds no run yet") == NULL)
            fail_msg("call %" PRIu64 " refused, then: %s", at, said->err);
    }
}

int main(int count, char **arguments)
{
    if (count > 1)
        return be_guest();
    program = realpath(arguments[0], NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_is_right_or_none, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(the_end_has_a_code_and_says_how_much_was_asked, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_watched_program_goes_on, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
