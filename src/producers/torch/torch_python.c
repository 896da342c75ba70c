#include "producers/torch/torch_python.h"

#include "base/status.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

struct mt_python mt_python;

/* The first fields of objects, which every version has in these places where there is one lock. */
struct object {
    intptr_t references;
    const void *type;
};
enum { ENTRY_OFFSET_AT = 56, METHOD_AT = 40 }; /* of a type: tp_vectorcall_offset; of a method: d_method */

static bool is_of_type(const PyObject *object, const void *type)
{
    return ((const struct object *)(const void *)object)->type == type;
}

/* Returns where a function has its entry; NULL if it is not where the type says. */
static mt_vectorcall **entry_of(PyObject *function)
{
    uintptr_t offset;
    memcpy(&offset, (const char *)mt_python.function_type + ENTRY_OFFSET_AT, sizeof offset);
    if (!is_of_type(function, mt_python.function_type) || offset > UINT8_MAX || offset % sizeof(void *) != 0)
        return NULL;
    return (mt_vectorcall **)(void *)((char *)function + offset);
}

static bool find_names(void)
{
    mt_python.none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    mt_python.system_exit = dlsym(RTLD_DEFAULT, "PyExc_SystemExit");
    mt_python.keyboard_interrupt = dlsym(RTLD_DEFAULT, "PyExc_KeyboardInterrupt");
    mt_python.function_type = dlsym(RTLD_DEFAULT, "PyFunction_Type");
    mt_python.method_type = dlsym(RTLD_DEFAULT, "PyMethodDescr_Type");
    return mt_python.none != NULL && mt_python.system_exit != NULL && mt_python.keyboard_interrupt != NULL &&
           mt_python.function_type != NULL && mt_python.method_type != NULL;
}

int memtrace_torch_python(PyObject *function)
{
    if (mt_python.run_function != NULL)
        return MT_OK;
#define X(result, name, arguments)                                                                                     \
    *(void **)&mt_python.name = dlsym(RTLD_DEFAULT, #name);                                                            \
    if (mt_python.name == NULL)                                                                                        \
        return mt_fail(MT_NO_DEVICE, "this Python lacks " #name);
    MT_PYTHON_FUNCTIONS(X)
#undef X
    mt_vectorcall **entry = find_names() ? entry_of(function) : NULL;
    if (entry == NULL || *entry == NULL)
        return mt_fail(MT_NO_DEVICE, "this Python lacks types that the hooks need");
    mt_python.run_function = *entry;
    return MT_OK;
}

PyObject *mt_python_none(void)
{
    mt_python.Py_IncRef(mt_python.none);
    return mt_python.none;
}

void mt_python_release(PyObject *object)
{
    if (object != NULL)
        mt_python.Py_DecRef(object);
}

/* ---- the watcher's functions ---- */

void memtrace_torch_compiler(PyObject *switch_compiler)
{
    mt_python.Py_IncRef(switch_compiler); /* for good */
    mt_python.switch_compiler = switch_compiler;
}

/* Sets what compiles the frames of the calling thread, and returns what did before, as a new reference; NULL if there
 * is no compiler. */
static PyObject *switch_compiler(PyObject *compiler)
{
    if (mt_python.switch_compiler == NULL)
        return NULL;
    PyObject *before = mt_python.PyObject_VectorcallDict(mt_python.switch_compiler, &compiler, 1, NULL);
    if (before == NULL)
        mt_python.PyErr_Clear();
    return before;
}

/* True if the exception that is set ends a program: SystemExit, or a user's Ctrl-C. */
static bool is_end(void)
{
    return mt_python.PyErr_ExceptionMatches(*mt_python.system_exit) ||
           mt_python.PyErr_ExceptionMatches(*mt_python.keyboard_interrupt);
}

static PyObject *call_uncompiled(PyObject *function, PyObject *argument)
{
    PyObject *compiler = switch_compiler(mt_python.none);
    PyObject *result = mt_python.PyObject_VectorcallDict(function, &argument, 1, NULL);
    if (compiler != NULL && compiler != mt_python.none) {
        PyObject *kind, *value, *trace;
        mt_python.PyErr_Fetch(&kind, &value, &trace);
        mt_python_release(switch_compiler(compiler));
        mt_python.PyErr_Restore(kind, value, trace);
    }
    mt_python_release(compiler);
    return result;
}

bool mt_python_watch(PyObject *function, PyObject *argument)
{
    PyObject *kind, *value, *trace;
    mt_python.PyErr_Fetch(&kind, &value, &trace);
    PyObject *result = call_uncompiled(function, argument);
    if (result == NULL && is_end()) {
        mt_python_release(kind);
        mt_python_release(value);
        mt_python_release(trace);
        return false;
    }
    mt_python_release(result);
    mt_python.PyErr_Clear();
    mt_python.PyErr_Restore(kind, value, trace);
    return true;
}

/* ---- entries ---- */

/* From 3.12 on, Python has a function for it, which also has code that has called the function look again. */
static void set_entry(PyObject *function, mt_vectorcall **at, mt_vectorcall *entry)
{
    void (*set)(PyObject *, mt_vectorcall *);
    *(void **)&set = dlsym(RTLD_DEFAULT, "PyFunction_SetVectorcall");
    if (set != NULL)
        set(function, entry);
    else
        *at = entry;
}

mt_status mt_python_follow(PyObject *function, mt_vectorcall *entry)
{
    mt_vectorcall **at = entry_of(function);
    if (at == NULL || (*at != mt_python.run_function && *at != entry))
        return mt_fail(MT_NO_DEVICE, "it is not a function written in Python");
    set_entry(function, at, entry);
    return MT_OK;
}

void mt_python_unfollow(PyObject *function)
{
    mt_vectorcall **at = entry_of(function);
    if (at != NULL)
        set_entry(function, at, mt_python.run_function);
}

struct mt_python_method **mt_python_method_of(PyObject *descriptor)
{
    struct mt_python_method **at = (struct mt_python_method **)(void *)((char *)descriptor + METHOD_AT);
    return is_of_type(descriptor, mt_python.method_type) && (*at)->flags == MT_PYTHON_WITH_NAMES ? at : NULL;
}
