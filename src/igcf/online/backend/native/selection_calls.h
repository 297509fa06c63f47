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

/* What is told about the items selected for one user. */
struct selection {
    int64_t rows[MOST_SELECTED], above[MOST_SELECTED];
    float scores[MOST_SELECTED], means[MOST_SELECTED], variances[MOST_SELECTED];
};

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

/* Rows, scores, means, standard deviations and ranks by the mean as lists; None where scores are equal. */
static PyObject* as_columns(struct arrays* arrays, int is_good, int is_tied, const struct selection* found,
                            Py_ssize_t k) {
    if (!is_good || is_tied) return done(arrays, is_good);
    close_arrays(arrays);
    return Py_BuildValue("(NNNNN)", whole_numbers(found->rows, k, 0), real_numbers(found->scores, k, 0),
                         real_numbers(found->means, k, 0), real_numbers(found->variances, k, 1),
                         whole_numbers(found->above, k, 1));
}

static PyObject* py_select(PyObject* module, PyObject* args) {
    PyObject *means_, *variances_, *is_available_;
    float nu;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "OOOfn", &means_, &variances_, &is_available_, &nu, &k)) return NULL;
    struct arrays arrays = {.count = 0};
    struct selection found;
    const float *means = NULL, *variances = NULL;
    const uint8_t* is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available");
    Py_ssize_t n = is_available ? length_of(last_of(&arrays)) : 0;
    int is_tied = 0, is_good = is_available && can_select(k, n) &&
                               (means = open_array(&arrays, means_, FLOAT32, n, READ, "means")) &&
                               (variances = open_array(&arrays, variances_, FLOAT32, n, READ, "variances"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        is_tied = select_one(means, variances, is_available, n, nu, k, found.rows, found.scores);
        for (Py_ssize_t i = 0; !is_tied && i < k; i++) found.variances[i] = variances[found.rows[i]];
        if (!is_tied) look_up(&found, means, is_available, n, k);
        Py_END_ALLOW_THREADS
    }
    return as_columns(&arrays, is_good, is_tied, &found, k);
}

static PyObject* py_select_mixed(PyObject* module, PyObject* args) {
    PyObject *parts, *z_, *variances_, *is_available_, *means_;
    float nu;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "OOOOfnO", &parts, &z_, &variances_, &is_available_, &nu, &k, &means_)) return NULL;
    struct arrays arrays = {.count = 0};
    struct selection found;
    struct mixture mixture;
    float *z[MOST_CHANNELS], *variances[MOST_CHANNELS], *means = NULL;
    const uint8_t* is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available");
    Py_ssize_t n = is_available ? length_of(last_of(&arrays)) : 0;
    int is_tied = 0, is_good = is_available && can_select(k, n) && open_mixture(&arrays, parts, &mixture) &&
                               open_channels(&arrays, z_, mixture.n_channels, n, READ, "z", z) &&
                               open_channels(&arrays, variances_, mixture.n_channels, n, READ, "variances", variances) &&
                               (means = open_array(&arrays, means_, FLOAT32, n, WRITE, "means"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        is_tied = select_mixed(&mixture, z, variances, is_available, n, nu, k, means, found.rows, found.scores,
                               found.variances);
        if (!is_tied) look_up(&found, means, is_available, n, k);
        Py_END_ALLOW_THREADS
    }
    return as_columns(&arrays, is_good, is_tied, &found, k);
}

static PyObject* py_select_bounded(PyObject* module, PyObject* args) {
    PyObject *parts, *items_, *covs_, *z_, *bounds_, *means_, *is_available_;
    float nu;
    Py_ssize_t k, widest = 0;
    if (!PyArg_ParseTuple(args, "OOOOOOOfn", &parts, &items_, &covs_, &z_, &bounds_, &means_, &is_available_, &nu, &k))
        return NULL;
    struct arrays arrays = {.count = 0};
    struct selection found;
    struct mixture mixture;
    struct bounded user = {.w = NULL};
    const float* means = NULL;
    const uint8_t* is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available");
    Py_ssize_t n = is_available ? length_of(last_of(&arrays)) : 0;
    int is_tied = 0, is_good = is_available && can_select(k, n) && open_mixture(&arrays, parts, &mixture) &&
                               has_length(covs_, mixture.n_channels, "covs") &&
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
    if (is_good && !(user.w = PyMem_Malloc((size_t)(widest + 1) * sizeof(float)))) PyErr_NoMemory();
    is_good = is_good && user.w;
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        is_tied = select_bounded(&mixture, &user, means, is_available, n, nu, k, found.rows, found.scores,
                                 found.variances);
        if (!is_tied) look_up(&found, means, is_available, n, k);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(user.w);
    return as_columns(&arrays, is_good, is_tied, &found, k);
}

#endif
