/* What it says about a user that items are absent from a logged record. */
#ifndef IGCF_ABSENCE_H
#define IGCF_ABSENCE_H
#include "buffers.h"
#include "items.h"
#include "mixture.h"

/* sums += products[i] items[i] over n <= BLOCK items, the first of `n_left` in memory. */
INLINE void add_block(const float* items, Py_ssize_t n, Py_ssize_t n_left, Py_ssize_t d, const float* products,
                      float* restrict sums) {
    Py_ssize_t first = 0;
#ifdef HAS_SHUFFLES
    Py_ssize_t width = padded(d), stop = n_left - (width + d - 1) / d + 1; /* what is read beyond a vector exists */
    if (stop > n) stop = n;
    if (stop == n)
        for (; first < width; first += first + 4 * LANES <= width ? 4 * LANES : LANES) {
            const float* x = items + first;
            lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
            if (first + 4 * LANES <= width) {
                for (Py_ssize_t i = 0; i < n; i++, x += d) {
                    float p = products[i];
                    s0 += p * LOAD(x), s1 += p * LOAD(x + LANES);
                    s2 += p * LOAD(x + 2 * LANES), s3 += p * LOAD(x + 3 * LANES);
                }
                *(lanes*)(sums + first) += s0, *(lanes*)(sums + first + LANES) += s1;
                *(lanes*)(sums + first + 2 * LANES) += s2, *(lanes*)(sums + first + 3 * LANES) += s3;
            } else { /* several sums, so that none waits for the one before */
                Py_ssize_t i = 0;
                for (; i + 4 <= n; i += 4, x += 4 * d) {
                    s0 += products[i] * LOAD(x), s1 += products[i + 1] * LOAD(x + d);
                    s2 += products[i + 2] * LOAD(x + 2 * d), s3 += products[i + 3] * LOAD(x + 3 * d);
                }
                for (; i < n; i++, x += d) s0 += products[i] * LOAD(x);
                *(lanes*)(sums + first) += (s0 + s1) + (s2 + s3);
            }
        }
#endif
    for (Py_ssize_t i = 0; first < d && i < n; i++)
        for (Py_ssize_t j = 0; j < d; j++) sums[j] += products[i] * items[i * d + j];
}

/* slope += sum over n items of x sigmoid(x . user) weight, in one pass: a block of items is multiplied by the user's
 * vector and added up while it is in the cache. A weight is one of `weights`, or one divided by one of `noise`. `user`
 * is padded by zeros, `sums` has as many numbers. */
INLINE void add_slope(const float* items, const double* noise, const float* weights, Py_ssize_t n, Py_ssize_t d,
                      const float* user, float* restrict sums, double* slope, double factor) {
    float products[2 * BLOCK];
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        const float* own = items + start * d;
        multiply_block(own, size, n - start, d, user, 1, n * d <= CACHED, products);
        if (noise)
            for (Py_ssize_t k = 0; k < size; k++)
                products[k] = 1.0f / ((1.0f + exp_of_minus(products[k])) * (float)noise[start + k]);
        else
            for (Py_ssize_t k = 0; k < size; k++) products[k] = weights[start + k] / (1.0f + exp_of_minus(products[k]));
        for (Py_ssize_t j = 0; j < padded(d); j++) sums[j] = 0.0f;
        add_block(own, size, n - start, d, products, sums);
        for (Py_ssize_t j = 0; j < d; j++) slope[j] += factor * (double)sums[j];
    }
}

/* A record of one user and where the search for the mode of its posterior stands. The user's vector is prior_mean +
 * frame v. */
struct record {
    Py_ssize_t d, r, n_absent, n_items, n_own;
    float* absent[MOST_CHANNELS]; /* item vectors of the channels in which absence counts */
    const double* noise[MOST_CHANNELS];
    const float *own_x, *own_weights; /* the record's own logistic terms */
    const double *information, *prior_mean, *frame, *slope;
    double weight, longest;
    double *v, *cov;
    float* floats;   /* 2 padded(d): a user, sums */
    double* doubles; /* 2 d + 5 r */
};

/* The gradient of the log posterior in v; the absences' slope is known at the first place. */
INLINE void gradient_at(const struct record* own, int is_first, double* gradient) {
    Py_ssize_t d = own->d, r = own->r;
    double *slope = own->doubles, *user = slope + d;
    for (Py_ssize_t i = 0; i < d; i++) {
        user[i] = own->prior_mean[i], slope[i] = is_first ? own->weight * own->slope[i] : 0.0;
        for (Py_ssize_t j = 0; j < r; j++) user[i] += own->frame[i * r + j] * own->v[j];
        own->floats[i] = (float)user[i];
    }
    float* sums = own->floats + padded(d);
    for (Py_ssize_t c = 0; !is_first && own->weight > 0.0 && c < own->n_absent; c++)
        add_slope(own->absent[c], own->noise[c], NULL, own->n_items, d, own->floats, sums, slope, own->weight);
    add_slope(own->own_x, NULL, own->own_weights, own->n_own, d, own->floats, sums, slope, 1.0);
    for (Py_ssize_t j = 0; j < r; j++) gradient[j] = -own->v[j];
    for (Py_ssize_t i = 0; i < d; i++)
        for (Py_ssize_t j = 0; j < r; j++) gradient[j] += own->frame[i * r + j] * (own->information[i] - slope[i]);
}

/* Replace a positive definite matrix (r, r) by its inverse: Gauss and Jordan, which needs no exchange of rows here. */
INLINE void invert(double* restrict a, Py_ssize_t r) {
    for (Py_ssize_t k = 0; k < r; k++) {
        double *pivot = a + k * r, factor = 1.0 / pivot[k];
        pivot[k] = 1.0;
        for (Py_ssize_t j = 0; j < r; j++) pivot[j] *= factor;
        for (Py_ssize_t i = 0; i < r; i++) {
            if (i == k) continue;
            double* row = a + i * r;
            double own = row[k];
            row[k] = 0.0;
            for (Py_ssize_t j = 0; j < r; j++) row[j] -= own * pivot[j];
        }
    }
}

/* v += cov gradient, or as much of it as does not move the user's vector too far. */
INLINE void take_step(const struct record* own, const double* gradient, double* step) {
    Py_ssize_t d = own->d, r = own->r;
    double length = 0.0, part = 1.0;
    for (Py_ssize_t i = 0; i < r; i++) step[i] = 0.0;
    for (Py_ssize_t i = 0; i < r; i++)
        for (Py_ssize_t j = 0; j < r; j++) step[j] += own->cov[i * r + j] * gradient[i];
    for (Py_ssize_t i = 0; i < d; i++) {
        double moved = 0.0;
        for (Py_ssize_t j = 0; j < r; j++) moved += own->frame[i * r + j] * step[j];
        length += moved * moved;
    }
    if (length > own->longest * own->longest) part = own->longest / sqrt(length);
    for (Py_ssize_t j = 0; j < r; j++) step[j] *= part, own->v[j] += step[j];
}

/* igcf.online.backend.numpy_absence.find_mode */
FOR_EACH_PROCESSOR
static void find_mode(const struct record* own, Py_ssize_t passes) {
    Py_ssize_t r = own->r;
    double *gradient = own->doubles + 2 * own->d, *before = gradient + r, *step = before + r, *w = step + r;
    double* change = w + r;
    invert(own->cov, r);
    gradient_at(own, 1, gradient);
    for (Py_ssize_t pass = 0; pass < passes; pass++) {
        take_step(own, gradient, step);
        memcpy(before, gradient, (size_t)r * sizeof(double));
        gradient_at(own, 0, gradient);
        double along = 0.0, curved = 0.0;
        for (Py_ssize_t j = 0; j < r; j++) change[j] = before[j] - gradient[j], along += step[j] * change[j], w[j] = 0.0;
        if (along <= 1e-10) continue;
        for (Py_ssize_t i = 0; i < r; i++)
            for (Py_ssize_t j = 0; j < r; j++) w[j] += own->cov[i * r + j] * change[i];
        for (Py_ssize_t j = 0; j < r; j++) curved += change[j] * w[j];
        double square = (1.0 + curved / along) / along;
        for (Py_ssize_t i = 0; i < r; i++)
            for (Py_ssize_t j = 0; j < r; j++)
                own->cov[i * r + j] += square * step[i] * step[j] - (step[i] * w[j] + w[i] * step[j]) / along;
    }
    take_step(own, gradient, step);
}

/* (absent, noise, slope, weight, own_x, own_weights, information, prior_mean, frame, v, cov, longest, passes) */
static PyObject* py_find_mode(PyObject* module, PyObject* args) {
    PyObject *absent_, *noise_, *slope_, *own_x_, *own_weights_, *information_, *prior_mean_, *frame_, *v_, *cov_;
    Py_ssize_t passes;
    struct record own = {.d = 0};
    if (!PyArg_ParseTuple(args, "OOOdOOOOOOOdn", &absent_, &noise_, &slope_, &own.weight, &own_x_, &own_weights_,
                          &information_, &prior_mean_, &frame_, &v_, &cov_, &own.longest, &passes))
        return NULL;
    struct arrays arrays = {.count = 0};
    own.n_absent = PyTuple_Size(absent_);
    int is_good = own.n_absent >= 0 && has_length(noise_, own.n_absent, "noise") &&
                  (own.n_absent <= MOST_CHANNELS || do_not_fit("channels and room")) &&
                  (own.prior_mean = open_array(&arrays, prior_mean_, FLOAT64, ANY_LENGTH, READ, "prior_mean"));
    if (is_good) own.d = length_of(last_of(&arrays));
    is_good = is_good && (own.v = open_array(&arrays, v_, FLOAT64, ANY_LENGTH, WRITE, "v"));
    if (is_good) own.r = length_of(last_of(&arrays));
    is_good = is_good && (own.cov = open_array(&arrays, cov_, FLOAT64, own.r * own.r, WRITE, "cov")) &&
              (own.frame = open_array(&arrays, frame_, FLOAT64, own.d * own.r, READ, "frame")) &&
              (own.slope = open_array(&arrays, slope_, FLOAT64, own.d, READ, "slope")) &&
              (own.information = open_array(&arrays, information_, FLOAT64, own.d, READ, "information")) &&
              (own.own_weights = open_array(&arrays, own_weights_, FLOAT32, ANY_LENGTH, READ, "own_weights"));
    if (is_good) own.n_own = length_of(last_of(&arrays));
    is_good = is_good && (own.own_x = open_array(&arrays, own_x_, FLOAT32, own.n_own * own.d, READ, "own_x"));
    for (Py_ssize_t c = 0; is_good && c < own.n_absent; c++) {
        own.noise[c] = open_array(&arrays, PyTuple_GetItem(noise_, c), FLOAT64, ANY_LENGTH, READ, "noise");
        if (own.noise[c] && c == 0) own.n_items = length_of(last_of(&arrays));
        is_good = own.noise[c] && (length_of(last_of(&arrays)) == own.n_items || do_not_fit("noise and items")) &&
                  (own.absent[c] = open_array(&arrays, PyTuple_GetItem(absent_, c), FLOAT32, own.n_items * own.d, READ,
                                              "absent"));
    }
    size_t n_doubles = (size_t)(2 * own.d + 5 * own.r), n_floats = (size_t)(2 * padded(own.d) + 1);
    own.doubles = is_good ? PyMem_Calloc(1, n_doubles * sizeof(double) + n_floats * sizeof(float)) : NULL;
    if (is_good && !own.doubles) is_good = 0, PyErr_NoMemory();
    if (is_good) {
        own.floats = (float*)(own.doubles + n_doubles);
        Py_BEGIN_ALLOW_THREADS
        find_mode(&own, passes);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(own.doubles);
    return done(&arrays, is_good);
}

#endif
