/* The inner loops of the online phase as a Python module. `igcf.online.backend.native_backend` calls it; the modules
 * `igcf.online.backend.numpy_*` do the same in NumPy. Type, contiguity and length of every array are checked before
 * anything is read or written, and no loop over items or reactions holds the interpreter. */
#include "absence.h"
#include "belief.h"
#include "chance.h"
#include "classes.h"
#include "history_calls.h"
#include "selection_calls.h"
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

/* What one reaction reveals through the channels of a block. */
struct revealed {
    Py_ssize_t n;
    double rewards[MOST_CHANNELS], noise[MOST_CHANNELS];
    uint8_t is_logit[MOST_CHANNELS];
    const float* x[MOST_CHANNELS]; /* item vectors */
};

/* (rewards, vectors, noise, is_logit) at an item; channels whose reward is NaN reveal nothing and are left out. */
static int open_revealed(struct arrays* arrays, PyObject* args[4], Py_ssize_t row, Py_ssize_t* n_items, Py_ssize_t* d,
                         struct revealed* revealed) {
    const uint8_t* is_logit = open_array(arrays, args[3], BOOL, ANY_LENGTH, READ, "is_logit");
    if (!is_logit) return 0;
    Py_ssize_t n = length_of(last_of(arrays));
    if (n < 1 || n > MOST_CHANNELS) return do_not_fit("reactions and channels");
    if (!has_length(args[0], n, "rewards") || !has_length(args[1], n, "vectors") || !has_length(args[2], n, "noise"))
        return 0;
    revealed->n = 0;
    for (Py_ssize_t c = 0; c < n; c++) {
        const float* vectors = open_array(arrays, PyTuple_GetItem(args[1], c), FLOAT32, ANY_LENGTH, READ, "vectors");
        if (!vectors) return 0;
        const Py_buffer* matrix = last_of(arrays);
        if (c == 0 && matrix->ndim == 2) *n_items = matrix->shape[0], *d = matrix->shape[1];
        if (matrix->ndim != 2 || matrix->shape[0] != *n_items || matrix->shape[1] != *d || row < 0 || row >= *n_items)
            return do_not_fit("reactions and channels");
        const double* noise = open_array(arrays, PyTuple_GetItem(args[2], c), FLOAT64, *n_items, READ, "noise");
        if (!noise) return 0;
        double reward = PyFloat_AsDouble(PyTuple_GetItem(args[0], c));
        if (PyErr_Occurred()) return 0;
        if (is_nan(reward)) continue;
        revealed->rewards[revealed->n] = reward, revealed->noise[revealed->n] = noise[row];
        revealed->is_logit[revealed->n] = is_logit[c], revealed->x[revealed->n++] = vectors + row * *d;
    }
    return 1;
}

static PyObject* py_observe_and_rescore(PyObject* module, PyObject* args) {
    PyObject *mean_, *cov_, *reaction[4], *items_, *z_, *variances_;
    Py_ssize_t start, row;
    if (!PyArg_ParseTuple(args, "OOnnOOOOOOO", &mean_, &cov_, &start, &row, reaction, reaction + 1, reaction + 2,
                          reaction + 3, &items_, &z_, &variances_))
        return NULL;
    struct arrays arrays = {.count = 0};
    struct revealed revealed;
    float *items[MOST_CHANNELS], *z[MOST_CHANNELS], *variances[MOST_CHANNELS];
    Py_ssize_t n_items = 0, d = 0, n_scored = PyTuple_Size(z_), stride = 0;
    double *mean = open_array(&arrays, mean_, FLOAT64, ANY_LENGTH, WRITE, "mean"), *cov = NULL;
    if (mean) stride = length_of(last_of(&arrays));
    int is_good = mean && (cov = open_array(&arrays, cov_, FLOAT64, stride * stride, WRITE, "cov")) &&
                  open_revealed(&arrays, reaction, row, &n_items, &d, &revealed);
    if (is_good && !(start >= 0 && d <= stride && start <= stride - d && n_scored >= 0 && n_scored <= MOST_CHANNELS))
        is_good = do_not_fit("reactions and channels");
    is_good = is_good && open_channels(&arrays, items_, n_scored, n_items * d, READ, "items", items) &&
              open_channels(&arrays, z_, n_scored, n_items, WRITE, "z", z) &&
              open_channels(&arrays, variances_, n_scored, n_items, WRITE, "variances", variances);
    Py_ssize_t n = is_good ? revealed.n : 0;
    if (n == 0) return done(&arrays, is_good);
    size_t doubles = (size_t)(2 * n * d + n), floats = (size_t)(n * padded(d) + n);
    double* x = PyMem_Calloc(1, doubles * sizeof(double) + floats * sizeof(float));
    if (x) {
        double *w = x + n * d, *steps = w + n * d;
        float *short_w = (float*)(steps + n), *short_steps = short_w + n * padded(d);
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t c = 0; c < n; c++)
            for (Py_ssize_t j = 0; j < d; j++) x[c * d + j] = revealed.x[c][j];
        update_belief(mean + start, cov + start * stride + start, stride, d, n, x, revealed.rewards, revealed.noise,
                      revealed.is_logit, w, steps);
        for (Py_ssize_t c = 0; c < n; c++) {
            for (Py_ssize_t j = 0; j < d; j++) short_w[c * padded(d) + j] = (float)w[c * d + j];
            short_steps[c] = (float)steps[c];
        }
        for (Py_ssize_t c = 0; c < n_scored; c++)
            rescore_items(items[c], n_items, d, short_w, short_steps, n, z[c], variances[c]);
        Py_END_ALLOW_THREADS
        PyMem_Free(x);
    } else {
        PyErr_NoMemory();
    }
    return done(&arrays, x != NULL);
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

static PyMethodDef functions[] = {
    {"update_beliefs", py_update_beliefs, METH_VARARGS, "Update beliefs by reactions, in place."},
    {"chances_of_logits", py_chances_of_logits, METH_VARARGS, "Chances of some items from means and variances of z."},
    {"chances_of_probabilities", py_chances_of_probabilities, METH_VARARGS,
     "Chances of some items from expected probabilities."},
    {"chances_of_values", py_chances_of_values, METH_VARARGS, "Chances of some items from expected values."},
    {"counted_classes", py_counted_classes, METH_VARARGS, "The class that the reaction of each user counts as."},
    {"learn", py_learn, METH_VARARGS, "Update one user's belief by a history, in place."},
    {"learn_in_turn", py_learn_in_turn, METH_VARARGS,
     "Update one user's belief by a history whose reactions count as the belief before each allows, in place."},
    {"observe_and_rescore", py_observe_and_rescore, METH_VARARGS,
     "Update one user's belief by a reaction, and the means and variances of all items, in place."},
    {"read_pairs", py_read_pairs, METH_VARARGS, "The rows and values of plain pairs of item ids and values."},
    {"rescore_users", py_rescore_users, METH_VARARGS,
     "Update the means and variances of many users' items, whose products are known, in place."},
    {"combine", py_combine, METH_VARARGS, "Expected rewards, or their variances, from those of the channels."},
    {"find_mode", py_find_mode, METH_VARARGS, "The mode of a logistic posterior under a whole record, in place."},
    {"largest_eigenvalue", py_largest_eigenvalue, METH_VARARGS, "A bound of the largest eigenvalue of frame cov frame'."},
    {"moments_at", py_moments_at, METH_VARARGS, "Means and variances of z of some items."},
    {"multiply", py_multiply, METH_VARARGS, "All item vectors times a user's vector."},
    {"add_information", py_add_information, METH_VARARGS, "Add reward x / noise of some items to sums, in place."},
    {"scatter", py_scatter, METH_VARARGS, "Add up what leads from some items to all."},
    {"select_users", py_select_users, METH_VARARGS, "Select the k best available items of each user."},
    {"select", py_select, METH_VARARGS, "Select the k best items of one user from means and variances."},
    {"select_mixed", py_select_mixed, METH_VARARGS, "Select the k best items of one user from several channels."},
    {"select_bounded", py_select_bounded, METH_VARARGS,
     "Select the k best items of a user most of whose variances are not known."},
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
