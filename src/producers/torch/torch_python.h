/* Python in this process, and the steps of memtrace into its callables.
 *
 * Python's functions are found by name, so nothing is compiled against it. From 3.9 on, Python exports all of them;
 * others, such as PyObject_Vectorcall, are only in its headers until 3.11. All of this is called with Python's lock
 * held, except where said.
 *
 * torch.compile sees none of it: a callable that is followed stays the object that it was, with the code that it had,
 * since what changes is its entry in C. The watcher's own functions run with the compiler switched off. */
#pragma once

#include "base/status.h"
#include "producers/torch/memtrace_torch.h"

#include <stdbool.h>

typedef PyObject *mt_vectorcall(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *names);

/* PyMethodDef */
struct mt_python_method {
    const char *name;
    void *function;
    int flags;
    const char *documentation;
};
enum { MT_PYTHON_WITH_NAMES = 0x2 | 0x1, MT_PYTHON_ONE_ARGUMENT = 0x8 }; /* of flags */

#define MT_PYTHON_FUNCTIONS(X)                                                                                         \
    X(PyObject *, PyObject_VectorcallDict, (PyObject *, PyObject *const *, size_t, PyObject *))                        \
    X(PyObject *, PyObject_VectorcallMethod, (PyObject *, PyObject *const *, size_t, PyObject *))                      \
    X(PyObject *, PyObject_GetAttr, (PyObject *, PyObject *))                                                          \
    X(PyObject *, PyCFunction_NewEx, (struct mt_python_method *, PyObject *, PyObject *))                              \
    X(PyObject *, PyUnicode_InternFromString, (const char *))                                                          \
    X(PyObject *, PyUnicode_FromString, (const char *))                                                                \
    X(PyObject *, PyLong_FromUnsignedLongLong, (unsigned long long))                                                   \
    X(unsigned long long, PyLong_AsUnsignedLongLong, (PyObject *))                                                     \
    X(void, PyErr_Fetch, (PyObject **, PyObject **, PyObject **))                                                      \
    X(void, PyErr_Restore, (PyObject *, PyObject *, PyObject *))                                                       \
    X(PyObject *, PyErr_Occurred, (void))                                                                              \
    X(void, PyErr_Clear, (void))                                                                                       \
    X(int, PyErr_ExceptionMatches, (PyObject *))                                                                       \
    X(int, PyGILState_Ensure, (void))                                                                                  \
    X(void, PyGILState_Release, (int))                                                                                 \
    X(unsigned long, PyThread_get_thread_ident, (void))                                                                \
    X(int, PyThreadState_SetAsyncExc, (unsigned long, PyObject *))                                                     \
    X(void, Py_IncRef, (PyObject *))                                                                                   \
    X(void, Py_DecRef, (PyObject *))

#define X(result, name, arguments) result(*name) arguments;
struct mt_python {
    MT_PYTHON_FUNCTIONS(X)
    mt_vectorcall *run_function; /* the entry of functions written in Python */
    PyObject *none;
    PyObject **system_exit, **keyboard_interrupt; /* exceptions that end a program */
    const void *function_type, *method_type;      /* PyFunction_Type, PyMethodDescr_Type */
    PyObject *switch_compiler;                    /* torch._C._dynamo.eval_frame.set_eval_frame; NULL: there is none */
};
#undef X

/* Python's functions. Valid once memtrace_torch_python has returned MT_OK. */
extern struct mt_python mt_python;

/* Returns None, as a new reference. */
PyObject *mt_python_none(void);

/* Releases a reference; `object` may be NULL. */
void mt_python_release(PyObject *object);

/* Calls a function of the watcher's with one argument. Its own failure is not the program's, and an exception that is
 * under way stays. False if the program is to end: the exception that ends it is set then, in place of another. */
bool mt_python_watch(PyObject *function, PyObject *argument);

/* Has calls of a function written in Python go to `entry`, which may call mt_python.run_function to run it, and ends
 * that. Fails with MT_NO_DEVICE for another kind of callable. Python 3.11 uses the entry of a method only where C calls
 * it, as for the __call__ of an object. */
mt_status mt_python_follow(PyObject *function, mt_vectorcall *entry);
void mt_python_unfollow(PyObject *function);

/* Returns where a method that is written in C, with arguments by position and by name, has its description, which may
 * be replaced; NULL if `descriptor` is no such method. */
struct mt_python_method **mt_python_method_of(PyObject *descriptor);
