/* The hooks around each module, backward, gradient and range, for Python. They are C, since hooks in Python
 * take a fifth of a small model's step. All are called with Python's lock held, except for ranges. */
#include "base/lock.h"
#include "base/number_map.h"
#include "base/status.h"
#include "producers/torch/torch_backward.h"
#include "producers/torch/torch_label.h"
#include "producers/torch/torch_library.h"
#include "producers/torch/torch_python.h"
#include "producers/torch/torch_range.h"
#include "producers/torch/torch_stack.h"

#include <assert.h>
#include <string.h>

enum { CATEGORY_BITS = 8, CALLED_BIT = 63 };

/* ---- modules ---- */

/* Modules by the address of their object, and the functions that are called for new and outermost modules. */
static struct modules {
    struct mt_number_map places; /* was called << CALLED_BIT | span << CATEGORY_BITS | category */
    bool is_created;
    PyObject *on_new, *on_outermost; /* on_new is None if new modules get no span */
    uint32_t watchers;               /* that have begun and not ended */
} modules;

/* Replaces a stored reference. */
static void keep(PyObject **kept, PyObject *object)
{
    PyObject *before = *kept;
    mt_python.Py_IncRef(object);
    *kept = object;
    mt_python_release(before);
}

void memtrace_torch_module(uint64_t module, uint32_t span, int category)
{
    if (modules.is_created)
        mt_number_map_put(&modules.places, module, (uint64_t)span << CATEGORY_BITS | mt_torch_known(category));
}

void memtrace_torch_module_end(uint64_t module)
{
    uint64_t place;
    if (modules.is_created)
        (void)mt_number_map_take(&modules.places, module, &place);
}

int memtrace_torch_module_is_called(uint64_t module)
{
    uint64_t place = 0;
    return modules.is_created && mt_number_map_get(&modules.places, module, &place) && place >> CALLED_BIT;
}

/* Finds the place of a module, its span and category. Calls on_new on the module's first call. False if it has no
 * place. */
static bool find_place(PyObject *module, uint64_t *out)
{
    const uint64_t key = (uint64_t)(uintptr_t)module;
    if (mt_number_map_get(&modules.places, key, out))
        return true;
    if (modules.on_new == mt_python.none)
        return false;
    if (!mt_python_watch(modules.on_new, module))
        mt_python.PyErr_Clear(); /* a new module never ends the program */
    return mt_number_map_get(&modules.places, key, out);
}

/* Runs torch.nn.Module.__call__ in the span of the module, its first argument. */
static PyObject *call_module(PyObject *call, PyObject *const *arguments, size_t count, PyObject *names)
{
    uint64_t place;
    if (count << 1 == 0 || !find_place(arguments[0], &place)) /* the highest bit is a flag */
        return mt_python.run_function(call, arguments, count, names);
    if (!(place >> CALLED_BIT))
        mt_number_map_put(&modules.places, (uint64_t)(uintptr_t)arguments[0], place | UINT64_C(1) << CALLED_BIT);
    const bool is_outermost = mt_thread_spans_depth(mt_torch_spans()) == 0;
    if (is_outermost && !mt_python_watch(modules.on_outermost, arguments[0]))
        return NULL;
    const uint32_t depth =
        memtrace_torch_span_begin((uint32_t)(place >> CATEGORY_BITS), (int)(place & ((1u << CATEGORY_BITS) - 1)));
    mt_torch_backward_mark();
    PyObject *result = mt_python.run_function(call, arguments, count, names);
    memtrace_torch_span_end(depth);
    mt_torch_backward_mark();
    if (is_outermost && !mt_python_watch(modules.on_outermost, mt_python.none)) {
        mt_python_release(result);
        return NULL;
    }
    return result;
}

int memtrace_torch_modules_begin(PyObject *call, PyObject *on_new, PyObject *on_outermost)
{
    MT_TRY(mt_python_follow(call, call_module));
    if (!modules.is_created)
        mt_number_map_create(&modules.places);
    modules.is_created = true;
    modules.watchers++;
    keep(&modules.on_new, on_new);
    keep(&modules.on_outermost, on_outermost);
    return MT_OK;
}

void memtrace_torch_modules_end(PyObject *call)
{
    assert(modules.watchers > 0);
    if (--modules.watchers == 0)
        mt_python_unfollow(call);
}

/* ---- backward ---- */

typedef PyObject *method_function(PyObject *self, PyObject *arguments, PyObject *names);

static struct backward {
    struct mt_python_method *before; /* as PyTorch has it; NULL: not followed yet */
    PyObject *on_backward;
    uint32_t watchers;
} backward;

/* Runs the engine of autograd between two calls of the watcher. Keeps the thread's stack, since its frames stay until
 * the end. */
static PyObject *call_engine(PyObject *self, PyObject *arguments, PyObject *names)
{
    method_function *const run = *(method_function *const *)(void *)&backward.before->function;
    if (!mt_python_watch(backward.on_backward, names != NULL ? names : arguments))
        return NULL;
    const bool is_child = mt_torch_is_child();
    if (!is_child)
        mt_torch_stack_keep();
    PyObject *result = run(self, arguments, names);
    if (!is_child)
        mt_torch_stack_drop();
    if (!mt_python_watch(backward.on_backward, mt_python.none)) {
        mt_python_release(result);
        return NULL;
    }
    return result;
}

int memtrace_torch_backward_begin(PyObject *engine_run, PyObject *on_backward)
{
    static struct mt_python_method replacement;
    struct mt_python_method **method = mt_python_method_of(engine_run);
    method_function *const function = call_engine;
    if (method == NULL)
        return mt_fail(MT_NO_DEVICE, "it is not a method written in C");
    if (backward.watchers++ == 0) {
        backward.before = *method;
        replacement = **method;
        replacement.function = *(void *const *)(const void *)&function;
        *method = &replacement;
    }
    keep(&backward.on_backward, on_backward);
    return MT_OK;
}

void memtrace_torch_backward_end(PyObject *engine_run)
{
    assert(backward.watchers > 0);
    if (--backward.watchers == 0)
        *mt_python_method_of(engine_run) = backward.before;
}

/* ---- ranges ---- */

static PyObject *on_range; /* NULL: ranges are not followed */

void memtrace_torch_ranges_watch(PyObject *function)
{
    keep(&on_range, function);
}

/* Raises the class of the exception that is set, once the calling thread is back in Python, which makes the instance
 * itself. */
static void raise_later(void)
{
    PyObject *kind, *value, *trace;
    mt_python.PyErr_Fetch(&kind, &value, &trace);
    (void)mt_python.PyThreadState_SetAsyncExc(mt_python.PyThread_get_thread_ident(), kind);
    mt_python_release(kind);
    mt_python_release(value);
    mt_python_release(trace);
}

/* True for ranges that mark a step: of an optimizer or of torch.profiler. */
static bool is_of_step(const char *name)
{
    return strncmp(name, "Optimizer.step#", strlen("Optimizer.step#")) == 0 ||
           strncmp(name, "ProfilerStep#", strlen("ProfilerStep#")) == 0;
}

static void watch_range(const char *name)
{
    const int lock = mt_python.PyGILState_Ensure();
    PyObject *said = name != NULL ? mt_python.PyUnicode_FromString(name) : mt_python_none();
    if (said != NULL && !mt_python_watch(on_range, said))
        raise_later();
    mt_python_release(said);
    mt_python.PyGILState_Release(lock);
}

void mt_torch_range_begin(const char *name)
{
    if (is_of_step(name))
        watch_range(name);
}

void mt_torch_range_end(const char *name)
{
    if (strncmp(name, "Optimizer.step#", strlen("Optimizer.step#")) == 0)
        watch_range(NULL);
}

/* ---- gradients ---- */

typedef PyObject *one_function(PyObject *self, PyObject *argument);

static PyObject *grad_name, *data_ptr_name;

/* Returns the address of a tensor's first element; 0 if it has none. */
static uint64_t address_of(PyObject *tensor)
{
    PyObject *address = mt_python.PyObject_VectorcallMethod(data_ptr_name, &tensor, 1, NULL);
    uint64_t found = address != NULL ? mt_python.PyLong_AsUnsignedLongLong(address) : 0;
    mt_python_release(address);
    if (mt_python.PyErr_Occurred() == NULL)
        return found;
    mt_python.PyErr_Clear();
    return 0;
}

/* Labels a parameter's gradient. `place` is a number, as of a module. */
static PyObject *label_gradient(PyObject *place, PyObject *parameter)
{
    const uint64_t known = mt_python.PyLong_AsUnsignedLongLong(place);
    PyObject *gradient = mt_python.PyObject_GetAttr(parameter, grad_name);
    const uint64_t address = gradient != NULL && gradient != mt_python.none ? address_of(gradient) : 0;
    if (address != 0)
        (void)mt_torch_relabel(address, (uint32_t)(known >> CATEGORY_BITS), (int)(known & ((1u << CATEGORY_BITS) - 1)));
    if (gradient == NULL)
        mt_python.PyErr_Clear();
    mt_python_release(gradient);
    return mt_python_none();
}

PyObject *memtrace_torch_gradient_hook(uint32_t span, int category)
{
    static struct mt_python_method method = {.name = "label_gradient", .flags = MT_PYTHON_ONE_ARGUMENT};
    one_function *const function = label_gradient;
    if (grad_name == NULL)
        grad_name = mt_python.PyUnicode_InternFromString("grad");
    if (data_ptr_name == NULL)
        data_ptr_name = mt_python.PyUnicode_InternFromString("data_ptr");
    method.function = *(void *const *)&function;
    PyObject *place =
        mt_python.PyLong_FromUnsignedLongLong((unsigned long long)span << CATEGORY_BITS | mt_torch_known(category));
    PyObject *hook = place != NULL ? mt_python.PyCFunction_NewEx(&method, place, NULL) : NULL;
    mt_python_release(place);
    return hook;
}
