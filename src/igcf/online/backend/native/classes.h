/* As which class a reaction counts, so that learning is monotone. The NumPy version is in numpy_beliefs.py. */
#ifndef IGCF_CLASSES_H
#define IGCF_CLASSES_H
#include "belief.h"

static const double TOLERANCE = 1e-12, PI = 3.14159265358979323846;

/* Means and covariances of z of an item's own channels. */
struct own {
    double z[MOST_CHANNELS], q[MOST_CHANNELS][MOST_CHANNELS];
};

/* The classes of reactions that a model distinguishes, at one item. */
struct classes {
    Py_ssize_t n, n_channels, n_terms;
    const double *rewards, *weights, *calibration; /* (classes + 2, channels), (terms,), slope, shift, spread */
    const uint8_t *is_logit, *is_failure, *is_member;
    double noise[MOST_CHANNELS];
    int liked; /* the channel of a chance; -1 for none */
    int is_full;
};

/* Expected reward and chance. */
struct view {
    double reward, chance;
};

INLINE struct view view_of(const struct classes* classes, const struct own* own) {
    double expected[MOST_CHANNELS];
    struct view view = {0.0, 0.0};
    for (Py_ssize_t c = 0; c < classes->n_channels; c++)
        expected[c] = classes->is_logit[c] ? sigmoid(own->z[c]) : own->z[c];
    for (Py_ssize_t term = 0; term < classes->n_terms; term++) {
        double part = classes->weights[term];
        for (Py_ssize_t c = 0; c < classes->n_channels; c++)
            if (classes->is_member[term * classes->n_channels + c]) part *= expected[c];
        view.reward += part;
    }
    view.chance = view.reward;
    if (classes->liked < 0) return view;
    double z = own->z[classes->liked], variance = own->q[classes->liked][classes->liked];
    double slope = classes->calibration[0], wide = slope * classes->calibration[2];
    if (variance < 0.0) variance = 0.0;
    view.chance = sigmoid((slope * z + classes->calibration[1]) / sqrt(1.0 + PI / 8.0 * wide * wide * variance));
    return view;
}

/* The view after a reaction of a class, channel after channel as the belief learns them. */
INLINE struct view view_after(const struct classes* classes, const struct own* before, Py_ssize_t number) {
    struct own own = *before;
    const double* rewards = classes->rewards + number * classes->n_channels;
    Py_ssize_t n = classes->n_channels;
    for (Py_ssize_t c = 0; c < n; c++) {
        if (is_nan(rewards[c])) continue;
        double shift, shrink, w[MOST_CHANNELS];
        if (classes->is_logit[c]) {
            logistic_step(own.z[c], own.q[c][c], rewards[c], classes->noise[c], &shift, &shrink);
        } else {
            shrink = 1.0 / (classes->noise[c] + own.q[c][c]);
            shift = shrink * (rewards[c] - own.z[c]);
        }
        for (Py_ssize_t i = 0; i < n; i++) w[i] = own.q[i][c];
        for (Py_ssize_t i = 0; i < n; i++) {
            own.z[i] += shift * w[i];
            for (Py_ssize_t j = 0; j < n; j++) own.q[i][j] -= shrink * w[i] * w[j];
        }
    }
    return view_of(classes, &own);
}

INLINE int is_at_least(struct view a, struct view b) {
    return a.reward >= b.reward - TOLERANCE && a.chance >= b.chance - TOLERANCE;
}

/* The class that a reaction counts as; `number` of classes is no reaction, one more is nothing. */
static Py_ssize_t counted_class(const struct classes* classes, const struct own* own, Py_ssize_t number) {
    struct view before = view_of(classes, own), current = before;
    Py_ssize_t n = classes->n, counted = n + 1, last = number == n ? 0 : number;
    if (number == n && !classes->is_full) return n;
    for (Py_ssize_t c = 0; c <= last; c++) {
        struct view after = view_after(classes, own, c);
        int is_free = counted == n + 1 && (!classes->is_full || c == 0);
        if (classes->is_full && classes->is_failure[c] && !is_at_least(before, after)) continue;
        if (is_free || is_at_least(after, current)) current = after, counted = c;
    }
    if (number < n) return counted;
    return is_at_least(view_after(classes, own, n), current) ? n : n + 1;
}

/* z and its covariances from a belief, block by block; x and w have room for n_channels x widest. */
FOR_EACH_PROCESSOR
static void own_moments(const double* mean, const double* cov, Py_ssize_t stride, Py_ssize_t n, const int64_t* starts,
                        const float* const* vectors, const Py_ssize_t* widths, double* x, double* w, struct own* own) {
    memset(own, 0, sizeof *own);
    for (Py_ssize_t c = 0; c < n; c++) {
        Py_ssize_t d = widths[c], start = starts[c];
        double *own_x = x, *other;
        for (Py_ssize_t i = 0; i < c; i++) own_x += widths[i];
        for (Py_ssize_t j = 0; j < d; j++) own_x[j] = vectors[c][j];
        product(cov + start * stride + start, stride, d, own_x, w);
        for (Py_ssize_t j = 0; j < d; j++) own->z[c] += own_x[j] * mean[start + j];
        other = x;
        for (Py_ssize_t i = 0; i <= c; i++) {
            if (starts[i] == start) {
                double sum = 0.0;
                for (Py_ssize_t j = 0; j < d; j++) sum += other[j] * w[j];
                own->q[c][i] = own->q[i][c] = sum;
            }
            other += widths[i];
        }
    }
}

#endif
