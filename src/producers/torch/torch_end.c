/* Reports that native code ends the process, which otherwise ends without a word, or with none of Python's: a library
 * that reads memory of a simulated card, where there is none, or that calls exit since it found no driver.
 *
 *   signal ──▶ handler ──▶ report ──▶ the signal as before
 *   exit ──▶ function of atexit ──▶ report, unless the interpreter is ending
 *
 * A handler may not allocate memory, and this one does: if the crash left malloc locked, an alarm ends the process. */
#include "base/text.h"
#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_frames.h"
#include "run/handover.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NATIVE_CALLS = 64, STACK_BYTES = 256 << 10, MOST_SECONDS = 10 };

/* Where simulated devices have their addresses (device/sim.c), above a program's heap and below its libraries. */
static const uint64_t FIRST_CARD_ADDRESS = (uint64_t)1 << 40, LAST_CARD_ADDRESS = (uint64_t)1 << 44;

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static struct sigaction before[SIGNALS];
static struct mt_record_request request; /* of this process */
static struct mt_torch_stack stack;      /* too large for a stack */
static atomic_bool is_followed, is_ending;
static _Atomic(const char *) failed_call;

void memtrace_torch_driver_failed(const char *call)
{
    failed_call = call;
}

const char *memtrace_torch_driver_failure(void)
{
    return failed_call;
}

/* ---- who called ---- */

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* True for libraries that others call to copy, to abort or to exit, and for memtrace's own. */
static bool is_called(const char *library)
{
    static const char *const names[] = {"libc.so", "libpthread", "ld-linux", "libgcc_s", "libstdc++", "libmemtrace"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(library, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Adds the innermost function that is not of a library that others call. */
static void add_function(struct mt_text *out)
{
    void *calls[MOST_NATIVE_CALLS];
    Dl_info found;
    const int count = backtrace(calls, MOST_NATIVE_CALLS);
    for (int i = 0; i < count; i++) {
        if (dladdr(calls[i], &found) == 0 || found.dli_fname == NULL || is_called(file_of(found.dli_fname)))
            continue;
        if (found.dli_sname != NULL)
            mt_text_add(out, "%s of ", found.dli_sname);
        mt_text_add(out, "%s", file_of(found.dli_fname));
        return;
    }
    mt_text_add(out, "native code");
}

/* True for a file of the interpreter or of a library. */
static bool is_installed(const char *path)
{
    return path[0] == '<' || strstr(path, "-packages/") != NULL || strstr(path, "/lib/python") != NULL;
}

/* Adds the innermost line of Python, and the innermost one of the program's own if that is another. */
static void add_lines(struct mt_text *out)
{
    bool is_first = true;
    mt_torch_frames_walk(&stack);
    for (uint32_t i = 0; i < stack.depth; i++) {
        struct mt_text function = {0}, file = {0};
        const int line = mt_torch_frame_describe(&stack.frames[i], &function, &file);
        const bool is_own = !is_installed(mt_text_get(&file));
        if (is_first || is_own)
            mt_text_add(out, "%s%s:%d", is_first ? ", called at " : ", from ", file_of(mt_text_get(&file)), line);
        is_first = false;
        mt_text_release(&function);
        mt_text_release(&file);
        if (is_own)
            return;
    }
}

/* ---- the report ---- */

/* Reports what has happened, and releases its words. */
static void report(struct mt_text *words)
{
    if (failed_call != NULL)
        mt_text_add(words, "; the last call that the driver's stand-in refused: %s", failed_call);
    const struct mt_record_answer answer = {.kind = MT_RECORD_NOTE, .pid = getpid(), .text = mt_text_get(words)};
    mt_record_answer_give(request.answers, &answer);
    mt_text_release(words);
}

static void report_signal(int number, const siginfo_t *information)
{
    struct mt_text words = {0};
    const uint64_t address = (uint64_t)(uintptr_t)information->si_addr;
    const bool is_fault = (number == SIGSEGV || number == SIGBUS) && information->si_code > 0;
    add_function(&words);
    if (is_fault && address >= FIRST_CARD_ADDRESS && address < LAST_CARD_ADDRESS)
        mt_text_add(&words, " used memory of the simulated card, which holds no data: %s", strsignal(number));
    else
        mt_text_add(&words, " ended the process: %s", strsignal(number));
    add_lines(&words);
    report(&words);
}

static void handle(int number, siginfo_t *information, void *context)
{
    (void)context;
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number)
            sigaction(number, &before[i], NULL);
    alarm(MOST_SECONDS);
    if (!atomic_exchange(&is_ending, true))
        report_signal(number, information);
    alarm(0);
    raise(number); /* waits until this handler has returned */
}

static void handle_exit(void)
{
    struct mt_text words = {0};
    if (atomic_exchange(&is_ending, true))
        return;
    add_function(&words);
    mt_text_add(&words, " ended the process: it called exit");
    add_lines(&words);
    report(&words);
}

void memtrace_torch_ending(void)
{
    is_ending = true;
}

/* Gives this thread a stack for handlers, unless it has one: its own may be what has overflowed. */
static void give_stack(void)
{
    static char memory[STACK_BYTES];
    stack_t now;
    if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE) != 0)
        (void)sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = sizeof memory}, NULL);
}

void memtrace_torch_follow_end(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    void *unused[1];
    if (atomic_exchange(&is_followed, true) || !mt_record_request_take(&request) || request.answers == NULL)
        return;
    (void)backtrace(unused, 1); /* loads what it needs */
    give_stack();
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &action, &before[i]);
    (void)atexit(handle_exit);
}
