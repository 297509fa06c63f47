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
        multiply_block(own, size, n - start, d, user, 1, products);
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
    double *v, *inner; /* where the search stands, and the covariance (r, r) of v */
    double *mean, *cov; /* of the user's vector, (d,) and (d, d) */
    float* floats;   /* 2 padded(d): a user, sums; (8 + d) padded(d): some vectors, the same weighted, squares */
    double* doubles; /* 2 d + 5 r, then d r: a product of matrices, then r r: inner */
};

/* mean = prior_mean + frame v, in single precision too. */
INLINE void place_user(const struct record* own) {
    for (Py_ssize_t i = 0; i < own->d; i++) {
        own->mean[i] = own->prior_mean[i];
        for (Py_ssize_t j = 0; j < own->r; j++) own->mean[i] += own->frame[i * own->r + j] * own->v[j];
        own->floats[i] = (float)own->mean[i];
    }
}

/* sums += weight x x' of four vectors, `width` numbers apart; up to the diagonal, and what of it shares a register. */
INLINE void add_squares(const float* x, const float* weights, Py_ssize_t d, Py_ssize_t width, float* restrict weighted,
                        float* restrict sums) {
    for (Py_ssize_t j = 0; j < d; j++)
        for (Py_ssize_t i = 0; i < 4; i++) weighted[4 * j + i] = weights[i] * x[i * width + j];
    for (Py_ssize_t first = 0; first < d; first += LANES) {
#ifdef HAS_SHUFFLES
        lanes x0 = LOAD(x + first), x1 = LOAD(x + width + first), x2 = LOAD(x + 2 * width + first);
        lanes x3 = LOAD(x + 3 * width + first);
        for (Py_ssize_t j = first; j < d; j++) {
            const float* w = weighted + 4 * j;
            *(lanes*)(sums + j * width + first) += (w[0] * x0 + w[1] * x1) + (w[2] * x2 + w[3] * x3);
        }
#else
        for (Py_ssize_t j = first; j < d; j++)
            for (Py_ssize_t k = first; k < first + LANES; k++)
                for (Py_ssize_t i = 0; i < 4; i++) sums[j * width + k] += weighted[4 * j + i] * x[i * width + k];
#endif
    }
}

/* cov += sum over the record's own terms of weight p (1 - p) x x' where the user is. */
INLINE void add_curvature(const struct record* own) {
    Py_ssize_t d = own->d, width = padded(d);
    float products[2 * BLOCK], *x = own->floats + 2 * width, *weighted = x + 4 * width, *sums = weighted + 4 * width;
    for (Py_ssize_t start = 0; start < own->n_own; start += BLOCK) {
        Py_ssize_t size = own->n_own - start < BLOCK ? own->n_own - start : BLOCK;
        multiply_block(own->own_x + start * d, size, own->n_own - start, d, own->floats, 1, products);
        for (Py_ssize_t k = 0; k < size; k++) {
            float p = 1.0f / (1.0f + exp_of_minus(products[k]));
            products[k] = own->own_weights[start + k] * p * (1.0f - p);
        }
        for (Py_ssize_t k = size; k % 4; k++) products[k] = 0.0f; /* to multiples of four: old vectors, no weight */
        for (Py_ssize_t k = 0; k < size; k += 4) {
            for (Py_ssize_t i = 0; i < 4 && k + i < size; i++)
                memcpy(x + i * width, own->own_x + (start + k + i) * d, (size_t)d * sizeof(float));
            add_squares(x, products + k, d, width, weighted, sums);
        }
    }
    for (Py_ssize_t i = 0; i < d; i++)
        for (Py_ssize_t j = 0; j < d; j++) own->cov[i * d + j] += (double)sums[i >= j ? i * width + j : j * width + i];
}

/* product += a b, for matrices (n, m) and (m, r). */
INLINE void add_product(const double* a, const double* b, Py_ssize_t n, Py_ssize_t m, Py_ssize_t r,
                        double* restrict product) {
    for (Py_ssize_t i = 0; i < n; i++)
        for (Py_ssize_t k = 0; k < m; k++)
            for (Py_ssize_t j = 0; j < r; j++) product[i * r + j] += a[i * m + k] * b[k * r + j];
}

/* inner = 1 + frame' cov frame */
INLINE void curvature_in_frame(const struct record* own, double* product) {
    Py_ssize_t d = own->d, r = own->r;
    add_product(own->cov, own->frame, d, d, r, product);
    for (Py_ssize_t i = 0; i < r; i++) own->inner[i * r + i] = 1.0;
    for (Py_ssize_t k = 0; k < d; k++)
        for (Py_ssize_t i = 0; i < r; i++)
            for (Py_ssize_t j = 0; j < r; j++) own->inner[i * r + j] += own->frame[k * r + i] * product[k * r + j];
}

/* cov = frame inner frame', symmetric to the last digit */
INLINE void spread_of_frame(const struct record* own, double* product) {
    Py_ssize_t d = own->d, r = own->r;
    for (Py_ssize_t i = 0; i < d * r; i++) product[i] = 0.0;
    add_product(own->frame, own->inner, d, r, r, product);
    for (Py_ssize_t i = 0; i < d; i++)
        for (Py_ssize_t k = 0; k <= i; k++) {
            double sum = 0.0;
            for (Py_ssize_t j = 0; j < r; j++)
                sum += product[i * r + j] * own->frame[k * r + j] + product[k * r + j] * own->frame[i * r + j];
            own->cov[i * d + k] = own->cov[k * d + i] = sum / 2.0;
        }
}

/* The gradient of the log posterior in v; the absences' slope is known at the first place. */
INLINE void gradient_at(const struct record* own, int is_first, double* gradient) {
    Py_ssize_t d = own->d, r = own->r;
    double* slope = own->doubles;
    for (Py_ssize_t i = 0; i < d; i++) slope[i] = is_first ? own->weight * own->slope[i] : 0.0;
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

/* v += inner gradient, or as much of it as does not move the user's vector too far. */
INLINE void take_step(const struct record* own, const double* gradient, double* step) {
    Py_ssize_t d = own->d, r = own->r;
    double length = 0.0, part = 1.0;
    for (Py_ssize_t i = 0; i < r; i++) step[i] = 0.0;
    for (Py_ssize_t i = 0; i < r; i++)
        for (Py_ssize_t j = 0; j < r; j++) step[j] += own->inner[i * r + j] * gradient[i];
    for (Py_ssize_t i = 0; i < d; i++) {
        double moved = 0.0;
        for (Py_ssize_t j = 0; j < r; j++) moved += own->frame[i * r + j] * step[j];
        length += moved * moved;
    }
    if (length > own->longest * own->longest) part = own->longest / sqrt(length);
    for (Py_ssize_t j = 0; j < r; j++) step[j] *= part, own->v[j] += step[j];
    place_user(own);
}

/* igcf.online.backend.numpy_beliefs.find_mode */
FOR_EACH_PROCESSOR
static void find_mode(const struct record* own, Py_ssize_t passes) {
    Py_ssize_t r = own->r;
    double *gradient = own->doubles + 2 * own->d, *before = gradient + r, *step = before + r, *w = step + r;
    double *change = w + r, *product = change + r;
    place_user(own);
    add_curvature(own);
    curvature_in_frame(own, product);
    invert(own->inner, r);
    gradient_at(own, 1, gradient);
    for (Py_ssize_t pass = 0; pass < passes; pass++) {
        take_step(own, gradient, step);
        memcpy(before, gradient, (size_t)r * sizeof(double));
        gradient_at(own, 0, gradient);
        double along = 0.0, curved = 0.0;
        for (Py_ssize_t j = 0; j < r; j++) change[j] = before[j] - gradient[j], along += step[j] * change[j], w[j] = 0.0;
        if (along <= 1e-10) continue;
        for (Py_ssize_t i = 0; i < r; i++)
            for (Py_ssize_t j = 0; j < r; j++) w[j] += own->inner[i * r + j] * change[i];
        for (Py_ssize_t j = 0; j < r; j++) curved += change[j] * w[j];
        double square = (1.0 + curved / along) / along;
        for (Py_ssize_t i = 0; i < r; i++)
            for (Py_ssize_t j = 0; j < r; j++)
                own->inner[i * r + j] += square * step[i] * step[j] - (step[i] * w[j] + w[i] * step[j]) / along;
    }
    take_step(own, gradient, step);
    spread_of_frame(own, product);
}

/* (absent, noise, slope, weight, own_x, own_weights, information, prior_mean, frame, v, mean, cov, longest, passes) */
static PyObject* py_find_mode(PyObject* module, PyObject* args) {
    PyObject *absent_, *noise_, *slope_, *own_x_, *own_weights_, *information_, *prior_mean_, *frame_, *v_, *cov_;
    PyObject* mean_;
    Py_ssize_t passes;
    struct record own = {.d = 0};
    if (!PyArg_ParseTuple(args, "OOOdOOOOOOOOdn", &absent_, &noise_, &slope_, &own.weight, &own_x_, &own_weights_,
                          &information_, &prior_mean_, &frame_, &v_, &mean_, &cov_, &own.longest, &passes))
        return NULL;
    struct arrays arrays = {.count = 0};
    own.n_absent = PyTuple_Size(absent_);
    int is_good = own.n_absent >= 0 && has_length(noise_, own.n_absent, "noise") &&
                  (own.n_absent <= MOST_CHANNELS || do_not_fit("channels and room")) &&
                  (own.prior_mean = open_array(&arrays, prior_mean_, FLOAT64, ANY_LENGTH, READ, "prior_mean"));
    if (is_good) own.d = length_of(last_of(&arrays));
    is_good = is_good && (own.d > 0 || do_not_fit("items and prior_mean")) &&
              (own.v = open_array(&arrays, v_, FLOAT64, ANY_LENGTH, WRITE, "v"));
    if (is_good) own.r = length_of(last_of(&arrays));
    is_good = is_good && (own.cov = open_array(&arrays, cov_, FLOAT64, own.d * own.d, WRITE, "cov")) &&
              (own.mean = open_array(&arrays, mean_, FLOAT64, own.d, WRITE, "mean")) &&
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
    Py_ssize_t before_inner = 2 * own.d + 5 * own.r + own.d * own.r;
    size_t n_doubles = (size_t)(before_inner + own.r * own.r), n_floats = (size_t)((10 + own.d) * padded(own.d) + 1);
    own.doubles = is_good ? PyMem_Calloc(1, n_doubles * sizeof(double) + n_floats * sizeof(float)) : NULL;
    if (is_good && !own.doubles) is_good = 0, PyErr_NoMemory();
    if (is_good) {
        own.floats = (float*)(own.doubles + n_doubles), own.inner = own.doubles + before_inner;
        Py_BEGIN_ALLOW_THREADS
        find_mode(&own, passes);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(own.doubles);
    return done(&arrays, is_good);
}

#endif
