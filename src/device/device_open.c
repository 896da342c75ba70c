/* Opens a device by its spelling. Only this file knows devices by name.
 *
 * The module for NVIDIA cards is loaded when a card is opened, so that the program also starts without a driver and
 * CUDA libraries. It stays loaded: CUDA ends with the process. */
#include "device/backend.h"
#include "device/device.h"

#include "base/clock.h"
#include "base/text.h"
#include "device/cuda/cuda_device.h"
#include "device/module.h"

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- NVIDIA cards ---- */

#define CUDA_MODULE "libmemtrace_cuda.so"
#define CUDA_DRIVER "libcuda.so.1"

enum { MOST_CARDS = 64 };

/* Fails with MT_NO_DEVICE without a driver, so that the module's libraries of hundreds of megabytes are not loaded in
 * vain. A found driver stays loaded, since CUDA's runtime opens it next. */
static mt_status find_driver(void)
{
    if (dlopen(CUDA_DRIVER, RTLD_LAZY | RTLD_LOCAL) != NULL)
        return MT_OK;
    return mt_fail(MT_NO_DEVICE, "no GPU: there is no NVIDIA driver (%s)", dlerror());
}

static mt_status find_cuda(mt_cuda_open_function *out)
{
    MT_TRY(find_driver());
    mt_status status = mt_module_find(CUDA_MODULE, MT_CUDA_OPEN_NAME, (void **)out);
    if (status == MT_OK)
        return MT_OK;
    return mt_fail(status,
                   "no GPU: %s (the module for NVIDIA cards is built where the CUDA toolkit is, and needs its cuBLAS)",
                   mt_last_error());
}

/* Adds facts that the driver does not report: the rates of a known card, or else, with a note, of the reference
 * card. */
static void know_card(struct mt_card *card)
{
    const struct mt_card told = *card;
    const bool is_known = mt_card_find_product(told.product, card);
    if (!is_known)
        *card = mt_card_reference();
    if (!is_known)
        memcpy(card->name, told.name, sizeof card->name);
    memcpy(card->product, told.product, sizeof card->product);
    card->source = is_known ? told.source : "the driver; rates of the H200, since the GPU is not among the known cards";
    card->memory_bytes = told.memory_bytes;
    card->capability = told.capability;
    card->multiprocessors = told.multiprocessors;
    card->threads_per_multiprocessor = told.threads_per_multiprocessor;
    card->l2_bytes = told.l2_bytes;
    card->block_shared_bytes = told.block_shared_bytes;
    card->multiprocessor_shared_bytes = told.multiprocessor_shared_bytes;
    card->matmul_workspace_bytes = told.matmul_workspace_bytes;
}

static mt_status open_cuda(const char *argument, struct mt_device **out)
{
    int64_t ordinal = 0;
    mt_cuda_open_function open_card = NULL;
    MT_TRY(argument != NULL ? mt_parse_integer("the number of a GPU", argument, 0, MOST_CARDS - 1, &ordinal) : MT_OK);
    MT_TRY(find_cuda(&open_card));
    MT_TRY(open_card((int)ordinal, out));
    know_card(&(*out)->card);
    return MT_OK;
}

/* ---- all kinds ---- */

static const struct backend {
    const char *kind;
    mt_status (*open)(const char *argument, struct mt_device **out);
} backends[] = {
    {.kind = "sim", .open = mt_sim_open},
    {.kind = "cpu", .open = mt_cpu_open},
    {.kind = "cuda", .open = open_cuda},
};

enum { BACKENDS = sizeof backends / sizeof backends[0], LONGEST_KIND = 32 };

/* Fails with MT_NO_DEVICE and the message of mt_fail_unknown, which lists the kinds and the most similar one. */
static mt_status fail_unknown_kind(const char *kind)
{
    const char *kinds[BACKENDS];
    for (size_t i = 0; i < BACKENDS; i++)
        kinds[i] = backends[i].kind;
    (void)mt_fail_unknown("device", kind, kinds, BACKENDS);
    return MT_NO_DEVICE;
}

mt_status mt_device_open(const char *spelling, struct mt_device **out)
{
    char kind[LONGEST_KIND];
    size_t length = strcspn(spelling, ":");
    if (length >= sizeof kind)
        return fail_unknown_kind(spelling);
    memcpy(kind, spelling, length);
    kind[length] = '\0';
    const char *argument = spelling[length] == ':' ? spelling + length + 1 : NULL;
    for (size_t i = 0; i < BACKENDS; i++)
        if (strcmp(kind, backends[i].kind) == 0) {
            MT_TRY(backends[i].open(argument, out));
            assert((*out)->table != NULL && (*out)->capacity_bytes > 0 && (*out)->name[0] != '\0');
            if ((*out)->table->now_ns == NULL)
                (*out)->host_clock_ns = mt_clock_ns();
            return MT_OK;
        }
    return fail_unknown_kind(kind);
}

bool mt_device_is_simulated(const char *spelling)
{
    return strcspn(spelling, ": ") == strlen("sim") && strncmp(spelling, "sim", strlen("sim")) == 0;
}

/* Returns the text after the kind of a simulated device; NULL if there is none. */
static const char *simulated_argument(const char *name)
{
    return name[strlen("sim")] == ':' ? name + strlen("sim:") : NULL;
}

mt_status mt_device_find_card(const char *spelling, struct mt_card *out)
{
    if (mt_device_is_simulated(spelling))
        return mt_sim_card(simulated_argument(spelling), out);
    (void)mt_device_find_traced_card(spelling, out);
    return MT_OK;
}

bool mt_device_find_traced_card(const char *name, struct mt_card *out)
{
    const bool is_simulated = mt_device_is_simulated(name);
    if (is_simulated ? mt_sim_find_listed(simulated_argument(name), out) : mt_card_find_product(name, out))
        return true;
    *out = mt_card_reference();
    if (strncmp(name, "cuda", strlen("cuda")) != 0)
        out->context_bytes = 0;
    return false;
}

/* A page of memory: for a smaller number the unit was forgotten. */
enum { LEAST_CAPACITY_BYTES = 4096 };

mt_status mt_capacity_parse(const char *text, uint64_t *out_bytes)
{
    uint64_t bytes;
    MT_TRY(mt_parse_bytes(text, &bytes));
    if (bytes == 0)
        return mt_fail(MT_USAGE, "\"%s\": a device needs a capacity above 0", text);
    if (bytes < LEAST_CAPACITY_BYTES)
        return mt_fail(MT_USAGE,
                       "\"%s\": a device of %" PRIu64 " bytes has no room for anything: write the unit, as in %" PRIu64
                       "GiB",
                       text, bytes, bytes);
    *out_bytes = bytes;
    return MT_OK;
}
