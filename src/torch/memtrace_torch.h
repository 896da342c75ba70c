/* libmemtrace_torch.so: memtrace's allocator under PyTorch, by its pluggable interface. PyTorch calls the first group;
 * samples/pytorch/memtrace_torch.py calls the rest by ctypes, and so may anybody.
 *
 * Categories and phases go by their numbers, as memtrace_torch_category and memtrace_torch_phase_number give them. Functions
 * that return int return 0, or the exit code that memtrace has for the failure; memtrace_torch_last_error tells why.
 *
 * Threads: any. In a child of fork nothing works, as CUDA does not: taking memory throws, everything else does nothing. */
#ifndef MT_TORCH_MEMTRACE_TORCH_H
#define MT_TORCH_MEMTRACE_TORCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what PyTorch calls; streams are cudaStream_t ---- */

/* A block for work of `stream`; NULL for size 0. Throws c10::OutOfMemoryError, which Python sees as torch.OutOfMemoryError,
 * where the card has no more, and std::runtime_error for everything else. */
void *memtrace_torch_alloc(ssize_t size, int device, void *stream);

/* It is reused by later work of the stream that it was taken for. What was not taken here is counted and left alone. */
void memtrace_torch_free(void *ptr, ssize_t size, int device, void *stream);

void memtrace_torch_init(int device_count);
void memtrace_torch_reset(void); /* torch.cuda.empty_cache: releases what is cached on every card */
void memtrace_torch_memory_fraction(double fraction, int device);
void *memtrace_torch_base_alloc(void *ptr, size_t *size); /* the block itself */
void memtrace_torch_record_stream(void *ptr, void *stream);

/* ---- before the first allocation, and at the end ---- */

/* `alloc` as --alloc of memtrace has it ("" is the default); `trace_path` is where card 0's trace goes, of card N beside it
 * with -cudaN before its ending, NULL: nothing is recorded; `program` is the run's name. Copies all. Refused once a card is
 * in use. */
int memtrace_torch_configure(const char *alloc, const char *trace_path, const char *program);

/* Ends every trace, as done (0), failed (1) or out of memory (5). What is allocated stays so. */
int memtrace_torch_close(int outcome);

/* Why the calling thread's last call failed. */
const char *memtrace_torch_last_error(void);

/* ---- labels: some 15 ns a call, and 150 ns more where a trace takes marks of it ---- */

/* The number of a span of that name and class inside of another (0: the root), the same for equal ones. */
uint32_t memtrace_torch_span(uint32_t parent, const char *name, const char *kind);

/* The number of a category, one of ours or a name of your own; those of "Other" when there are 64. */
int memtrace_torch_category(const char *name);
const char *memtrace_torch_category_name(int category); /* NULL: there is none of that number */

/* The number of "init", "forward", "loss", "backward" or "optimizer"; -1 for another word. */
int memtrace_torch_phase_number(const char *name);

/* Until the end, what the thread allocates is for this span. The end takes what the beginning returned, so that a call that
 * an exception left without one is ended by the next around it. */
uint32_t memtrace_torch_span_begin(uint32_t span, int category);
void memtrace_torch_span_end(uint32_t depth);

/* The span at the top of the thread's own, and its category: where the caller is. */
uint32_t memtrace_torch_span_now(void);
int memtrace_torch_category_now(void);

/* The thread has come to a span, with no end: counts outside of every beginning, until the next call or the next phase. */
void memtrace_torch_place(uint32_t span, int category);

/* The same as a hook of autograd's: with what that hands over, which is not looked at. */
void memtrace_torch_come_to(uint32_t span, int category, void *gradient);

/* The program's phase from now on, and the category in it of what no span covers. */
void memtrace_torch_phase(int phase, int category);

/* Steps are numbered from 0 as they begin; returns the number. A step that goes on ends first. */
int64_t memtrace_torch_step_begin(void);
void memtrace_torch_step_end(void);

/* The block that begins there is for this from now on. MT_USAGE (2) if none does. */
int memtrace_torch_relabel(const void *ptr, uint32_t span, int category);

/* Keeps a number of the current step ("loss") with the runs of all traces. */
void memtrace_torch_measure(const char *name, double value);

/* ---- statistics ---- */

/* Bytes of one card, of one category or of all. Allocated is requested with rounding. */
struct memtrace_torch_figures {
    uint64_t requested, allocated, blocks;
    uint64_t peak_requested, peak_allocated;
    uint64_t allocations;                                                                        /* ever */
    uint64_t reserved, peak_reserved, capacity, segments, largest_free, refusals, unknown_frees; /* of the card */
};

enum { MEMTRACE_TORCH_ALL = -1 };

/* All 0 for a card that was not used. */
int memtrace_torch_statistics(int device, int category, struct memtrace_torch_figures *out);

/* Lets every peak begin anew from what there is now. */
void memtrace_torch_reset_peaks(int device);

#ifdef __cplusplus
}
#endif

#endif
