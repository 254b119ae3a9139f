/* One round on the lower rungs: exact/rungs.py and exact/reference.py in C. */

typedef struct {
    Bound *b;
    Int t, first, k, rows; /* k candidates, which share one row of kernel values or have one each */
    const Int *candidates; /* their arms */
    const double *K_arm, *noise, *lift, *block_noise, *borders, *kx;
    int explore; /* arms without rows are explored without looking at others */
    double *f, *q_low, *q_high, *low, *high, *prior;
    double ridge, exploration, kernel, row_sum, reward, lift_root, largest_noise, least, most;
    double ones, drift, eta, rounding, floor;
    Int leader, cg_steps;
} Round;

/* K_arm of a candidate's arm with every arm */
static const double *lent_to(const Round *r, Int c) { return r->K_arm + r->candidates[c] * r->b->n_arms; }

static int cold(const Round *r, Int c) { return r->explore && !r->b->counts[r->candidates[c]]; }

/* The kernel values of a candidate with every row, and last with itself */
static const double *values_of(const Round *r, Int c) { return r->kx + (r->rows == 1 ? 0 : c) * (r->t + 1); }

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

static double largest_prior(const Round *r) {
    double largest = 0.0;
    for (Int i = 0; i < r->k; i++) largest = r->prior[i] > largest ? r->prior[i] : largest;
    return largest;
}

/* Rounding in a mean: candidates beyond all rows have larger kernel values. */
static double mean_floor(const Round *r) {
    double beyond = sqrt(largest_prior(r) / (r->kernel > 1e-300 ? r->kernel : 1e-300));
    return (beyond > 1.0 ? beyond : 1.0) * r->floor;
}

/* How far a mean may be off. */
static double mean_error(const Round *r, Int c) { return sqrt(r->q_high[c]) * r->eta + mean_floor(r); }

static void narrow(Round *r, Int c, double low, double high) {
    if (cold(r, c)) low = high = bonus(r, c, 0.0, r->exploration);
    if (low > r->low[c]) r->low[c] = low;
    if (high < r->high[c]) r->high[c] = high;
}

/* Whether the leader is certain. */
static int decided(Round *r) {
    double best = -INFINITY;
    Int contenders = 0, open = 0;
    for (Int c = 0; c < r->k; c++)
        if (r->low[c] > best) best = r->low[c];
    for (Int c = 0; c < r->k; c++)
        if (r->high[c] >= best) contenders++, open += r->low[c] != r->high[c], r->leader = c;
    if (contenders != 1) r->leader = -1;
    return contenders == 1 || (contenders && !open);
}

/* Narrow the intervals; whether the leader is certain. */
static int bound(Round *r) {
    for (Int c = 0; c < r->k; c++) {
        double error = mean_error(r, c);
        narrow(r, c, r->f[c] + narrow_bonus(r, c) - error, r->f[c] + wide_bonus(r, c) + error);
    }
    return decided(r);
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
    if (error >= 0.3 * spread) return 0;
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
    for (Int c = 0; c < r->k; c++) {
        if (c < r->rows) part[0] = gathered_dot(values_of(r, c), rows, d, n);
        r->f[c] += lent_to(r, c)[arm] * part[0];
    }
    measure(r);
}

/* v'B^-1 v and w'B^-1 w on the rows of each arm; gives a bound on the error of the inverses. */
static double quadratic(const Round *r, double *sums, const double *v, double *others, const double *w) {
    Bound *b = r->b;
    double worst = 0.0, forms[2];
    for (Int a = 0; a < b->n_arms; a++) {
        Int n = b->counts[a];
        for (Int j = 0; j < n; j++) b->x[j] = v[b->index[a][j]], b->y[j] = w[b->index[a][j]];
        two_forms(forms, b->block[a], b->block_room[a], b->x, b->y, n);
        sums[a] = forms[0], others[a] = forms[1];
        double cond = 1.0 + (double)n * r->kernel / r->block_noise[a];
        double error = 8.0 * pow((double)n, 1.5) * UNIT * cond * (1.0 + r->borders[a]) / r->block_noise[a];
        worst = error > worst ? error : worst;
    }
    return worst;
}

/* A better eta, from res'B^-1 res on the rows of each arm */
static void tighten_by(Round *r, const double *sums, double worst) {
    if (!(r->least > 0.0)) return;
    double total = worst * dot(r->b->res, r->b->res, r->t);
    for (Int a = 0; a < r->b->n_arms; a++) total += sums[a];
    double eta = sqrt((total > 0.0 ? total : 0.0) / r->least) * (1.0 + 1e-6) + r->rounding * r->lift_root;
    if (eta < r->eta) r->eta = eta;
}

static void tighten(Round *r) {
    double *sums = r->b->z, worst = quadratic(r, sums, r->b->res, sums + r->b->n_arms, r->b->res);
    tighten_by(r, sums, worst);
}

/* Widths, and what the same pass over the blocks says of the means */
static void widths(Round *r) {
    Int N = r->b->n_arms;
    double *sums = r->b->z, *rest = sums + N, *squares = r->b->y, worst = 0.0;
    for (Int c = 0; c < r->k; c++) {
        if (c < r->rows) {
            worst = quadratic(r, sums, values_of(r, c), rest, r->b->res);
            by_arm(r, squares, values_of(r, c), values_of(r, c));
        }
        double Q = 0.0, slack = 0.0;
        for (Int a = 0; a < N; a++) {
            double lent = lent_to(r, c)[a];
            Q += lent * lent * sums[a], slack += lent * lent * squares[a];
        }
        slack *= worst;
        double low = (Q - slack) / r->most, high = r->least > 0.0 ? (Q + slack) / r->least : INFINITY;
        if (low > r->q_low[c]) r->q_low[c] = low;
        if (high < r->q_high[c]) r->q_high[c] = high;
    }
    tighten_by(r, rest, worst);
}

/* The least and the largest eigenvalue of D^-1/2 K_arm D^-1/2, D its diagonal; 0 without memory. Householder's
 * tridiagonal form, and bisection by the number of negative pivots (Golub and Van Loan, sections 8.3 and 8.4). */
static int extremes(const double *K_arm, Int N, double *least, double *most) {
    double *A = malloc((size_t)(N * N + 2 * N) * sizeof(double)), *v = A + N * N, *w = v + N, bound = 0.0;
    if (!A) return 0;
    for (Int i = 0; i < N; i++) w[i] = sqrt(K_arm[i * N + i] > 1e-300 ? K_arm[i * N + i] : 1e-300);
    for (Int i = 0; i < N; i++)
        for (Int j = 0; j < N; j++) A[i * N + j] = K_arm[i * N + j] / (w[i] * w[j]);
    for (Int k = 0; k + 2 < N; k++) {
        double norm = 0.0, length = 0.0, part = 0.0;
        for (Int i = k + 1; i < N; i++) v[i] = A[i * N + k], norm += v[i] * v[i];
        if (norm == 0.0) continue;
        norm = v[k + 1] > 0.0 ? -sqrt(norm) : sqrt(norm), v[k + 1] -= norm;
        for (Int i = k + 1; i < N; i++) length += v[i] * v[i];
        for (Int i = k + 1; i < N; i++)
            w[i] = 2.0 / length * dot(A + i * N + k + 1, v + k + 1, N - k - 1), part += w[i] * v[i];
        for (Int i = k + 1; i < N; i++) w[i] -= part / length * v[i];
        for (Int i = k + 1; i < N; i++)
            for (Int j = k + 1; j < N; j++) A[i * N + j] -= v[i] * w[j] + w[i] * v[j];
        A[(k + 1) * N + k] = norm;
    }
    for (Int i = 0; i < N; i++) {
        double next = i + 1 < N ? fabs(A[(i + 1) * N + i]) : 0.0, before = i ? fabs(A[i * N + i - 1]) : 0.0;
        if (fabs(A[i * N + i]) + next + before > bound) bound = fabs(A[i * N + i]) + next + before;
    }
    for (int largest = 0; largest < 2; largest++) {
        double low = -bound, high = bound;
        while (high - low > 1e-15 * bound) {
            double middle = 0.5 * (low + high), pivot = 1.0;
            Int below = 0;
            if (middle <= low || middle >= high) break;
            for (Int i = 0; i < N; i++) {
                double beside = i ? A[i * N + i - 1] : 0.0;
                pivot = A[i * N + i] - middle - beside * beside / pivot;
                if (pivot == 0.0) pivot = 1e-300;
                below += pivot < 0.0;
            }
            if (below > (largest ? N - 1 : 0)) high = middle;
            else low = middle;
        }
        *(largest ? most : least) = largest ? high : low;
    }
    free(A);
    return 1;
}

/* lo and hi with lo B <= M <= hi B: those of the similarity, and of the noise. 0 without memory. */
static int limits(Round *r) {
    double least = 0.0, most = 0.0, slack = 1e-13 * (double)r->b->n_arms;
    if (!extremes(r->K_arm, r->b->n_arms, &least, &most)) return 0;
    r->least = least > slack ? least - slack : 0.0, r->most = most + slack;
    for (Int a = 0; a < r->b->n_arms; a++) {
        double ratio = r->noise[a] / r->block_noise[a];
        if (!r->b->counts[a]) continue;
        if (ratio < r->least) r->least = ratio;
        if (ratio > r->most) r->most = ratio;
    }
    return 1;
}

enum { OPEN, RESIDUAL, STEPS, WIDTHS, CG, DRIFTED };

/* The first rungs: residual, and ``most`` steps. */
static int start(Round *r, Int most, Int *taken) {
    Int N = r->b->n_arms;
    double *sums = r->b->z, *squares = r->b->y;
    residual(r);
    double fresh = (double)r->t * UNIT * r->kernel * r->ones;
    if (r->drift * r->lift_root > 1e-8 && r->drift > 32.0 * fresh) return DRIFTED;
    for (Int c = 0; c < r->k; c++) {
        const double *kx = values_of(r, c);
        if (c < r->rows) by_arm(r, sums, kx, r->b->alpha), by_arm(r, squares, kx, kx);
        double q = 0.0, f = 0.0;
        for (Int a = 0; a < N; a++) {
            double lent = lent_to(r, c)[a];
            f += lent * sums[a], q += lent * lent * squares[a] * r->lift[a];
        }
        r->prior[c] = lent_to(r, c)[r->candidates[c]] * kx[r->t];
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
    widths(r);
    if (bound(r)) return WIDTHS;
    while (*taken < most && !open_without_error(r)) {
        step(r), ++*taken;
        if (*taken % 3 == 0) tighten(r);
        if (bound(r)) return STEPS;
    }
    return OPEN;
}
