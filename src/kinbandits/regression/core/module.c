/* The compiled core: the inner loops of the exact ladder, for where a compiler was there at installation.
 *
 * The same text in NumPy, with the derivations, is exact/rungs.py (`settle`: the rungs, conjugate gradients too),
 * exact/reference.py (steps, widths, tighten, border) and exact/dual.py (residual, measure, append). One term, blocks as
 * the reference. Both must give the same arms, rung for rung; tests compare them. What stands beside the ladder is in
 * sums.h: kernels.cdist, similarity/estimated.py and budgeted/posterior.py.
 *
 * Arrays come through the buffer protocol. Their sizes are checked when they come in, so that wrong ones are an error
 * and never a wild pointer. Loops are compiled for several kinds of processor where the linker can choose.
 */

#include "loops.h"
#include "state.h"
#include "round.h"
#include "gradients.h"
#include "sums.h"

#define TEXT 13 /* changes with every change of what Python expects: an old build is not used */

/* settle(bound, t, first, K_arm, noise, lift, block_noise, borders, kx, rows, arms, known, explore, most_steps, stage,
 *        (ridge, exploration, kernel, row_sum, reward, lift_root, largest_noise, ones, drift, eta, rounding,
 *         floor))
 * -> rung, leader (-1 if there are several, or none), steps, cg steps, ones, drift, eta, rounding, floor. ``arms`` are
 * those of the candidates; ``known`` (6, k) is f, q_low, q_high, low, high and the prior. Stages: 0 the first rungs,
 * 1 the next and, if that leaves the round open, conjugate gradients, 2 these alone. */
static PyObject *settle(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    TAKES("settle", 16);
    Round r = {0};
    r.t = PyLong_AsSsize_t(args[1]), r.first = PyLong_AsSsize_t(args[2]), r.rows = PyLong_AsSsize_t(args[9]);
    Int most = PyLong_AsSsize_t(args[13]), stage = PyLong_AsSsize_t(args[14]), taken = 0;
    r.explore = PyObject_IsTrue(args[12]);
    r.leader = -1;
    if (PyErr_Occurred()) return NULL;
    double *numbers[] = {&r.ridge,         &r.exploration, &r.kernel, &r.row_sum, &r.reward, &r.lift_root,
                         &r.largest_noise, &r.ones,        &r.drift,  &r.eta,     &r.rounding,
                         &r.floor};
    if (!PyTuple_Check(args[15]) || PyTuple_Size(args[15]) != 12)
        return PyErr_Format(PyExc_ValueError, "12 numbers were expected");
    for (Int i = 0; i < 12; i++) *numbers[i] = PyFloat_AsDouble(PyTuple_GetItem(args[15], i));
    if (PyErr_Occurred()) return NULL;
    if (!(r.b = state(args[0], r.t, r.first, 0))) return NULL;
    Int N = r.b->n_arms;
    Py_buffer views[8];
    Int held = 0;
    PyObject *result = NULL;
    READ(r.K_arm, 3, 'd', N * N, 0);
    READ(r.noise, 4, 'd', N, 0);
    READ(r.lift, 5, 'd', N, 0);
    READ(r.block_noise, 6, 'd', N, 0);
    READ(r.borders, 7, 'd', N, 0);
    READ(r.candidates, 10, 'i', 1, 0);
    r.k = views[held - 1].len / (Int)sizeof(Int);
    READ(r.kx, 8, 'd', (r.rows < 1 ? 1 : r.rows) * (r.t + 1), 0);
    READ(r.f, 11, 'd', 6 * r.k, PyBUF_WRITABLE);
    int fits = r.rows == 1 || r.rows == r.k;
    for (Int c = 0; c < r.k; c++) fits &= r.candidates[c] >= 0 && r.candidates[c] < N;
    for (Int a = 0; a < N; a++) fits &= r.b->counts[a] <= r.b->block_room[a];
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "candidates, their kernel values or the blocks are not what they should be");
        goto finish;
    }
    r.q_low = r.f + r.k, r.q_high = r.q_low + r.k, r.low = r.q_high + r.k, r.high = r.low + r.k;
    r.prior = r.high + r.k;
    int rung = stage && !limits(&r) ? -1 : OPEN;
    if (!rung && stage < 2) rung = stage ? go_on(&r, most, &taken) : start(&r, most, &taken);
    if (!rung && stage) rung = conjugate(&r);
    result = rung < 0 ? PyErr_NoMemory()
                      : Py_BuildValue("innnddddd", rung, r.leader, taken, r.cg_steps, r.ones, r.drift, r.eta,
                                      r.rounding, r.floor);
    FINISH;
}

static PyMethodDef methods[] = {
    {"alike", (PyCFunction)(void (*)(void))alike, METH_FASTCALL, "The similarity of arms from sums over rows."},
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "A handle on the arrays of a state."},
    {"embed", (PyCFunction)(void (*)(void))embed, METH_FASTCALL, "A new row in these sums."},
    {"observe", (PyCFunction)(void (*)(void))observe, METH_FASTCALL, "Append a row."},
    {"squares", (PyCFunction)(void (*)(void))squares, METH_FASTCALL, "Squared distances."},
    {"read", (PyCFunction)(void (*)(void))read_points, METH_FASTCALL, "Means and widths from a dictionary."},
    {"settle", (PyCFunction)(void (*)(void))settle, METH_FASTCALL, "Climb some rungs."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "TEXT", TEXT); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
