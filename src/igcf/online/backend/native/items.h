/* Means and variances of all items after the belief changed. */
#ifndef IGCF_ITEMS_H
#define IGCF_ITEMS_H
#include "common.h"

enum { LANES = 8 }; /* numbers per vector register */
enum { AHEAD = 1 << 10 }; /* numbers: how far ahead of their turn items are asked for, where more are left than */
enum { NEAR = 1 << 18 };  /* these, which are in the cache anyway */

INLINE Py_ssize_t padded(Py_ssize_t d) { return (d + LANES - 1) / LANES * LANES; }

/* Carry some updates over to n items; products[update * BLOCK + i] = items[i] . w[update]. */
INLINE void rescore_row(const float* products, Py_ssize_t n, const float* steps, Py_ssize_t n_updates,
                        float* restrict z, float* restrict variances) {
    for (Py_ssize_t i = 0; i < n; i++) {
        float mean = z[i], left = variances[i];
        for (Py_ssize_t update = 0; update < n_updates; update++) {
            float c = products[update * BLOCK + i];
            mean += steps[update] * c, left -= c * c;
        }
        z[i] = mean;
        variances[i] = left > 0.0f ? left : 0.0f;
    }
}

INLINE float dot(const float* x, const float* w, Py_ssize_t d) {
    float sum = 0.0f;
    for (Py_ssize_t j = 0; j < d; j++) sum += x[j] * w[j];
    return sum;
}

#if defined(__has_builtin) && !defined(IGCF_PLAIN_LOOPS)
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLES 1
#endif
#endif

#ifdef HAS_SHUFFLES
typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
#define LOAD(address) (*(const lanes*)(address))
#define PAIRS(a, b)                                                                                                    \
    (__builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15))
#define HALVES(a, b)                                                                                                 \
    (__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15))

/* Eight dot products at once: eight item vectors that follow each other times one vector w, or four times two, into
 * products[update * BLOCK + row]. Reads less than 2 * LANES numbers beyond the last vector; w is zero there. */
INLINE void eight_products(const float* x, Py_ssize_t n_rows, Py_ssize_t d, const float* w, Py_ssize_t width,
                           float* products) {
    const float *x1 = x + d, *x2 = x1 + d, *x3 = x2 + d, *w1 = w + width;
    lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    lanes a = LOAD(x), b = LOAD(x1), c = LOAD(x2), e = LOAD(x3);
    for (Py_ssize_t j = 0; j < width; j += LANES) {
        lanes u = LOAD(w + j);
        if (n_rows == 8) {
            const float *x4 = x + 4 * d + j, *x5 = x4 + d, *x6 = x5 + d, *x7 = x6 + d;
            s0 += LOAD(x + j) * u, s1 += LOAD(x1 + j) * u, s2 += LOAD(x2 + j) * u, s3 += LOAD(x3 + j) * u;
            s4 += LOAD(x4) * u, s5 += LOAD(x5) * u, s6 += LOAD(x6) * u, s7 += LOAD(x7) * u;
        } else { /* loaded one turn ahead, or the compiler reads every vector twice */
            lanes v = LOAD(w1 + j);
            s0 += a * u, s1 += b * u, s2 += c * u, s3 += e * u;
            s4 += a * v, s5 += b * v, s6 += c * v, s7 += e * v;
            a = LOAD(x + j + LANES), b = LOAD(x1 + j + LANES), c = LOAD(x2 + j + LANES), e = LOAD(x3 + j + LANES);
        }
    }
    lanes t0 = PAIRS(s0, s1), t1 = PAIRS(s2, s3), t2 = PAIRS(s4, s5), t3 = PAIRS(s6, s7);
    lanes u0 = PAIRS(t0, t1), u1 = PAIRS(t2, t3), all = HALVES(u0, u1);
    float sums[LANES];
    memcpy(sums, &all, sizeof sums);
    for (Py_ssize_t update = 0; update < LANES / n_rows; update++)
        memcpy(products + update * BLOCK, sums + update * n_rows, (size_t)n_rows * sizeof(float));
}
#endif

/* products[update * BLOCK + i] = items[i] . w[update], one or two updates, n <= BLOCK items, the first of `n_left` in
 * memory. Items of a large catalogue are asked for ahead of their turn. */
INLINE void multiply_block(const float* items, Py_ssize_t n, Py_ssize_t n_left, Py_ssize_t d, const float* w,
                           Py_ssize_t n_updates, float* products) {
    Py_ssize_t i = 0, width = padded(d);
#ifdef HAS_SHUFFLES
    Py_ssize_t n_rows = LANES / n_updates, stop = n_left - (width + LANES - 1) / d; /* what is read exists */
    if (stop > n) stop = n;
    for (; i + n_rows <= stop; i += n_rows) {
        if (n_left * d > NEAR)
            for (Py_ssize_t j = 0; j < n_rows * d; j += 16) __builtin_prefetch(items + i * d + j + AHEAD);
        eight_products(items + i * d, n_rows, d, w, width, products + i);
    }
#endif
    for (; i < n; i++)
        for (Py_ssize_t update = 0; update < n_updates; update++)
            products[update * BLOCK + i] = dot(items + i * d, w + update * width, d);
}

/* Carry one or two updates over to n <= BLOCK items, the first of `n_left` in memory. */
INLINE void rescore_block(const float* items, Py_ssize_t n, Py_ssize_t n_left, Py_ssize_t d, const float* w,
                          const float* steps, Py_ssize_t n_updates, float* z, float* variances) {
    float products[2 * BLOCK];
    multiply_block(items, n, n_left, d, w, n_updates, products);
    rescore_row(products, n, steps, n_updates, z, variances);
}

/* Carry some updates of one user over to all items, two at a time, while a block of items is in the cache; rows of `w`
 * are padded(d) numbers apart and padded by zeros. */
FOR_EACH_PROCESSOR
static void rescore_items(const float* items, Py_ssize_t n, Py_ssize_t d, const float* w, const float* steps,
                          Py_ssize_t n_updates, float* z, float* variances) {
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK, update = 0;
        const float* own = items + start * d;
        for (; update + 2 <= n_updates; update += 2)
            rescore_block(own, size, n - start, d, w + update * padded(d), steps + update, 2, z + start,
                          variances + start);
        if (update < n_updates)
            rescore_block(own, size, n - start, d, w + update * padded(d), steps + update, 1, z + start,
                          variances + start);
    }
}

FOR_EACH_PROCESSOR
static void rescore_all_users(const float* products, Py_ssize_t n_users, Py_ssize_t n, const double* steps, float* z,
                              float* variances) {
    for (Py_ssize_t user = 0; user < n_users; user++) {
        float step = (float)steps[user];
        rescore_row(products + user * n, n, &step, 1, z + user * n, variances + user * n);
    }
}

INLINE float variance_of(const float* x, Py_ssize_t d, const float* cov, float* restrict w) {
    float sum = 0.0f;
    Py_ssize_t row = 0;
    for (Py_ssize_t j = 0; j < d; j++) w[j] = 0.0f;
    for (; row + 4 <= d; row += 4) {
        const float *a = cov + row * d, *b = a + d, *c = b + d, *e = c + d;
        float xa = x[row], xb = x[row + 1], xc = x[row + 2], xe = x[row + 3];
        for (Py_ssize_t j = 0; j < d; j++) w[j] += xa * a[j] + xb * b[j] + xc * c[j] + xe * e[j];
    }
    for (; row < d; row++)
        for (Py_ssize_t j = 0; j < d; j++) w[j] += x[row] * cov[row * d + j];
    for (Py_ssize_t j = 0; j < d; j++) sum += x[j] * w[j];
    return sum > 0.0f ? sum : 0.0f;
}

#endif
