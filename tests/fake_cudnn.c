/* Plays libcudnn.so.9: the documented functions of its backend that memtrace_cudnn calls, with two engines. FAKE_CUDNN
 * has words that change what it does:
 *
 *   old          it is cuDNN 9.7
 *   picky        it does not accept the card
 *   crash, hang  at the first question
 *   none         it has no engines */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS, FAILURE = 2000 };
enum { ENGINE = 2, CONFIGURATION = 3, HEURISTICS = 4, PLAN = 5, KNOB = 7, DEVICE = 38 };
enum { TENSOR_SIZES = 902, ENGINES = 2, NONDETERMINISTIC = 4 };

struct fake {
    int kind;
    int64_t engine; /* of an engine, a configuration, a plan */
};

static int64_t sizes_asked; /* the sum of the sizes of a question's tensors */
static void (*listener)(int, void *, const void *, const char *);

static bool is_told(const char *word)
{
    const char *told = getenv("FAKE_CUDNN");
    return told != NULL && strstr(told, word) != NULL;
}

size_t cudnnGetVersion(void)
{
    return is_told("old") ? 90700 : 91900;
}

int cudnnSetCallback(unsigned mask, void *data, void (*hear)(int, void *, const void *, const char *))
{
    (void)mask, (void)data;
    listener = hear;
    return SUCCESS;
}

int cudnnBackendCreateDescriptor(int kind, void **out)
{
    struct fake *made = calloc(1, sizeof *made);
    made->kind = kind;
    *out = made;
    return SUCCESS;
}

int cudnnBackendDestroyDescriptor(void *descriptor)
{
    free(descriptor);
    return SUCCESS;
}

int cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t count, const void *values)
{
    struct fake *fake = descriptor;
    (void)type;
    for (int64_t i = 0; attribute == TENSOR_SIZES && i < count; i++)
        sizes_asked += ((const int64_t *)values)[i];
    if (fake->kind == PLAN && attribute == 401)
        fake->engine = (*(struct fake *const *)values)->engine;
    return SUCCESS;
}

int cudnnBackendFinalize(void *descriptor)
{
    const struct fake *fake = descriptor;
    if (fake->kind == HEURISTICS && is_told("crash"))
        abort();
    if (fake->kind == HEURISTICS && is_told("hang"))
        pause();
    return fake->kind == DEVICE && is_told("picky") ? FAILURE : SUCCESS;
}

/* Gives the engines 40, which is not deterministic, and 41; names engine 3 as one that is left out. */
static void give_configurations(int64_t most, int64_t *count, void *values)
{
    static const char log[] = "support_checks\0{\"engineId\":3}\0CUDNN_STATUS_NOT_SUPPORTED_SHAPE\0";
    *count = is_told("none") ? 0 : ENGINES;
    for (int64_t i = 0; i < most && i < *count; i++)
        (*((struct fake **)values + i))->engine = 40 + i;
    listener(0, NULL, NULL, log);
}

int cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t most, int64_t *count, void *values)
{
    const struct fake *fake = descriptor;
    (void)type;
    *count = 1;
    if (fake->kind == HEURISTICS)
        give_configurations(most, count, values);
    else if (fake->kind == CONFIGURATION && attribute == 300)
        (*(struct fake **)values)->engine = fake->engine;
    else if (fake->kind == ENGINE && attribute == 1301)
        *(int64_t *)values = fake->engine;
    else if (fake->kind == ENGINE && attribute == 1303)
        *(int *)values = fake->engine == 40 ? NONDETERMINISTIC : -1;
    else if (fake->kind == PLAN) {
        *(int64_t *)values = sizes_asked * 100 + fake->engine;
        sizes_asked = 0;
    } else if (fake->kind == KNOB)
        memset(values, 0, attribute == 600 ? sizeof(int) : sizeof(int64_t));
    return SUCCESS;
}
