/* What stands beside the ladder: distances, the estimated similarity, the dictionary. */

/* -- distances -------------------------------------------------------------------------------------------------- */

/* squares(x, X, n, out): squared distances of each row of x (k, d) to the first n rows of X (n, d), into out (k, n); or
 * (k, n + 1), where the last of each row is 0, the distance to itself. */
static PyObject *squares(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    TAKES("squares", 4);
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
    result = Py_NewRef(Py_None);
    FINISH;
}

/* -- the estimated similarity: similarity/estimated.py in C ------------------------------------------------------ */

/* embed(G, own, counts, arms, row, n): row n of the history, of arm arms[n], by its kernel values with rows 0 to n. */
static PyObject *embed(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    TAKES("embed", 6);
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
    result = Py_NewRef(Py_None);
    FINISH;
}

/* alike(G, counts, factor, K): K = exp(factor D2) from the sums G, where pairs of a row with itself count. */
static PyObject *alike(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    TAKES("alike", 4);
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
    result = Py_NewRef(Py_None);
    FINISH;
}

/* -- the dictionary of the budgeted engine: budgeted/posterior.py in C ------------------------------------------- */

/* read(gap, kx, arms, K_arm, w, late, scales, rows, candidates, found): means and k'gap k of candidates that share a
 * context, into found (2, k). k of candidate b is K_arm[b, arms] * kx at the n points, so that N^2 sums over pairs of
 * points serve all candidates. ``late`` (rows or more, m >= n) and ``scales`` are rows not yet in gap. */
static PyObject *read_points(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    TAKES("read", 10);
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
    result = Py_NewRef(Py_None);
finish:
    free(Q), free(order);
    while (held) PyBuffer_Release(&views[--held]);
    return result;
}
