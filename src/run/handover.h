/* The protocol between the commands that start a program (record, dry-run, fit, sweep) and memtrace's parts inside the
 * program: libmemtrace_inject.so, libmemtrace_torch.so and the Python package. The program may have many processes. The
 * request is passed in one environment variable, a flat JSON object (python/memtrace/_settings.py lists its members).
 * The answers are returned in a file, one per line. In their texts a newline is written \n, and a backslash \\.
 *
 *   run TAB pid TAB number TAB trace      the process added a run
 *   lost TAB pid TAB count TAB what       part of that run is missing
 *   note TAB pid TAB 0 TAB words          why the process has no run
 *   history TAB pid TAB 0 TAB file        import the file TRACE-pid.pickle into TRACE, and remove it
 *   began TAB pid TAB 0 TAB words         a dry run began in the process, with this version of PyTorch
 *   change TAB pid TAB 1 TAB name: words  a dry run made this change of the program, in these places
 *   change TAB pid TAB 0 TAB name: words  it did not make this change, for this reason
 *
 * Threads: any. */
#pragma once

#include "base/environment.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_INJECT_FILE "libmemtrace_inject.so"
#define MT_INJECT_REFUSAL_NAME "mt_inject_refusal"

/* Returns why programs can't be recorded with the installed CUPTI; NULL if they can. Exported by the library. The text
 * is valid until the thread's next call. */
typedef const char *(*mt_inject_refusal_function)(void);
const char *mt_inject_refusal(void);

/* How to record PyTorch: watch its own allocator, replace it by memtrace's, or simulate a card and allocate its memory
 * with memtrace's allocator. */
typedef enum mt_record_torch {
    MT_RECORD_TORCH_NOT,
    MT_RECORD_TORCH_OWN,
    MT_RECORD_TORCH_OURS,
    MT_RECORD_TORCH_DRY
} mt_record_torch;

enum { MT_EVERY_DEVICE = -1 };

#define MT_SETTINGS_VARIABLE "MEMTRACE_SETTINGS"

/* A request. */
struct mt_record_request {
    const char *trace;     /* an absolute path */
    const char *answers;   /* an absolute path, for answers */
    const char *name;      /* of the runs; NULL: none */
    const char *command;   /* of the process, if its own command line is a server's (dry/server.py); NULL: its own */
    const char *step;      /* prefix of the names of ranges that are steps; NULL: none */
    bool watches_kernels;  /* in addition to memory */
    bool leaves_stacks;    /* PyTorch's call stacks and operators are not recorded */
    bool finds_holders;    /* search for holders of allocations */
    mt_record_torch torch; /* for Python processes that use PyTorch */
    int device;            /* the only device to record; MT_EVERY_DEVICE: all */
};

enum { MT_ALL_DRY_STEPS = -1 };

/* The settings of a dry run in addition to its request. Only Python reads them; it takes the card from
 * MEMTRACE_DRY_DEVICE. */
struct mt_dry_request {
    const char *device;         /* for mt_device_open */
    int64_t cards;              /* number of cards */
    int64_t steps;              /* after which the program ends; 0: when its loops repeat, MT_ALL_DRY_STEPS: never */
    double deadline_s;          /* when the program ends, in seconds since 1970; 0: never */
    const char *assumed;        /* value assumed for numbers that were not computed */
    double masks;               /* assumed fraction of true elements in masks that were not computed */
    const char *weights;        /* "from-config": models need no checkpoint; NULL: checkpoints are loaded */
    bool is_eager;              /* torch.compile is not used */
    const char *inductor_cache; /* the folder with a card's autotuning choices; NULL: none */
    const char *changes;        /* names of changes of the program, separated by commas; NULL: none */
    const char *files;          /* the folder for files that the program writes */
};

/* Put a request into a program's environment. A record request replaces an earlier one. A dry request and the folder
 * for messages between ranks (producers/program/rank_runs.h) are added to it. */
void mt_dry_request_give(const struct mt_dry_request *request, struct mt_environment *environment);
void mt_record_request_give(const struct mt_record_request *request, struct mt_environment *environment);
void mt_mail_folder_give(const char *folder, struct mt_environment *environment);

/* Makes Python serve dry runs from a socket (producers/program/python_server.h), in addition to a dry request. */
void mt_server_give(int socket, struct mt_environment *environment);

/* Reads the request from this process's environment. False if there is none; then *out is zero. Copies the texts, since
 * programs may overwrite their environment, for example to set their title. The caller releases *out. */
bool mt_record_request_take(struct mt_record_request *out);
void mt_record_request_release(struct mt_record_request *request);

typedef enum mt_record_answer_kind {
    MT_RECORD_RUN,
    MT_RECORD_LOST,
    MT_RECORD_NOTE,
    MT_RECORD_HISTORY,
    MT_RECORD_BEGAN,
    MT_RECORD_CHANGE
} mt_record_answer_kind;

struct mt_record_answer {
    mt_record_answer_kind kind;
    int64_t pid;      /* of the process that answers */
    int64_t number;   /* of the run, the number of lost items, or 1 for a change that was made */
    const char *text; /* the trace, the lost items, words, or the file */
};

/* Appends an answer to the file at `path`, atomically with respect to other processes. Does nothing if it can't be
 * written, since there is no one to report it to. */
void mt_record_answer_give(const char *path, const struct mt_record_answer *answer);

/* Reserves disk space for answers, if the file system supports it. MT_FAILED if the disk is full. */
mt_status mt_record_answers_reserve(int file, const char *path);

/* Calls `take` with each answer in the file, in the order of writing. Skips lines of an unknown kind, which another
 * build may write. MT_FAILED if the file can't be read. */
mt_status mt_record_answers_read(const char *path, void (*take)(void *context, const struct mt_record_answer *answer),
                                 void *context);
