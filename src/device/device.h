/* Devices: where bytes come from, and where work is queued.
 *
 *   "sim", "sim:h200", "sim:a100-80gb", "sim:24GiB"   an address range with a capacity and nothing behind it; its clock
 *                                                     advances by each op's roofline time
 *   "cpu", "cpu:4GiB"                                 host memory under a capacity; kernels in C
 *   "cuda", "cuda:1"                                  an NVIDIA card; opened by a module that is loaded then
 *
 * A backend fills a table of functions; the wrappers below check once for all of them and supply what is optional.
 *
 * Threads: reserve, release, ranges, follow, synchronize, stream handles, the memory figures and the clock may be called from
 * any thread; everything else from the one that runs the model. */
#ifndef MT_DEVICE_DEVICE_H
#define MT_DEVICE_DEVICE_H

#include "base/event.h"
#include "base/status.h"
#include "base/types.h"
#include "kernels/kernels.h"

#include <stdbool.h>

struct mt_device;

/* What an op costs, for the roofline: it takes the longer of operations over peak rate and bytes over bandwidth. */
struct mt_work {
    double operations;   /* multiplications and additions */
    uint64_t bytes;      /* read and written */
    mt_dtype dtype;      /* whose peak rate counts: of a matrix product, its operands' */
    mtk_math math;       /* of a matrix product of fp32 */
    bool matrix_product; /* runs on the matrix units, where the card has them for the dtype */
};

/* What a card is, from its maker's data sheet (sources in profiles.c). Rates in operations per second. */
struct mt_profile {
    const char *name; /* "h200" */
    uint64_t memory_bytes;
    double bytes_per_second;
    double fp32_rate;        /* outside of the matrix units */
    double tf32_matrix_rate; /* 0: none */
    double bf16_matrix_rate;
};

/* What the driver says of the card's memory, and of what this process's part of it is for. */
struct mt_device_memory {
    uint64_t total_bytes;
    uint64_t free_bytes;
    uint64_t used_bytes;    /* held by this process, its context and libraries included */
    uint64_t context_bytes; /* of that, by the time that the device was open: CUDA's context and the modules */
    uint64_t library_bytes; /* of that, by libraries as they started later */
};

enum { MT_DEVICE_MARKS = 16, MT_DEVICE_NAME = 64, MT_DEVICE_PAGE = 2 << 20 /* bytes that are mapped as one */ };

/* What a backend does. NULL where it says optional. */
struct mt_device_table {
    const char *kind; /* "sim" */

    /* Takes `bytes` of memory; MT_OUT_OF_MEMORY if there is none. The wrapper keeps the sum below the capacity. */
    mt_status (*reserve)(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
    void (*release)(struct mt_device *device, mt_addr address, uint64_t bytes);

    /* A range of addresses with no memory, and memory under parts of it. All four are told multiples of
     * MT_DEVICE_PAGE; map MT_OUT_OF_MEMORY if there is none; unmap takes any pages that were mapped, however they
     * were, after the queued work that may use them. Optional, all or none: then memory comes by reserve alone. */
    mt_status (*range_open)(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
    void (*range_close)(struct mt_device *device, mt_addr address, uint64_t bytes);
    mt_status (*range_map)(struct mt_device *device, mt_addr address, uint64_t bytes);
    void (*range_unmap)(struct mt_device *device, mt_addr address, uint64_t bytes);

    /* Work queued on `later` from now on begins after what is queued on `earlier` so far. Nobody waits for it here.
     * Optional: all streams are one. */
    mt_status (*follow)(struct mt_device *device, mt_stream later, mt_stream earlier);

    /* Copies between host and device, in the order of the stream; read returns when the bytes are there. Optional:
     * without them nothing is kept and mt_device_read fails. */
    mt_status (*write)(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream);
    mt_status (*read)(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream);

    /* Waits for all queued work. Optional: there is no queue. */
    mt_status (*synchronize)(struct mt_device *device);

    /* The queue that ops of `stream` are launched on. Optional: kernels take NULL. */
    struct mtk_queue *(*queue)(struct mt_device *device, mt_stream stream);

    /* What the driver calls that stream, a cudaStream_t, for programs that queue work of their own. Optional: NULL. */
    void *(*stream_handle)(struct mt_device *device, mt_stream stream);

    /* Between begin and end, stream 0 is given work that is the same whenever `key` is: then it may be queued as
     * one, by what was learned from earlier times, and while it is, device->kernels is NULL until the end. No reads
     * and writes come between. In the place of an end, drop: nothing is learned of the work, what was known of its
     * key is forgotten, and what is not queued yet never is; MT_FAILED unless the work was queued as it was given.
     * And forget: all keys. Optional, all or none. */
    mt_status (*graph_begin)(struct mt_device *device, uint64_t key);
    mt_status (*graph_end)(struct mt_device *device);
    mt_status (*graph_drop)(struct mt_device *device);
    void (*graph_forget)(struct mt_device *device);

    /* Remembers the moment at which the work queued so far is done, under a number below MT_DEVICE_MARKS, and tells the
     * time between two of them, waiting for the later. Optional, both or none: then a moment is now. */
    mt_status (*mark)(struct mt_device *device, int number);
    mt_status (*elapsed_ms)(struct mt_device *device, int from, int to, double *out_ms);

    /* The driver's figures. Optional: none. */
    mt_status (*memory)(struct mt_device *device, struct mt_device_memory *out);

    /* Nanoseconds since the device was opened. */
    uint64_t (*now_ns)(const struct mt_device *device);

    /* Accounts for an op's cost. Optional: time passes by itself. */
    void (*spend)(struct mt_device *device, const struct mt_work *work);

    void (*close)(struct mt_device *device);
};

struct mt_kernel_watch;

/* What a watch of kernels does. */
struct mt_kernel_watch_table {
    /* Kernels launched from now on belong to this label, and to this step (MT_NO_STEP: to none). */
    void (*tag)(struct mt_kernel_watch *watch, mt_label_id label);
    void (*tag_step)(struct mt_kernel_watch *watch, int64_t step);
    /* How many were launched since the last collect. */
    uint64_t (*waiting)(struct mt_kernel_watch *watch);
    /* Waits for the queued work and hands over each kernel that ran since the last call, by start. */
    mt_status (*collect)(struct mt_kernel_watch *watch, void (*take)(void *context, const struct mt_kernel *kernel),
                         void *context);
    void (*end)(struct mt_kernel_watch *watch);
};

/* Somebody who watches the kernels of a device; embedded by who does, as its first member. */
struct mt_kernel_watch {
    const struct mt_kernel_watch_table *table;
    uint64_t lost_kernels; /* that ran, but of which there is no record; as of the last collect */
};

/* Invariant: reserved_bytes <= capacity_bytes, unless that was lowered since; reserved_bytes is the sum of what
 * reserve gave and release did not take back. Backends embed this as their first member. */
struct mt_device {
    const struct mt_device_table *table;
    const struct mtk_table *kernels; /* NULL: nothing is executed */
    char name[MT_DEVICE_NAME];       /* as opened: "sim:h200" */
    uint64_t capacity_bytes;
    uint64_t reserved_bytes;
    uint64_t reserve_count;            /* calls so far */
    uint64_t fail_reserve_at;          /* for tests: the reserve of this number (from 1) fails; 0: none */
    uint64_t mark_ns[MT_DEVICE_MARKS]; /* where the backend keeps no marks itself */
    struct mt_kernel_watch *watch;     /* NULL: kernels are not watched; otherwise owned by the device */
    struct mt_profile profile;         /* sim: of the card; of others the name and the memory */
};

/* Opens a device by its spelling above. An unknown kind or card is MT_NO_DEVICE, and the message lists what there is
 * with the nearest match. Owned by the caller, who closes it after everything that uses it. */
mt_status mt_device_open(const char *spelling, struct mt_device **out);
void mt_device_close(struct mt_device *device);

/* Whether a spelling, or what a trace says of its run's device, is that of a simulated one. */
bool mt_device_is_simulated(const char *spelling);

/* The spelling of a simulated device of so many bytes, "sim:8589934592", into `text` of MT_DEVICE_NAME bytes, which it
 * returns; and such a device opened, as mt_device_open opens it, but of any capacity. */
char *mt_device_spell_simulated(uint64_t capacity_bytes, char *text);
mt_status mt_device_open_simulated(uint64_t capacity_bytes, struct mt_device **out);

/* The spellings that mt_device_open knows, for help texts: names of cards, ending with NULL. */
const char *const *mt_device_cards(void);

/* MT_OUT_OF_MEMORY, with what was asked and what is left, if the capacity would be passed or the backend has no more.
 * bytes must not be 0. */
mt_status mt_device_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
void mt_device_release(struct mt_device *device, mt_addr address, uint64_t bytes);

/* Ranges of addresses (see the table), where mt_device_has_ranges; mapped bytes count as reserved, and each map as a
 * call of reserve. Bytes must not be 0; what is closed has no memory any more. */
bool mt_device_has_ranges(const struct mt_device *device);
mt_status mt_device_range_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
void mt_device_range_close(struct mt_device *device, mt_addr address, uint64_t bytes);
mt_status mt_device_range_map(struct mt_device *device, mt_addr address, uint64_t bytes);
void mt_device_range_unmap(struct mt_device *device, mt_addr address, uint64_t bytes);

/* Work of stream `later` from now on begins after what is queued on `earlier` so far. */
mt_status mt_device_follow(struct mt_device *device, mt_stream later, mt_stream earlier);

/* Without the backend's function a write is dropped (nothing is kept there) and a read fails. */
mt_status mt_device_write(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream);
mt_status mt_device_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream);

mt_status mt_device_synchronize(struct mt_device *device);

/* What kernels of `stream` take as their queue. */
struct mtk_queue *mt_device_queue(struct mt_device *device, mt_stream stream);

/* What the driver calls `stream`: on a card a cudaStream_t, the device's; NULL where nothing is queued, or the card
 * fails. From any thread. */
void *mt_device_stream_handle(struct mt_device *device, mt_stream stream);

/* Work that is the same whenever `key` is, launch by launch, may be queued as one (see the table). An end or a drop
 * for each begin, but for one that failed: a drop where work failed in between, or memory was asked for, which then
 * came or went while the work that uses it was to be queued at once. Keys are whose who begins: before somebody else
 * does, or gives memory back that the work uses, they are forgotten. */
mt_status mt_device_graph_begin(struct mt_device *device, uint64_t key);
mt_status mt_device_graph_end(struct mt_device *device);
mt_status mt_device_graph_drop(struct mt_device *device);
void mt_device_graph_forget(struct mt_device *device);

/* Marks a moment of the queued work under `number` (below MT_DEVICE_MARKS); the milliseconds between two of them. */
mt_status mt_device_mark(struct mt_device *device, int number);
mt_status mt_device_elapsed_ms(struct mt_device *device, int from, int to, double *out_ms);

/* Watches the device's kernels from now on, until it is closed. MT_FAILED where no kernels run (sim, cpu), where
 * what it takes is missing, or where another tool watches already, which the message names: whoever asked may go on
 * without. */
mt_status mt_device_watch_kernels(struct mt_device *device);

/* Whether kernels are watched: then launches are preceded by mt_device_tag, steps by mt_device_tag_step (MT_NO_STEP
 * where they end), and mt_device_collect hands over what ran, by start, since it was last called. It waits for the
 * queued work and takes some tenths of a microsecond a kernel, so it has no place in what is timed. waiting: how
 * many kernels it would hand over. lost: how many there were until then of which no record came. */
bool mt_device_watches_kernels(const struct mt_device *device);
uint64_t mt_device_lost_kernels(const struct mt_device *device);
uint64_t mt_device_waiting_kernels(const struct mt_device *device);
void mt_device_tag(struct mt_device *device, mt_label_id label);
void mt_device_tag_step(struct mt_device *device, int64_t step);
mt_status mt_device_collect(struct mt_device *device, void (*take)(void *context, const struct mt_kernel *kernel),
                            void *context);

/* MT_FAILED where no driver tells. */
mt_status mt_device_memory(struct mt_device *device, struct mt_device_memory *out);

uint64_t mt_device_now_ns(const struct mt_device *device);
void mt_device_spend(struct mt_device *device, const struct mt_work *work);

/* Whether ops compute anything here. A loss of a device that does not is absent, never 0. */
static inline bool mt_device_executes(const struct mt_device *device)
{
    return device->kernels != NULL;
}

#endif
