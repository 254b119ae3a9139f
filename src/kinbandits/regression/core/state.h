/* The arrays of one state of the ladder, and one row more: exact/matrix.py, dual.py and reference.py in C. */

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
    TAKES("bind", 11);
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
 * whether the block grew. Where no more recent rows can be held, they become columns of the strips first. */
static PyObject *observe(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    TAKES("observe", 10);
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
    double *sums = b->y, *k = b->x, d = K_arm[arm * N + arm], corner = d * values[t] + noise, s;
    int grown = 0;
    memset(sums, 0, (size_t)N * sizeof(double));
    for (Int i = 0; i < t; i++) sums[b->arms[i]] += values[i] * b->alpha[i];
    double error = reward;
    for (Int a = 0; a < N; a++) b->Y[a * room + t] = sums[a], error -= K_arm[arm * N + a] * sums[a];
    for (Int j = 0; j < n; j++) k[j] = d * values[rows[j]];
    double g = error / (corner + dot(k, k, n) / corner);
    add(b->Y + arm * room, values, g, t + 1);
    b->alpha[t] = g, b->rewards[t] = reward;
    Int line = t - first;
    memcpy(b->recent + line * room, values, (size_t)(t + 1) * sizeof(double));
    for (Int i = 0; i < line; i++) b->recent[i * room + t] = values[first + i];
    memcpy(b->strip[arm] + n * room, values, (size_t)(t + 1) * sizeof(double));
    b->arms[t] = arm, b->index[arm][n] = t, b->counts[arm] = n + 1;
    if (border) {
        double *P = b->block[arm], *u = b->y;
        corner = d * values[t] + own;
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
