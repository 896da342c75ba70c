#include "producers/program/child_program.h"

#include "base/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_STARTED = 126, NOT_FOUND = 127, ENDED_BY_SIGNAL = 128 };

/* The signals that are passed on to the program. */
static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

static void list_awaited(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        sigaddset(out, passed_on[i]);
}

/* The arguments of a program's start. */
struct beginning {
    char *const *words;
    const struct mt_environment *environment;
    int output, kept_file; /* kept_file: stays open in the program; NO_FILE: none */
};
enum { NO_FILE = -1 };

/* Becomes the program, in the child. A failure goes through the pipe as an errno; success closes the pipe. */
static void become(const struct beginning *begin, const struct mt_children *children, int failure_end)
{
    signal(SIGPIPE, SIG_DFL); /* ignored for our own output's sake */
    sigaction(SIGCHLD, &children->before, NULL);
    sigprocmask(SIG_SETMASK, &children->mask, NULL);
    if (begin->output != MT_OWN_OUTPUT) {
        dup2(begin->output, STDOUT_FILENO);
        dup2(begin->output, STDERR_FILENO);
    }
    if (begin->kept_file != NO_FILE)
        fcntl(begin->kept_file, F_SETFD, 0);
    execvpe(begin->words[0], begin->words, begin->environment->entries);
    int error = errno;
    ssize_t written = write(failure_end, &error, sizeof error);
    (void)written; /* the exit code says it too */
    _exit(error == ENOENT ? NOT_FOUND : NOT_STARTED);
}

/* True if a process sent the signal. The terminal and the kernel deliver their signals to the program directly. */
static int is_sent(const siginfo_t *signal)
{
    return signal->si_code <= 0 && signal->si_signo != SIGCHLD;
}

/* Returns the errno that kept the child from becoming the program; 0 if it became the program. */
static int read_failure(int end)
{
    int error = 0;
    ssize_t length;
    do
        length = read(end, &error, sizeof error);
    while (length < 0 && errno == EINTR);
    return length == sizeof error ? error : 0;
}

/* Forks. *out_error is the errno that kept the child from becoming the program; 0 if it became the program. */
static mt_status start(const struct beginning *begin, const struct mt_children *children, pid_t *out_child,
                       int *out_error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return mt_fail(MT_FAILED, "can't make a pipe: %s", strerror(errno));
    *out_child = fork();
    if (*out_child == 0)
        become(begin, children, ends[1]);
    int error = errno;
    close(ends[1]);
    *out_error = *out_child > 0 ? read_failure(ends[0]) : 0;
    close(ends[0]);
    return *out_child > 0 ? MT_OK : mt_fail(MT_FAILED, "can't start a process: %s", strerror(error));
}

/* Starts a program. The code is set if it can't be started. */
static mt_status start_program(const struct beginning *begin, const struct mt_children *children, pid_t *out,
                               int *out_code)
{
    int error = 0;
    assert(begin->words[0] != NULL);
    *out = 0;
    *out_code = NOT_STARTED;
    MT_TRY(start(begin, children, out, &error));
    if (error == 0)
        return MT_OK;
    waitpid(*out, NULL, 0);
    *out_code = error == ENOENT ? NOT_FOUND : NOT_STARTED;
    return mt_fail(MT_FAILED, "%s: %s", begin->words[0], strerror(error));
}

void mt_children_begin(struct mt_children *children)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL}; /* a child whose SIGCHLD is ignored can't be waited for */
    *children = (struct mt_children){0};
    list_awaited(&children->awaited);
    sigaction(SIGCHLD, &usual, &children->before);
    pthread_sigmask(SIG_BLOCK, &children->awaited, &children->mask);
}

void mt_children_end(struct mt_children *children)
{
    assert(children->count == 0);
    pthread_sigmask(SIG_SETMASK, &children->mask, NULL);
    sigaction(SIGCHLD, &children->before, NULL);
    free(children->running);
}

mt_status mt_child_start(struct mt_children *children, char *const *words, const struct mt_environment *environment,
                         int output, pid_t *out, int *out_code)
{
    const struct beginning begin = {words, environment, output, NO_FILE};
    MT_TRY(start_program(&begin, children, out, out_code));
    mt_child_adopt(children, *out);
    return MT_OK;
}

mt_status mt_helper_start(struct mt_children *children, char *const *words, const struct mt_environment *environment,
                          int output, int kept_file, pid_t *out)
{
    const struct beginning begin = {words, environment, output, kept_file};
    int code;
    return start_program(&begin, children, out, &code);
}

void mt_child_adopt(struct mt_children *children, pid_t process)
{
    *MT_HOST_ADD(children->running, children->count) = process;
}

/* Removes the process that has ended from the running ones; returns 0 if none has. The code is NOT_FOUND if another
 * thread has waited for the process and received its code. */
static pid_t take_ended(struct mt_children *children, int *out_code)
{
    int status = 0;
    for (int64_t i = 0; i < children->count; i++) {
        const pid_t child = children->running[i], ended = waitpid(child, &status, WNOHANG);
        if (ended == 0)
            continue;
        children->running[i] = children->running[--children->count];
        *out_code = WIFSIGNALED(status) ? ENDED_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
        if (ended < 0)
            *out_code = NOT_FOUND;
        return child;
    }
    return 0;
}

void mt_children_signal(const struct mt_children *children, int signal)
{
    for (int64_t i = 0; i < children->count; i++)
        kill(children->running[i], signal);
}

/* Passes a signal on, and records one that requests termination. */
static void take_signal(struct mt_children *children, const siginfo_t *signal)
{
    const int number = signal->si_signo;
    if (is_sent(signal))
        mt_children_signal(children, number);
    if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
        children->ending = number;
}

/* Takes a signal, for which it waits at most `most`. False if none came. */
static bool wait_for_signal(struct mt_children *children, const struct timespec *most)
{
    siginfo_t signal;
    const int number = sigtimedwait(&children->awaited, &signal, most);
    if (number > 0)
        take_signal(children, &signal);
    return number > 0 || errno != EAGAIN;
}

void mt_children_take_signals(struct mt_children *children)
{
    static const struct timespec at_once = {0};
    while (wait_for_signal(children, &at_once))
        continue;
}

pid_t mt_child_wait(struct mt_children *children, int64_t most_ms, int *out_code)
{
    enum { MS_PER_SECOND = 1000, NS_PER_MS = 1000000, LOOK_MS = 100 };
    const int64_t look_ms = most_ms >= 0 ? most_ms : LOOK_MS; /* another thread may have taken SIGCHLD */
    const struct timespec most = {look_ms / MS_PER_SECOND, look_ms % MS_PER_SECOND * NS_PER_MS};
    pid_t ended;
    while ((ended = take_ended(children, out_code)) == 0)
        if (!wait_for_signal(children, &most) && most_ms >= 0)
            return 0;
    mt_children_take_signals(children); /* the signal that has ended the program may have been sent to both */
    return ended;
}

mt_status mt_child_program_run(char *const *words, const struct mt_environment *environment, int output, int *out_code)
{
    struct mt_children children;
    pid_t child;
    mt_children_begin(&children);
    mt_status status = mt_child_start(&children, words, environment, output, &child, out_code);
    if (status == MT_OK)
        (void)mt_child_wait(&children, -1, out_code);
    mt_children_end(&children);
    return status;
}
