/* The best items, and where they stand. */
#ifndef IGCF_SELECTION_H
#define IGCF_SELECTION_H
#include "items.h"
#include "mixture.h"

/* Scores of a block of items and their maximum; what is not available scores less than anything. */
INLINE float score_block(const float* means, const float* variances, const uint8_t* is_available, float nu,
                         Py_ssize_t n, float* scores) {
    float largest = -FLT_MAX;
    for (Py_ssize_t i = 0; i < n; i++) {
        float score = variances ? means[i] + nu * sqrtf(variances[i]) : means[i];
        score = is_available[i] ? score : -FLT_MAX;
        scores[i] = score;
        largest = score > largest ? score : largest;
    }
    return largest;
}

/* The best items so far, best first; one more than asked for, which tells whether the last place is a tie. */
struct best {
    Py_ssize_t k;
    float scores[MOST_SELECTED + 1], variances[MOST_SELECTED + 1];
    int64_t rows[MOST_SELECTED + 1];
};

INLINE void begin(struct best* best, Py_ssize_t k) {
    best->k = k;
    for (Py_ssize_t i = 0; i <= MOST_SELECTED; i++) best->scores[i] = -FLT_MAX, best->rows[i] = -1;
}

INLINE void insert(struct best* best, float score, float variance, int64_t row) {
    Py_ssize_t place = best->k;
    if (score <= best->scores[place]) return;
    for (; place > 0 && best->scores[place - 1] < score; place--) {
        best->scores[place] = best->scores[place - 1];
        best->variances[place] = best->variances[place - 1];
        best->rows[place] = best->rows[place - 1];
    }
    best->scores[place] = score, best->variances[place] = variance, best->rows[place] = row;
}

/* Copy the k best; returns whether some of them are equal, or too few. */
INLINE int finish(const struct best* best, int64_t* rows, float* scores) {
    int is_tied = best->rows[best->k - 1] < 0;
    for (Py_ssize_t i = 0; i < best->k; i++) {
        is_tied |= best->rows[i + 1] >= 0 && best->scores[i] == best->scores[i + 1];
        rows[i] = best->rows[i], scores[i] = best->scores[i];
    }
    return is_tied;
}

INLINE void select_all(const float* means, const float* variances, const uint8_t* is_available, Py_ssize_t n, float nu,
                       struct best* best) {
    float scores[BLOCK];
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        float largest =
            score_block(means + start, variances ? variances + start : NULL, is_available + start, nu, size, scores);
        if (largest <= best->scores[best->k]) continue;
        for (Py_ssize_t i = 0; i < size; i++) insert(best, scores[i], 0.0f, start + i);
    }
}

FOR_EACH_PROCESSOR
static int select_one(const float* means, const float* variances, const uint8_t* is_available, Py_ssize_t n, float nu,
                      Py_ssize_t k, int64_t* rows, float* scores) {
    struct best best;
    begin(&best, k);
    select_all(means, variances, is_available, n, nu, &best);
    return finish(&best, rows, scores);
}

/* How many available means lie above each of k numbers; a block below all of them is passed over. */
FOR_EACH_PROCESSOR
static void count_above(const float* means, const uint8_t* is_available, Py_ssize_t n, const float* of, Py_ssize_t k,
                        int64_t* counts) {
    float least = FLT_MAX;
    for (Py_ssize_t place = 0; place < k; place++) least = of[place] < least ? of[place] : least;
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t stop = n - start < BLOCK ? n : start + BLOCK;
        float largest = -FLT_MAX;
        for (Py_ssize_t i = start; i < stop; i++) largest = means[i] > largest ? means[i] : largest;
        if (largest <= least) continue;
        for (Py_ssize_t i = start; i < stop; i++) {
            if (means[i] <= least || !is_available[i]) continue;
            for (Py_ssize_t place = 0; place < k; place++) counts[place] += means[i] > of[place];
        }
    }
}

/* The k best by mean + nu sqrt(variance) straight from the channels, whose activations are computed once; all means are
 * written, and the variances of what was selected. */
FOR_EACH_PROCESSOR
static int select_mixed(const struct mixture* mixture, float* const* z, float* const* z_variances,
                        const uint8_t* is_available, Py_ssize_t n, float nu, Py_ssize_t k, float* means, int64_t* rows,
                        float* scores, float* variances) {
    struct best best;
    float activations[MOST_CHANNELS][BLOCK], own_variances[BLOCK], own_scores[BLOCK];
    begin(&best, k);
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t left = n - start < BLOCK ? n - start : BLOCK;
        float largest;
#define SCORE(size)                                                              \
    activate(mixture, z, start, size, activations);                              \
    expect_block(mixture, activations, size, means + start);                     \
    spread_block(mixture, activations, z_variances, start, size, own_variances); \
    largest = score_block(means + start, own_variances, is_available + start, nu, size, own_scores)
        FOR_BLOCK(SCORE, left);
        if (largest <= best.scores[k]) continue;
        for (Py_ssize_t i = 0; i < left; i++) insert(&best, own_scores[i], own_variances[i], start + i);
    }
    for (Py_ssize_t i = 0; i < k; i++) variances[i] = best.variances[i];
    return finish(&best, rows, scores);
}

/* A user most of whose variances are not known: items, covariances and bounds of the variances of z per channel. */
struct bounded {
    float *items[MOST_CHANNELS], *covs[MOST_CHANNELS], *z[MOST_CHANNELS], *bounds[MOST_CHANNELS];
    Py_ssize_t dims[MOST_CHANNELS];
    float* w;
};

INLINE void insert_exactly(const struct mixture* mixture, const struct bounded* user, const float* means, float nu,
                           int64_t row, struct best* best) {
    float* variances[MOST_CHANNELS];
    float own[MOST_CHANNELS], activations[MOST_CHANNELS][BLOCK], variance;
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++) {
        Py_ssize_t d = user->dims[c];
        own[c] = variance_of(user->items[c] + row * d, d, user->covs[c], user->w);
        variances[c] = own + c;
    }
    activate(mixture, user->z, row, 1, activations);
    spread_block(mixture, activations, variances, 0, 1, &variance);
    insert(best, means[row] + nu * sqrtf(variance), variance, row);
}

/* The k best by mean + nu sqrt(variance) with few exact variances: an item whose bound is below the k-th best exact
 * score so far cannot be among them. Those with the best means come first, so that this is high from the start. */
FOR_EACH_PROCESSOR
static int select_bounded(const struct mixture* mixture, const struct bounded* user, const float* means,
                          const uint8_t* is_available, Py_ssize_t n, float nu, Py_ssize_t k, int64_t* rows,
                          float* scores, float* variances) {
    struct best likely, best;
    float bounds[BLOCK], activations[MOST_CHANNELS][BLOCK];
    begin(&likely, k);
    begin(&best, k);
    select_all(means, NULL, is_available, n, 0.0f, &likely);
    for (Py_ssize_t i = 0; i < k && likely.rows[i] >= 0; i++)
        insert_exactly(mixture, user, means, nu, likely.rows[i], &best);
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        activate(mixture, user->z, start, size, activations);
        spread_block(mixture, activations, user->bounds, start, size, bounds);
        float largest = score_block(means + start, bounds, is_available + start, nu * ABOVE_ROUNDING, size, bounds);
        for (Py_ssize_t i = 0; i < size; i++) {
            float least = best.scores[k - 1], slack = (ABOVE_ROUNDING - 1.0f) * fabsf(least);
            if (largest < least - slack) break;
            if (bounds[i] < least - slack || !is_available[start + i]) continue;
            int is_in = 0;
            for (Py_ssize_t place = 0; place < k; place++) is_in |= likely.rows[place] == start + i;
            if (!is_in) insert_exactly(mixture, user, means, nu, start + i, &best);
        }
    }
    for (Py_ssize_t i = 0; i < k; i++) variances[i] = best.variances[i];
    return finish(&best, rows, scores);
}

#endif
