/* The inner loops of the online phase as a Python module. `igcf.online.backend.native_backend` calls it; the modules
 * `igcf.online.backend.numpy_*` do the same in NumPy. Type, contiguity and length of every array are checked before
 * anything is read or written, and no loop over items or reactions holds the interpreter. */
#include "absence.h"
#include "belief.h"
#include "chance.h"
#include "classes.h"
#include "history_calls.h"
#include "mixture.h"
#include "selection.h"
#include "sums.h"

static PyObject* py_update_beliefs(PyObject* module, PyObject* args) {
    PyObject *means_, *covs_, *x_, *rewards_, *noise_, *is_logit_, *w_, *steps_;
    Py_ssize_t n_users, start;
    if (!PyArg_ParseTuple(args, "OOnnOOOOOO", &means_, &covs_, &n_users, &start, &x_, &rewards_, &noise_, &is_logit_,
                          &w_, &steps_))
        return NULL;
    struct arrays arrays = {.count = 0};
    const double *x = NULL, *rewards = open_array(&arrays, rewards_, FLOAT64, ANY_LENGTH, READ, "rewards"), *noise = NULL;
    double *means = NULL, *covs = NULL, *w = NULL, *steps = NULL;
    const uint8_t* is_logit = NULL;
    Py_ssize_t n = rewards ? length_of(last_of(&arrays)) : 0, d = 0, stride = 0;
    int is_good = rewards && (means = open_array(&arrays, means_, FLOAT64, ANY_LENGTH, WRITE, "means"));
    if (is_good && n_users > 0) stride = length_of(last_of(&arrays)) / n_users;
    is_good = is_good && (x = open_array(&arrays, x_, FLOAT64, ANY_LENGTH, READ, "x"));
    if (is_good && n > 0) d = length_of(last_of(&arrays)) / n;
    if (is_good && !(n_users > 0 && (n_users == 1 || n_users == n) && start >= 0 && d <= stride && start <= stride - d &&
                     length_of(last_of(&arrays)) == n * d && length_of(last_of(&arrays) - 1) == n_users * stride))
        is_good = do_not_fit("reactions, users and their vectors");
    is_good = is_good && (covs = open_array(&arrays, covs_, FLOAT64, n_users * stride * stride, WRITE, "covs")) &&
              (noise = open_array(&arrays, noise_, FLOAT64, n, READ, "noise")) &&
              (is_logit = open_array(&arrays, is_logit_, BOOL, n, READ, "is_logit")) &&
              (w = open_array(&arrays, w_, FLOAT64, n * d, WRITE, "w")) &&
              (steps = open_array(&arrays, steps_, FLOAT64, n, WRITE, "steps"));
    if (is_good) {
        Py_ssize_t each = n_users == 1 ? n : 1; /* reactions per user */
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t user = 0; user < n_users; user++)
            update_belief(means + user * stride + start, covs + (user * stride + start) * stride + start, stride, d,
                          each, x + user * d, rewards + user, noise + user, is_logit + user, w + user * d,
                          steps + user);
        Py_END_ALLOW_THREADS
    }
    return done(&arrays, is_good);
}

/* What one reaction reveals about a block of the user's vector, and the items that are scored by it. */
struct block {
    Py_ssize_t start, d, n, n_scored; /* first dimension and number of them, channels that reveal something */
    double rewards[MOST_CHANNELS], noise[MOST_CHANNELS];
    uint8_t is_logit[MOST_CHANNELS];
    const float* x[MOST_CHANNELS]; /* item vectors */
    float* items[MOST_CHANNELS];
    Py_ssize_t places[MOST_CHANNELS]; /* of the scored channels among those of all blocks */
};

/* (start, vectors, noise, is_logit, items, places) at an item, scored only where moments of `n_scored` channels are
 * kept; channels with a reward of NaN reveal nothing and are left out. */
static int open_block(struct arrays* arrays, PyObject* given, PyObject* rewards, Py_ssize_t row, Py_ssize_t stride,
                      Py_ssize_t n_scored, Py_ssize_t* n_items, struct block* block) {
    PyObject *vectors_, *noise_, *is_logit_, *items_, *places_;
    if (!given || !rewards) return 0;
    if (!PyArg_ParseTuple(given, "nOOOOO", &block->start, &vectors_, &noise_, &is_logit_, &items_, &places_)) return 0;
    const uint8_t* is_logit = open_array(arrays, is_logit_, BOOL, ANY_LENGTH, READ, "is_logit");
    if (!is_logit) return 0;
    Py_ssize_t n = length_of(last_of(arrays));
    if (n < 1 || n > MOST_CHANNELS) return do_not_fit("reactions and channels");
    if (!has_length(rewards, n, "rewards") || !has_length(vectors_, n, "vectors") || !has_length(noise_, n, "noise"))
        return 0;
    block->n = 0;
    for (Py_ssize_t c = 0; c < n; c++) {
        const float* vectors = open_array(arrays, PyTuple_GetItem(vectors_, c), FLOAT32, ANY_LENGTH, READ, "vectors");
        if (!vectors) return 0;
        const Py_buffer* matrix = last_of(arrays);
        if (matrix->ndim != 2) return do_not_fit("reactions and channels");
        if (*n_items == ANY_LENGTH) *n_items = matrix->shape[0];
        if (c == 0) block->d = matrix->shape[1];
        if (matrix->shape[0] != *n_items || matrix->shape[1] != block->d || block->d < 1 || row < 0 || row >= *n_items)
            return do_not_fit("reactions and channels");
        const double* noise = open_array(arrays, PyTuple_GetItem(noise_, c), FLOAT64, *n_items, READ, "noise");
        if (!noise) return 0;
        double reward = PyFloat_AsDouble(PyTuple_GetItem(rewards, c));
        if (PyErr_Occurred()) return 0;
        if (is_nan(reward)) continue;
        block->rewards[block->n] = reward, block->noise[block->n] = noise[row];
        block->is_logit[block->n] = is_logit[c], block->x[block->n++] = vectors + row * block->d;
    }
    if (block->start < 0 || block->d > stride || block->start > stride - block->d)
        return do_not_fit("reactions and channels");
    block->n_scored = n_scored > 0 ? PyTuple_Size(places_) : 0;
    if (block->n_scored < 0 || block->n_scored > n_scored) return do_not_fit("blocks and scored channels");
    for (Py_ssize_t c = 0; c < block->n_scored; c++) {
        block->places[c] = PyLong_AsSsize_t(PyTuple_GetItem(places_, c));
        if (PyErr_Occurred() || block->places[c] < 0 || block->places[c] >= n_scored)
            return do_not_fit("blocks and scored channels");
    }
    return n_scored == 0 ||
           open_channels(arrays, items_, block->n_scored, *n_items * block->d, READ, "items", block->items);
}

/* Update a block of the belief and carry that over to its items; `x` has room for what is computed on the way. */
static void observe_block(const struct block* block, double* mean, double* cov, Py_ssize_t stride, Py_ssize_t n_items,
                          double* x, float* const* z, float* const* variances) {
    Py_ssize_t n = block->n, d = block->d, start = block->start;
    double *w = x + n * d, *steps = w + n * d;
    float *short_w = (float*)(steps + n), *short_steps = short_w + n * padded(d);
    for (Py_ssize_t c = 0; c < n; c++)
        for (Py_ssize_t j = 0; j < d; j++) x[c * d + j] = block->x[c][j];
    update_belief(mean + start, cov + start * stride + start, stride, d, n, x, block->rewards, block->noise,
                  block->is_logit, w, steps);
    for (Py_ssize_t c = 0; c < n; c++) {
        for (Py_ssize_t j = 0; j < padded(d); j++) short_w[c * padded(d) + j] = j < d ? (float)w[c * d + j] : 0.0f;
        short_steps[c] = (float)steps[c];
    }
    for (Py_ssize_t c = 0; c < block->n_scored; c++)
        rescore_items(block->items[c], n_items, d, short_w, short_steps, n, z[block->places[c]],
                      variances[block->places[c]]);
}

/* (mean, cov, row, blocks, rewards, z, variances) */
static PyObject* py_observe_and_rescore(PyObject* module, PyObject* args) {
    PyObject *mean_, *cov_, *blocks_, *rewards_, *z_, *variances_;
    Py_ssize_t row, stride = 0, n_items = ANY_LENGTH;
    if (!PyArg_ParseTuple(args, "OOnOOOO", &mean_, &cov_, &row, &blocks_, &rewards_, &z_, &variances_)) return NULL;
    struct arrays arrays = {.count = 0};
    struct block blocks[MOST_CHANNELS];
    float *z[MOST_CHANNELS], *variances[MOST_CHANNELS];
    Py_ssize_t n_blocks = PyTuple_Size(blocks_), n_scored = PyTuple_Size(z_);
    double *mean = open_array(&arrays, mean_, FLOAT64, ANY_LENGTH, WRITE, "mean"), *cov = NULL, *x = NULL;
    if (mean) stride = length_of(last_of(&arrays));
    int is_good = mean && (cov = open_array(&arrays, cov_, FLOAT64, stride * stride, WRITE, "cov"));
    if (is_good && !(n_blocks >= 1 && n_blocks <= MOST_CHANNELS && n_scored >= 0 && n_scored <= MOST_CHANNELS))
        is_good = do_not_fit("reactions and channels");
    is_good = is_good && has_length(rewards_, n_blocks, "rewards");
    for (Py_ssize_t b = 0; is_good && b < n_blocks; b++)
        is_good = open_block(&arrays, PyTuple_GetItem(blocks_, b), PyTuple_GetItem(rewards_, b), row, stride, n_scored,
                             &n_items, blocks + b);
    is_good = is_good && open_channels(&arrays, z_, n_scored, n_items, WRITE, "z", z) &&
              open_channels(&arrays, variances_, n_scored, n_items, WRITE, "variances", variances);
    size_t room = (size_t)MOST_CHANNELS * (size_t)(2 * stride + 1) * sizeof(double) +
                  (size_t)MOST_CHANNELS * (size_t)(padded(stride) + 1) * sizeof(float);
    if (is_good && !(x = PyMem_Malloc(room))) is_good = 0, PyErr_NoMemory();
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t b = 0; b < n_blocks; b++)
            if (blocks[b].n > 0) observe_block(blocks + b, mean, cov, stride, n_items, x, z, variances);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(x);
    return done(&arrays, is_good);
}

static PyObject* py_rescore_users(PyObject* module, PyObject* args) {
    PyObject *products_, *steps_, *z_, *variances_;
    if (!PyArg_ParseTuple(args, "OOOO", &products_, &steps_, &z_, &variances_)) return NULL;
    struct arrays arrays = {.count = 0};
    const float* products = NULL;
    float *z = NULL, *variances = NULL;
    const double* steps = open_array(&arrays, steps_, FLOAT64, ANY_LENGTH, READ, "steps");
    Py_ssize_t n_users = steps ? length_of(last_of(&arrays)) : 0, n = 0;
    int is_good = steps && (products = open_array(&arrays, products_, FLOAT32, ANY_LENGTH, READ, "products"));
    if (is_good && n_users > 0) n = length_of(last_of(&arrays)) / n_users;
    if (is_good && length_of(last_of(&arrays)) != n_users * n) is_good = do_not_fit("products and steps");
    is_good = is_good && (z = open_array(&arrays, z_, FLOAT32, n_users * n, WRITE, "z")) &&
              (variances = open_array(&arrays, variances_, FLOAT32, n_users * n, WRITE, "variances"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        rescore_all_users(products, n_users, n, steps, z, variances);
        Py_END_ALLOW_THREADS
    }
    return done(&arrays, is_good);
}

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

static PyObject* py_combine(PyObject* module, PyObject* args) {
    PyObject *parts, *z_, *variances_, *result_;
    if (!PyArg_ParseTuple(args, "OOOO", &parts, &z_, &variances_, &result_)) return NULL;
    struct arrays arrays = {.count = 0};
    struct mixture mixture;
    float *z[MOST_CHANNELS], *variances[MOST_CHANNELS];
    float* result = open_array(&arrays, result_, FLOAT32, ANY_LENGTH, WRITE, "result");
    Py_ssize_t n = result ? length_of(last_of(&arrays)) : 0;
    int is_spread = variances_ != Py_None;
    int is_good = result && open_mixture(&arrays, parts, &mixture) &&
                  open_channels(&arrays, z_, mixture.n_channels, n, READ, "z", z) &&
                  (!is_spread || open_channels(&arrays, variances_, mixture.n_channels, n, READ, "variances", variances));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        if (is_spread)
            spread(&mixture, z, variances, n, result);
        else
            expect(&mixture, z, n, result);
        Py_END_ALLOW_THREADS
    }
    return done(&arrays, is_good);
}

/* (scores, available, k, rows, selected scores, is_tied): the k best available items of each user; returns how many users
 * have equal scores, or too few items. */
static PyObject* py_select_users(PyObject* module, PyObject* args) {
    PyObject *given_, *is_available_, *rows_, *scores_, *is_tied_;
    Py_ssize_t k, n = 0, n_tied = 0;
    if (!PyArg_ParseTuple(args, "OOnOOO", &given_, &is_available_, &k, &rows_, &scores_, &is_tied_)) return NULL;
    struct arrays arrays = {.count = 0};
    const float* given = NULL;
    const uint8_t* is_available = NULL;
    int64_t* rows = NULL;
    float* scores = NULL;
    uint8_t* is_tied = open_array(&arrays, is_tied_, BOOL, ANY_LENGTH, WRITE, "is_tied");
    Py_ssize_t n_users = is_tied ? length_of(last_of(&arrays)) : 0;
    int is_good = is_tied && (is_available = open_array(&arrays, is_available_, BOOL, ANY_LENGTH, READ, "available"));
    if (is_good && n_users > 0) n = length_of(last_of(&arrays)) / n_users;
    if (is_good && length_of(last_of(&arrays)) != n_users * n) is_good = do_not_fit("users and items");
    if (is_good && (k < 1 || k > MOST_SELECTED || k > n)) {
        PyErr_Format(PyExc_ValueError, "cannot select %zd of %zd items", k, n);
        is_good = 0;
    }
    is_good = is_good && (given = open_array(&arrays, given_, FLOAT32, n_users * n, READ, "scores")) &&
              (rows = open_array(&arrays, rows_, INT64, n_users * k, WRITE, "rows")) &&
              (scores = open_array(&arrays, scores_, FLOAT32, n_users * k, WRITE, "selected scores"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t user = 0; user < n_users; user++) {
            is_tied[user] = (uint8_t)select_best(given + user * n, is_available + user * n, n, k, rows + user * k,
                                                 scores + user * k);
            n_tied += is_tied[user];
        }
        Py_END_ALLOW_THREADS
    }
    close_arrays(&arrays);
    return is_good ? PyLong_FromSsize_t(n_tied) : NULL;
}

/* (means, available, of, counts): how many available means lie above each of some numbers. */
static PyObject* py_count_above(PyObject* module, PyObject* args) {
    PyObject *means_, *is_available_, *of_, *counts_;
    if (!PyArg_ParseTuple(args, "OOOO", &means_, &is_available_, &of_, &counts_)) return NULL;
    struct arrays arrays = {.count = 0};
    const float *of = NULL, *means = open_array(&arrays, means_, FLOAT32, ANY_LENGTH, READ, "means");
    Py_ssize_t n = means ? length_of(last_of(&arrays)) : 0, k = 0;
    int64_t* counts = NULL;
    const uint8_t* is_available = NULL;
    int is_good = means && (of = open_array(&arrays, of_, FLOAT32, ANY_LENGTH, READ, "of"));
    if (is_good) k = length_of(last_of(&arrays));
    is_good = is_good && (counts = open_array(&arrays, counts_, INT64, k, WRITE, "counts")) &&
              (is_available = open_array(&arrays, is_available_, BOOL, n, READ, "available"));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        count_above(means, is_available, n, of, k, counts);
        Py_END_ALLOW_THREADS
    }
    return done(&arrays, is_good);
}

/* Which functions there are and what they take. Raise it here and in `backend/__init__.py` with any change of these. */
#define INTERFACE 1

static PyObject* py_interface(PyObject* module, PyObject* args) { return PyLong_FromSsize_t(INTERFACE); }

static PyMethodDef functions[] = {
    {"interface", py_interface, METH_NOARGS, "The number of this interface."},
    {"update_beliefs", py_update_beliefs, METH_VARARGS, "Update beliefs by reactions, in place."},
    {"chances_of_logits", py_chances_of_logits, METH_VARARGS, "Chances of some items from means and variances of z."},
    {"counted_classes", py_counted_classes, METH_VARARGS, "The class that the reaction of each user counts as."},
    {"learn", py_learn, METH_VARARGS, "Update one user's belief by a history, in place."},
    {"learn_in_turn", py_learn_in_turn, METH_VARARGS,
     "Update one user's belief by a history, in place; each reaction counts as the belief before it allows."},
    {"observe_and_rescore", py_observe_and_rescore, METH_VARARGS,
     "Update one user's belief by a reaction, and the means and variances of all items, in place."},
    {"rescore_users", py_rescore_users, METH_VARARGS,
     "Update the means and variances of many users' items from the products, in place."},
    {"combine", py_combine, METH_VARARGS, "Expected rewards, or their variances, from those of the channels."},
    {"find_mode", py_find_mode, METH_VARARGS, "The mode of a logistic posterior under a whole record, in place."},
    {"moments_at", py_moments_at, METH_VARARGS, "Means and variances of z of some items."},
    {"multiply", py_multiply, METH_VARARGS, "All item vectors times a user's vector."},
    {"add_information", py_add_information, METH_VARARGS, "Add reward x / noise of some items to sums, in place."},
    {"select_users", py_select_users, METH_VARARGS, "Select the k best available items of each user."},
    {"count_above", py_count_above, METH_VARARGS, "How many available means lie above each of some numbers."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "igcf.online.backend._native",
    "The inner loops of the online phase.",
    0,
    functions,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
