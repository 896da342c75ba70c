/* Devices: memory, and queues of work.
 *
 *   "sim", "sim:a100-80gb", "sim:24GiB", "sim:l4:8GiB"   an address range with a capacity and no memory; its clock
 *                                                        advances by an estimate of each op's time
 *   "sim:my.json"                                        a card of one's own (card_file.c)
 *   "sim:l4:free=20GiB"                                  a card on which other processes leave that much
 *   "cpu", "cpu:4GiB"                                    host memory under a capacity
 *   "cuda", "cuda:1"                                     an NVIDIA card, through a module that is loaded when it is opened
 *
 * backend.h has what a device implements.
 *
 * Threads: reserve, release, ranges, follow, synchronize, stream handles, the memory figures and the clock may be
 * called from any thread. Everything else is for the thread that runs the model. */
#pragma once

#include "base/event.h"
#include "base/status.h"
#include "base/types.h"
#include "device/card.h"

#include <stdbool.h>

/* The cost of an op by the roofline: it takes the longer of operations over rate and bytes over bandwidth. */
struct mt_work {
    const char *op;      /* of the kernel: "matmul"; static */
    double operations;   /* multiplications and additions */
    double besides;      /* operations of fp32 that the same kernel makes where its products don't hide them */
    uint64_t bytes;      /* read and written */
    mt_dtype dtype;      /* selects the peak rate; of a matrix product, the dtype of its operands */
    bool rounds_to_tf32; /* a matrix product of fp32 reads its operands as tf32 */
    bool matrix_product; /* runs on the matrix units, where the card has them for the dtype */
    int launches;        /* of kernels; 0 is one */
    uint64_t host_ns;    /* that the program takes to launch them */
};

/* The memory of a card as its driver reports it, and the parts of what this process holds. */
struct mt_device_memory {
    uint64_t total_bytes;
    uint64_t free_bytes;
    uint64_t used_bytes;    /* held by this process, its context and libraries included */
    uint64_t context_bytes; /* of that, held once the device was open: CUDA's context and the modules */
    uint64_t library_bytes; /* of that, taken by libraries that started later */
};

enum { MT_DEVICE_MARKS = 16, MT_DEVICE_NAME = 96, MT_DEVICE_PAGE = 2 << 20 /* bytes that are mapped as one */ };

struct mt_device_table; /* of a backend: backend.h */
struct mt_kernel_watch;
struct mtk_queue;
struct mtk_table;

/* Invariants: reserved_bytes is the sum of what was reserved or mapped and not given back; reserved_bytes <=
 * capacity_bytes, unless the capacity was lowered since; once it was, capacity_bytes is the least of limit_bytes, if there is
 * one, and what the context, or all that is held outside, leaves of the card. Backends embed this as their first member. */
struct mt_device {
    const struct mt_device_table *table;
    const struct mtk_table *kernels; /* of who computes (mt_model_device_open); NULL: nothing is executed */
    char name[MT_DEVICE_NAME];       /* as opened: "sim:h200" */
    uint64_t capacity_bytes;
    uint64_t reserved_bytes;
    uint64_t limit_bytes;              /* of mt_device_limit; 0: none */
    uint64_t outside_bytes;            /* of mt_device_hold */
    uint64_t reserve_count;            /* calls so far */
    uint64_t fail_reserve_at;          /* for tests: the reserve of this number (from 1) fails; 0: none */
    uint64_t mark_ns[MT_DEVICE_MARKS]; /* of a backend that keeps no marks itself */
    uint64_t host_clock_ns;            /* mt_clock_ns at 0 of the device's clock; 0: the clock is the backend's */
    struct mt_kernel_watch *watch;     /* owned; NULL: kernels are not watched */
    struct mt_card card;
};

/* Opens a device by its spelling above. Fails with MT_NO_DEVICE if the kind or the card is unknown; the message then
 * lists the known ones and the nearest match. The caller owns the device and closes it after everything that uses
 * it. */
mt_status mt_device_open(const char *spelling, struct mt_device **out);
void mt_device_close(struct mt_device *device);

/* Returns the part of the spelling before the colon: "sim". Static. */
const char *mt_device_kind(const struct mt_device *device);

/* True if a spelling, or the name of a device in a trace, is that of a simulated one. */
bool mt_device_is_simulated(const char *spelling);

/* Finds the card of a device by the device's spelling. A device that has none of the known cards has the reference card,
 * as cpu does. Fails as mt_device_open does if a simulated device can't be opened. */
mt_status mt_device_find_card(const char *spelling, struct mt_card *out);

/* Finds the card of a device by its name in a trace. Opens no file, whatever the name says. False if the card is not
 * known: it is then the reference card, with a context if the device is a GPU. */
bool mt_device_find_traced_card(const char *name, struct mt_card *out);

/* Writes the spelling of a simulated device with a card and another capacity, "sim:l4:8192MiB", into `text` of
 * MT_DEVICE_NAME bytes, and returns `text`. The second function opens such a device, like mt_device_open but of any
 * capacity. `card` NULL is the reference card. */
char *mt_device_spell_simulated(const struct mt_card *card, uint64_t capacity_bytes, char *text);
mt_status mt_device_open_simulated(const struct mt_card *card, uint64_t capacity_bytes, struct mt_device **out);

/* Takes memory. Fails with MT_OUT_OF_MEMORY, with the bytes asked and left, if the capacity would be passed or the
 * backend has no more; and with MT_USAGE if `bytes` is 0. */
mt_status mt_device_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
void mt_device_release(struct mt_device *device, mt_addr address, uint64_t bytes);

/* Limits what may be reserved to a fraction of the card's memory, in (0, 1], as torch.cuda.set_per_process_memory_fraction
 * does, and to what the card's context leaves. Memory that is reserved already stays. */
void mt_device_limit(struct mt_device *device, double fraction);

/* Sets what the process holds of a simulated card beside what is reserved, its context included: so much less may be
 * reserved. Nothing less of a device of a size, all of which is for the run. */
void mt_device_hold(struct mt_device *device, uint64_t bytes);

/* Ranges of addresses, and memory under parts of them, of devices with ranges. Sizes are multiples of MT_DEVICE_PAGE,
 * not 0. Mapped bytes count as reserved, and each map as a call of reserve. A range is closed after all of it was
 * unmapped. */
bool mt_device_has_ranges(const struct mt_device *device);
mt_status mt_device_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
void mt_device_range_close(struct mt_device *device, mt_addr address, uint64_t bytes);
mt_status mt_device_range_map(struct mt_device *device, mt_addr address, uint64_t bytes);
void mt_device_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes);

/* Lets work that is queued on `later` from now on wait for the work that is queued on `earlier` so far. Returns at
 * once. */
mt_status mt_device_follow(struct mt_device *device, mt_stream later, mt_stream earlier);

/* Copy between host and device, in the order of the stream. The read returns when the bytes have arrived. On a device
 * that stores nothing a write does nothing, and a read fails with MT_FAILED. */
mt_status mt_device_write(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream);
mt_status mt_device_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream);

/* Waits for all queued work. */
mt_status mt_device_synchronize(struct mt_device *device);

/* Returns the queue that kernels of `stream` take, NULL on a device without queues. */
struct mtk_queue *mt_device_queue(struct mt_device *device, mt_stream stream);

/* Returns the driver's handle of `stream`, on a card a cudaStream_t that the device owns. NULL if the device has no
 * queues or the card fails. */
void *mt_device_stream_handle(struct mt_device *device, mt_stream stream);

/* Work that is the same, launch by launch, whenever `key` is the same, may be queued as one: mt_device_executes is then
 * false until the end. Each begin that succeeds takes one end or one drop. A drop forgets the key; it is for work that
 * failed, or that took or released memory, and fails with MT_FAILED unless the work was queued op by op. The caller of
 * begin chooses the keys. All keys are forgotten before another caller begins, and before memory that the work uses is
 * released. */
mt_status mt_device_graph_begin(struct mt_device *device, uint64_t key);
mt_status mt_device_graph_end(struct mt_device *device);
mt_status mt_device_graph_drop(struct mt_device *device);
void mt_device_graph_forget(struct mt_device *device);

/* Mark a moment of the queued work under `number`, below MT_DEVICE_MARKS, and return the milliseconds between two
 * marks. */
mt_status mt_device_mark(struct mt_device *device, int number);
mt_status mt_device_elapsed_ms(struct mt_device *device, int from, int to, double *out_ms);

/* Watches the device's kernels from now on, until the device is closed; on sim, each op as the kernel that it would be.
 * Fails with MT_FAILED if the device runs no kernels, if a library is missing, or if another tool watches already, which
 * the message names. The caller may go on without. */
mt_status mt_device_watch_kernels(struct mt_device *device);

/* True if kernels are watched. */
bool mt_device_watches_kernels(const struct mt_device *device);

/* Return the number of launches that mt_device_collect has yet to hand over, and of kernels that left no record by the
 * time of the last collect. */
uint64_t mt_device_waiting_kernels(const struct mt_device *device);
uint64_t mt_device_lost_kernels(const struct mt_device *device);

/* Set the label and the step (MT_NO_STEP: none) of the kernels that are launched from now on. */
void mt_device_tag(struct mt_device *device, mt_label_id label);
void mt_device_tag_step(struct mt_device *device, int64_t step);

/* Waits for the queued work, and hands over each kernel that ran since the last call, by start. Takes some tenths of a
 * microsecond a kernel, so it has no place in what is timed. */
mt_status mt_device_collect(struct mt_device *device, void (*take)(void *context, const struct mt_kernel *kernel),
                            void *context);

/* Reads the driver's figures. Fails with MT_FAILED if the device has no driver. */
mt_status mt_device_memory(struct mt_device *device, struct mt_device_memory *out);

/* Gets the free memory and all of it, as cudaMemGetInfo does. On a device without a driver no other process is there, and
 * the context has what its card's takes. Fails as the driver does. */
mt_status mt_device_free_memory(struct mt_device *device, uint64_t *out_free_bytes, uint64_t *out_total_bytes);

/* Returns the nanoseconds since the device was opened, on its own clock. */
uint64_t mt_device_now_ns(const struct mt_device *device);

/* Makes the clock of a simulated device the host's, for programs whose ops are not ours. Other devices stay as they are. */
void mt_device_use_host_clock(struct mt_device *device);

/* Advances the clock of a simulated device by the time of an op. */
void mt_device_spend(struct mt_device *device, const struct mt_work *work);

/* True if ops compute values. On a device that does not execute, a loss is absent, never 0. */
static inline bool mt_device_executes(const struct mt_device *device)
{
    return device->kernels != NULL;
}
