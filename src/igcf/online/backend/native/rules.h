/* What rules say of an answer: amounts that are added to scores, items that come first, labels that few may carry. */
#ifndef IGCF_RULES_H
#define IGCF_RULES_H
#include "best.h"

enum { SPARE = 16 }; /* items looked at beyond the length of an answer, in case caps forbid some */
enum { SOME_MORE = 10 }; /* the same, where more can be looked for */

struct rules {
    const float* boosts; /* per item; NULL: nothing is added */
    const int64_t* pinned;
    Py_ssize_t n_pinned;
    const int64_t* starts; /* where the capped labels of each item begin among all; NULL: no caps */
    const int32_t *labels, *caps;
    Py_ssize_t n_labels, n_caps;
    int32_t* counts; /* items taken so far, by capped label */
};

/* How many of the best items an answer of k may have to be chosen among. */
INLINE Py_ssize_t pool_of(const struct rules* rules, Py_ssize_t k) {
    Py_ssize_t pool = rules->starts ? k + (k > SPARE ? k : SPARE) : k;
    return pool < MOST_SELECTED ? pool : MOST_SELECTED;
}

INLINE float boost_of(const struct rules* rules, int64_t row) { return rules->boosts ? rules->boosts[row] : 0.0f; }

/* Whether no capped label of an item has as many as it may. */
INLINE int may_take(const struct rules* rules, int64_t row) {
    if (!rules->starts) return 1;
    int64_t begin = rules->starts[row], end = rules->starts[row + 1];
    if (begin < 0 || end > rules->n_labels) return 0;
    for (int64_t i = begin; i < end; i++) {
        int32_t label = rules->labels[i];
        if (label < 0 || label >= rules->n_caps || rules->counts[label] >= rules->caps[label]) return 0;
    }
    return 1;
}

/* Count an item under its capped labels if it may be taken. */
INLINE int take(const struct rules* rules, int64_t row) {
    if (!may_take(rules, row)) return 0;
    if (rules->starts)
        for (int64_t i = rules->starts[row]; i < rules->starts[row + 1]; i++) rules->counts[rules->labels[i]]++;
    return 1;
}

INLINE int is_among(const int64_t* rows, Py_ssize_t n, int64_t row) {
    int is_in = 0;
    for (Py_ssize_t i = 0; i < n; i++) is_in |= rows[i] == row;
    return is_in;
}

/* Begin an answer with what is pinned, as far as caps allow; how many that are. */
INLINE Py_ssize_t choose_pinned(const struct rules* rules, const struct best* pinned, Py_ssize_t k,
                                struct selection* found) {
    Py_ssize_t taken = 0;
    if (rules->starts) memset(rules->counts, 0, (size_t)rules->n_caps * sizeof *rules->counts);
    for (Py_ssize_t i = 0; i < pinned->k && taken < k; i++)
        if (take(rules, pinned->rows[i])) copy_place(pinned, i, found, taken++);
    return taken;
}

/* Take what is pinned and then the first `n` of the best, in their order and as far as caps allow; whether k were. */
INLINE int choose(const struct rules* rules, const struct best* pinned, const struct best* best, Py_ssize_t n,
                  Py_ssize_t k, struct selection* found) {
    Py_ssize_t n_pinned = choose_pinned(rules, pinned, k, found), taken = n_pinned;
    for (Py_ssize_t i = 0; i < n && taken < k && best->rows[i] >= 0; i++)
        if (!is_among(found->rows, n_pinned, best->rows[i]) && take(rules, best->rows[i]))
            copy_place(best, i, found, taken++);
    return taken == k;
}

#endif
