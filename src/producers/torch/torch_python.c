/* The functions that run around each module and gradient, for Python. They are C, since hooks written in Python take a
 * fifth of a small model's step.
 *
 * Python's functions are found in the process, by the names of its stable interface, so nothing is compiled against it. All
 * of this is called with Python's lock held. */
#include "base/lock.h"
#include "base/number_map.h"
#include "base/status.h"
#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_backward.h"
#include "producers/torch/torch_library.h"

#include <assert.h>
#include <dlfcn.h>

typedef PyObject *fast_function(PyObject *self, PyObject *const *arguments, intptr_t count, PyObject *names);
typedef PyObject *one_function(PyObject *self, PyObject *argument);

struct method { /* PyMethodDef */
    const char *name;
    void *function;
    int flags;
    const char *documentation;
};
enum { ONE_ARGUMENT = 0x8, FAST_WITH_NAMES = 0x80 | 0x2 };

#define FUNCTIONS(X)                                                                                                   \
    X(PyObject *, PyObject_Vectorcall, (PyObject *, PyObject *const *, size_t, PyObject *))                            \
    X(PyObject *, PyObject_VectorcallMethod, (PyObject *, PyObject *const *, size_t, PyObject *))                      \
    X(PyObject *, PyObject_GetAttr, (PyObject *, PyObject *))                                                          \
    X(PyObject *, PyCFunction_NewEx, (struct method *, PyObject *, PyObject *))                                        \
    X(PyObject *, PyUnicode_InternFromString, (const char *))                                                          \
    X(PyObject *, PyLong_FromUnsignedLongLong, (unsigned long long))                                                   \
    X(unsigned long long, PyLong_AsUnsignedLongLong, (PyObject *))                                                     \
    X(void, PyErr_Fetch, (PyObject **, PyObject **, PyObject **))                                                      \
    X(void, PyErr_Restore, (PyObject *, PyObject *, PyObject *))                                                       \
    X(PyObject *, PyErr_Occurred, (void))                                                                              \
    X(void, PyErr_Clear, (void))                                                                                       \
    X(int, PyErr_ExceptionMatches, (PyObject *))                                                                       \
    X(void, Py_IncRef, (PyObject *))                                                                                   \
    X(void, Py_DecRef, (PyObject *))

#define X(result, name, arguments) result(*name) arguments;
static struct python {
    FUNCTIONS(X)
    PyObject *none, *grad, *data_ptr;             /* None and names of attributes */
    PyObject **system_exit, **keyboard_interrupt; /* exceptions that end a program */
} python;
#undef X

/* Modules by the address of their object, and what new ones and the outermost ones call. */
static struct modules {
    struct mt_number_map places; /* span << 8 | category */
    bool is_created;
    PyObject *on_new, *on_outermost; /* on_new is None where new ones are none of ours */
} modules;

enum { CATEGORY_BITS = 8 };

/* ---- finding Python ---- */

static bool find_functions(void)
{
#define X(result, name, arguments)                                                                                     \
    *(void **)&python.name = dlsym(RTLD_DEFAULT, #name);                                                               \
    if (python.name == NULL)                                                                                           \
        return false;
    FUNCTIONS(X)
#undef X
    python.none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    python.system_exit = dlsym(RTLD_DEFAULT, "PyExc_SystemExit");
    python.keyboard_interrupt = dlsym(RTLD_DEFAULT, "PyExc_KeyboardInterrupt");
    return python.none != NULL && python.system_exit != NULL && python.keyboard_interrupt != NULL;
}

int memtrace_torch_python(void)
{
    if (python.grad != NULL)
        return MT_OK;
    if (!find_functions())
        return mt_fail(MT_NO_DEVICE, "this Python lacks functions that the hooks need");
    python.data_ptr = python.PyUnicode_InternFromString("data_ptr");
    python.grad = python.PyUnicode_InternFromString("grad");
    mt_number_map_create(&modules.places);
    modules.is_created = true;
    return MT_OK;
}

static PyObject *none(void)
{
    python.Py_IncRef(python.none);
    return python.none;
}

/* ---- modules ---- */

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

/* True if the exception that is set ends a program: SystemExit, or a user's Ctrl-C. */
static bool is_end(void)
{
    return python.PyErr_ExceptionMatches(*python.system_exit) ||
           python.PyErr_ExceptionMatches(*python.keyboard_interrupt);
}

static void release(PyObject *object)
{
    if (object != NULL)
        python.Py_DecRef(object);
}

/* Calls a function of the watcher's, whose own failure is not the program's. An exception that is under way stays. False if the
 * program is to end: the exception that ends it is set then, in place of another. */
static bool call_watcher(PyObject *function, PyObject *argument)
{
    PyObject *kind, *value, *trace;
    python.PyErr_Fetch(&kind, &value, &trace);
    PyObject *result = python.PyObject_Vectorcall(function, &argument, 1, NULL);
    if (result == NULL && is_end()) {
        release(kind);
        release(value);
        release(trace);
        return false;
    }
    release(result);
    python.PyErr_Clear();
    python.PyErr_Restore(kind, value, trace);
    return true;
}

/* Finds the place of a module; asks for it if the module is called for the first time. False if it has none. */
static bool find_place(PyObject *module, uint64_t *out)
{
    const uint64_t key = (uint64_t)(uintptr_t)module;
    if (mt_number_map_get(&modules.places, key, out))
        return true;
    if (modules.on_new == python.none)
        return false;
    if (!call_watcher(modules.on_new, module))
        python.PyErr_Clear(); /* a new module ends no program */
    return mt_number_map_get(&modules.places, key, out);
}

/* Calls a module as torch.nn.Module.__call__ did before, in its span. */
static PyObject *call_module(PyObject *call, PyObject *const *arguments, intptr_t count, PyObject *names)
{
    uint64_t place;
    if (count < 1 || !find_place(arguments[0], &place))
        return python.PyObject_Vectorcall(call, arguments, (size_t)count, names);
    const bool is_outermost = mt_thread_spans_depth(mt_torch_spans()) == 0;
    if (is_outermost && !call_watcher(modules.on_outermost, arguments[0]))
        return NULL;
    const uint32_t depth =
        memtrace_torch_span_begin((uint32_t)(place >> CATEGORY_BITS), (int)(place & ((1u << CATEGORY_BITS) - 1)));
    mt_torch_backward_mark();
    PyObject *result = python.PyObject_Vectorcall(call, arguments, (size_t)count, names);
    memtrace_torch_span_end(depth);
    mt_torch_backward_mark();
    if (is_outermost && !call_watcher(modules.on_outermost, python.none)) {
        release(result);
        return NULL;
    }
    return result;
}

PyObject *memtrace_torch_module_call(PyObject *call, PyObject *on_new, PyObject *on_outermost)
{
    static struct method method = {.name = "__call__", .flags = FAST_WITH_NAMES};
    fast_function *const function = call_module;
    assert(modules.is_created);
    method.function = *(void *const *)&function;
    modules.on_new = on_new;
    modules.on_outermost = on_outermost;
    python.Py_IncRef(on_new); /* for good */
    python.Py_IncRef(on_outermost);
    return python.PyCFunction_NewEx(&method, call, NULL);
}

/* ---- gradients ---- */

/* Returns the address of a tensor's first element; 0 if it has none. */
static uint64_t address_of(PyObject *tensor)
{
    PyObject *address = python.PyObject_VectorcallMethod(python.data_ptr, &tensor, 1, NULL);
    uint64_t found = address != NULL ? python.PyLong_AsUnsignedLongLong(address) : 0;
    if (address != NULL)
        python.Py_DecRef(address);
    if (python.PyErr_Occurred() == NULL)
        return found;
    python.PyErr_Clear();
    return 0;
}

/* Labels a parameter's gradient. `place` is a number, as of a module. */
static PyObject *label_gradient(PyObject *place, PyObject *parameter)
{
    const uint64_t known = python.PyLong_AsUnsignedLongLong(place);
    PyObject *gradient = python.PyObject_GetAttr(parameter, python.grad);
    const uint64_t address = gradient != NULL && gradient != python.none ? address_of(gradient) : 0;
    if (address != 0)
        (void)mt_torch_relabel(address, (uint32_t)(known >> CATEGORY_BITS), (int)(known & ((1u << CATEGORY_BITS) - 1)));
    if (gradient != NULL)
        python.Py_DecRef(gradient);
    else
        python.PyErr_Clear();
    return none();
}

PyObject *memtrace_torch_gradient_hook(uint32_t span, int category)
{
    static struct method method = {.name = "label_gradient", .flags = ONE_ARGUMENT};
    one_function *const function = label_gradient;
    assert(modules.is_created);
    method.function = *(void *const *)&function;
    PyObject *place =
        python.PyLong_FromUnsignedLongLong((unsigned long long)span << CATEGORY_BITS | mt_torch_known(category));
    PyObject *hook = place != NULL ? python.PyCFunction_NewEx(&method, place, NULL) : NULL;
    if (place != NULL)
        python.Py_DecRef(place);
    return hook;
}
