/* Means and variances of the expected reward from those of several channels. */
#ifndef IGCF_MIXTURE_H
#define IGCF_MIXTURE_H
#include "common.h"

/* exp(-z) for |z| up to 80: 2^n times a polynomial on half a power of two, within 1e-6 of the truth; no branches. */
INLINE float exp_of_minus(float z) {
    float x = -1.44269504f * fminf(fmaxf(z, -80.0f), 80.0f), power;
    int32_t n = (int32_t)(x + 128.5f) - 128, bits = (n + 127) << 23; /* x + 128 is positive: cut off is rounded down */
    float t = (x - (float)n) * 0.693147181f;
    float y = 0.00833333333f + t * 0.00138888889f;
    y = 1.0f + t * (1.0f + t * (0.5f + t * (0.166666667f + t * (0.0416666667f + t * y))));
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

/* How an expected reward follows from what the channels expect: sum over terms of weight x product of some of them. */
struct mixture {
    Py_ssize_t n_channels, n_terms;
    const double* weights;    /* (terms,) */
    const uint8_t* is_member; /* (terms, channels) */
    const uint8_t* is_logit;  /* (channels,) */
    const uint8_t* block;     /* (channels,): those of one block move together */
};

INLINE void activate(const struct mixture* mixture, float* const* z, Py_ssize_t start, Py_ssize_t size,
                     float activations[][BLOCK]) {
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++) {
        const float* own = z[c] + start;
        if (mixture->is_logit[c])
            for (Py_ssize_t i = 0; i < size; i++) activations[c][i] = 1.0f / (1.0f + exp_of_minus(own[i]));
        else
            for (Py_ssize_t i = 0; i < size; i++) activations[c][i] = own[i];
    }
}

/* weight x product of the channels of a term, without channel `left_out` */
INLINE void multiply(const struct mixture* mixture, Py_ssize_t term, Py_ssize_t left_out, Py_ssize_t size,
                     float activations[][BLOCK], float* product) {
    for (Py_ssize_t i = 0; i < size; i++) product[i] = (float)mixture->weights[term];
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++)
        if (c != left_out && mixture->is_member[term * mixture->n_channels + c])
            for (Py_ssize_t i = 0; i < size; i++) product[i] *= activations[c][i];
}

INLINE void expect_block(const struct mixture* mixture, float activations[][BLOCK], Py_ssize_t size, float* means) {
    float product[BLOCK];
    for (Py_ssize_t i = 0; i < size; i++) means[i] = 0.0f;
    for (Py_ssize_t term = 0; term < mixture->n_terms; term++) {
        multiply(mixture, term, -1, size, activations, product);
        for (Py_ssize_t i = 0; i < size; i++) means[i] += product[i];
    }
}

/* To first order; channels of one block are taken as moving together. */
INLINE void spread_block(const struct mixture* mixture, float activations[][BLOCK], float* const* z_variances,
                         Py_ssize_t start, Py_ssize_t size, float* variances) {
    float deviations[MOST_CHANNELS][BLOCK], product[BLOCK], slope[BLOCK];
    Py_ssize_t n_blocks = 0;
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++) {
        Py_ssize_t own_block = mixture->block[c];
        if (own_block >= n_blocks) n_blocks = own_block + 1;
    }
    for (Py_ssize_t b = 0; b < n_blocks; b++)
        for (Py_ssize_t i = 0; i < size; i++) deviations[b][i] = 0.0f;
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++) {
        float* own = deviations[mixture->block[c]];
        for (Py_ssize_t i = 0; i < size; i++) slope[i] = 0.0f;
        for (Py_ssize_t term = 0; term < mixture->n_terms; term++) {
            if (!mixture->is_member[term * mixture->n_channels + c]) continue;
            multiply(mixture, term, c, size, activations, product);
            for (Py_ssize_t i = 0; i < size; i++) slope[i] += product[i];
        }
        if (mixture->is_logit[c])
            for (Py_ssize_t i = 0; i < size; i++) slope[i] *= activations[c][i] * (1.0f - activations[c][i]);
        for (Py_ssize_t i = 0; i < size; i++) own[i] += sqrtf(z_variances[c][start + i]) * fabsf(slope[i]);
    }
    for (Py_ssize_t i = 0; i < size; i++) variances[i] = 0.0f;
    for (Py_ssize_t b = 0; b < n_blocks; b++)
        for (Py_ssize_t i = 0; i < size; i++) variances[i] += deviations[b][i] * deviations[b][i];
}

/* Calls for one block of items; where it is whole, the compiler knows its size. */
#define FOR_BLOCK(call, size)   \
    do {                        \
        if ((size) == BLOCK) {  \
            call(BLOCK);        \
        } else {                \
            call(size);         \
        }                       \
    } while (0)

FOR_EACH_PROCESSOR
static void expect(const struct mixture* mixture, float* const* z, Py_ssize_t n, float* means) {
    float activations[MOST_CHANNELS][BLOCK];
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t left = n - start < BLOCK ? n - start : BLOCK;
#define EXPECT(size)                                \
    activate(mixture, z, start, size, activations); \
    expect_block(mixture, activations, size, means + start)
        FOR_BLOCK(EXPECT, left);
    }
}

FOR_EACH_PROCESSOR
static void spread(const struct mixture* mixture, float* const* z, float* const* z_variances, Py_ssize_t n,
                   float* variances) {
    float activations[MOST_CHANNELS][BLOCK];
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t left = n - start < BLOCK ? n - start : BLOCK;
#define SPREAD(size)                                \
    activate(mixture, z, start, size, activations); \
    spread_block(mixture, activations, z_variances, start, size, variances + start)
        FOR_BLOCK(SPREAD, left);
    }
}

#endif
