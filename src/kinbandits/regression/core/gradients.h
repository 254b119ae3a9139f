/* The last rung before the dense one: exact/rungs.py, `conjugate`, in C. */

/* -- conjugate gradients, for m candidates at once; vectors one after the other ---------------------------------- */

#define MOST_CG 40

/* out = M X; only what stands left of the diagonal is read, and columns that the strips still lack are right of it.
 * ``work`` has room for 2 m t. */
static void product(const Round *r, double *out, const double *X, Int m, double *work) {
    const Bound *b = r->b;
    Int N = b->n_arms, t = r->t;
    double *W = work, *U = work + m * t, sums[2];
    for (Int c = 0; c < m; c++)
        for (Int i = 0; i < t; i++) out[c * t + i] = r->noise[b->arms[i]] * X[c * t + i];
    for (Int a = 0; a < N; a++) {
        if (!b->counts[a]) continue;
        const double *lent = r->K_arm + a * N;
        Int last = b->index[a][b->counts[a] - 1];
        for (Int c = 0; c < m; c++)
            for (Int i = 0; i <= last; i++) W[c * t + i] = lent[b->arms[i]] * X[c * t + i], U[c * t + i] = 0.0;
        for (Int j = 0; j < b->counts[a]; j++) {
            const double *row = b->strip[a] + j * b->room;
            Int i = b->index[a][j], c = 0;
            for (; c + 2 <= m; c += 2) {
                double *w = W + c * t, *u = U + c * t;
                half_row(row, i, w, w + t, X[c * t + i], X[(c + 1) * t + i], u, u + t, sums);
                out[c * t + i] += sums[0] + row[i] * w[i], out[(c + 1) * t + i] += sums[1] + row[i] * w[t + i];
            }
            if (c < m) {
                out[c * t + i] += dot(row, W + c * t, i + 1);
                add(U + c * t, row, X[c * t + i], i);
            }
        }
        for (Int c = 0; c < m; c++)
            for (Int i = 0; i <= last; i++) out[c * t + i] += r->K_arm[b->arms[i] * N + a] * U[c * t + i];
    }
}

/* Z = B^-1 R */
static void precondition(const Round *r, double *Z, const double *R, Int m) {
    Bound *b = r->b;
    for (Int a = 0; a < b->n_arms; a++) {
        Int n = b->counts[a];
        const Int *rows = b->index[a];
        for (Int c = 0; c < m && n; c++) {
            for (Int j = 0; j < n; j++) b->x[j] = R[c * r->t + rows[j]];
            multiply(b->y, b->block[a], b->block_room[a], b->x, n);
            for (Int j = 0; j < n; j++) Z[c * r->t + rows[j]] = b->y[j];
        }
    }
}

/* What m approximate solutions V with residuals R say; rho is R'B^-1 R. Whether only rounding is left to be known. */
static int narrow_by(Round *r, const Int *ids, Int m, const double *k, const double *V, const double *R,
                     const double *rho) {
    Int t = r->t;
    double kernel = r->kernel, largest = largest_prior(r), floor = mean_floor(r), spread = 0.0, rest = 0.0;
    if (largest > kernel) kernel = largest;
    for (Int c = 0; c < m; c++) {
        const double *v = V + c * t, *res = R + c * t;
        double size = 0.0, q = 0.0, remainder = 0.0, low = r->f[ids[c]], f = low + dot(v, r->b->res, t);
        for (Int i = 0; i < t; i++) size += fabs(v[i]), q += v[i] * (k[c * t + i] + res[i]);
        double rounding = (double)(t + 4) * UNIT * kernel * (1.0 + size);
        for (Int i = 0; i < t; i++) {
            double e = fabs(res[i]) + rounding;
            remainder += e * e * r->lift[r->b->arms[i]];
        }
        if (r->least > 0.0) {
            double other = rho[c] / r->least * ((1.0 + 1e-6) + (double)t * UNIT) + rounding * size;
            if (other < remainder) remainder = other;
        }
        double off = 2.0 * (double)t * UNIT * kernel * size + size * rounding;
        double more = rho[c] / r->most * (1.0 - 1e-6) - rounding * size, lower = q - off + (more > 0.0 ? more : 0.0);
        double upper = q + off + remainder, error = sqrt(remainder) * r->eta + floor + size * r->rounding;
        if (r->q_low[ids[c]] > lower) lower = r->q_low[ids[c]];
        if (r->q_high[ids[c]] < upper) upper = r->q_high[ids[c]];
        narrow(r, ids[c], f - error + bonus(r, ids[c], upper, r->exploration * (1.0 - 8.0 * UNIT)),
               f + error + bonus(r, ids[c], lower > 0.0 ? lower : 0.0, r->exploration * (1.0 + 8.0 * UNIT)));
        if (rounding > rest) rest = rounding;
        if (r->high[ids[c]] - r->low[ids[c]] > spread) spread = r->high[ids[c]] - r->low[ids[c]];
    }
    return spread < 4.0 * (floor + rest * (1.0 + sqrt(1.0 / r->ridge)));
}

/* The last rung, for the contenders; -1 without memory. */
static int conjugate(Round *r) {
    Int t = r->t, m = 0, k = r->k;
    double best = -INFINITY, *memory = malloc((size_t)(8 * k * t + 2 * k) * sizeof(double));
    Int *ids = malloc((size_t)k * sizeof(Int));
    int rung = OPEN;
    if (!memory || !ids) {
        free(memory), free(ids);
        return -1;
    }
    for (Int c = 0; c < k; c++) best = r->low[c] > best ? r->low[c] : best;
    for (Int c = 0; c < k; c++)
        if (r->high[c] >= best && !cold(r, c)) ids[m++] = c;
    Int n = m * t;
    double *K = memory, *V = K + n, *R = V + n, *Z = R + n, *D = Z + n, *MD = D + n, *work = MD + n;
    double *rho = work + 2 * n, *fresh = rho + m;
    for (Int c = 0; c < m; c++) {
        const double *kx = values_of(r, ids[c]), *lent = lent_to(r, ids[c]);
        for (Int i = 0; i < t; i++) K[c * t + i] = lent[r->b->arms[i]] * kx[i];
    }
    memset(V, 0, (size_t)n * sizeof(double));
    memcpy(R, K, (size_t)n * sizeof(double));
    precondition(r, Z, R, m);
    memcpy(D, Z, (size_t)n * sizeof(double));
    for (Int c = 0; c < m; c++) rho[c] = dot(R + c * t, Z + c * t, t);
    for (Int step = 0; m && step < MOST_CG; step++) {
        product(r, MD, D, m, work);
        for (Int c = 0; c < m; c++) {
            double curvature = dot(D + c * t, MD + c * t, t), a = curvature > 0.0 ? rho[c] / curvature : 0.0;
            add(V + c * t, D + c * t, a, t);
            if (step % 8 != 7) add(R + c * t, MD + c * t, -a, t);
        }
        if (step % 8 == 7) {
            product(r, MD, V, m, work);
            for (Int i = 0; i < n; i++) R[i] = K[i] - MD[i];
        }
        precondition(r, Z, R, m);
        for (Int c = 0; c < m; c++) {
            double found = dot(R + c * t, Z + c * t, t);
            fresh[c] = found > 0.0 ? found : 0.0;
        }
        r->cg_steps++;
        int done = narrow_by(r, ids, m, K, V, R, fresh);
        if (decided(r)) {
            rung = CG;
            break;
        }
        if (done) break;
        for (Int c = 0; c < m; c++) {
            double ratio = rho[c] > 0.0 ? fresh[c] / rho[c] : 0.0;
            for (Int i = c * t; i < (c + 1) * t; i++) D[i] = Z[i] + ratio * D[i];
            rho[c] = fresh[c];
        }
    }
    free(memory), free(ids);
    return rung;
}
