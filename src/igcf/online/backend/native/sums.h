/* Products and sums over items, and products of matrices, as Python calls them. */
#ifndef IGCF_SUMS_H
#define IGCF_SUMS_H
#include "buffers.h"
#include "items.h"

/* result[i] = items[i] . user; `user` is padded by zeros. */
FOR_EACH_PROCESSOR
static void multiply_items(const float* items, Py_ssize_t n, Py_ssize_t d, const float* user, float* result) {
    float products[2 * BLOCK];
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        multiply_block(items + start * d, size, n - start, d, user, 1, products);
        memcpy(result + start, products, (size_t)size * sizeof(float));
    }
}

/* (items, user, result) */
static PyObject* py_multiply(PyObject* module, PyObject* args) {
    PyObject *items_, *user_, *result_;
    if (!PyArg_ParseTuple(args, "OOO", &items_, &user_, &result_)) return NULL;
    struct arrays arrays = {.count = 0};
    const float *items = NULL, *user = open_array(&arrays, user_, FLOAT32, ANY_LENGTH, READ, "user");
    float* result = NULL;
    Py_ssize_t d = user ? length_of(last_of(&arrays)) : 0, n = 0;
    int is_good = user && (result = open_array(&arrays, result_, FLOAT32, ANY_LENGTH, WRITE, "result"));
    if (is_good) n = length_of(last_of(&arrays));
    is_good = is_good && (d > 0 || do_not_fit("items and user")) &&
              (items = open_array(&arrays, items_, FLOAT32, n * d, READ, "items"));
    float* own = is_good ? PyMem_Calloc((size_t)padded(d), sizeof(float)) : NULL;
    if (own) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(own, user, (size_t)d * sizeof(float));
        multiply_items(items, n, d, own, result);
        Py_END_ALLOW_THREADS
        PyMem_Free(own);
    } else if (is_good) {
        PyErr_NoMemory();
    }
    return done(&arrays, own != NULL);
}

FOR_EACH_PROCESSOR
static void moments_of_items(const float* vectors, Py_ssize_t d, const int64_t* rows, Py_ssize_t n, const float* mean,
                             const float* cov, float* w, float* means, float* variances) {
    for (Py_ssize_t i = 0; i < n; i++) {
        const float* x = vectors + rows[i] * d;
        means[i] = dot(x, mean, d), variances[i] = variance_of(x, d, cov, w);
    }
}

/* (vectors, rows, mean, cov, means, variances): x . mean and x' cov x of some items. */
static PyObject* py_moments_at(PyObject* module, PyObject* args) {
    PyObject *vectors_, *rows_, *mean_, *cov_, *means_, *variances_;
    if (!PyArg_ParseTuple(args, "OOOOOO", &vectors_, &rows_, &mean_, &cov_, &means_, &variances_)) return NULL;
    struct arrays arrays = {.count = 0};
    const float *vectors = NULL, *cov = NULL;
    float *means = NULL, *variances = NULL;
    const int64_t* rows = NULL;
    const double* mean = open_array(&arrays, mean_, FLOAT64, ANY_LENGTH, READ, "mean");
    Py_ssize_t d = mean ? length_of(last_of(&arrays)) : 0, n = 0, n_items = 0;
    int is_good = mean && (rows = open_array(&arrays, rows_, INT64, ANY_LENGTH, READ, "rows"));
    if (is_good) n = length_of(last_of(&arrays));
    is_good = is_good && (cov = open_array(&arrays, cov_, FLOAT32, d * d, READ, "cov")) &&
              (means = open_array(&arrays, means_, FLOAT32, n, WRITE, "means")) &&
              (variances = open_array(&arrays, variances_, FLOAT32, n, WRITE, "variances")) &&
              (vectors = open_array(&arrays, vectors_, FLOAT32, ANY_LENGTH, READ, "vectors"));
    if (is_good && d > 0) n_items = length_of(last_of(&arrays)) / d;
    if (is_good && (d == 0 || length_of(last_of(&arrays)) != n_items * d)) is_good = do_not_fit("vectors and mean");
    for (Py_ssize_t i = 0; is_good && i < n; i++)
        if (rows[i] < 0 || rows[i] >= n_items) is_good = do_not_fit("rows and items");
    float* own = is_good ? PyMem_Malloc((size_t)(2 * d) * sizeof(float)) : NULL;
    if (is_good && !own) is_good = 0, PyErr_NoMemory();
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t j = 0; j < d; j++) own[j] = (float)mean[j];
        moments_of_items(vectors, d, rows, n, own, cov, own + d, means, variances);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(own);
    return done(&arrays, is_good);
}

FOR_EACH_PROCESSOR
static void sum_vectors(const float* vectors, const double* noise, Py_ssize_t d, const int64_t* rows,
                        const double* rewards, Py_ssize_t n, double* restrict sums) {
    for (Py_ssize_t i = 0; i < n; i++) {
        const float* x = vectors + rows[i] * d;
        double amount = rewards[i] / noise[rows[i]];
        if (amount == 0.0) continue;
        for (Py_ssize_t j = 0; j < d; j++) sums[j] += amount * (double)x[j];
    }
}

/* (vectors, noise, rows, rewards, sums): sums += reward x / noise over some items. */
static PyObject* py_add_information(PyObject* module, PyObject* args) {
    PyObject *vectors_, *noise_, *rows_, *rewards_, *sums_;
    if (!PyArg_ParseTuple(args, "OOOOO", &vectors_, &noise_, &rows_, &rewards_, &sums_)) return NULL;
    struct arrays arrays = {.count = 0};
    const float* vectors = NULL;
    const double *rewards = NULL, *noise = NULL;
    double* sums = open_array(&arrays, sums_, FLOAT64, ANY_LENGTH, WRITE, "sums");
    const int64_t* rows = NULL;
    Py_ssize_t d = sums ? length_of(last_of(&arrays)) : 0, n = 0, n_items = 0;
    int is_good = sums && (rows = open_array(&arrays, rows_, INT64, ANY_LENGTH, READ, "rows"));
    if (is_good) n = length_of(last_of(&arrays));
    is_good = is_good && (rewards = open_array(&arrays, rewards_, FLOAT64, n, READ, "rewards")) &&
              (noise = open_array(&arrays, noise_, FLOAT64, ANY_LENGTH, READ, "noise"));
    if (is_good) n_items = length_of(last_of(&arrays));
    is_good = is_good && (vectors = open_array(&arrays, vectors_, FLOAT32, n_items * d, READ, "vectors"));
    for (Py_ssize_t i = 0; is_good && i < n; i++)
        if (rows[i] < 0 || rows[i] >= n_items) is_good = do_not_fit("rows and items");
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        sum_vectors(vectors, noise, d, rows, rewards, n, sums);
        Py_END_ALLOW_THREADS
    }
    return done(&arrays, is_good);
}

#endif
