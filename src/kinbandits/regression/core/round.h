/* One round on the lower rungs: exact/rungs.py and exact/blocks.py in C. */

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
