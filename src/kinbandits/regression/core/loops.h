/* Loops that know no arms, and arrays as they come from Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__) || !defined(__x86_64__) || !defined(__GLIBC__)
#define FAST
#elif __GNUC__ >= 12 /* what the processor can do decides, not its name */
#define FAST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FAST __attribute__((target_clones("avx2", "default")))
#endif

#ifdef _MSC_VER
#define restrict __restrict
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

/* x'P x and y'P y for a symmetric P, of which the lower half is read, two rows at a time */
FAST static void two_forms(double *forms, const double *P, Int ld, const double *x, const double *y, Int n) {
    double p = 0.0, q = 0.0;
    Int i = 0;
    for (; i + 2 <= n; i += 2) {
        const double *a = P + i * ld, *b = a + ld;
        double ax = 0.0, ay = 0.0, bx = 0.0, by = 0.0;
        for (Int j = 0; j < i; j++) ax += a[j] * x[j], ay += a[j] * y[j], bx += b[j] * x[j], by += b[j] * y[j];
        bx += b[i] * x[i], by += b[i] * y[i];
        p += x[i] * (2.0 * ax + a[i] * x[i]) + x[i + 1] * (2.0 * bx + b[i + 1] * x[i + 1]);
        q += y[i] * (2.0 * ay + a[i] * y[i]) + y[i + 1] * (2.0 * by + b[i + 1] * y[i + 1]);
    }
    if (i < n) {
        const double *a = P + i * ld;
        p += x[i] * (2.0 * dot(a, x, i) + a[i] * x[i]), q += y[i] * (2.0 * dot(a, y, i) + a[i] * y[i]);
    }
    forms[0] = p, forms[1] = q;
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

/* One row of a symmetric matrix, up to its diagonal, for two vectors at once: what it gives to its own entry of the
 * product (w, scaled), and what it adds to the entries before it (u += x row). */
FAST static void half_row(const double *row, Int n, const double *w, const double *v, double x, double y,
                          double *restrict u, double *restrict t, double *sums) {
    Int h = n / 2; /* two places at a time: a sum waits for itself */
    double p = 0.0, q = 0.0, r = 0.0, s = 0.0;
    for (Int i = 0, j = h; i < h; i++, j++) {
        p += row[i] * w[i], q += row[i] * v[i], r += row[j] * w[j], s += row[j] * v[j];
        u[i] += x * row[i], t[i] += y * row[i], u[j] += x * row[j], t[j] += y * row[j];
    }
    for (Int i = 2 * h; i < n; i++) {
        p += row[i] * w[i], q += row[i] * v[i];
        u[i] += x * row[i], t[i] += y * row[i];
    }
    sums[0] = p + r, sums[1] = q + s;
}

/* The squared distances of x to the n rows of X, d columns each */
FAST static void squared_distances(double *restrict out, const double *x, const double *X, Int n, Int d) {
    Int i = 0;
    for (; i + 4 <= n; i += 4) {
        const double *a = X + i * d, *b = a + d, *c = b + d, *e = c + d;
        double p = 0.0, q = 0.0, r = 0.0, s = 0.0;
        for (Int j = 0; j < d; j++) {
            p += (a[j] - x[j]) * (a[j] - x[j]), q += (b[j] - x[j]) * (b[j] - x[j]);
            r += (c[j] - x[j]) * (c[j] - x[j]), s += (e[j] - x[j]) * (e[j] - x[j]);
        }
        out[i] = p, out[i + 1] = q, out[i + 2] = r, out[i + 3] = s;
    }
    for (; i < n; i++) {
        double s = 0.0;
        for (Int j = 0; j < d; j++) s += (X[i * d + j] - x[j]) * (X[i * d + j] - x[j]);
        out[i] = s;
    }
}

static double gathered_dot(const double *a, const Int *rows, const double *v, Int n) {
    double s = 0.0, p = 0.0, q = 0.0, r = 0.0;
    Int j = 0;
    for (; j + 4 <= n; j += 4) {
        s += a[rows[j]] * v[j], p += a[rows[j + 1]] * v[j + 1];
        q += a[rows[j + 2]] * v[j + 2], r += a[rows[j + 3]] * v[j + 3];
    }
    for (; j < n; j++) s += a[rows[j]] * v[j];
    return s + p + q + r;
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

#define TAKES(name, count) \
    if (n_args != (count)) return PyErr_Format(PyExc_TypeError, name " takes %d arguments, got %zd", count, n_args)

/* Where a function gives its views back and returns ``result`` */
#define FINISH                                       \
    finish:                                          \
    while (held) PyBuffer_Release(&views[--held]);   \
    return result

/* One more argument of a function that holds ``views`` and ends at ``finish``. */
#define READ(target, place, kind, most, flags)                                               \
    do {                                                                                     \
        if (!((target) = memory(args[place], &views[held], kind, most, flags))) goto finish; \
        held++;                                                                              \
    } while (0)
