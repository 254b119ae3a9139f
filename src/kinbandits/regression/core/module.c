/* The compiled core: the inner loops of the exact ladder, for where a compiler was there at installation.
 *
 * The same text in NumPy, with the derivations, is exact/rungs.py (`settle`: the rungs, conjugate gradients too),
 * exact/blocks.py (steps, widths, tighten, border) and exact/dual.py (residual, measure, append). One term, blocks as
 * the reference. Both must give the same arms, rung for rung; tests compare them. And triangular solves for
 * linalg/packed.py.
 *
 * Arrays come through the buffer protocol. Their sizes are checked when they come in, so that wrong ones are an error
 * and never a wild pointer. Loops are compiled for two kinds of processor where the linker can choose between them.
 */

#include "loops.h"

#define TEXT 10 /* changes with every change of what Python expects: an old build is not used */

/* -- a lower triangle, row by row in one piece ------------------------------------------------------------------ */

#define ROW(L, i) ((L) + (i) * ((i) + 1) / 2)

/* c = L^-1 b from row ``low`` on */
static void forward(double *c, const double *L, const double *b, Int low, Int n) {
    for (Int i = low; i < n; i++) c[i] = (b[i] - dot(ROW(L, i), c, i)) / ROW(L, i)[i];
}

/* packed(what, L, low, n, b, c): with "f", c = L^-1 b from row ``low`` on; with "b", c = L^-T b; with "g", the triangle
 * grows by row n, whose values to the rows are b and c[n] with itself: its pivot, and nothing is changed unless it is
 * above 0. */
static PyObject *packed(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 6) return PyErr_Format(PyExc_TypeError, "packed takes 6 arguments, got %zd", n_args);
    Int low = PyLong_AsSsize_t(args[2]), n = PyLong_AsSsize_t(args[3]), held = 0;
    if (PyErr_Occurred()) return NULL;
    int what = PyUnicode_CompareWithASCIIString(args[0], "f") == 0   ? 'f'
               : PyUnicode_CompareWithASCIIString(args[0], "b") == 0 ? 'b'
                                                                     : 'g';
    Int rows = n + (what == 'g');
    if (n < 0 || low < 0 || low > n || rows > 1 << 30)
        return PyErr_Format(PyExc_ValueError, "there are no %zd rows", n);
    Py_buffer views[3];
    PyObject *result = NULL;
    double *L, *c, pivot = 0.0;
    const double *b;
    READ(L, 1, 'd', rows * (rows + 1) / 2, what == 'g' ? PyBUF_WRITABLE : 0);
    READ(b, 4, 'd', n, 0);
    READ(c, 5, 'd', rows, PyBUF_WRITABLE);
    if (what == 'f') forward(c, L, b, low, n);
    if (what == 'b') {
        memcpy(c, b, (size_t)n * sizeof(double));
        for (Int i = n - 1; i >= 0; i--) c[i] /= ROW(L, i)[i], add(c, ROW(L, i), -c[i], i);
    }
    if (what == 'g') {
        forward(c, L, b, 0, n);
        pivot = c[n] - dot(c, c, n);
        if (pivot > 0.0) {
            memcpy(ROW(L, n), c, (size_t)n * sizeof(double));
            ROW(L, n)[n] = sqrt(pivot);
        }
    }
    result = PyFloat_FromDouble(what == 'f' ? dot(c, c, n) : pivot);
finish:
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

/* -- the arrays of one state ----------------------------------------------------------------------------------- */

typedef struct {
    Py_buffer *views;
    Int held, n_arms, room;
    Int *arms, *counts, **index, *index_room, *strip_room, *block_room;
    double *rewards, *alpha, *res, *Y, *recent, *shares, **strip, **block;
    double *x, *y, *z; /* room to work in */
} Bound;

static void release(PyObject *capsule) {
    Bound *b = PyCapsule_GetPointer(capsule, "kinbandits.bound");
    if (!b) return;
    for (Int i = 0; i < b->held; i++) PyBuffer_Release(&b->views[i]);
    free(b->views), free(b->index), free(b->index_room), free(b->strip_room), free(b->block_room);
    free(b->strip), free(b->block), free(b->x), free(b);
}

/* bind(arms, counts, index, rewards, alpha, res, Y, recent, strips, blocks, shares) */
static PyObject *bind(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 11) return PyErr_Format(PyExc_TypeError, "bind takes 11 arguments, got %zd", n_args);
    Int N = PyList_Check(args[2]) ? PyList_Size(args[2]) : -1;
    if (N < 1 || !PyList_Check(args[8]) || PyList_Size(args[8]) != N || !PyList_Check(args[9]) ||
        PyList_Size(args[9]) != N)
        return PyErr_Format(PyExc_ValueError, "three lists of one array per arm were expected");
    Bound *b = calloc(1, sizeof(Bound));
    if (!b) return PyErr_NoMemory();
    b->n_arms = N;
    b->views = calloc((size_t)(8 + 3 * N), sizeof(Py_buffer));
    b->index = calloc((size_t)N, sizeof(Int *)), b->strip = calloc((size_t)N, sizeof(double *));
    b->block = calloc((size_t)N, sizeof(double *)), b->index_room = calloc((size_t)N, sizeof(Int));
    b->strip_room = calloc((size_t)N, sizeof(Int)), b->block_room = calloc((size_t)N, sizeof(Int));
    PyObject *capsule = PyCapsule_New(b, "kinbandits.bound", release);
    if (!capsule) return NULL;
    if (!b->views || !b->index || !b->strip || !b->block || !b->index_room || !b->strip_room || !b->block_room) {
        Py_DECREF(capsule);
        return PyErr_NoMemory();
    }
#define HOLD(target, object, kind, most)                                                             \
    do {                                                                                             \
        if (!((target) = memory(object, &b->views[b->held], kind, most, PyBUF_WRITABLE))) goto fail; \
        b->held++;                                                                                   \
    } while (0)
    HOLD(b->arms, args[0], 'i', N);
    Int room = b->room = b->views[b->held - 1].len / (Int)sizeof(Int);
    HOLD(b->counts, args[1], 'i', N);
    HOLD(b->rewards, args[3], 'd', room);
    HOLD(b->alpha, args[4], 'd', room);
    HOLD(b->res, args[5], 'd', room);
    HOLD(b->Y, args[6], 'd', N * room);
    HOLD(b->recent, args[7], 'd', RECENT * room);
    HOLD(b->shares, args[10], 'd', N);
    for (Int a = 0; a < N; a++) {
        HOLD(b->index[a], PyList_GetItem(args[2], a), 'i', 1);
        b->index_room[a] = b->views[b->held - 1].len / (Int)sizeof(Int);
        HOLD(b->strip[a], PyList_GetItem(args[8], a), 'd', room);
        b->strip_room[a] = b->views[b->held - 1].len / (room * (Int)sizeof(double));
        HOLD(b->block[a], PyList_GetItem(args[9], a), 'd', 1);
        Py_buffer *view = &b->views[b->held - 1];
        if (view->ndim != 2 || !view->shape || view->shape[0] != view->shape[1]) {
            PyErr_SetString(PyExc_ValueError, "blocks must be square");
            goto fail;
        }
        b->block_room[a] = view->shape[0];
    }
    if (!(b->x = malloc((size_t)(3 * room + N) * sizeof(double)))) {
        PyErr_NoMemory();
        goto fail;
    }
    b->y = b->x + room, b->z = b->y + room;
    return capsule;
fail:
    Py_DECREF(capsule);
    return NULL;
}

/* The state behind the handle, if it has t rows and ``first`` to t are recent; NULL and an error if not. */
static Bound *state(PyObject *capsule, Int t, Int first, Int more) {
    Bound *b = PyCapsule_GetPointer(capsule, "kinbandits.bound");
    if (!b) return NULL;
    Int total = 0, N = b->n_arms;
    for (Int a = 0; a < N; a++) {
        Int n = b->counts[a];
        if (n < 0 || n > b->index_room[a] || n > b->strip_room[a] || n > b->room) goto wrong;
        total += n;
    }
    if (total != t || t + more > b->room || first < 0 || first > t || t - first + more > RECENT) goto wrong;
    int bad = 0;
    for (Int i = 0; i < t; i++) bad |= (size_t)b->arms[i] >= (size_t)N;
    if (!bad) return b;
wrong:
    PyErr_SetString(PyExc_ValueError, "the arrays do not hold what they should");
    return NULL;
}

/* -- one row ---------------------------------------------------------------------------------------------------- */

/* The recent rows become columns of the strips. */
static void flush(Bound *b, Int t, Int first) {
    for (Int a = 0; a < b->n_arms; a++)
        for (Int j = 0; j < b->counts[a]; j++) {
            double *out = b->strip[a] + j * b->room;
            const double *in = b->recent + b->index[a][j];
            for (Int i = first; i < t; i++) out[i] = in[(i - first) * b->room];
        }
}

/* observe(bound, t, first, arm, K_arm, values, reward, noise_after, block_noise, border): the new dual value, and
 * whether the block grew. Where no more recent rows can be held, they become columns of the strips first. With
 * block_noise < 0 the new row starts with a dual value of 0, and no block grows. */
static PyObject *observe(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 10) return PyErr_Format(PyExc_TypeError, "observe takes 10 arguments, got %zd", n_args);
    Int t = PyLong_AsSsize_t(args[1]), first = PyLong_AsSsize_t(args[2]), arm = PyLong_AsSsize_t(args[3]);
    double reward = PyFloat_AsDouble(args[6]), noise = PyFloat_AsDouble(args[7]), own = PyFloat_AsDouble(args[8]);
    int border = PyObject_IsTrue(args[9]);
    if (PyErr_Occurred()) return NULL;
    Int full = t - first == RECENT;
    Bound *b = state(args[0], t, full ? t : first, 1);
    if (!b) return NULL;
    Int N = b->n_arms, room = b->room;
    if (arm < 0 || arm >= N || b->counts[arm] >= b->index_room[arm] || b->counts[arm] >= b->strip_room[arm])
        return PyErr_Format(PyExc_ValueError, "there is no room for a row of arm %zd", arm);
    Int n = b->counts[arm], ld = b->block_room[arm];
    if (border && n >= ld) return PyErr_Format(PyExc_ValueError, "there is no room in the block of arm %zd", arm);
    Py_buffer similarity, row;
    const double *K_arm = memory(args[4], &similarity, 'd', N * N, 0);
    if (!K_arm) return NULL;
    const double *values = memory(args[5], &row, 'd', t + 1, 0);
    if (!values) {
        PyBuffer_Release(&similarity);
        return NULL;
    }
    if (full) flush(b, t, first), first = t;
    const Int *rows = b->index[arm];
    double *sums = b->y, *k = b->x, d = K_arm[arm * N + arm], g = 0.0, s;
    int grown = 0;
    memset(sums, 0, (size_t)N * sizeof(double));
    for (Int i = 0; i < t; i++) sums[b->arms[i]] += values[i] * b->alpha[i];
    double error = reward;
    for (Int a = 0; a < N; a++) b->Y[a * room + t] = sums[a], error -= K_arm[arm * N + a] * sums[a];
    for (Int j = 0; j < n; j++) k[j] = d * values[rows[j]];
    if (own >= 0.0) {
        double corner = d * values[t] + noise;
        g = error / (corner + dot(k, k, n) / corner);
        add(b->Y + arm * room, values, g, t + 1);
    }
    b->alpha[t] = g, b->rewards[t] = reward;
    Int line = t - first;
    memcpy(b->recent + line * room, values, (size_t)(t + 1) * sizeof(double));
    for (Int i = 0; i < line; i++) b->recent[i * room + t] = values[first + i];
    memcpy(b->strip[arm] + n * room, values, (size_t)(t + 1) * sizeof(double));
    b->arms[t] = arm, b->index[arm][n] = t, b->counts[arm] = n + 1;
    if (border) {
        double corner = d * values[t] + own, *P = b->block[arm], *u = b->y;
        multiply(u, P, ld, k, n);
        s = corner - dot(k, u, n);
        if (s >= 1e-8 * corner) {
            add_outer(P, ld, u, 1.0 / s, n);
            for (Int j = 0; j < n; j++) P[n * ld + j] = P[j * ld + n] = -u[j] / s;
            P[n * ld + n] = 1.0 / s;
            grown = 1;
        }
    }
    PyBuffer_Release(&similarity), PyBuffer_Release(&row);
    return Py_BuildValue("dO", g, grown ? Py_True : Py_False);
}

/* -- one round -------------------------------------------------------------------------------------------------- */

#include "round.h"

/* squares(x, X, n, out): squared distances of each row of x (k, d) to the first n rows of X (n, d), into out (k, n); or
 * (k, n + 1), where the last of each row is 0, the distance to itself. */
static PyObject *squares(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 4) return PyErr_Format(PyExc_TypeError, "squares takes 4 arguments, got %zd", n_args);
    Int n = PyLong_AsSsize_t(args[2]), held = 0;
    if (PyErr_Occurred()) return NULL;
    Py_buffer views[3];
    PyObject *result = NULL;
    const double *x, *X;
    double *out;
    READ(x, 0, 'd', 0, 0);
    if (n < 0 || views[0].ndim != 2 || !views[0].shape) {
        PyErr_SetString(PyExc_ValueError, "contexts (k, d) and a number of rows were expected");
        goto finish;
    }
    Int k = views[0].shape[0], d = views[0].shape[1];
    READ(X, 1, 'd', n * d, 0);
    READ(out, 3, 'd', k * n, PyBUF_WRITABLE);
    Int wide = views[2].len >= k * (n + 1) * (Int)sizeof(double);
    for (Int c = 0; c < k; c++) {
        squared_distances(out + c * (n + wide), x + c * d, X, n, d);
        if (wide) out[c * (n + 1) + n] = 0.0;
    }
    Py_INCREF(Py_None);
    result = Py_None;
finish:
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

/* settle(bound, t, first, K_arm, noise, lift, block_noise, borders, kx, rows, arms, known, explore, most_steps, stage,
 *        (ridge, exploration, kernel, row_sum, reward, lift_root, largest_noise, ones, drift, eta, rounding,
 *         floor))
 * -> rung, leader (-1 if there are several, or none), steps, cg steps, ones, drift, eta, rounding, floor. ``arms`` are
 * those of the candidates; ``known`` (6, k) is f, q_low, q_high, low, high and the prior. Stages: 0 the first rungs,
 * 1 the next and, if that leaves the round open, conjugate gradients, 2 these alone. */
static PyObject *settle(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 16) return PyErr_Format(PyExc_TypeError, "settle takes 16 arguments, got %zd", n_args);
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
finish:
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

/* -- the estimated similarity: similarity/estimated.py in C ------------------------------------------------------ */

/* embed(G, own, counts, arms, row, n): row n of the history, of arm arms[n], by its kernel values with rows 0 to n. */
static PyObject *embed(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 6) return PyErr_Format(PyExc_TypeError, "embed takes 6 arguments, got %zd", n_args);
    Int n = PyLong_AsSsize_t(args[5]), held = 0;
    if (PyErr_Occurred()) return NULL;
    Py_buffer views[5];
    PyObject *result = NULL;
    double *G, *own;
    const double *row;
    Int *counts;
    const Int *arms;
    READ(own, 1, 'd', 1, PyBUF_WRITABLE);
    Int N = views[0].len / (Int)sizeof(double);
    READ(G, 0, 'd', N * N, PyBUF_WRITABLE);
    READ(counts, 2, 'i', N, PyBUF_WRITABLE);
    READ(arms, 3, 'i', n < 0 ? 0 : n + 1, 0);
    READ(row, 4, 'd', n < 0 ? 0 : n + 1, 0);
    int bad = n < 0;
    for (Int i = 0; i <= n; i++) bad |= (size_t)arms[i] >= (size_t)N;
    if (bad) {
        PyErr_SetString(PyExc_ValueError, "rows with arms that there are were expected");
        goto finish;
    }
    double *sums = calloc((size_t)N, sizeof(double));
    if (!sums) {
        PyErr_NoMemory();
        goto finish;
    }
    Int a = arms[n];
    for (Int i = 0; i <= n; i++) sums[arms[i]] += row[i];
    for (Int b = 0; b < N; b++) G[a * N + b] += sums[b];
    sums[a] -= row[n]; /* the pair of a row with itself stands once in G */
    for (Int b = 0; b < N; b++) G[b * N + a] += sums[b];
    own[a] += row[n], counts[a]++;
    free(sums);
    Py_INCREF(Py_None);
    result = Py_None;
finish:
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

/* alike(G, counts, factor, K): K = exp(factor D2) from the sums G, where pairs of a row with itself count. */
static PyObject *alike(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 4) return PyErr_Format(PyExc_TypeError, "alike takes 4 arguments, got %zd", n_args);
    double factor = PyFloat_AsDouble(args[2]), *K;
    if (PyErr_Occurred()) return NULL;
    Py_buffer views[3];
    Int held = 0;
    PyObject *result = NULL;
    const double *G;
    const Int *counts;
    READ(counts, 1, 'i', 1, 0);
    Int N = views[0].len / (Int)sizeof(Int);
    READ(G, 0, 'd', N * N, 0);
    READ(K, 3, 'd', N * N, PyBUF_WRITABLE);
#define ROWS(a) (counts[a] > 1 ? (double)counts[a] : 1.0)
    for (Int a = 0; a < N; a++) {
        double own = G[a * N + a] / (ROWS(a) * ROWS(a));
        for (Int b = 0; b < a; b++) {
            double inner = (G[a * N + b] + G[b * N + a]) / (2.0 * ROWS(a) * ROWS(b));
            double squared = own - 2.0 * inner + G[b * N + b] / (ROWS(b) * ROWS(b));
            K[a * N + b] = K[b * N + a] = exp(factor * (squared > 0.0 ? squared : 0.0));
        }
        K[a * N + a] = 1.0;
    }
    Py_INCREF(Py_None);
    result = Py_None;
finish:
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

/* -- the dictionary of the budgeted engine: budgeted/posterior.py in C ------------------------------------------- */

/* read(gap, kx, arms, K_arm, w, late, scales, rows, candidates, found): means and k'gap k of candidates that share a
 * context, into found (2, k). k of candidate b is K_arm[b, arms] * kx at the n points, so that N^2 sums over pairs of
 * points serve all candidates. ``late`` (rows or more, m >= n) and ``scales`` are rows not yet in gap. */
static PyObject *read_points(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 10) return PyErr_Format(PyExc_TypeError, "read takes 10 arguments, got %zd", n_args);
    Int rows = PyLong_AsSsize_t(args[7]), held = 0;
    if (PyErr_Occurred()) return NULL;
    Py_buffer views[9];
    PyObject *result = NULL;
    const double *gap, *kx, *K_arm, *w, *late, *scales;
    const Int *arms, *candidates;
    double *found, *Q = NULL;
    Int *order = NULL;
    READ(arms, 2, 'i', 0, 0);
    Int n = views[0].len / (Int)sizeof(Int);
    READ(candidates, 8, 'i', 1, 0);
    Int k = views[1].len / (Int)sizeof(Int);
    READ(K_arm, 3, 'd', 1, 0);
    Int N = views[2].ndim == 2 && views[2].shape ? views[2].shape[0] : 0;
    READ(gap, 0, 'd', n * n, 0);
    READ(kx, 1, 'd', n, 0);
    READ(w, 4, 'd', n, 0);
    READ(scales, 6, 'd', rows < 0 ? 0 : rows, 0);
    READ(late, 5, 'd', rows < 0 ? 0 : rows * n, 0);
    Int m = views[7].ndim == 2 && views[7].shape ? views[7].shape[1] : 0;
    READ(found, 9, 'd', 2 * k, PyBUF_WRITABLE);
    int bad = rows < 0 || N * N * (Int)sizeof(double) != views[2].len || (rows && (m < n || views[7].shape[0] < rows));
    for (Int i = 0; i < n; i++) bad |= (size_t)arms[i] >= (size_t)N;
    for (Int b = 0; b < k; b++) bad |= (size_t)candidates[b] >= (size_t)N;
    if (bad) {
        PyErr_SetString(PyExc_ValueError, "points and candidates with arms that there are were expected");
        goto finish;
    }
    Q = calloc((size_t)(N * N + 2 * N + n), sizeof(double)), order = calloc((size_t)(n + N + 1), sizeof(Int));
    if (!Q || !order) {
        PyErr_NoMemory();
        goto finish;
    }
    double *sums = Q + N * N, *means = sums + N, *y = means + N; /* y: kx, arm by arm */
    Int *starts = order + n;
    int alone = 1;
    for (Int a = 0; a < N; a++)
        for (Int b = 0; b < a; b++) alone &= K_arm[a * N + b] == 0.0 && K_arm[b * N + a] == 0.0;
    for (Int i = 0; i < n; i++) starts[arms[i] + 1]++, means[arms[i]] += kx[i] * w[i];
    for (Int a = 0; a < N; a++) starts[a + 1] += starts[a];
    for (Int i = 0; i < n; i++) order[starts[arms[i]]++] = i; /* now the ends */
    for (Int i = 0; i < n; i++) y[i] = kx[order[i]];
    for (Int i = 0; i < n; i++) { /* of each pair of points once */
        const double *row = gap + order[i] * n;
        Int mine = arms[order[i]];
        for (Int a = alone ? mine : 0; a <= mine; a++) {
            Int low = a ? starts[a - 1] : 0, high = starts[a] < i ? starts[a] : i;
            if (low < high) Q[mine * N + a] += 2.0 * y[i] * gathered_dot(row, order + low, y + low, high - low);
        }
        Q[mine * N + mine] += y[i] * y[i] * row[order[i]];
    }
    for (Int b = 0; b < k; b++) {
        const double *lent = K_arm + candidates[b] * N;
        double form = 0.0;
        for (Int a = 0; a < N; a++) form += lent[a] * dot(Q + a * N, lent, N);
        found[b] = dot(means, lent, N), found[k + b] = form;
    }
    for (Int r = 0; r < rows; r++) {
        memset(sums, 0, (size_t)N * sizeof(double));
        for (Int j = 0; j < n; j++) sums[arms[j]] += late[r * m + j] * kx[j];
        for (Int b = 0; b < k; b++) {
            double part = dot(sums, K_arm + candidates[b] * N, N);
            found[k + b] += scales[r] * part * part;
        }
    }
    Py_INCREF(Py_None);
    result = Py_None;
finish:
    free(Q), free(order);
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

static PyMethodDef methods[] = {
    {"alike", (PyCFunction)(void (*)(void))alike, METH_FASTCALL, "The similarity of arms from sums over rows."},
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "A handle on the arrays of a state."},
    {"embed", (PyCFunction)(void (*)(void))embed, METH_FASTCALL, "A new row in these sums."},
    {"observe", (PyCFunction)(void (*)(void))observe, METH_FASTCALL, "Append a row."},
    {"packed", (PyCFunction)(void (*)(void))packed, METH_FASTCALL, "Solve with a packed triangle, or grow it."},
    {"squares", (PyCFunction)(void (*)(void))squares, METH_FASTCALL, "Squared distances."},
    {"read", (PyCFunction)(void (*)(void))read_points, METH_FASTCALL, "Means and widths from a dictionary."},
    {"settle", (PyCFunction)(void (*)(void))settle, METH_FASTCALL, "Climb some rungs."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "TEXT", TEXT); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
