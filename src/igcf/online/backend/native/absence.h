/* What it says about a user that items are absent from a logged record. */
#ifndef IGCF_ABSENCE_H
#define IGCF_ABSENCE_H
#include "buffers.h"
#include "items.h"
#include "mixture.h"

/* slope = sum over n items of x sigmoid(x . user) / noise, in one pass: a block of items is multiplied by the user's
 * vector and added up while it is in the cache. `user` is padded by zeros, `sums` has room for d numbers. */
FOR_EACH_PROCESSOR
static void absence_slope(const float* items, const double* noise, Py_ssize_t n, Py_ssize_t d, const float* user,
                          float* restrict sums, double* slope) {
    float products[2 * BLOCK];
    for (Py_ssize_t j = 0; j < d; j++) slope[j] = 0.0;
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK, i = 0;
        const float* own = items + start * d;
        multiply_block(own, size, n - start, d, user, 1, products);
        for (Py_ssize_t k = 0; k < size; k++)
            products[k] = 1.0f / ((1.0f + exp_of_minus(products[k])) * (float)noise[start + k]);
        for (Py_ssize_t j = 0; j < d; j++) sums[j] = 0.0f;
        for (; i + 4 <= size; i += 4) {
            const float *a = own + i * d, *b = a + d, *c = b + d, *e = c + d;
            float pa = products[i], pb = products[i + 1], pc = products[i + 2], pe = products[i + 3];
            for (Py_ssize_t j = 0; j < d; j++) sums[j] += pa * a[j] + pb * b[j] + pc * c[j] + pe * e[j];
        }
        for (; i < size; i++)
            for (Py_ssize_t j = 0; j < d; j++) sums[j] += products[i] * own[i * d + j];
        for (Py_ssize_t j = 0; j < d; j++) slope[j] += (double)sums[j];
    }
}

static PyObject* py_absence_slope(PyObject* module, PyObject* args) {
    PyObject *items_, *noise_, *user_, *slope_;
    if (!PyArg_ParseTuple(args, "OOOO", &items_, &noise_, &user_, &slope_)) return NULL;
    struct arrays arrays = {.count = 0};
    const float* items = NULL;
    const double *noise = open_array(&arrays, noise_, FLOAT64, ANY_LENGTH, READ, "noise"), *user = NULL;
    double* slope = NULL;
    Py_ssize_t n = noise ? length_of(last_of(&arrays)) : 0, d = 0;
    int is_good = noise && (user = open_array(&arrays, user_, FLOAT64, ANY_LENGTH, READ, "user"));
    if (is_good) d = length_of(last_of(&arrays));
    is_good = is_good && (items = open_array(&arrays, items_, FLOAT32, n * d, READ, "items")) &&
              (slope = open_array(&arrays, slope_, FLOAT64, d, WRITE, "slope"));
    float* scratch = is_good ? PyMem_Calloc((size_t)(2 * padded(d) + 1), sizeof(float)) : NULL;
    if (scratch) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t j = 0; j < d; j++) scratch[j] = (float)user[j];
        absence_slope(items, noise, n, d, scratch, scratch + padded(d), slope);
        Py_END_ALLOW_THREADS
        PyMem_Free(scratch);
    } else if (is_good) {
        PyErr_NoMemory();
    }
    return done(&arrays, scratch != NULL);
}

#endif
