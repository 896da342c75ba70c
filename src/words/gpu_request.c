#include "words/gpu_request.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define MOST_KEPT_BYTES (768 * MIB)

const char *const mt_scheduler_names[] = {
#define X(scheduler, name, place) name,
    MT_SCHEDULERS(X)
#undef X
        NULL};

const char *mt_scheduler_place(mt_scheduler scheduler)
{
    static const char *const places[] = {
#define X(scheduler, name, place) place,
        MT_SCHEDULERS(X)
#undef X
    };
    return places[scheduler];
}

uint64_t mt_gpu_request_bytes(uint64_t bytes, uint64_t card_bytes)
{
    return bytes < card_bytes && card_bytes - bytes > MOST_KEPT_BYTES ? bytes + MOST_KEPT_BYTES : card_bytes;
}

static uint64_t mib_of(const struct mt_gpu_request *request)
{
    return (request->bytes + MIB - 1) / MIB;
}

/* ---- the forms ---- */

/* Adds the name without its memory, as sites name types: "a100" of "a100-80gb". */
static void add_family(const char *card, struct mt_text *out)
{
    const char *dash = strrchr(card, '-');
    const bool has_size = dash != NULL && mt_ends_with(card, "gb");
    mt_text_add(out, "%.*s", (int)(has_size ? (size_t)(dash - card) : strlen(card)), card);
}

static void add_slurm(const struct mt_gpu_request *request, struct mt_text *out)
{
    if (request->nodes > 1)
        mt_text_add(out, "--nodes=%" PRId64 " ", request->nodes);
    mt_text_add(out, "--gres=gpu:");
    if (request->card != NULL) {
        add_family(request->card, out);
        mt_text_add(out, ":");
    }
    mt_text_add(out, "%" PRId64 "\n", request->per_node);
}

static void add_k8s(const struct mt_gpu_request *request, struct mt_text *out)
{
    mt_text_add(out,
                "nvidia.com/gpu: %" PRId64 "\n"
                "{key: nvidia.com/gpu.memory, operator: Gt, values: [\"%" PRIu64 "\"]}\n",
                request->per_node, mib_of(request) - 1);
}

static void add_dra(const struct mt_gpu_request *request, struct mt_text *out)
{
    mt_text_add(out,
                "exactly: {deviceClassName: gpu.nvidia.com, count: %" PRId64 ", selectors: [{cel: {expression: "
                "\"device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('%" PRIu64 "Mi')) >= 0\"}}]}\n",
                request->per_node, mib_of(request));
}

static void add_hami(const struct mt_gpu_request *request, struct mt_text *out)
{
    mt_text_add(out, "nvidia.com/gpu: %" PRId64 "\nnvidia.com/gpumem: %" PRIu64 "\n", request->per_node,
                mib_of(request));
}

static void add_kai(const struct mt_gpu_request *request, struct mt_text *out)
{
    mt_text_add(out, "gpu-memory: \"%" PRIu64 "\"\n", mib_of(request));
    if (request->per_node > 1)
        mt_text_add(out, "gpu-fraction-num-devices: \"%" PRId64 "\"\n", request->per_node);
}

/* Adds SkyPilot's name of a card, which is mostly ours in capitals. */
static void add_accelerator(const char *card, struct mt_text *out)
{
    static const char *const others[][2] = {
        {"a100-40gb", "A100"}, {"v100-16gb", "V100"}, {"rtx-pro-6000", "RTXPRO6000"}, {"rtx6000-ada", "RTX6000-Ada"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(card, others[i][0]) == 0) {
            mt_text_add(out, "%s", others[i][1]);
            return;
        }
    for (; *card != '\0'; card++)
        mt_text_add(out, "%c", toupper((unsigned char)*card));
}

static void add_skypilot(const struct mt_gpu_request *request, struct mt_text *out)
{
    assert(request->card != NULL);
    if (request->nodes > 1)
        mt_text_add(out, "num_nodes: %" PRId64 "\n", request->nodes);
    mt_text_add(out, "accelerators: ");
    add_accelerator(request->card, out);
    mt_text_add(out, ":%" PRId64 "\n", request->per_node);
}

void mt_gpu_request_add(const struct mt_gpu_request *request, mt_scheduler scheduler, struct mt_text *out)
{
    static void (*const add[MT_SCHEDULER_COUNT])(const struct mt_gpu_request *, struct mt_text *) = {
        [MT_SCHEDULER_SLURM] = add_slurm, [MT_SCHEDULER_K8S] = add_k8s, [MT_SCHEDULER_DRA] = add_dra,
        [MT_SCHEDULER_HAMI] = add_hami,   [MT_SCHEDULER_KAI] = add_kai, [MT_SCHEDULER_SKYPILOT] = add_skypilot};
    add[scheduler](request, out);
}
