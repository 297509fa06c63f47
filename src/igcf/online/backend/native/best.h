/* The best items so far, and what is told about those that are selected. */
#ifndef IGCF_BEST_H
#define IGCF_BEST_H
#include "common.h"

enum { GROUP = 16 }; /* items whose scores are compared at once */

/* Best first; one more than asked for, which tells whether the last place is a tie. */
struct best {
    Py_ssize_t k;
    float scores[MOST_SELECTED + 1], variances[MOST_SELECTED + 1];
    int64_t rows[MOST_SELECTED + 1];
};

/* What is told about the items selected for one user. */
struct selection {
    int64_t rows[MOST_SELECTED], above[MOST_SELECTED];
    float scores[MOST_SELECTED], means[MOST_SELECTED], variances[MOST_SELECTED];
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

/* Put a block of items among them; a group of which none is good enough is passed over at once. */
INLINE void insert_block(struct best* best, const float* scores, const float* variances, int64_t start,
                         Py_ssize_t size) {
    for (Py_ssize_t first = 0; first < size; first += GROUP) {
        Py_ssize_t stop = first + GROUP < size ? first + GROUP : size;
        float largest = -FLT_MAX;
        for (Py_ssize_t i = first; i < stop; i++) largest = scores[i] > largest ? scores[i] : largest;
        if (largest <= best->scores[best->k]) continue;
        for (Py_ssize_t i = first; i < stop; i++) insert(best, scores[i], variances ? variances[i] : 0.0f, start + i);
    }
}

/* Put an item after those that are there, whatever its score. */
INLINE void append(struct best* best, float score, float variance, int64_t row) {
    best->scores[best->k] = score, best->variances[best->k] = variance, best->rows[best->k++] = row;
}

/* Whether some of the first n, or the last of them and the next one, are equal. */
INLINE int is_tied(const struct best* best, Py_ssize_t n) {
    int found = 0;
    for (Py_ssize_t i = 0; i < n; i++) found |= best->rows[i + 1] >= 0 && best->scores[i] == best->scores[i + 1];
    return found;
}

INLINE void copy_place(const struct best* best, Py_ssize_t place, struct selection* found, Py_ssize_t to) {
    found->rows[to] = best->rows[place], found->scores[to] = best->scores[place];
    found->variances[to] = best->variances[place];
}

#endif
