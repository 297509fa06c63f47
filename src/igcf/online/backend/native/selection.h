/* The best items, and where they stand. */
#ifndef IGCF_SELECTION_H
#define IGCF_SELECTION_H
#include "common.h"

enum { GROUP = 16 }; /* items with scores compared at once */

/* Best first; one more than asked for, to see whether the last place is a tie. */
struct best {
    Py_ssize_t k;
    float scores[MOST_SELECTED + 1];
    int64_t rows[MOST_SELECTED + 1];
};

INLINE void insert(struct best* best, float score, int64_t row) {
    Py_ssize_t place = best->k;
    if (score <= best->scores[place]) return;
    for (; place > 0 && best->scores[place - 1] < score; place--)
        best->scores[place] = best->scores[place - 1], best->rows[place] = best->rows[place - 1];
    best->scores[place] = score, best->rows[place] = row;
}

/* Rows and scores of the k best; returns whether some of them are equal, or too few. What is not available scores less
 * than anything; a block or group without a good enough item is skipped. */
FOR_EACH_PROCESSOR
static int select_best(const float* given, const uint8_t* is_available, Py_ssize_t n, Py_ssize_t k, int64_t* rows,
                       float* scores) {
    struct best best = {.k = k};
    float own[BLOCK];
    int is_tied = 0;
    for (Py_ssize_t i = 0; i <= k; i++) best.scores[i] = -FLT_MAX, best.rows[i] = -1;
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        float most = -FLT_MAX;
        for (Py_ssize_t i = 0; i < size; i++) {
            float score = is_available[start + i] ? given[start + i] : -FLT_MAX;
            own[i] = score;
            most = score > most ? score : most;
        }
        if (most <= best.scores[k]) continue;
        for (Py_ssize_t first = 0; first < size; first += GROUP) {
            Py_ssize_t stop = first + GROUP < size ? first + GROUP : size;
            float largest = -FLT_MAX;
            for (Py_ssize_t i = first; i < stop; i++) largest = own[i] > largest ? own[i] : largest;
            if (largest <= best.scores[k]) continue;
            for (Py_ssize_t i = first; i < stop; i++) insert(&best, own[i], start + i);
        }
    }
    for (Py_ssize_t i = 0; i < k; i++) {
        rows[i] = best.rows[i], scores[i] = best.scores[i];
        is_tied |= best.rows[i + 1] >= 0 && best.scores[i] == best.scores[i + 1];
    }
    return is_tied || best.rows[k - 1] < 0;
}

/* How many available means lie above each of k numbers; a block below all of them is passed over. */
FOR_EACH_PROCESSOR
static void count_above(const float* means, const uint8_t* is_available, Py_ssize_t n, const float* of, Py_ssize_t k,
                        int64_t* counts) {
    float least = FLT_MAX;
    for (Py_ssize_t place = 0; place < k; place++) least = of[place] < least ? of[place] : least, counts[place] = 0;
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t stop = n - start < BLOCK ? n : start + BLOCK;
        float largest = -FLT_MAX;
        for (Py_ssize_t i = start; i < stop; i++) largest = means[i] > largest ? means[i] : largest;
        if (largest <= least) continue;
        for (Py_ssize_t place = 0; place < k; place++) {
            int32_t above = 0;
            if (largest <= of[place]) continue;
            for (Py_ssize_t i = start; i < stop; i++) above += (means[i] > of[place]) & is_available[i];
            counts[place] += above;
        }
    }
}

#endif
