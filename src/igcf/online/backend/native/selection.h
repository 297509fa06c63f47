/* The best items, and where they stand. */
#ifndef IGCF_SELECTION_H
#define IGCF_SELECTION_H
#include "items.h"
#include "mixture.h"
#include "rules.h"

/* Scores of a block of items and their maximum; what is not available scores less than anything. */
INLINE float score_block(const float* means, const float* variances, const float* boosts, const uint8_t* is_available,
                         float nu, Py_ssize_t n, float* scores) {
    float largest = -FLT_MAX;
#define SCORE_ITEMS(mean)                                             \
    for (Py_ssize_t i = 0; i < n; i++) {                              \
        float score = variances ? mean + nu * sqrtf(variances[i]) : mean; \
        score = is_available[i] ? score : -FLT_MAX;                   \
        scores[i] = score;                                            \
        largest = score > largest ? score : largest;                  \
    }
    if (boosts) {
        SCORE_ITEMS((means[i] + boosts[i]))
    } else {
        SCORE_ITEMS(means[i])
    }
#undef SCORE_ITEMS
    return largest;
}

INLINE const float* from(const float* numbers, Py_ssize_t start) { return numbers ? numbers + start : NULL; }

INLINE void select_all(const float* means, const float* variances, const float* boosts, const uint8_t* is_available,
                       Py_ssize_t n, float nu, struct best* best) {
    float scores[BLOCK];
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        float largest = score_block(means + start, from(variances, start), from(boosts, start), is_available + start,
                                    nu, size, scores);
        if (largest > best->scores[best->k]) insert_block(best, scores, NULL, start, size);
    }
}

/* Rows and scores of the k best; returns whether some of them are equal, or too few. */
FOR_EACH_PROCESSOR
static int select_one(const float* means, const float* variances, const uint8_t* is_available, Py_ssize_t n, float nu,
                      Py_ssize_t k, int64_t* rows, float* scores) {
    struct best best;
    begin(&best, k);
    select_all(means, variances, NULL, is_available, n, nu, &best);
    for (Py_ssize_t i = 0; i < k; i++) rows[i] = best.rows[i], scores[i] = best.scores[i];
    return is_tied(&best, k) || best.rows[k - 1] < 0;
}

/* The k best by mean + nu sqrt(variance) under rules; returns whether scores are equal, or too few items found. */
FOR_EACH_PROCESSOR
static int select_scored(const float* means, const float* variances, const struct rules* rules,
                         const uint8_t* is_available, Py_ssize_t n, float nu, Py_ssize_t k, struct selection* found) {
    struct best best, pinned;
    Py_ssize_t pool = pool_of(rules, k);
    begin(&best, pool);
    begin(&pinned, 0);
    select_all(means, variances, rules->boosts, is_available, n, nu, &best);
    for (Py_ssize_t i = 0; i < pool && best.rows[i] >= 0; i++) best.variances[i] = variances[best.rows[i]];
    for (Py_ssize_t i = 0; i < rules->n_pinned; i++) {
        int64_t row = rules->pinned[i];
        float score = means[row] + boost_of(rules, row) + nu * sqrtf(variances[row]);
        if (is_available[row]) append(&pinned, score, variances[row], row);
    }
    return is_tied(&best, pool) || !choose(rules, &pinned, &best, pool, k, found);
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
        for (Py_ssize_t place = 0; place < k; place++) {
            int32_t above = 0;
            if (largest <= of[place]) continue;
            for (Py_ssize_t i = start; i < stop; i++) above += (means[i] > of[place]) & is_available[i];
            counts[place] += above;
        }
    }
}

/* The same straight from the channels, whose activations are computed once; all means are written. */
FOR_EACH_PROCESSOR
static int select_mixed(const struct mixture* mixture, float* const* z, float* const* z_variances,
                        const struct rules* rules, const uint8_t* is_available, Py_ssize_t n, float nu, Py_ssize_t k,
                        float* means, struct selection* found) {
    struct best best, pinned;
    float activations[MOST_CHANNELS][BLOCK], own_variances[BLOCK], own_scores[BLOCK];
    Py_ssize_t pool = pool_of(rules, k);
    begin(&best, pool);
    begin(&pinned, 0);
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t left = n - start < BLOCK ? n - start : BLOCK;
        float largest;
#define SCORE(size)                                                                                                   \
    activate(mixture, z, start, size, activations);                                                                   \
    expect_block(mixture, activations, size, means + start);                                                          \
    spread_block(mixture, activations, z_variances, start, size, own_variances);                                      \
    largest = score_block(means + start, own_variances, from(rules->boosts, start), is_available + start, nu, size,   \
                          own_scores)
        FOR_BLOCK(SCORE, left);
        if (largest > best.scores[pool]) insert_block(&best, own_scores, own_variances, start, left);
    }
    for (Py_ssize_t i = 0; i < rules->n_pinned; i++) {
        int64_t row = rules->pinned[i];
        float variance;
        if (!is_available[row]) continue;
        activate(mixture, z, row, 1, activations);
        spread_block(mixture, activations, z_variances, row, 1, &variance);
        append(&pinned, means[row] + boost_of(rules, row) + nu * sqrtf(variance), variance, row);
    }
    return is_tied(&best, pool) || !choose(rules, &pinned, &best, pool, k, found);
}

/* A user most of whose variances are not known: items, covariances and bounds of the variances of z per channel. */
struct bounded {
    float *items[MOST_CHANNELS], *covs[MOST_CHANNELS], *z[MOST_CHANNELS], *bounds[MOST_CHANNELS];
    Py_ssize_t dims[MOST_CHANNELS];
    float *w, *largest; /* what a variance is computed in, and the largest bound of a score in each block of items */
};

INLINE float variance_at(const struct mixture* mixture, const struct bounded* user, int64_t row) {
    float* variances[MOST_CHANNELS];
    float own[MOST_CHANNELS], activations[MOST_CHANNELS][BLOCK], variance;
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++) {
        Py_ssize_t d = user->dims[c];
        own[c] = variance_of(user->items[c] + row * d, d, user->covs[c], user->w);
        variances[c] = own + c;
    }
    activate(mixture, user->z, row, 1, activations);
    spread_block(mixture, activations, variances, 0, 1, &variance);
    return variance;
}

/* Put an item among others by its exact score, or after them. */
INLINE void score_exactly(const struct mixture* mixture, const struct bounded* user, const float* means,
                          const struct rules* rules, float nu, int64_t row, struct best* among, int is_ordered) {
    float variance = variance_at(mixture, user, row);
    float score = means[row] + boost_of(rules, row) + nu * sqrtf(variance);
    if (is_ordered)
        insert(among, score, variance, row);
    else
        append(among, score, variance, row);
}

INLINE float rounding_of(float score) { return (ABOVE_ROUNDING - 1.0f) * fabsf(score); }

/* What the scores of a block of items do not exceed, and the largest of these bounds. */
INLINE float bound_block(const struct mixture* mixture, const struct bounded* user, const float* means,
                         const struct rules* rules, const uint8_t* is_available, float nu, Py_ssize_t start,
                         Py_ssize_t size, float* bounds) {
    float activations[MOST_CHANNELS][BLOCK];
    activate(mixture, user->z, start, size, activations);
    spread_block(mixture, activations, user->bounds, start, size, bounds);
    return score_block(means + start, bounds, from(rules->boosts, start), is_available + start, nu * ABOVE_ROUNDING,
                       size, bounds);
}

/* The k best by mean + nu sqrt(variance) under rules without caps, with few exact variances: an item whose bound is
 * below the score of the last place cannot be among them. Those with the best means come first, so that this is high
 * from the start. */
FOR_EACH_PROCESSOR
static int select_bounded(const struct mixture* mixture, const struct bounded* user, const float* means,
                          const struct rules* rules, const uint8_t* is_available, Py_ssize_t n, float nu, Py_ssize_t k,
                          struct selection* found) {
    struct best likely, best, pinned;
    float bounds[BLOCK];
    begin(&likely, k);
    begin(&best, k);
    begin(&pinned, 0);
    select_all(means, NULL, rules->boosts, is_available, n, 0.0f, &likely);
    for (Py_ssize_t i = 0; i < rules->n_pinned; i++)
        if (is_available[rules->pinned[i]]) score_exactly(mixture, user, means, rules, nu, rules->pinned[i], &pinned, 0);
    for (Py_ssize_t i = 0; i < k && likely.rows[i] >= 0; i++)
        score_exactly(mixture, user, means, rules, nu, likely.rows[i], &best, 1);
    for (Py_ssize_t start = 0; start < n; start += BLOCK) {
        Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
        float largest = bound_block(mixture, user, means, rules, is_available, nu, start, size, bounds);
        for (Py_ssize_t i = 0; i < size; i++) {
            float least = best.scores[k - 1] - rounding_of(best.scores[k - 1]);
            if (largest < least) break;
            if (bounds[i] < least || !is_available[start + i]) continue;
            if (is_among(likely.rows, likely.k, start + i)) continue;
            score_exactly(mixture, user, means, rules, nu, start + i, &best, 1);
        }
    }
    return is_tied(&best, k) || !choose(rules, &pinned, &best, k, k, found);
}

/* Ask for what an exact score and the caps of an item will need, so that it is there when it is looked at. */
INLINE void prefetch_item(const struct mixture* mixture, const struct bounded* user, const struct rules* rules,
                          int64_t row) {
    __builtin_prefetch(rules->starts + row, 0, 3);
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++)
        for (Py_ssize_t j = 0; j < user->dims[c]; j += 16)
            __builtin_prefetch(user->items[c] + row * user->dims[c] + j, 0, 3);
}

INLINE void prefetch_labels(const struct rules* rules, const struct best* of, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n && of->rows[i] >= 0; i++)
        __builtin_prefetch(rules->labels + rules->starts[of->rows[i]], 0, 3);
}

/* The same under caps. Items are taken in the order of their exact scores; one whose bound comes next gets its exact
 * score only if no cap forbids it by then. Bounds below `floor` are not looked at: that is what an answer out of the
 * items with the best means would end with, and it is lowered where the answer does not get there. */
FOR_EACH_PROCESSOR
static int select_capped(const struct mixture* mixture, const struct bounded* user, const float* means,
                         const struct rules* rules, const uint8_t* is_available, Py_ssize_t n, float nu, Py_ssize_t k,
                         struct selection* found) {
    struct best best, waiting, pinned;
    float bounds[BLOCK], floor = -FLT_MAX;
    Py_ssize_t taken, n_pinned, n_likely = k + SOME_MORE < MOST_SELECTED ? k + SOME_MORE : MOST_SELECTED;
    begin(&best, MOST_SELECTED);
    begin(&pinned, 0);
    for (Py_ssize_t i = 0; i < rules->n_pinned; i++)
        if (is_available[rules->pinned[i]]) score_exactly(mixture, user, means, rules, nu, rules->pinned[i], &pinned, 0);
    for (;; n_likely = 2 * n_likely < MOST_SELECTED ? 2 * n_likely : MOST_SELECTED) {
        begin(&waiting, n_likely);
        select_all(means, NULL, rules->boosts, is_available, n, 0.0f, &waiting);
        for (Py_ssize_t i = 0; i < n_likely && waiting.rows[i] >= 0; i++)
            prefetch_item(mixture, user, rules, waiting.rows[i]);
        prefetch_labels(rules, &waiting, n_likely);
        if (choose(rules, &pinned, &waiting, n_likely, k, found)) break;
        if (n_likely == MOST_SELECTED) return 1;
    }
    for (Py_ssize_t i = 0; i < k; i++)
        if (!is_among(pinned.rows, pinned.k, found->rows[i]))
            score_exactly(mixture, user, means, rules, nu, found->rows[i], &best, 1);
    if (best.rows[0] < 0) return 0; /* all are pinned */
    for (Py_ssize_t i = 0; i < k && best.rows[i] >= 0; i++) floor = best.scores[i];
    begin(&waiting, MOST_SELECTED);
    for (Py_ssize_t looked = 0, is_first = 1;; is_first = 0) {
        for (Py_ssize_t start = 0; start < n; start += BLOCK) {
            Py_ssize_t size = n - start < BLOCK ? n - start : BLOCK;
            float least = floor - rounding_of(floor);
            if (!is_first && user->largest[start / BLOCK] < least) continue;
            float largest = bound_block(mixture, user, means, rules, is_available, nu, start, size, bounds);
            user->largest[start / BLOCK] = largest;
            for (Py_ssize_t i = 0; i < size && largest >= least; i++) {
                if (bounds[i] < least || !is_available[start + i]) continue;
                if (is_among(best.rows, MOST_SELECTED, start + i) || is_among(waiting.rows, MOST_SELECTED, start + i))
                    continue;
                if (waiting.rows[MOST_SELECTED - 1] >= 0) { /* no room: all get their exact scores */
                    for (; looked < MOST_SELECTED; looked++)
                        score_exactly(mixture, user, means, rules, nu, waiting.rows[looked], &best, 1);
                    begin(&waiting, MOST_SELECTED), looked = 0;
                    if (choose(rules, &pinned, &best, MOST_SELECTED, k, found) && found->scores[k - 1] > floor)
                        floor = found->scores[k - 1], least = floor - rounding_of(floor);
                    if (bounds[i] < least) continue;
                }
                prefetch_item(mixture, user, rules, start + i);
                insert(&waiting, bounds[i], 0.0f, start + i);
            }
        }
        Py_ssize_t place = 0;
        prefetch_labels(rules, &waiting, MOST_SELECTED);
        for (taken = n_pinned = choose_pinned(rules, &pinned, k, found); taken < k;) {
            float score = best.scores[place];
            if (looked < MOST_SELECTED && waiting.rows[looked] >= 0 &&
                waiting.scores[looked] >= score - rounding_of(score)) {
                int64_t row = waiting.rows[looked++];
                if (may_take(rules, row)) score_exactly(mixture, user, means, rules, nu, row, &best, 1);
                continue;
            }
            if (place == MOST_SELECTED || best.rows[place] < 0 || score < floor) break;
            if (best.rows[place + 1] >= 0 && score == best.scores[place + 1]) return 1;
            if (!is_among(found->rows, n_pinned, best.rows[place]) && take(rules, best.rows[place]))
                copy_place(&best, place, found, taken++);
            place++;
        }
        if (taken == k) return 0;
        if (floor == -FLT_MAX || place == MOST_SELECTED) return 1;
        floor = best.rows[place] < 0 ? -FLT_MAX : best.scores[place];
    }
}

#endif
