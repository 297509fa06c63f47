/* A belief into the means and variances of all items. */
#include "common.h"

INLINE void carry_row(const float* products, Py_ssize_t n, float step, float* restrict z, float* restrict variances) {
    for (Py_ssize_t i = 0; i < n; i++) {
        float c = products[i], left = variances[i] - c * c;
        z[i] += step * c;
        variances[i] = left > 0.0f ? left : 0.0f;
    }
}

INLINE void products_of(const float* items, Py_ssize_t n, Py_ssize_t d, const float* w, float* products) {
    Py_ssize_t i = 0;
    for (; i + 4 <= n; i += 4) { /* four sums at a time: none waits for the one before */
        const float *a = items + i * d, *b = a + d, *c = b + d, *e = c + d;
        for (Py_ssize_t j = 0; j < 4 * d; j += 16)
            __builtin_prefetch(a + 16 * d + j, 0, 0); /* used once: not to be kept */
        float sum_a = 0.0f, sum_b = 0.0f, sum_c = 0.0f, sum_e = 0.0f;
        for (Py_ssize_t j = 0; j < d; j++)
            sum_a += a[j] * w[j], sum_b += b[j] * w[j], sum_c += c[j] * w[j], sum_e += e[j] * w[j];
        products[i] = sum_a, products[i + 1] = sum_b, products[i + 2] = sum_c, products[i + 3] = sum_e;
    }
    for (; i < n; i++) {
        float sum = 0.0f;
        for (Py_ssize_t j = 0; j < d; j++) sum += items[i * d + j] * w[j];
        products[i] = sum;
    }
}

/* All updates of a block of items while these are in the cache. */
FOR_EACH_PROCESSOR
static void carry_one(const float* items, Py_ssize_t n, Py_ssize_t d, const float* w, const double* steps,
                      Py_ssize_t n_updates, float* z, float* variances) {
    float products[BLOCK];
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        for (Py_ssize_t update = 0; update < n_updates; update++) {
            products_of(items + start * d, size, d, w + update * d, products);
            carry_row(products, size, (float)steps[update], z + start, variances + start);
        }
    }
}

FOR_EACH_PROCESSOR
static void carry_rows(const float* products, Py_ssize_t n_users, Py_ssize_t n, const double* steps, float* z,
                       float* variances) {
    for (Py_ssize_t user = 0; user < n_users; user++)
        carry_row(products + user * n, n, (float)steps[user], z + user * n, variances + user * n);
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
