/* Updates of the belief about a user. */
#ifndef IGCF_BELIEF_H
#define IGCF_BELIEF_H
#include "common.h"

/* Compiled with -ffinite-math-only: comparisons do not detect NaN. */
INLINE int is_nan(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

INLINE double sigmoid(double z) { return 1.0 / (1.0 + exp(-(z > LOWEST ? z : LOWEST))); }

/* A step of Newton's method after which the next one would change nothing but rounding: it squares the distance. */
static const double CLOSE_ENOUGH = 1e-9;

/* igcf.online.backend.numpy_beliefs.logistic_step for one user */
INLINE void logistic_step(double z, double q, double reward, double noise, double* shift, double* shrink) {
    double weight = 1.0 / noise, a = (2.0 * reward - 1.0) * z > 0.0 ? z : 0.0;
    if (q < 1e-12) q = 1e-12;
    for (int step = 0; step < NEWTON_STEPS; step++) {
        double p = sigmoid(a);
        double move = ((a - z) / q - weight * (reward - p)) / (1.0 / q + weight * p * (1.0 - p));
        a -= move;
        if (fabs(move) <= CLOSE_ENOUGH * (1.0 + fabs(a))) break;
    }
    double p = sigmoid(a), curvature = weight * p * (1.0 - p);
    *shift = (a - z) / q;
    *shrink = curvature / (1.0 + curvature * q);
}

/* w = cov x; rows of `cov` are `stride` numbers apart. It is symmetric: sums of its rows need no sums across a
 * register. */
INLINE void product(const double* cov, Py_ssize_t stride, Py_ssize_t d, const double* restrict x, double* restrict w) {
    Py_ssize_t row = 0;
    for (Py_ssize_t j = 0; j < d; j++) w[j] = 0.0;
    for (; row + 4 <= d; row += 4) {
        const double *a = cov + row * stride, *b = a + stride, *c = b + stride, *e = c + stride;
        for (Py_ssize_t j = 0; j < d; j++)
            w[j] += x[row] * a[j] + x[row + 1] * b[j] + x[row + 2] * c[j] + x[row + 3] * e[j];
    }
    for (; row < d; row++)
        for (Py_ssize_t j = 0; j < d; j++) w[j] += x[row] * cov[row * stride + j];
}

/* The same after cov -= last last', in one pass over the part of `cov` on and right of its diagonal, in groups of four
 * rows; what is left of them is not kept up to date. */
INLINE void next_product(double* cov, Py_ssize_t stride, Py_ssize_t d, const double* restrict last,
                         const double* restrict x, double* restrict w) {
    for (Py_ssize_t j = 0; j < d; j++) w[j] = 0.0;
    for (Py_ssize_t row = 0; row < d; row += 4) {
        if (row + 4 > d) { /* the last rows: a square of at most three */
            for (Py_ssize_t i = row; i < d; i++)
                for (Py_ssize_t j = row; j < d; j++) {
                    cov[i * stride + j] -= last[i] * last[j];
                    w[j] += x[i] * cov[i * stride + j];
                }
            break;
        }
        double* restrict a = cov + row * stride, * restrict b = a + stride, * restrict c = b + stride;
        double* restrict e = c + stride;
        double la = last[row], lb = last[row + 1], lc = last[row + 2], le = last[row + 3];
        double xa = x[row], xb = x[row + 1], xc = x[row + 2], xe = x[row + 3];
        for (Py_ssize_t j = row; j < row + 4; j++) {
            double l = last[j], na = a[j] - la * l, nb = b[j] - lb * l, nc = c[j] - lc * l, ne = e[j] - le * l;
            a[j] = na, b[j] = nb, c[j] = nc, e[j] = ne;
            w[j] += xa * na + xb * nb + xc * nc + xe * ne;
        }
        double wa = 0.0, wb = 0.0, wc = 0.0, we = 0.0;
        for (Py_ssize_t j = row + 4; j < d; j++) {
            double l = last[j], xj = x[j], na = a[j] - la * l, nb = b[j] - lb * l, nc = c[j] - lc * l,
                   ne = e[j] - le * l;
            a[j] = na, b[j] = nb, c[j] = nc, e[j] = ne;
            w[j] += xa * na + xb * nb + xc * nc + xe * ne;
            wa += xj * na, wb += xj * nb, wc += xj * nc, we += xj * ne;
        }
        w[row] += wa, w[row + 1] += wb, w[row + 2] += wc, w[row + 3] += we;
    }
}

/* Some reactions of one user, one after the other: eq:update_dis, or a Laplace step. */
FOR_EACH_PROCESSOR
static void update_belief(double* mean, double* cov, Py_ssize_t stride, Py_ssize_t d, Py_ssize_t n, const double* xs,
                       const double* rewards, const double* noise, const uint8_t* is_logit, double* ws, double* steps) {
    const double* last = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        const double* x = xs + i * d;
        double *w = ws + i * d, z = 0.0, q = 0.0, shift, shrink;
        if (is_nan(rewards[i])) { /* reveals nothing */
            memset(w, 0, (size_t)d * sizeof(double));
            steps[i] = 0.0;
            continue;
        }
        if (last)
            next_product(cov, stride, d, last, x, w);
        else
            product(cov, stride, d, x, w);
        for (Py_ssize_t j = 0; j < d; j++) z += x[j] * mean[j], q += x[j] * w[j];
        if (is_logit[i]) {
            logistic_step(z, q, rewards[i], noise[i], &shift, &shrink);
        } else {
            shrink = 1.0 / (noise[i] + q);
            shift = shrink * (rewards[i] - z);
        }
        double root = sqrt(shrink);
        for (Py_ssize_t j = 0; j < d; j++) mean[j] += shift * w[j], w[j] *= root;
        steps[i] = root > 0.0 ? shift / root : 0.0;
        last = w;
    }
    if (!last) return;
    for (Py_ssize_t row = 0; row < d; row++) {
        double* restrict a = cov + row * stride, la = last[row];
        for (Py_ssize_t j = n == 1 ? 0 : row; j < d; j++) a[j] -= la * last[j];
    }
    for (Py_ssize_t row = 1; n > 1 && row < d; row++) /* what is left of the diagonal is its mirror image */
        for (Py_ssize_t j = 0; j < row; j++) cov[row * stride + j] = cov[j * stride + row];
}

#endif
