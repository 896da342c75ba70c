/* Preloaded by tools/call-files into programs that were compiled with -finstrument-functions. Records which functions
 * run during calls of some functions, on the thread of the call: CALL_FILES_STARTS names those functions as
 * OBJECT:OFFSET; pairs, and CALL_FILES_FOLDER is where each process leaves a file when it ends: the number of calls,
 * then a line for each function, with its offset, the number of calls that passed through it, and its object. A child
 * of fork records nothing unless it becomes another program. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNRECORDED __attribute__((no_instrument_function))

enum { MOST_FUNCTIONS = 1 << 16 };

/* A function that ran; function is NULL in a free place. A table with open addressing. */
static struct place {
    void *function;
    bool is_start;
    long last_call; /* that passed through it */
    long calls;     /* that passed through it */
} places[MOST_FUNCTIONS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long call_count;
static size_t place_count;
static pid_t process;

/* The call in progress on the thread, and how many functions deep it is; 0 outside of any. */
static _Thread_local long call;
static _Thread_local int depth;

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

/* Writes the object of a function, and returns the function's offset in it; false if there is no object. */
UNRECORDED static bool find_object(void *function, char object[PATH_MAX], unsigned long *offset)
{
    Dl_info info;
    if (dladdr(function, &info) == 0)
        return false;
    /* The program's own name is the one that it was called by, which may be without its folder. */
    if (realpath(strchr(info.dli_fname, '/') != NULL ? info.dli_fname : "/proc/self/exe", object) == NULL)
        return false;
    *offset = (unsigned long)((char *)function - (char *)info.dli_fbase);
    return true;
}

UNRECORDED static bool is_start(void *function)
{
    char object[PATH_MAX], pair[PATH_MAX + 32];
    unsigned long offset;
    const char *starts = getenv("CALL_FILES_STARTS");
    if (starts == NULL || !find_object(function, object, &offset))
        return false;
    snprintf(pair, sizeof pair, "%s:%lx;", object, offset);
    return strstr(starts, pair) != NULL;
}

/* Returns the place of a function. The lock is held. */
UNRECORDED static struct place *find_place(void *function)
{
    size_t i = ((uintptr_t)function >> 2) % MOST_FUNCTIONS;
    while (places[i].function != NULL && places[i].function != function)
        i = (i + 1) % MOST_FUNCTIONS;
    if (places[i].function == NULL) {
        if (++place_count == MOST_FUNCTIONS)
            abort();
        places[i] = (struct place){.function = function, .is_start = is_start(function)};
    }
    return &places[i];
}

UNRECORDED void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    pthread_mutex_lock(&lock);
    struct place *place = find_place(function);
    if (depth == 0 && place->is_start)
        call = ++call_count;
    if (depth > 0 || place->is_start) {
        depth++;
        place->calls += place->last_call != call;
        place->last_call = call;
    }
    pthread_mutex_unlock(&lock);
}

UNRECORDED void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function, (void)caller;
    depth -= depth > 0;
}

UNRECORDED __attribute__((constructor)) static void note_process(void)
{
    process = getpid();
}

UNRECORDED __attribute__((destructor)) static void write_calls(void)
{
    const char *folder = getenv("CALL_FILES_FOLDER");
    char path[PATH_MAX];
    if (folder == NULL || call_count == 0 || getpid() != process)
        return;
    snprintf(path, sizeof path, "%s/%ld", folder, (long)process);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        abort();
    fprintf(file, "%ld\n", call_count);
    for (size_t i = 0; i < MOST_FUNCTIONS; i++) {
        char object[PATH_MAX];
        unsigned long offset;
        if (places[i].calls > 0 && find_object(places[i].function, object, &offset))
            fprintf(file, "%lx %ld %s\n", offset, places[i].calls, object);
    }
    fclose(file);
}
