/* Selecting items, as Python calls it. */
#ifndef IGCF_SELECTION_CALLS_H
#define IGCF_SELECTION_CALLS_H
#include "buffers.h"
#include "selection.h"

/* (weights, is_member, is_logit, block) */
static int open_mixture(struct arrays* arrays, PyObject* parts, struct mixture* mixture) {
    PyObject *weights, *is_member, *is_logit, *block;
    if (!PyArg_ParseTuple(parts, "OOOO", &weights, &is_member, &is_logit, &block)) return 0;
    if (!(mixture->weights = open_array(arrays, weights, FLOAT64, ANY_LENGTH, READ, "weights"))) return 0;
    mixture->n_terms = length_of(last_of(arrays));
    if (!(mixture->is_logit = open_array(arrays, is_logit, BOOL, ANY_LENGTH, READ, "is_logit"))) return 0;
    Py_ssize_t n = mixture->n_channels = length_of(last_of(arrays));
    if (n < 1 || n > MOST_CHANNELS) {
        PyErr_Format(PyExc_ValueError, "%zd channels, expected 1 to %d", n, (int)MOST_CHANNELS);
        return 0;
    }
    if (!(mixture->is_member = open_array(arrays, is_member, BOOL, mixture->n_terms * n, READ, "is_member")) ||
        !(mixture->block = open_array(arrays, block, UINT8, n, READ, "block")))
        return 0;
    for (Py_ssize_t c = 0; c < n; c++)
        if (mixture->block[c] >= n) {
            PyErr_Format(PyExc_ValueError, "channel %zd is of block %d", c, (int)mixture->block[c]);
            return 0;
        }
    return 1;
}

static int can_select(Py_ssize_t k, Py_ssize_t n) {
    if (k >= 1 && k <= MOST_SELECTED && k <= n) return 1;
    PyErr_Format(PyExc_ValueError, "cannot select %zd of %zd items", k, n);
    return 0;
}

static PyObject* py_select_users(PyObject* module, PyObject* args) {
    PyObject *means_, *variances_, *is_available_, *rows_, *scores_, *is_tied_;
    Py_ssize_t k, n = 0, n_tied = 0;
    float nu;
    if (!PyArg_ParseTuple(args, "OOOfnOOO", &means_, &variances_, &is_available_, &nu, &k, &rows_, &scores_, &is_tied_))
        return NULL;
    struct arrays arrays = {.count = 0};
    const float *means = NULL, *variances = NULL;
    const uint8_t* is_available = NULL;
    int64_t* rows = NULL;
    float* scores = NULL;
    uint8_t* is_tied = open_array(&arrays, is_tied_, BOOL, ANY_LENGTH, WRITE, "is_tied");
    Py_ssize_t n_users = is_tied ? length_of(last_of(&arrays)) : 0;
    int is_good = is_tied && (is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available"));
    if (is_good && n_users > 0) n = length_of(last_of(&arrays)) / n_users;
    if (is_good && length_of(last_of(&arrays)) != n_users * n) is_good = do_not_fit("users and items");
    is_good = is_good && can_select(k, n) &&
              (means = open_array(&arrays, means_, FLOAT32, n_users * n, READ, "means")) &&
              (variances_ == Py_None ||
               (variances = open_array(&arrays, variances_, FLOAT32, n_users * n, READ, "variances"))) &&
              (rows = open_array(&arrays, rows_, INT64, n_users * k, WRITE, "rows")) &&
              (scores = open_array(&arrays, scores_, FLOAT32, n_users * k, WRITE, "scores"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t user = 0; user < n_users; user++) {
            is_tied[user] = (uint8_t)select_one(means + user * n, variances ? variances + user * n : NULL,
                                                is_available + user * n, n, nu, k, rows + user * k, scores + user * k);
            n_tied += is_tied[user];
        }
        Py_END_ALLOW_THREADS
    }
    close_arrays(&arrays);
    return is_good ? PyLong_FromSsize_t(n_tied) : NULL;
}

/* None, or (boosts, pinned, starts, labels, caps), of which each may be None but for the last two beside starts. */
static int open_rules(struct arrays* arrays, PyObject* given, Py_ssize_t n, struct rules* rules) {
    PyObject *boosts, *pinned, *starts, *labels, *caps;
    *rules = (struct rules){.boosts = NULL};
    if (given == Py_None) return 1;
    if (!PyArg_ParseTuple(given, "OOOOO", &boosts, &pinned, &starts, &labels, &caps)) return 0;
    if (boosts != Py_None && !(rules->boosts = open_array(arrays, boosts, FLOAT32, n, READ, "boosts"))) return 0;
    if (pinned != Py_None) {
        if (!(rules->pinned = open_array(arrays, pinned, INT64, ANY_LENGTH, READ, "pinned"))) return 0;
        rules->n_pinned = length_of(last_of(arrays));
        if (rules->n_pinned > MOST_SELECTED) return do_not_fit("so many pinned items and an answer");
        for (Py_ssize_t i = 0; i < rules->n_pinned; i++)
            if (rules->pinned[i] < 0 || rules->pinned[i] >= n) return do_not_fit("pinned items and available");
    }
    if (starts == Py_None) return 1;
    if (!(rules->starts = open_array(arrays, starts, INT64, n + 1, READ, "starts")) ||
        !(rules->labels = open_array(arrays, labels, INT32, ANY_LENGTH, READ, "labels")))
        return 0;
    rules->n_labels = length_of(last_of(arrays));
    if (!(rules->caps = open_array(arrays, caps, INT32, ANY_LENGTH, READ, "caps"))) return 0;
    rules->n_caps = length_of(last_of(arrays));
    rules->counts = PyMem_Malloc((size_t)(rules->n_caps + 1) * sizeof *rules->counts);
    if (!rules->counts) PyErr_NoMemory();
    return rules->counts != NULL;
}

/* The means of what was selected, and how many available items have a larger one. */
static void look_up(struct selection* found, const float* means, const uint8_t* is_available, Py_ssize_t n,
                    Py_ssize_t k) {
    for (Py_ssize_t i = 0; i < k; i++) found->means[i] = means[found->rows[i]], found->above[i] = 0;
    count_above(means, is_available, n, found->means, k, found->above);
}

static PyObject* filled(PyObject* list, Py_ssize_t place, PyObject* number) {
    if (!list || !number || PyList_SetItem(list, place, number)) { /* steals the number */
        if (!list) Py_XDECREF(number);
        Py_XDECREF(list);
        return NULL;
    }
    return list;
}

static PyObject* whole_numbers(const int64_t* numbers, Py_ssize_t n, int64_t more) {
    PyObject* list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) list = filled(list, i, PyLong_FromLongLong(numbers[i] + more));
    return list;
}

static PyObject* real_numbers(const float* numbers, Py_ssize_t n, int is_squared) {
    PyObject* list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++)
        list = filled(list, i, PyFloat_FromDouble(is_squared ? sqrtf(numbers[i]) : numbers[i]));
    return list;
}

/* Rows, scores, means, standard deviations and ranks by the mean as lists; None where scores are equal, or too few are
 * found. */
static PyObject* as_columns(struct arrays* arrays, int is_good, int is_tied, const struct selection* found,
                            Py_ssize_t k) {
    if (!is_good || is_tied) return done(arrays, is_good);
    close_arrays(arrays);
    return Py_BuildValue("(NNNNN)", whole_numbers(found->rows, k, 0), real_numbers(found->scores, k, 0),
                         real_numbers(found->means, k, 0), real_numbers(found->variances, k, 1),
                         whole_numbers(found->above, k, 1));
}

static PyObject* py_select(PyObject* module, PyObject* args) {
    PyObject *means_, *variances_, *is_available_, *rules_;
    float nu;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "OOOfnO", &means_, &variances_, &is_available_, &nu, &k, &rules_)) return NULL;
    struct arrays arrays = {.count = 0};
    struct selection found;
    struct rules rules = {.counts = NULL};
    const float *means = NULL, *variances = NULL;
    const uint8_t* is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available");
    Py_ssize_t n = is_available ? length_of(last_of(&arrays)) : 0;
    int is_without = 0, is_good = is_available && can_select(k, n) && open_rules(&arrays, rules_, n, &rules) &&
                                  (means = open_array(&arrays, means_, FLOAT32, n, READ, "means")) &&
                                  (variances = open_array(&arrays, variances_, FLOAT32, n, READ, "variances"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        is_without = select_scored(means, variances, &rules, is_available, n, nu, k, &found);
        if (!is_without) look_up(&found, means, is_available, n, k);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(rules.counts);
    return as_columns(&arrays, is_good, is_without, &found, k);
}

static PyObject* py_select_mixed(PyObject* module, PyObject* args) {
    PyObject *parts, *z_, *variances_, *is_available_, *means_, *rules_;
    float nu;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "OOOOfnOO", &parts, &z_, &variances_, &is_available_, &nu, &k, &means_, &rules_))
        return NULL;
    struct arrays arrays = {.count = 0};
    struct selection found;
    struct mixture mixture;
    struct rules rules = {.counts = NULL};
    float *z[MOST_CHANNELS], *variances[MOST_CHANNELS], *means = NULL;
    const uint8_t* is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available");
    Py_ssize_t n = is_available ? length_of(last_of(&arrays)) : 0;
    int is_without = 0,
        is_good = is_available && can_select(k, n) && open_rules(&arrays, rules_, n, &rules) &&
                  open_mixture(&arrays, parts, &mixture) &&
                  open_channels(&arrays, z_, mixture.n_channels, n, READ, "z", z) &&
                  open_channels(&arrays, variances_, mixture.n_channels, n, READ, "variances", variances) &&
                  (means = open_array(&arrays, means_, FLOAT32, n, WRITE, "means"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        is_without = select_mixed(&mixture, z, variances, &rules, is_available, n, nu, k, means, &found);
        if (!is_without) look_up(&found, means, is_available, n, k);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(rules.counts);
    return as_columns(&arrays, is_good, is_without, &found, k);
}

static PyObject* py_select_bounded(PyObject* module, PyObject* args) {
    PyObject *parts, *items_, *covs_, *z_, *bounds_, *means_, *is_available_, *rules_;
    float nu;
    Py_ssize_t k, widest = 0;
    if (!PyArg_ParseTuple(args, "OOOOOOOfnO", &parts, &items_, &covs_, &z_, &bounds_, &means_, &is_available_, &nu, &k,
                          &rules_))
        return NULL;
    struct arrays arrays = {.count = 0};
    struct selection found;
    struct mixture mixture;
    struct rules rules = {.counts = NULL};
    struct bounded user = {.w = NULL};
    const float* means = NULL;
    const uint8_t* is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available");
    Py_ssize_t n = is_available ? length_of(last_of(&arrays)) : 0;
    int is_without = 0,
        is_good = is_available && can_select(k, n) && open_rules(&arrays, rules_, n, &rules) &&
                  open_mixture(&arrays, parts, &mixture) && has_length(covs_, mixture.n_channels, "covs") &&
                  open_channels(&arrays, z_, mixture.n_channels, n, READ, "z", user.z) &&
                  open_channels(&arrays, bounds_, mixture.n_channels, n, READ, "bounds", user.bounds) &&
                  (means = open_array(&arrays, means_, FLOAT32, n, READ, "means")) &&
                  open_channels(&arrays, items_, mixture.n_channels, ANY_LENGTH, READ, "items", user.items);
    for (Py_ssize_t c = 0; is_good && c < mixture.n_channels; c++) {
        const Py_buffer* matrix = last_of(&arrays) - (mixture.n_channels - 1); /* c covs were opened since */
        if (matrix->ndim != 2 || matrix->shape[0] != n) {
            is_good = do_not_fit("items and channels");
            break;
        }
        Py_ssize_t d = user.dims[c] = matrix->shape[1];
        if (d > widest) widest = d;
        user.covs[c] = open_array(&arrays, PyTuple_GetItem(covs_, c), FLOAT32, d * d, READ, "covs");
        is_good = user.covs[c] != NULL;
    }
    if (is_good && !(user.w = PyMem_Malloc((size_t)(widest + 1 + n / BLOCK + 1) * sizeof(float)))) PyErr_NoMemory();
    is_good = is_good && user.w;
    if (is_good) {
        user.largest = user.w + widest + 1;
        Py_BEGIN_ALLOW_THREADS
        is_without = (rules.starts ? select_capped : select_bounded)(&mixture, &user, means, &rules, is_available, n, nu,
                                                                     k, &found);
        if (!is_without) look_up(&found, means, is_available, n, k);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(user.w);
    PyMem_Free(rules.counts);
    return as_columns(&arrays, is_good, is_without, &found, k);
}

#endif
