/* Requests for GPUs with enough memory, as schedulers write them. The forms are from the documentation of Slurm
 * (gres.html), Kubernetes (scheduling GPUs; GPU Feature Discovery; dynamic resource allocation), HAMi, KAI Scheduler
 * (GPU sharing) and SkyPilot (YAML specification) in 2026. */
#pragma once

#include "base/text.h"

#include <stdint.h>

/* X(scheduler, name, where its lines go) */
#define MT_SCHEDULERS(X)                                                                                               \
    X(SLURM, "slurm", "sbatch, srun or a line #SBATCH; sinfo -o %G lists the names of the site's GPUs")                \
    X(K8S, "k8s", "resources.limits of the container, and matchExpressions of nodeAffinity")                           \
    X(DRA, "dra", "a request of a ResourceClaim, for the class gpu.nvidia.com")                                        \
    X(HAMI, "hami", "resources.limits of the container")                                                               \
    X(KAI, "kai", "metadata.annotations of the pod")                                                                   \
    X(SKYPILOT, "skypilot", "the task; accelerators go below resources")

typedef enum mt_scheduler {
#define X(scheduler, ...) MT_SCHEDULER_##scheduler,
    MT_SCHEDULERS(X)
#undef X
        MT_SCHEDULER_COUNT
} mt_scheduler;

/* The names, ending with NULL, and where the lines of a request go. */
extern const char *const mt_scheduler_names[];
const char *mt_scheduler_place(mt_scheduler scheduler);

/* GPUs for a job: `nodes` times `per_node`, with at least so much memory each, of all that a GPU has
 * (mt_gpu_request_bytes). */
struct mt_gpu_request {
    const char *card; /* its name, such as "a100-80gb"; NULL: any */
    uint64_t bytes;
    int64_t nodes, per_node;
};

/* Returns the memory to request for a job that fits, and needs `bytes` of the `card_bytes` that the driver reports to
 * programs. Schedulers count all memory of a GPU. The driver keeps some of it before programs see the rest: 236 to 768
 * MiB on the known cards, so 768 MiB are added, but no more than the card has. */
uint64_t mt_gpu_request_bytes(uint64_t bytes, uint64_t card_bytes);

/* Adds the lines of the request, each with its line end. A request to SkyPilot must name the card. */
void mt_gpu_request_add(const struct mt_gpu_request *request, mt_scheduler scheduler, struct mt_text *out);
