/* Devices: memory, and queues of work.
 *
 *   "sim", "sim:a100-80gb", "sim:24GiB", "sim:l4:8GiB"   an address range with a capacity and no memory; its clock
 *                                                        advances by an estimate of each op's time
 *   "sim:my.json"                                        a user's card (card_file.c)
 *   "sim:l4:free=20GiB"                                  a card of which other processes leave this much free
 *   "cpu", "cpu:4GiB"                                    host memory under a capacity
 *   "cuda", "cuda:1"                                     an NVIDIA card, through a module that is loaded when it is opened
 *
 * backend.h has what a device implements.
 *
 * Threads: reserve, release, ranges, follow, synchronize, stream handles, the memory figures and the clock may be
 * called from any thread. All other functions are for the thread that runs the model. */
#pragma once

#include "base/event.h"
#include "base/status.h"
#include "base/types.h"
#include "device/card.h"

#include <stdbool.h>

/* The cost of an op in the roofline model: the longer of operations over rate and bytes over bandwidth. */
struct mt_work {
    const char *op;      /* of the kernel: "matmul"; static */
    double operations;   /* multiplications and additions */
    double besides;      /* fp32 operations in the same kernel that its matrix products do not hide */
    uint64_t bytes;      /* read and written */
    mt_dtype dtype;      /* selects the peak rate; of a matrix product, the dtype of its operands */
    bool rounds_to_tf32; /* a matrix product of fp32 that rounds its operands to tf32 */
    bool matrix_product; /* runs on the matrix units, if the card supports the dtype */
    int launches;        /* of kernels; 0 means 1 */
    uint64_t host_ns;    /* the program's time to launch them */
};

/* The memory of a card as its driver reports it, and the parts held by this process. */
struct mt_device_memory {
    uint64_t total_bytes;
    uint64_t free_bytes;
    uint64_t used_bytes;    /* of this process, including its context and libraries */
    uint64_t context_bytes; /* the part held once the device was open: CUDA's context and modules */
    uint64_t library_bytes; /* the part of libraries that started later */
};

enum { MT_DEVICE_MARKS = 16, MT_DEVICE_NAME = 96, MT_DEVICE_PAGE = 2 << 20 /* bytes that are mapped as one */ };

struct mt_device_table; /* of a backend: backend.h */
struct mt_kernel_watch;
struct mtk_queue;
struct mtk_table;

/* Invariants: reserved_bytes is the sum of memory that was reserved or mapped and not released; reserved_bytes <=
 * capacity_bytes, unless the capacity was lowered since. A lowered capacity is the minimum of limit_bytes, if any, and
 * the card's memory minus the context or all memory held outside. Backends embed this as their first member. */
struct mt_device {
    const struct mt_device_table *table;
    const struct mtk_table *kernels; /* set by mt_model_device_open; NULL: nothing is executed */
    char name[MT_DEVICE_NAME];       /* as opened: "sim:h200" */
    uint64_t capacity_bytes;
    uint64_t reserved_bytes;
    uint64_t limit_bytes;              /* of mt_device_limit; 0: none */
    uint64_t outside_bytes;            /* of mt_device_hold */
    uint64_t reserve_count;            /* number of calls so far */
    uint64_t fail_reserve_at;          /* for tests: the reserve with this number (from 1) fails; 0: none */
    uint64_t mark_ns[MT_DEVICE_MARKS]; /* for a backend without marks */
    uint64_t host_clock_ns;            /* mt_clock_ns at time 0 of the device's clock; 0: the backend has a clock */
    struct mt_kernel_watch *watch;     /* owned; NULL: kernels are not watched */
    struct mt_card card;
};

/* Opens a device by its spelling above. Fails with MT_NO_DEVICE if the kind or the card is unknown; the message lists
 * the known ones and the most similar one. The caller owns the device and closes it after everything that uses it. */
mt_status mt_device_open(const char *spelling, struct mt_device **out);
void mt_device_close(struct mt_device *device);

/* Returns the part of the spelling before the colon: "sim". Static. */
const char *mt_device_kind(const struct mt_device *device);

/* True for the spelling of a simulated device, or its name in a trace. */
bool mt_device_is_simulated(const char *spelling);

/* Finds the card of a device by the device's spelling. A device with an unknown card has the reference card, like cpu.
 * If a simulated device can't be opened, fails as mt_device_open does. */
mt_status mt_device_find_card(const char *spelling, struct mt_card *out);

/* Finds the card of a device by its name in a trace. Opens no files, whatever the name is. Returns false if the card is
 * unknown: *out is then the reference card, with a context if the device is a GPU. */
bool mt_device_find_traced_card(const char *name, struct mt_card *out);

/* Writes the spelling of a simulated device with a card and another capacity, "sim:l4:8192MiB", into `text` of
 * MT_DEVICE_NAME bytes, and returns `text`. The second function opens such a device, like mt_device_open, but with any
 * capacity. `card` NULL is the reference card. */
char *mt_device_spell_simulated(const struct mt_card *card, uint64_t capacity_bytes, char *text);
mt_status mt_device_open_simulated(const struct mt_card *card, uint64_t capacity_bytes, struct mt_device **out);

/* Allocates memory. Fails with MT_OUT_OF_MEMORY, with the requested and remaining bytes, if the capacity would be
 * exceeded or the backend has no more; and with MT_USAGE if `bytes` is 0. */
mt_status mt_device_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
void mt_device_release(struct mt_device *device, mt_addr address, uint64_t bytes);

/* Limits the reserved memory to a fraction of the card's memory, in (0, 1], like
 * torch.cuda.set_per_process_memory_fraction, and to the memory without the card's context. Memory that is already
 * reserved stays. */
void mt_device_limit(struct mt_device *device, double fraction);

/* Sets the process's memory on a simulated card outside the reserved memory, including its context: the capacity is
 * reduced by it. Not on a device with a size in bytes, whose whole memory is available to the run. */
void mt_device_hold(struct mt_device *device, uint64_t bytes);

/* Ranges of addresses, and memory for parts of them, on devices with ranges. Sizes are multiples of MT_DEVICE_PAGE, not
 * 0. Mapped bytes count as reserved, and each map as a call of reserve. Close a range after all of it was unmapped. */
bool mt_device_has_ranges(const struct mt_device *device);
mt_status mt_device_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
void mt_device_range_close(struct mt_device *device, mt_addr address, uint64_t bytes);
mt_status mt_device_range_map(struct mt_device *device, mt_addr address, uint64_t bytes);
void mt_device_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes);

/* Makes work queued on `later` from now on wait for work queued on `earlier` so far. Returns at once. */
mt_status mt_device_follow(struct mt_device *device, mt_stream later, mt_stream earlier);

/* Copy between host and device, in the order of the stream. The read returns when the bytes have arrived. On a device
 * that stores no data, a write does nothing, and a read fails with MT_FAILED. */
mt_status mt_device_write(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream);
mt_status mt_device_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream);

/* Waits for all queued work. */
mt_status mt_device_synchronize(struct mt_device *device);

/* Returns the queue for kernels of `stream`; NULL on a device without queues. */
struct mtk_queue *mt_device_queue(struct mt_device *device, mt_stream stream);

/* Returns the driver's handle of `stream`, on a card a cudaStream_t that the device owns. NULL if the device has no
 * queues or the card fails. */
void *mt_device_stream_handle(struct mt_device *device, mt_stream stream);

/* Work that is the same, launch by launch, whenever `key` is the same, may be queued as a graph: mt_device_executes is
 * then false until the end. Each successful begin needs one end or one drop. A drop discards the key. It is for work
 * that failed, or that allocated or released memory, and fails with MT_FAILED unless the work was queued op by op. The
 * caller of begin chooses the keys. All keys must be discarded before another caller begins, and before memory that the
 * work uses is released. */
mt_status mt_device_graph_begin(struct mt_device *device, uint64_t key);
mt_status mt_device_graph_end(struct mt_device *device);
mt_status mt_device_graph_drop(struct mt_device *device);
void mt_device_graph_forget(struct mt_device *device);

/* Mark a moment of the queued work as `number`, below MT_DEVICE_MARKS, and return the milliseconds between two
 * marks. */
mt_status mt_device_mark(struct mt_device *device, int number);
mt_status mt_device_elapsed_ms(struct mt_device *device, int from, int to, double *out_ms);

/* Watches the device's kernels from now on, until the device is closed; on sim, each op counts as one kernel. Fails
 * with MT_FAILED if the device runs no kernels, if a library is missing, or if another tool is watching, which the
 * message names. The caller may continue without. */
mt_status mt_device_watch_kernels(struct mt_device *device);

/* True if kernels are watched. */
bool mt_device_watches_kernels(const struct mt_device *device);

/* Return the number of launches not yet passed on by mt_device_collect, and of kernels without a record as of the last
 * collect. */
uint64_t mt_device_waiting_kernels(const struct mt_device *device);
uint64_t mt_device_lost_kernels(const struct mt_device *device);

/* Set the label and the step (MT_NO_STEP: none) of kernels launched from now on. */
void mt_device_tag(struct mt_device *device, mt_label_id label);
void mt_device_tag_step(struct mt_device *device, int64_t step);

/* Waits for the queued work, and passes on each kernel that ran since the last call, ordered by start. Takes some
 * tenths of a microsecond per kernel, so do not call it in timed sections. */
mt_status mt_device_collect(struct mt_device *device, void (*take)(void *context, const struct mt_kernel *kernel),
                            void *context);

/* Reads the driver's figures. Fails with MT_FAILED if the device has no driver. */
mt_status mt_device_memory(struct mt_device *device, struct mt_device_memory *out);

/* Gets the free and total memory, like cudaMemGetInfo. On a device without a driver there are no other processes, and
 * the context has the card's usual size. Fails as the driver does. */
mt_status mt_device_free_memory(struct mt_device *device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

/* Returns the nanoseconds since the device was opened, on its own clock. */
uint64_t mt_device_now_ns(const struct mt_device *device);

/* Makes a simulated device use the host's clock, for programs with their own ops. No effect on other devices. */
void mt_device_use_host_clock(struct mt_device *device);

/* Advances the clock of a simulated device by the time of an op. */
void mt_device_spend(struct mt_device *device, const struct mt_work *work);

/* True if ops compute values. On a device that does not execute, a loss is missing, never 0. */
static inline bool mt_device_executes(const struct mt_device *device)
{
    return device->kernels != NULL;
}
