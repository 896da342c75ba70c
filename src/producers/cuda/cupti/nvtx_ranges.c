#include "producers/cuda/cupti/nvtx_ranges.h"

#include "base/memory.h"

#include <generated_nvtx_meta.h>
#include <wchar.h>

enum { NAME_BYTES = 256 }; /* of a name that is converted; others have any length */

const CUpti_CallbackId *mt_range_functions(size_t *out_count)
{
    static const CUpti_CallbackId functions[] = {
        CUPTI_CBID_NVTX_nvtxRangePushA,
        CUPTI_CBID_NVTX_nvtxRangePushW,
        CUPTI_CBID_NVTX_nvtxRangePushEx,
        CUPTI_CBID_NVTX_nvtxRangePop,
        CUPTI_CBID_NVTX_nvtxDomainRangePushEx,
        CUPTI_CBID_NVTX_nvtxDomainRangePop,
        CUPTI_CBID_NVTX_nvtxDomainRegisterStringA,
    };
    *out_count = sizeof functions / sizeof functions[0];
    return functions;
}

/* ---- registered strings ---- */

void mt_range_strings_create(struct mt_range_strings *strings)
{
    mt_number_map_create(&strings->copies);
}

bool mt_range_string_keep(struct mt_range_strings *strings, CUpti_CallbackId id, const CUpti_NvtxData *data)
{
    if (id != CUPTI_CBID_NVTX_nvtxDomainRegisterStringA)
        return false;
    const nvtxDomainRegisterStringA_params *given = data->functionParams;
    const nvtxStringHandle_t *handle = data->functionReturnValue;
    if (handle != NULL && given->string != NULL)
        mt_number_map_put(&strings->copies, (uint64_t)*handle, (uint64_t)mt_host_strdup(given->string));
    return true;
}

static const char *find(const struct mt_range_strings *strings, nvtxStringHandle_t handle)
{
    uint64_t copy;
    return mt_number_map_get(&strings->copies, (uint64_t)handle, &copy) ? (const char *)copy : NULL;
}

/* ---- names ---- */

/* Copies what is ASCII, with ? for the rest: the encoding of wide characters is unknown. */
static const char *narrow(const wchar_t *wide, char text[NAME_BYTES])
{
    int length = 0;
    if (wide == NULL)
        return NULL;
    for (; wide[length] != L'\0' && length < NAME_BYTES - 1; length++)
        text[length] = wide[length] > 0 && wide[length] < 128 ? (char)wide[length] : '?';
    text[length] = '\0';
    return text;
}

static const char *attribute_name(const struct mt_range_strings *strings, const nvtxEventAttributes_t *attributes,
                                  char text[NAME_BYTES])
{
    if (attributes == NULL || attributes->message.ascii == NULL)
        return NULL;
    switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
        return attributes->message.ascii;
    case NVTX_MESSAGE_TYPE_UNICODE:
        return narrow(attributes->message.unicode, text);
    case NVTX_MESSAGE_TYPE_REGISTERED:
        return find(strings, attributes->message.registered);
    default:
        return NULL;
    }
}

/* Returns the name of a range that begins, in `text` unless it is the program's own; NULL if it has none. */
static const char *name_of(const struct mt_range_strings *strings, CUpti_CallbackId id, const void *given,
                           char text[NAME_BYTES])
{
    switch (id) {
    case CUPTI_CBID_NVTX_nvtxRangePushA:
        return ((const nvtxRangePushA_params *)given)->message;
    case CUPTI_CBID_NVTX_nvtxRangePushW:
        return narrow(((const nvtxRangePushW_params *)given)->message, text);
    case CUPTI_CBID_NVTX_nvtxRangePushEx:
        return attribute_name(strings, ((const nvtxRangePushEx_params *)given)->eventAttrib, text);
    case CUPTI_CBID_NVTX_nvtxDomainRangePushEx:
        return attribute_name(strings, ((const nvtxDomainRangePushEx_params *)given)->core.eventAttrib, text);
    default:
        return NULL;
    }
}

/* ---- ranges ---- */

/* Returns the domain of a call; 0 is the default one. */
static uint64_t domain_of(CUpti_CallbackId id, const void *given)
{
    if (id == CUPTI_CBID_NVTX_nvtxDomainRangePushEx)
        return (uint64_t)((const nvtxDomainRangePushEx_params *)given)->domain;
    if (id == CUPTI_CBID_NVTX_nvtxDomainRangePop)
        return (uint64_t)((const nvtxDomainRangePop_params *)given)->domain;
    return 0;
}

void mt_range_report(struct mt_account *account, struct mt_account_thread *thread,
                     const struct mt_range_strings *strings, CUpti_CallbackId id, const CUpti_NvtxData *data,
                     uint64_t time_ns)
{
    char text[NAME_BYTES];
    uint64_t domain = domain_of(id, data->functionParams);
    if (id == CUPTI_CBID_NVTX_nvtxRangePop || id == CUPTI_CBID_NVTX_nvtxDomainRangePop) {
        mt_account_leave(account, thread, domain, time_ns);
        return;
    }
    const char *name = name_of(strings, id, data->functionParams, text);
    mt_account_enter(account, thread, domain, time_ns, name != NULL ? name : "");
}
