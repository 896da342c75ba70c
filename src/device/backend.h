/* The interface between devices and backends. A backend provides a table of functions; device.c checks the arguments
 * for all backends and supplies the optional functions, so that a backend is short. */
#pragma once

#include "base/event.h"
#include "base/status.h"
#include "base/types.h"

struct mt_card;
struct mt_device;
struct mt_device_memory;
struct mt_kernel_watch;
struct mt_work;
struct mtk_queue;

/* The functions of a backend. An optional function may be NULL; its comment says what the wrapper does then. */
struct mt_device_table {
    const char *kind; /* "sim": the spelling without a card or a capacity */

    /* Allocates `bytes` of memory. Fails with MT_OUT_OF_MEMORY if there is none. The wrapper keeps the sum below the
     * capacity. */
    mt_status (*reserve)(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
    void (*release)(struct mt_device *device, mt_addr address, uint64_t bytes);

    /* A range of addresses without memory, and memory for parts of it. All sizes are multiples of MT_DEVICE_PAGE. map
     * fails with MT_OUT_OF_MEMORY if there is none. unmap unmaps any mapped pages, even from several calls of map,
     * after the queued work that may use them. Optional, all or none: memory is then allocated only by reserve. */
    mt_status (*range_open)(struct mt_device *device, uint64_t bytes, mt_addr *out_address);
    void (*range_close)(struct mt_device *device, mt_addr address, uint64_t bytes);
    mt_status (*range_map)(struct mt_device *device, mt_addr address, uint64_t bytes);
    void (*range_unmap)(struct mt_device *device, mt_addr address, uint64_t bytes);

    /* Makes work queued on `later` from now on wait for work queued on `earlier` so far. Returns at once. Optional: all
     * streams are one. */
    mt_status (*follow)(struct mt_device *device, mt_stream later, mt_stream earlier);

    /* Copy between host and device, in the order of the stream. read returns when the bytes have arrived. Optional:
     * writes are discarded, and reads fail. */
    mt_status (*write)(struct mt_device *device, mt_addr to, const void *from, uint64_t bytes, mt_stream stream);
    mt_status (*read)(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream);

    /* Waits for all queued work. Optional: there is no queue. */
    mt_status (*synchronize)(struct mt_device *device);

    /* Returns the queue on which ops of `stream` are launched. Optional: NULL. */
    struct mtk_queue *(*queue)(struct mt_device *device, mt_stream stream);

    /* Returns the driver's handle of the stream, a cudaStream_t, for programs that queue their own work. Optional:
     * NULL. */
    void *(*stream_handle)(struct mt_device *device, mt_stream stream);

    /* Between begin and end, stream 0 gets work that is the same whenever `key` is. The backend may queue it as one
     * graph, recorded earlier: then device->kernels is NULL until the end. No reads and writes happen in between. drop
     * replaces end: it discards the key, and work that is not queued yet is never queued. It fails with MT_FAILED
     * unless the work was queued op by op. forget discards all keys. Optional, all or none: work is queued op by op. */
    mt_status (*graph_begin)(struct mt_device *device, uint64_t key);
    mt_status (*graph_end)(struct mt_device *device);
    mt_status (*graph_drop)(struct mt_device *device);
    void (*graph_forget)(struct mt_device *device);

    /* mark records when the work queued so far is done, as a mark number below MT_DEVICE_MARKS. elapsed_ms returns the
     * time between two marks and waits for the later one. Optional, both or none: a mark is the time of the call. */
    mt_status (*mark)(struct mt_device *device, int number);
    mt_status (*elapsed_ms)(struct mt_device *device, int from, int to, double *out_ms);

    /* Reads the driver's figures. Optional: fails with MT_FAILED. */
    mt_status (*memory)(struct mt_device *device, struct mt_device_memory *out);

    /* Starts to watch the device's kernels. Fails with MT_FAILED if a requirement is missing or in use. The device owns
     * the watch. Optional: fails with MT_FAILED, since there are no kernels. */
    mt_status (*watch_kernels)(struct mt_device *device, struct mt_kernel_watch **out);

    /* Returns the nanoseconds since the device was opened. Optional: uses the host's clock. Two reads of that are a
     * third of the time of a traced pair, and in a module each read would have to find its thread-local data through
     * the loader. */
    uint64_t (*now_ns)(const struct mt_device *device);

    /* Advances the clock by the time of an op. Optional: time passes on its own. */
    void (*spend)(struct mt_device *device, const struct mt_work *work);

    void (*close)(struct mt_device *device);
};

/* The functions of a watch of kernels. */
struct mt_kernel_watch_table {
    /* Set the label and the step (MT_NO_STEP: none) of kernels launched from now on. */
    void (*tag)(struct mt_kernel_watch *watch, mt_label_id label);
    void (*tag_step)(struct mt_kernel_watch *watch, int64_t step);
    /* Returns the number of launches since the last collect. */
    uint64_t (*waiting)(struct mt_kernel_watch *watch);
    /* Waits for the queued work, and passes on each kernel that ran since the last call, ordered by start. */
    mt_status (*collect)(struct mt_kernel_watch *watch, void (*take)(void *context, const struct mt_kernel *kernel),
                         void *context);
    void (*end)(struct mt_kernel_watch *watch);
};

/* A watch of the kernels of one device. An implementation embeds it as its first member. */
struct mt_kernel_watch {
    const struct mt_kernel_watch_table *table;
    uint64_t lost_kernels; /* that ran without a record, as of the last collect */
};

/* Creates a simulated device with a card's usable memory, and without a name. Copies the card. The caller closes it. */
struct mt_device *mt_sim_create(const struct mt_card *card);

/* Open a backend by the part of its spelling after the colon, or NULL. Sets the device's name, table and capacity. The
 * caller owns it. */
mt_status mt_sim_open(const char *argument, struct mt_device **out);
mt_status mt_cpu_open(const char *argument, struct mt_device **out);

/* Finds the card of a simulated device by the part of its spelling after the colon; the card's memory is the
 * capacity. */
mt_status mt_sim_card(const char *argument, struct mt_card *out);

/* Finds the card in the same way, but does not read card files. False for unknown cards, or if it is not a simulated
 * device. */
bool mt_sim_find_listed(const char *argument, struct mt_card *out);

/* Parses a capacity after a colon. Fails with MT_USAGE if it is not a size or too small. */
mt_status mt_capacity_parse(const char *text, uint64_t *out_bytes);
