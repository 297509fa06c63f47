/* Learning a whole history of one user. */
#ifndef IGCF_HISTORY_H
#define IGCF_HISTORY_H
#include "belief.h"
#include "buffers.h"
#include "classes.h"

enum { WIDE = 8, HALF = 4 }; /* double numbers worked on at a time */
typedef double wide __attribute__((vector_size(8 * WIDE), aligned(8), may_alias));
typedef double half __attribute__((vector_size(8 * HALF), aligned(8), may_alias));
#define AT(address) (*(wide*)(address))
#define HALF_AT(address) (*(half*)(address))

/* One block of a belief while reactions are learned: a copy with rows of `width` numbers, padded by zeros. What
 * the covariance has lost since it was last brought up to date is `pending`, the rows w of a sum of w w'. */
struct learner {
    Py_ssize_t start, d, width, n_pending, n_channels, channels[MOST_CHANNELS];
    double *mean, *cov, *x, *w, *pending; /* x, w and pending have room for as many rows as there are channels */
};

/* The channels of a model. */
struct channels {
    Py_ssize_t n, n_items, widths[MOST_CHANNELS];
    const int64_t* starts;
    const float* vectors[MOST_CHANNELS];
    const double* noise[MOST_CHANNELS];
    const uint8_t* is_logit;
};

/* The sum of the numbers in a vector, halves first. */
INLINE double total(wide numbers) {
    typedef double quarter __attribute__((vector_size(2 * WIDE)));
    half halves[2];
    quarter quarters[2];
    memcpy(halves, &numbers, sizeof halves);
    halves[0] += halves[1];
    memcpy(quarters, halves, sizeof quarters);
    quarters[0] += quarters[1];
    return quarters[0][0] + quarters[0][1];
}

INLINE double wide_dot(const double* a, const double* b, Py_ssize_t width) {
    wide sums = {0};
    for (Py_ssize_t j = 0; j < width; j += WIDE) sums += AT(a + j) * AT(b + j);
    return total(sums);
}

/* cov -= sum of two p p', then w = cov x of two vectors x, in one pass over `cov`, two rows at a time. Twelve vectors are
 * in use at once: of wide ones, which fill two registers of most processors, there would be too many. */
INLINE void two_products(double* cov, Py_ssize_t d, Py_ssize_t width, const double* p, const double* x, double* w) {
    const double *q = p + width, *y = x + width;
    double* v = w + width;
    for (Py_ssize_t j = 0; j < 2 * width; j += WIDE) AT(w + j) = (wide){0};
    for (Py_ssize_t row = 0; row < d; row += 2) {
        double *a = cov + row * width, *b = a + width;
        double pa = p[row], pb = p[row + 1], qa = q[row], qb = q[row + 1];
        double xa = x[row], xb = x[row + 1], ya = y[row], yb = y[row + 1];
        for (Py_ssize_t j = 0; j < width; j += HALF) {
            half own_p = HALF_AT(p + j), own_q = HALF_AT(q + j);
            half own_a = HALF_AT(a + j) - (pa * own_p + qa * own_q);
            half own_b = HALF_AT(b + j) - (pb * own_p + qb * own_q);
            HALF_AT(a + j) = own_a, HALF_AT(b + j) = own_b;
            HALF_AT(w + j) += xa * own_a + xb * own_b;
            HALF_AT(v + j) += ya * own_a + yb * own_b;
        }
    }
}

/* w = cov x of the first n vectors x, after the covariance was brought up to date. */
INLINE void up_to_date_products(struct learner* own, Py_ssize_t n) {
    Py_ssize_t first = 0, width = own->width;
    for (; own->n_pending - first > 2; first += 2) {
        two_products(own->cov, own->d, width, own->pending + first * width, own->x, own->w);
        memset(own->pending + first * width, 0, (size_t)(2 * width) * sizeof(double));
    }
    for (Py_ssize_t place = 0; place == 0 || place < n; place += 2) {
        two_products(own->cov, own->d, width, own->pending + first * width, own->x + place * width,
                     own->w + place * width);
        memset(own->pending + first * width, 0, (size_t)(2 * width) * sizeof(double));
    }
    own->n_pending = 0;
}

/* Learn n rewards, one after the other, with the products w = cov x as they were before the first of them. */
INLINE void learn_rewards(struct learner* own, Py_ssize_t n, const double* rewards, const double* noise,
                          const uint8_t* is_logit) {
    Py_ssize_t width = own->width;
    for (Py_ssize_t i = 0; i < n; i++) {
        double *x = own->x + i * width, *w = own->w + i * width, shift, shrink;
        if (is_nan(rewards[i])) { /* reveals nothing */
            memset(w, 0, (size_t)width * sizeof(double));
            continue;
        }
        for (Py_ssize_t k = 0; k < i; k++) {
            const double* before = own->w + k * width;
            double amount = wide_dot(x, before, width);
            for (Py_ssize_t j = 0; j < width; j += WIDE) AT(w + j) -= amount * AT(before + j);
        }
        double z = wide_dot(x, own->mean, width), q = wide_dot(x, w, width);
        if (is_logit[i]) {
            logistic_step(z, q, rewards[i], noise[i], &shift, &shrink);
        } else {
            shrink = 1.0 / (noise[i] + q);
            shift = shrink * (rewards[i] - z);
        }
        double root = sqrt(shrink);
        for (Py_ssize_t j = 0; j < width; j += WIDE) AT(own->mean + j) += shift * AT(w + j), AT(w + j) *= root;
    }
    if (n % 2) memset(own->w + n * width, 0, (size_t)width * sizeof(double));
    double* learned = own->w;
    own->w = own->pending, own->pending = learned, own->n_pending = n;
}

INLINE void put_vector(struct learner* own, Py_ssize_t place, const float* vector) {
    for (Py_ssize_t j = 0; j < own->d; j++) own->x[place * own->width + j] = vector[j];
}

/* Rewards (reactions, channels) of one block, each counted `weights` times where there are any. */
FOR_EACH_PROCESSOR
static void learn_block(struct learner* own, const struct channels* channels, Py_ssize_t n, const int64_t* rows,
                        const double* rewards, const double* weights) {
    double known[2], noise[2];
    uint8_t is_logit[2];
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        for (Py_ssize_t place = 0; place < own->n_channels; place++) {
            Py_ssize_t c = own->channels[place];
            double reward = rewards[i * channels->n + c];
            if (is_nan(reward)) continue;
            put_vector(own, count, channels->vectors[c] + rows[i] * own->d);
            known[count] = reward, noise[count] = channels->noise[c][rows[i]] / (weights ? weights[i] : 1.0);
            is_logit[count++] = channels->is_logit[c];
            if (count < 2) continue;
            up_to_date_products(own, 2);
            learn_rewards(own, 2, known, noise, is_logit);
            count = 0;
        }
    if (count) {
        up_to_date_products(own, 1);
        learn_rewards(own, 1, known, noise, is_logit);
    }
    up_to_date_products(own, 0);
}

/* z and its covariances of the channels of one block. */
FOR_EACH_PROCESSOR
static void look_at(struct learner* own, const struct channels* channels, int64_t row, struct own* moments) {
    for (Py_ssize_t place = 0; place < own->n_channels; place++)
        put_vector(own, place, channels->vectors[own->channels[place]] + row * own->d);
    up_to_date_products(own, own->n_channels);
    for (Py_ssize_t place = 0; place < own->n_channels; place++) {
        Py_ssize_t c = own->channels[place];
        const double* x = own->x + place * own->width;
        moments->z[c] = wide_dot(x, own->mean, own->width);
        for (Py_ssize_t other = 0; other <= place; other++) {
            Py_ssize_t e = own->channels[other];
            moments->q[c][e] = moments->q[e][c] = wide_dot(x, own->w + other * own->width, own->width);
        }
    }
}

FOR_EACH_PROCESSOR
static void learn_looked_at(struct learner* own, const struct channels* channels, int64_t row, const double* rewards) {
    double known[MOST_CHANNELS], noise[MOST_CHANNELS];
    uint8_t is_logit[MOST_CHANNELS];
    for (Py_ssize_t place = 0; place < own->n_channels; place++) {
        Py_ssize_t c = own->channels[place];
        known[place] = rewards[c], noise[place] = channels->noise[c][row], is_logit[place] = channels->is_logit[c];
    }
    learn_rewards(own, own->n_channels, known, noise, is_logit);
}

/* Copies of the blocks of a belief; the memory is to be freed. NULL without any. */
static double* open_learners(const struct channels* channels, const double* mean, const double* cov, Py_ssize_t stride,
                             struct learner* learners, Py_ssize_t* n_learners) {
    Py_ssize_t n = 0, total = WIDE;
    for (Py_ssize_t c = 0; c < channels->n; c++) {
        Py_ssize_t b = 0;
        while (b < n && learners[b].start != channels->starts[c]) b++;
        struct learner* own = learners + b;
        if (b == n) {
            n++;
            own->start = (Py_ssize_t)channels->starts[c], own->d = channels->widths[c], own->n_channels = 0;
            own->width = (own->d + WIDE - 1) / WIDE * WIDE, own->n_pending = 0;
            total += own->width * (own->d + 2 + 3 * MOST_CHANNELS);
        }
        own->channels[own->n_channels++] = c;
    }
    double* memory = PyMem_Calloc((size_t)total, sizeof(double));
    if (!memory) return NULL;
    double* free = memory + (WIDE - ((uintptr_t)memory / sizeof(double)) % WIDE) % WIDE;
    for (Py_ssize_t b = 0; b < n; b++) {
        struct learner* own = learners + b;
        own->mean = free, own->x = own->mean + own->width, own->w = own->x + MOST_CHANNELS * own->width;
        own->pending = own->w + MOST_CHANNELS * own->width, own->cov = own->pending + MOST_CHANNELS * own->width;
        free = own->cov + (own->d + 1) * own->width;
        memcpy(own->mean, mean + own->start, (size_t)own->d * sizeof(double));
        for (Py_ssize_t row = 0; row < own->d; row++)
            memcpy(own->cov + row * own->width, cov + (own->start + row) * stride + own->start,
                   (size_t)own->d * sizeof(double));
    }
    *n_learners = n;
    return memory;
}

static void put_back(struct learner* own, double* mean, double* cov, Py_ssize_t stride) {
    memcpy(mean + own->start, own->mean, (size_t)own->d * sizeof(double));
    for (Py_ssize_t row = 0; row < own->d; row++)
        memcpy(cov + (own->start + row) * stride + own->start, own->cov + row * own->width,
               (size_t)own->d * sizeof(double));
}

FOR_EACH_PROCESSOR
static void bring_up_to_date(struct learner* own) { up_to_date_products(own, 0); }

/* Tables of n channels that lie in users' vectors of `stride` numbers; channels of one start have one width. */
static int open_tables(struct arrays* arrays, PyObject* vectors_, PyObject* noise_, Py_ssize_t stride,
                       struct channels* channels) {
    if (!has_length(vectors_, channels->n, "vectors") || !has_length(noise_, channels->n, "noise")) return 0;
    for (Py_ssize_t c = 0; c < channels->n; c++) {
        channels->vectors[c] = open_array(arrays, PyTuple_GetItem(vectors_, c), FLOAT32, ANY_LENGTH, READ, "vectors");
        if (!channels->vectors[c]) return 0;
        const Py_buffer* matrix = last_of(arrays);
        if (c == 0 && matrix->ndim == 2) channels->n_items = matrix->shape[0];
        if (matrix->ndim != 2 || matrix->shape[0] != channels->n_items || channels->starts[c] < 0 ||
            matrix->shape[1] > stride || channels->starts[c] > stride - matrix->shape[1])
            return do_not_fit("reactions and channels");
        channels->widths[c] = matrix->shape[1];
        for (Py_ssize_t i = 0; i < c; i++)
            if (channels->starts[i] == channels->starts[c] && channels->widths[i] != channels->widths[c])
                return do_not_fit("channels of one block");
        channels->noise[c] =
            open_array(arrays, PyTuple_GetItem(noise_, c), FLOAT64, channels->n_items, READ, "noise");
        if (!channels->noise[c]) return 0;
    }
    return 1;
}

#endif
