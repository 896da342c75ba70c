#include "cli/record/child_program.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_STARTED = 126, NOT_FOUND = 127, ENDED_BY_SIGNAL = 128, OWN_OUTPUT = -1 };

/* The signals that are passed on to the program. */
static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

static void list_awaited(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        sigaddset(out, passed_on[i]);
}

/* What the program gets: the handling of signals before this call, and a place for what it prints. */
struct before {
    sigset_t mask;
    struct sigaction child;
    int output; /* a file; OWN_OUTPUT: this process's stdout and stderr */
};

/* Becomes the program, in the child. A failure goes through the pipe as an errno; success closes the pipe. */
static void become(char *const *words, const struct before *before, int failure_end)
{
    signal(SIGPIPE, SIG_DFL); /* ignored for our own output's sake */
    sigaction(SIGCHLD, &before->child, NULL);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
    if (before->output != OWN_OUTPUT) {
        dup2(before->output, STDOUT_FILENO);
        dup2(before->output, STDERR_FILENO);
    }
    execvp(words[0], words);
    int error = errno;
    ssize_t written = write(failure_end, &error, sizeof error);
    (void)written; /* the exit code says it too */
    _exit(error == ENOENT ? NOT_FOUND : NOT_STARTED);
}

/* True if a process sent the signal. Those of the terminal and the kernel reach the program by themselves. */
static int is_sent(const siginfo_t *signal)
{
    return signal->si_code <= 0 && signal->si_signo != SIGCHLD;
}

static int wait_for(pid_t child, const sigset_t *awaited)
{
    siginfo_t signal;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0)
        if (sigwaitinfo(awaited, &signal) > 0 && is_sent(&signal))
            kill(child, signal.si_signo);
    return WIFSIGNALED(status) ? ENDED_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
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

static mt_status start(char *const *words, const struct before *before, pid_t *out_child, int *out_error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return mt_fail(MT_FAILED, "can't make a pipe: %s", strerror(errno));
    *out_child = fork();
    if (*out_child == 0)
        become(words, before, ends[1]);
    int error = errno;
    close(ends[1]);
    *out_error = *out_child > 0 ? read_failure(ends[0]) : 0;
    close(ends[0]);
    return *out_child > 0 ? MT_OK : mt_fail(MT_FAILED, "can't start a process: %s", strerror(error));
}

mt_status mt_child_program_run(char *const *words, int *out_code)
{
    return mt_child_program_run_into(OWN_OUTPUT, words, out_code);
}

mt_status mt_child_program_run_into(int output, char *const *words, int *out_code)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL}; /* a child whose SIGCHLD is ignored can't be waited for */
    struct before before = {.output = output};
    sigset_t awaited;
    pid_t child = 0;
    int error;
    assert(words[0] != NULL);
    list_awaited(&awaited);
    sigaction(SIGCHLD, &usual, &before.child);
    sigprocmask(SIG_BLOCK, &awaited, &before.mask);
    *out_code = NOT_STARTED;
    mt_status status = start(words, &before, &child, &error);
    if (status == MT_OK) {
        *out_code = wait_for(child, &awaited);
        if (error != 0)
            status = mt_fail(MT_FAILED, "%s: %s", words[0], strerror(error));
    }
    sigprocmask(SIG_SETMASK, &before.mask, NULL);
    sigaction(SIGCHLD, &before.child, NULL);
    return status;
}
