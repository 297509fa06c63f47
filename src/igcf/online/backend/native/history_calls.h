/* Learning histories, and as which class a reaction counts, as Python calls them. */
#ifndef IGCF_HISTORY_CALLS_H
#define IGCF_HISTORY_CALLS_H
#include "history.h"

/* The classes of a model: (starts, vectors, noise, is_logit, rewards, is_failure, weights, is_member, liked,
 * calibration, is_full). */
static int open_classes(struct arrays* arrays, PyObject* rules, Py_ssize_t stride, struct channels* channels,
                        struct classes* classes) {
    PyObject *starts_, *vectors_, *noise_, *is_logit_, *rewards_, *is_failure_, *weights_, *is_member_;
    PyObject* calibration_;
    if (!PyArg_ParseTuple(rules, "OOOOOOOOiOp", &starts_, &vectors_, &noise_, &is_logit_, &rewards_, &is_failure_,
                          &weights_, &is_member_, &classes->liked, &calibration_, &classes->is_full))
        return 0;
    if (!(channels->starts = open_array(arrays, starts_, INT64, ANY_LENGTH, READ, "starts"))) return 0;
    Py_ssize_t n = channels->n = classes->n_channels = length_of(last_of(arrays));
    if (n < 1 || n > MOST_CHANNELS) return do_not_fit("reactions, users and their vectors");
    if (!(classes->is_logit = channels->is_logit = open_array(arrays, is_logit_, BOOL, n, READ, "is_logit")) ||
        !(classes->is_failure = open_array(arrays, is_failure_, BOOL, ANY_LENGTH, READ, "is_failure")))
        return 0;
    classes->n = length_of(last_of(arrays));
    if (!(classes->rewards = open_array(arrays, rewards_, FLOAT64, (classes->n + 2) * n, READ, "rewards")) ||
        !(classes->weights = open_array(arrays, weights_, FLOAT64, ANY_LENGTH, READ, "weights")))
        return 0;
    classes->n_terms = length_of(last_of(arrays));
    if (!(classes->is_member = open_array(arrays, is_member_, BOOL, classes->n_terms * n, READ, "is_member")) ||
        !(classes->calibration = open_array(arrays, calibration_, FLOAT64, 3, READ, "calibration")))
        return 0;
    if (classes->liked >= n) return do_not_fit("chance and channels");
    return open_tables(arrays, vectors_, noise_, stride, channels);
}

static int are_known(const int64_t* rows, Py_ssize_t n, const int64_t* numbers, const struct channels* channels,
                     const struct classes* classes) {
    for (Py_ssize_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= channels->n_items || (numbers && (numbers[i] < 0 || numbers[i] > classes->n)))
            return do_not_fit("reactions and items");
    return 1;
}

static void at_item(struct classes* classes, const struct channels* channels, int64_t row) {
    for (Py_ssize_t c = 0; c < channels->n; c++) classes->noise[c] = channels->noise[c][row];
}

/* (classes, means, covs, rows, numbers, counted): the class that the reaction of each user counts as. */
static PyObject* py_counted_classes(PyObject* module, PyObject* args) {
    PyObject *rules, *means_, *covs_, *rows_, *numbers_, *counted_;
    if (!PyArg_ParseTuple(args, "OOOOOO", &rules, &means_, &covs_, &rows_, &numbers_, &counted_)) return NULL;
    struct arrays arrays = {.count = 0};
    struct classes classes = {.n = 0};
    struct channels channels = {.n = 0};
    const double *means = NULL, *covs = NULL;
    const int64_t *rows = open_array(&arrays, rows_, INT64, ANY_LENGTH, READ, "rows"), *numbers = NULL;
    int64_t* counted = NULL;
    Py_ssize_t n_users = rows ? length_of(last_of(&arrays)) : 0, stride = 0, total = 0;
    int is_good = rows && (means = open_array(&arrays, means_, FLOAT64, ANY_LENGTH, READ, "means"));
    if (is_good && n_users > 0) stride = length_of(last_of(&arrays)) / n_users;
    if (is_good && (n_users < 1 || length_of(last_of(&arrays)) != n_users * stride))
        is_good = do_not_fit("reactions, users and their vectors");
    is_good = is_good && (covs = open_array(&arrays, covs_, FLOAT64, n_users * stride * stride, READ, "covs")) &&
              (numbers = open_array(&arrays, numbers_, INT64, n_users, READ, "numbers")) &&
              (counted = open_array(&arrays, counted_, INT64, n_users, WRITE, "counted")) &&
              open_classes(&arrays, rules, stride, &channels, &classes) &&
              are_known(rows, n_users, numbers, &channels, &classes);
    for (Py_ssize_t c = 0; is_good && c < channels.n; c++) total += channels.widths[c];
    double* x = is_good ? PyMem_Malloc((size_t)(total + stride) * sizeof(double)) : NULL;
    if (is_good && !x) is_good = 0, PyErr_NoMemory();
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t user = 0; user < n_users; user++) {
            const float* own_vectors[MOST_CHANNELS];
            struct own own;
            for (Py_ssize_t c = 0; c < channels.n; c++)
                own_vectors[c] = channels.vectors[c] + rows[user] * channels.widths[c];
            at_item(&classes, &channels, rows[user]);
            own_moments(means + user * stride, covs + user * stride * stride, stride, channels.n, channels.starts,
                        own_vectors, channels.widths, x, x + total, &own);
            counted[user] = counted_class(&classes, &own, (Py_ssize_t)numbers[user]);
        }
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(x);
    return done(&arrays, is_good);
}

/* (mean, cov, (starts, vectors, noise, is_logit), rows, rewards, weights): a history, oldest reaction first. */
static PyObject* py_learn(PyObject* module, PyObject* args) {
    PyObject *mean_, *cov_, *starts_, *vectors_, *noise_, *is_logit_, *rows_, *rewards_, *weights_;
    if (!PyArg_ParseTuple(args, "OO(OOOO)OOO", &mean_, &cov_, &starts_, &vectors_, &noise_, &is_logit_, &rows_,
                          &rewards_, &weights_))
        return NULL;
    struct arrays arrays = {.count = 0};
    struct channels channels = {.n = 0};
    struct learner learners[MOST_CHANNELS];
    double *mean = open_array(&arrays, mean_, FLOAT64, ANY_LENGTH, WRITE, "mean"), *cov = NULL;
    const double *rewards = NULL, *weights = NULL;
    const int64_t* rows = NULL;
    Py_ssize_t stride = mean ? length_of(last_of(&arrays)) : 0, n = 0, n_learners = 0;
    int is_good = mean && (cov = open_array(&arrays, cov_, FLOAT64, stride * stride, WRITE, "cov")) &&
                  (rows = open_array(&arrays, rows_, INT64, ANY_LENGTH, READ, "rows"));
    if (is_good) n = length_of(last_of(&arrays));
    is_good = is_good && (channels.starts = open_array(&arrays, starts_, INT64, ANY_LENGTH, READ, "starts"));
    if (is_good) channels.n = length_of(last_of(&arrays));
    if (is_good && (channels.n < 1 || channels.n > MOST_CHANNELS)) is_good = do_not_fit("reactions and channels");
    is_good = is_good && (channels.is_logit = open_array(&arrays, is_logit_, BOOL, channels.n, READ, "is_logit")) &&
              (rewards = open_array(&arrays, rewards_, FLOAT64, n * channels.n, READ, "rewards")) &&
              (weights_ == Py_None || (weights = open_array(&arrays, weights_, FLOAT64, n, READ, "weights"))) &&
              open_tables(&arrays, vectors_, noise_, stride, &channels) && are_known(rows, n, NULL, &channels, NULL);
    double* memory = is_good ? open_learners(&channels, mean, cov, stride, learners, &n_learners) : NULL;
    if (is_good && !memory) is_good = 0, PyErr_NoMemory();
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t b = 0; b < n_learners; b++) {
            learn_block(learners + b, &channels, n, rows, rewards, weights);
            put_back(learners + b, mean, cov, stride);
        }
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(memory);
    return done(&arrays, is_good);
}

/* (classes, mean, cov, rows, numbers): a history; each reaction counts as the class that the belief before allows. */
static PyObject* py_learn_in_turn(PyObject* module, PyObject* args) {
    PyObject *rules, *mean_, *cov_, *rows_, *numbers_;
    if (!PyArg_ParseTuple(args, "OOOOO", &rules, &mean_, &cov_, &rows_, &numbers_)) return NULL;
    struct arrays arrays = {.count = 0};
    struct classes classes = {.n = 0};
    struct channels channels = {.n = 0};
    struct learner learners[MOST_CHANNELS];
    double *mean = open_array(&arrays, mean_, FLOAT64, ANY_LENGTH, WRITE, "mean"), *cov = NULL;
    const int64_t *rows = NULL, *numbers = NULL;
    Py_ssize_t stride = mean ? length_of(last_of(&arrays)) : 0, n = 0, n_learners = 0;
    int is_good = mean && (cov = open_array(&arrays, cov_, FLOAT64, stride * stride, WRITE, "cov")) &&
                  (rows = open_array(&arrays, rows_, INT64, ANY_LENGTH, READ, "rows"));
    if (is_good) n = length_of(last_of(&arrays));
    is_good = is_good && (numbers = open_array(&arrays, numbers_, INT64, n, READ, "numbers")) &&
              open_classes(&arrays, rules, stride, &channels, &classes) &&
              are_known(rows, n, numbers, &channels, &classes);
    double* memory = is_good ? open_learners(&channels, mean, cov, stride, learners, &n_learners) : NULL;
    if (is_good && !memory) is_good = 0, PyErr_NoMemory();
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < n; i++) {
            struct own own;
            memset(&own, 0, sizeof own);
            for (Py_ssize_t b = 0; b < n_learners; b++) look_at(learners + b, &channels, rows[i], &own);
            at_item(&classes, &channels, rows[i]);
            Py_ssize_t counted = counted_class(&classes, &own, (Py_ssize_t)numbers[i]);
            for (Py_ssize_t b = 0; b < n_learners; b++)
                learn_looked_at(learners + b, &channels, rows[i], classes.rewards + counted * channels.n);
        }
        for (Py_ssize_t b = 0; b < n_learners; b++) {
            bring_up_to_date(learners + b);
            put_back(learners + b, mean, cov, stride);
        }
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(memory);
    return done(&arrays, is_good);
}

#endif
