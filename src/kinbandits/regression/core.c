/* The compiled core: the inner loops of the exact ladder, for where a compiler was there at installation.
 *
 * The same text in NumPy, with the derivations, is exact/rungs.py (`settle`: the rungs before conjugate gradients),
 * exact/blocks.py (steps, widths, tighten, border) and exact/dual.py (residual, measure, append). One term, blocks as
 * the reference. Both must give the same arms, rung for rung; tests compare them. And triangular solves for
 * linalg/packed.py.
 *
 * Arrays come through the buffer protocol. Their sizes are checked when they come in, so that wrong ones are an error
 * and never a wild pointer. Loops are compiled for two kinds of processor where the linker can choose between them.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 4 /* changes with every change of what Python expects: an old build is not used */

#if defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__)
#define FAST __attribute__((target_clones("arch=haswell", "default")))
#else
#define FAST
#endif

#define UNIT 0x1p-53
#define RECENT 32

typedef Py_ssize_t Int;

/* -- loops that know no arms ----------------------------------------------------------------------------------- */

/* a'b */
FAST static double dot(const double *a, const double *b, Int n) {
    Int q = n / 4; /* four sums at a time: one alone waits for itself */
    double s = 0.0, u = 0.0, v = 0.0, w = 0.0;
    for (Int i = 0; i < q; i++) {
        s += a[i] * b[i], u += a[q + i] * b[q + i];
        v += a[2 * q + i] * b[2 * q + i], w += a[3 * q + i] * b[3 * q + i];
    }
    for (Int i = 4 * q; i < n; i++) s += a[i] * b[i];
    return s + u + v + w;
}

/* z = v S for S (n, t) with rows ld apart */
FAST static void combine(double *restrict z, const double *S, Int ld, const double *v, Int n, Int t) {
    memset(z, 0, (size_t)t * sizeof(double));
    for (Int low = 0; low < t; low += 512) {
        Int m = t - low < 512 ? t - low : 512, i = 0;
        double *restrict out = z + low;
        for (; i + 4 <= n; i += 4) {
            const double *a = S + i * ld + low, *b = a + ld, *c = b + ld, *d = c + ld;
            double p = v[i], q = v[i + 1], r = v[i + 2], s = v[i + 3];
            for (Int j = 0; j < m; j++) out[j] += p * a[j] + q * b[j] + r * c[j] + s * d[j];
        }
        for (; i < n; i++) {
            const double *a = S + i * ld + low;
            for (Int j = 0; j < m; j++) out[j] += v[i] * a[j];
        }
    }
}

/* y = P x */
FAST static void multiply(double *restrict y, const double *P, Int ld, const double *x, Int n) {
    Int i = 0;
    for (; i + 4 <= n; i += 4) {
        const double *a = P + i * ld, *b = a + ld, *c = b + ld, *d = c + ld;
        double p = 0.0, q = 0.0, r = 0.0, s = 0.0;
        for (Int j = 0; j < n; j++) {
            p += a[j] * x[j];
            q += b[j] * x[j];
            r += c[j] * x[j];
            s += d[j] * x[j];
        }
        y[i] = p, y[i + 1] = q, y[i + 2] = r, y[i + 3] = s;
    }
    for (; i < n; i++) y[i] = dot(P + i * ld, x, n);
}

/* P += c u u' */
FAST static void add_outer(double *restrict P, Int ld, const double *restrict u, double c, Int n) {
    for (Int i = 0; i < n; i++) {
        double *restrict row = P + i * ld;
        double w = c * u[i];
        for (Int j = 0; j < n; j++) row[j] += w * u[j];
    }
}

/* y += w x */
FAST static void add(double *restrict y, const double *restrict x, double w, Int n) {
    for (Int i = 0; i < n; i++) y[i] += w * x[i];
}

/* y_i -= table[arm_i] x_i */
FAST static void subtract_by_arm(double *restrict y, const double *table, const Int *arms, const double *x, Int n) {
    for (Int i = 0; i < n; i++) y[i] -= table[arms[i]] * x[i];
}

static double gathered_dot(const double *a, const Int *rows, const double *v, Int n) {
    double s = 0.0;
    for (Int j = 0; j < n; j++) s += a[rows[j]] * v[j];
    return s;
}

/* The memory of an array of ``most`` or more doubles or integers; NULL and an error if it is another. */
static void *memory(PyObject *array, Py_buffer *view, char kind, Int most, int flags) {
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) return NULL;
    const char *format = view->format ? view->format : "B";
    int fits = kind == 'd' ? format[0] == 'd' : kind == '?' ? view->itemsize == 1
                                                            : strchr("lqn", format[0]) && view->itemsize == sizeof(Int);
    if (!fits || !format[0] || format[1] || view->len < most * view->itemsize) {
        PyErr_Format(PyExc_ValueError, "an array of %zd numbers of kind '%c' was expected", most, kind);
        PyBuffer_Release(view);
        return NULL;
    }
    return view->buf;
}

/* One more argument of a function that holds ``views`` and ends at ``finish``. */
#define READ(target, place, kind, most, flags)                                               \
    do {                                                                                     \
        if (!((target) = memory(args[place], &views[held], kind, most, flags))) goto finish; \
        held++;                                                                              \
    } while (0)

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
    if (!(b->x = malloc((size_t)(3 * room) * sizeof(double)))) {
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
    for (Int i = 0; i < t; i++)
        if (b->arms[i] < 0 || b->arms[i] >= N) goto wrong;
    return b;
wrong:
    PyErr_SetString(PyExc_ValueError, "the arrays do not hold what they should");
    return NULL;
}

/* -- M itself --------------------------------------------------------------------------------------------------- */

/* flush(bound, t, first): the recent rows become columns of the strips. */
static PyObject *flush(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 3) return PyErr_Format(PyExc_TypeError, "flush takes 3 arguments, got %zd", n_args);
    Int t = PyLong_AsSsize_t(args[1]), first = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred()) return NULL;
    Bound *b = state(args[0], t, first, 0);
    if (!b) return NULL;
    for (Int a = 0; a < b->n_arms; a++)
        for (Int j = 0; j < b->counts[a]; j++) {
            double *out = b->strip[a] + j * b->room;
            const double *in = b->recent + b->index[a][j];
            for (Int i = first; i < t; i++) out[i] = in[(i - first) * b->room];
        }
    Py_INCREF(Py_None);
    return Py_None;
}

/* One row of a strip times m columns, each t long. */
FAST static void row_times(double *out, const double *row, const double *W, Int t, Int m) {
    Int c = 0, h = t / 2;
    for (; c + 2 <= m; c += 2) {
        const double *v = W + c * t, *w = v + t;
        double p = 0.0, q = 0.0, r = 0.0, s = 0.0;
        for (Int i = 0; i < h; i++) {
            p += row[i] * v[i], q += row[i] * w[i];
            r += row[h + i] * v[h + i], s += row[h + i] * w[h + i];
        }
        if (t % 2) p += row[t - 1] * v[t - 1], q += row[t - 1] * w[t - 1];
        out[c] += p + r, out[c + 1] += q + s;
    }
    if (c < m) out[c] += dot(row, W + c * t, t);
}

/* times(bound, t, K_arm, noise, V, W, out): M V for V (t, m), into out (t, m); the strips are complete. W (m, t) is
 * room to work in. */
static PyObject *times(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 7) return PyErr_Format(PyExc_TypeError, "times takes 7 arguments, got %zd", n_args);
    Int t = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred()) return NULL;
    Bound *b = state(args[0], t, t, 0);
    if (!b) return NULL;
    Int N = b->n_arms, held = 0;
    Py_buffer views[5];
    PyObject *result = NULL;
    const double *K_arm, *noise, *V;
    double *W, *out;
    READ(K_arm, 2, 'd', N * N, 0);
    READ(noise, 3, 'd', N, 0);
    READ(V, 4, 'd', t, 0);
    Int m = t ? views[held - 1].len / (t * (Int)sizeof(double)) : 0;
    READ(W, 5, 'd', m * t, PyBUF_WRITABLE);
    READ(out, 6, 'd', m * t, PyBUF_WRITABLE);
    for (Int i = 0; i < t; i++)
        for (Int c = 0; c < m; c++) out[i * m + c] = noise[b->arms[i]] * V[i * m + c];
    for (Int a = 0; a < N; a++) {
        if (!b->counts[a]) continue;
        for (Int c = 0; c < m; c++)
            for (Int i = 0; i < t; i++) W[c * t + i] = K_arm[a * N + b->arms[i]] * V[i * m + c];
        for (Int j = 0; j < b->counts[a]; j++)
            row_times(out + b->index[a][j] * m, b->strip[a] + j * b->room, W, t, m);
    }
    Py_INCREF(Py_None);
    result = Py_None;
finish:
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

/* -- one row ---------------------------------------------------------------------------------------------------- */

/* observe(bound, t, first, arm, K_arm, values, reward, noise_after, block_noise, border): the new dual value, and
 * whether the block grew. With block_noise < 0 the new row starts with a dual value of 0, and no block grows. */
static PyObject *observe(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 10) return PyErr_Format(PyExc_TypeError, "observe takes 10 arguments, got %zd", n_args);
    Int t = PyLong_AsSsize_t(args[1]), first = PyLong_AsSsize_t(args[2]), arm = PyLong_AsSsize_t(args[3]);
    double reward = PyFloat_AsDouble(args[6]), noise = PyFloat_AsDouble(args[7]), own = PyFloat_AsDouble(args[8]);
    int border = PyObject_IsTrue(args[9]);
    if (PyErr_Occurred()) return NULL;
    Bound *b = state(args[0], t, first, 1);
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

typedef struct {
    Bound *b;
    Int t, first, k, rows; /* k candidates, which share one row of kernel values or have one each */
    const double *K_arm, *noise, *lift, *block_noise, *borders, *kx, *lent, *prior;
    const char *cold;
    double *f, *q_low, *q_high, *low, *high;
    double ridge, exploration, kernel, row_sum, reward, lift_root, largest_noise, least, most;
    double ones, drift, eta, rounding, floor;
} Round;

/* sum of x_i y_i over the rows of each arm */
static void by_arm(const Round *r, double *sums, const double *x, const double *y) {
    const Int *arms = r->b->arms;
    memset(sums, 0, (size_t)r->b->n_arms * sizeof(double));
    for (Int i = 0; i < r->t; i++) sums[arms[i]] += x[i] * y[i];
}

static void measure(Round *r) {
    Bound *b = r->b;
    double sum = 0.0;
    by_arm(r, b->shares, b->res, b->res);
    for (Int a = 0; a < b->n_arms; a++) sum += b->shares[a] *= r->lift[a];
    double summed = r->reward + (2.0 * r->kernel + r->largest_noise) * r->ones;
    r->rounding = r->row_sum * r->drift + (double)(b->n_arms + 4) * UNIT * summed;
    r->eta = sqrt(sum) + r->rounding * r->lift_root;
    r->floor = (double)(r->t + b->n_arms) * UNIT * r->kernel * r->ones;
}

static void residual(Round *r) {
    Bound *b = r->b;
    Int N = b->n_arms, t = r->t;
    double ones = 0.0;
    for (Int i = 0; i < t; i++) {
        b->res[i] = b->rewards[i] - r->noise[b->arms[i]] * b->alpha[i];
        ones += fabs(b->alpha[i]);
    }
    for (Int a = 0; a < N; a++) subtract_by_arm(b->res, r->K_arm + a * N, b->arms, b->Y + a * b->room, t);
    r->ones = ones;
    measure(r);
}

static double bonus(const Round *r, Int c, double explained, double exploration) {
    double rest = r->prior[c] - explained;
    return exploration / sqrt(r->ridge) * sqrt(rest > 0.0 ? rest : 0.0);
}

static double narrow_bonus(const Round *r, Int c) {
    return bonus(r, c, r->q_high[c], r->exploration * (1.0 - 8.0 * UNIT));
}

static double wide_bonus(const Round *r, Int c) {
    return bonus(r, c, r->q_low[c] > 0.0 ? r->q_low[c] : 0.0, r->exploration * (1.0 + 8.0 * UNIT));
}

/* How far a mean may be off. */
static double mean_error(const Round *r, Int c) {
    double largest = 0.0;
    for (Int i = 0; i < r->k; i++) largest = r->prior[i] > largest ? r->prior[i] : largest;
    double beyond = sqrt(largest / (r->kernel > 1e-300 ? r->kernel : 1e-300));
    return sqrt(r->q_high[c]) * r->eta + (beyond > 1.0 ? beyond : 1.0) * r->floor;
}

/* Narrow the intervals; whether the leader is certain. */
static int bound(Round *r) {
    double best = -INFINITY;
    for (Int c = 0; c < r->k; c++) {
        double error = mean_error(r, c), low = r->f[c] + narrow_bonus(r, c) - error,
               high = r->f[c] + wide_bonus(r, c) + error;
        if (r->cold[c]) low = high = bonus(r, c, 0.0, r->exploration);
        if (low > r->low[c]) r->low[c] = low;
        if (high < r->high[c]) r->high[c] = high;
        if (r->low[c] > best) best = r->low[c];
    }
    Int contenders = 0, open = 0;
    for (Int c = 0; c < r->k; c++)
        if (r->high[c] >= best) contenders++, open += r->low[c] != r->high[c];
    return contenders == 1 || (contenders && !open);
}

/* Whether the round would stay open if the means were exact: then no step will settle it. */
static int open_without_error(const Round *r) {
    double error = 0.0, spread = 0.0, best = -INFINITY;
    for (Int c = 0; c < r->k; c++) {
        double e = mean_error(r, c), s = r->high[c] - r->low[c], low = r->f[c] + narrow_bonus(r, c);
        if (e > error) error = e;
        if (s > spread) spread = s;
        if (low > best) best = low;
    }
    if (error >= 0.1 * spread) return 0;
    Int contenders = 0;
    for (Int c = 0; c < r->k; c++) contenders += r->f[c] + wide_bonus(r, c) >= best;
    return contenders > 1;
}

static void step(Round *r) {
    Bound *b = r->b;
    Int arm = 0, N = b->n_arms, t = r->t, first = r->first;
    for (Int a = 1; a < N; a++)
        if (b->shares[a] > b->shares[arm]) arm = a;
    Int n = b->counts[arm];
    const Int *rows = b->index[arm];
    double *d = b->x, *part = b->y, *z = b->z, size = 0.0;
    for (Int j = 0; j < n; j++) part[j] = b->res[rows[j]];
    multiply(d, b->block[arm], b->block_room[arm], part, n);
    for (Int j = 0; j < n; j++) b->alpha[rows[j]] += d[j], size += fabs(d[j]);
    combine(z, b->strip[arm], b->room, d, n, first);
    for (Int i = first; i < t; i++) z[i] = gathered_dot(b->recent + (i - first) * b->room, rows, d, n);
    add(b->Y + arm * b->room, z, 1.0, t);
    for (Int a = 0; a < N; a++) part[a] = r->K_arm[a * N + arm];
    subtract_by_arm(b->res, part, b->arms, z, t);
    for (Int j = 0; j < n; j++) b->res[rows[j]] -= r->noise[arm] * d[j];
    r->ones += size;
    r->drift += UNIT * r->kernel * ((double)(n + 2) * size + r->ones);
    for (Int c = 0, last = -1; c < r->k; c++) {
        Int row = r->rows == 1 ? 0 : c;
        if (row != last) part[0] = gathered_dot(r->kx + row * (t + 1), rows, d, n), last = row;
        r->f[c] += r->lent[c * N + arm] * part[0];
    }
    measure(r);
}

/* v' B^-1 v on the rows of each arm, with the error of the inverses apart. */
static double quadratic(const Round *r, double *sums, const double *v) {
    Bound *b = r->b;
    double worst = 0.0, *part = b->x, *half = b->y;
    for (Int a = 0; a < b->n_arms; a++) {
        Int n = b->counts[a];
        for (Int j = 0; j < n; j++) part[j] = v[b->index[a][j]];
        multiply(half, b->block[a], b->block_room[a], part, n);
        sums[a] = dot(half, part, n);
        double cond = 1.0 + (double)n * r->kernel / r->block_noise[a];
        double error = 8.0 * pow((double)n, 1.5) * UNIT * cond * (1.0 + r->borders[a]) / r->block_noise[a];
        worst = error > worst ? error : worst;
    }
    return worst;
}

static void tighten(Round *r) {
    if (!(r->least > 0.0)) return;
    double total = 0.0, *sums = r->b->z, worst = quadratic(r, sums, r->b->res);
    for (Int a = 0; a < r->b->n_arms; a++) total += sums[a];
    total += worst * dot(r->b->res, r->b->res, r->t);
    double eta = sqrt((total > 0.0 ? total : 0.0) / r->least) * (1.0 + 1e-6) + r->rounding * r->lift_root;
    if (eta < r->eta) r->eta = eta;
}

static void widths(Round *r) {
    Int N = r->b->n_arms;
    double *sums = r->b->z, *squares = r->b->y, worst = 0.0;
    for (Int c = 0, last = -1; c < r->k; c++) {
        Int row = r->rows == 1 ? 0 : c;
        if (row != last) {
            worst = quadratic(r, sums, r->kx + row * (r->t + 1));
            by_arm(r, squares, r->kx + row * (r->t + 1), r->kx + row * (r->t + 1));
            last = row;
        }
        double Q = 0.0, slack = 0.0;
        for (Int a = 0; a < N; a++) {
            double lent = r->lent[c * N + a];
            Q += lent * lent * sums[a], slack += lent * lent * squares[a];
        }
        slack *= worst;
        double low = (Q - slack) / r->most, high = r->least > 0.0 ? (Q + slack) / r->least : INFINITY;
        if (low > r->q_low[c]) r->q_low[c] = low;
        if (high < r->q_high[c]) r->q_high[c] = high;
    }
}

enum { OPEN, RESIDUAL, STEPS, WIDTHS, DRIFTED };

/* The first rungs: residual, and ``most`` steps. */
static int start(Round *r, Int most, Int *taken) {
    Int N = r->b->n_arms;
    double *sums = r->b->z, *squares = r->b->y;
    residual(r);
    double fresh = (double)r->t * UNIT * r->kernel * r->ones;
    if (r->drift * r->lift_root > 1e-8 && r->drift > 32.0 * fresh) return DRIFTED;
    for (Int c = 0, last = -1; c < r->k; c++) {
        Int row = r->rows == 1 ? 0 : c;
        const double *kx = r->kx + row * (r->t + 1);
        if (row != last) by_arm(r, sums, kx, r->b->alpha), by_arm(r, squares, kx, kx), last = row;
        double q = 0.0, f = 0.0;
        for (Int a = 0; a < N; a++) {
            double lent = r->lent[c * N + a];
            f += lent * sums[a], q += lent * lent * squares[a] * r->lift[a];
        }
        r->f[c] = f, r->q_low[c] = 0.0, r->q_high[c] = q < r->prior[c] ? q : r->prior[c];
        r->low[c] = -INFINITY, r->high[c] = INFINITY;
    }
    if (bound(r)) return RESIDUAL;
    while (*taken < most && !open_without_error(r)) {
        step(r), ++*taken;
        if (bound(r)) return STEPS;
    }
    return OPEN;
}

/* The next ones: widths, and up to ``most`` steps. */
static int go_on(Round *r, Int most, Int *taken) {
    widths(r), tighten(r);
    if (bound(r)) return WIDTHS;
    while (*taken < most && !open_without_error(r)) {
        step(r), ++*taken;
        if (*taken % 3 == 0) tighten(r);
        if (bound(r)) return STEPS;
    }
    return OPEN;
}

/* settle(bound, t, first, K_arm, noise, lift, block_noise, borders, kx, rows, lent, prior, cold, known, most_steps,
 *        further, (ridge, exploration, kernel, row_sum, reward, lift_root, largest_noise, least, most,
 *                  ones, drift, eta, rounding, floor))
 * -> rung, steps, ones, drift, eta, rounding, floor. ``known`` (5, k) is f, q_low, q_high, low and high. */
static PyObject *settle(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    if (n_args != 17) return PyErr_Format(PyExc_TypeError, "settle takes 17 arguments, got %zd", n_args);
    Round r = {0};
    r.t = PyLong_AsSsize_t(args[1]), r.first = PyLong_AsSsize_t(args[2]), r.rows = PyLong_AsSsize_t(args[9]);
    Int most = PyLong_AsSsize_t(args[14]), taken = 0;
    int further = PyObject_IsTrue(args[15]);
    if (PyErr_Occurred()) return NULL;
    double *numbers[] = {&r.ridge,         &r.exploration, &r.kernel, &r.row_sum, &r.reward, &r.lift_root,
                         &r.largest_noise, &r.least,       &r.most,   &r.ones,    &r.drift,  &r.eta,
                         &r.rounding,      &r.floor};
    if (!PyTuple_Check(args[16]) || PyTuple_Size(args[16]) != 14)
        return PyErr_Format(PyExc_ValueError, "14 numbers were expected");
    for (Int i = 0; i < 14; i++) *numbers[i] = PyFloat_AsDouble(PyTuple_GetItem(args[16], i));
    if (PyErr_Occurred()) return NULL;
    if (!(r.b = state(args[0], r.t, r.first, 0))) return NULL;
    Int N = r.b->n_arms;
    Py_buffer views[10];
    Int held = 0;
    PyObject *result = NULL;
    READ(r.K_arm, 3, 'd', N * N, 0);
    READ(r.noise, 4, 'd', N, 0);
    READ(r.lift, 5, 'd', N, 0);
    READ(r.block_noise, 6, 'd', N, 0);
    READ(r.borders, 7, 'd', N, 0);
    READ(r.prior, 11, 'd', 1, 0);
    r.k = views[held - 1].len / (Int)sizeof(double);
    if (r.rows != 1 && r.rows != r.k) {
        PyErr_SetString(PyExc_ValueError, "one row of kernel values was expected, or one per candidate");
        goto finish;
    }
    READ(r.kx, 8, 'd', r.rows * (r.t + 1), 0);
    READ(r.lent, 10, 'd', r.k * N, 0);
    READ(r.cold, 12, '?', r.k, 0);
    READ(r.f, 13, 'd', 5 * r.k, PyBUF_WRITABLE);
    for (Int a = 0; a < N; a++)
        if (r.b->counts[a] > r.b->block_room[a]) {
            PyErr_SetString(PyExc_ValueError, "a block is too small for its arm");
            goto finish;
        }
    r.q_low = r.f + r.k, r.q_high = r.q_low + r.k, r.low = r.q_high + r.k, r.high = r.low + r.k;
    int rung = further ? go_on(&r, most, &taken) : start(&r, most, &taken);
    result = Py_BuildValue("inddddd", rung, taken, r.ones, r.drift, r.eta, r.rounding, r.floor);
finish:
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}

static PyMethodDef methods[] = {
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "A handle on the arrays of a state."},
    {"observe", (PyCFunction)(void (*)(void))observe, METH_FASTCALL, "Append a row."},
    {"packed", (PyCFunction)(void (*)(void))packed, METH_FASTCALL, "Solve with a packed triangle, or grow it."},
    {"flush", (PyCFunction)(void (*)(void))flush, METH_FASTCALL, "Complete the strips."},
    {"times", (PyCFunction)(void (*)(void))times, METH_FASTCALL, "M V."},
    {"settle", (PyCFunction)(void (*)(void))settle, METH_FASTCALL, "Climb the rungs before conjugate gradients."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) { return PyModule_AddIntConstant(module, "TEXT", TEXT); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
