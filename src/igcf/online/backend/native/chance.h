/* Chances of the few items that are shown, as lists; igcf.online.chance does the same for many items. */
#ifndef IGCF_CHANCE_H
#define IGCF_CHANCE_H
#include "belief.h"
#include "buffers.h"

static const double WIDTH = 1.2815515655446004, EIGHTH_OF_PI = 0.39269908169872414;

struct chance {
    double chance, low, high;
};

/* The chance with the interval of the logits middle -+ half, widened to contain it. */
INLINE struct chance chance_around(double chance, double middle, double half) {
    double low = sigmoid(middle - half), high = sigmoid(middle + half);
    return (struct chance){chance, low < chance ? low : chance, high > chance ? high : chance};
}

/* Three lists of chances: [chance], [low], [high]. */
static PyObject* as_lists(const struct chance* chances, Py_ssize_t k) {
    PyObject* columns[3] = {PyList_New(k), PyList_New(k), PyList_New(k)};
    int is_good = columns[0] && columns[1] && columns[2];
    for (Py_ssize_t i = 0; is_good && i < k; i++) {
        double numbers[3] = {chances[i].chance, chances[i].low, chances[i].high};
        for (int column = 0; is_good && column < 3; column++) {
            PyObject* number = PyFloat_FromDouble(numbers[column]);
            is_good = number && PyList_SetItem(columns[column], i, number) == 0;
        }
    }
    PyObject* found = is_good ? PyTuple_Pack(3, columns[0], columns[1], columns[2]) : NULL;
    for (int column = 0; column < 3; column++) Py_XDECREF(columns[column]);
    return found;
}

/* The rows of a list, checked; -1 with an error set where it is too long or names no item. */
static Py_ssize_t open_rows(PyObject* list, Py_ssize_t n, Py_ssize_t* rows) {
    Py_ssize_t k = PyList_Size(list);
    if (k > MOST_SELECTED) do_not_fit("rows and room");
    for (Py_ssize_t i = 0; i < k && k <= MOST_SELECTED; i++) {
        rows[i] = PyLong_AsSsize_t(PyList_GetItem(list, i));
        if (PyErr_Occurred()) return -1;
        if (rows[i] < 0 || rows[i] >= n) {
            do_not_fit("rows and items");
            return -1;
        }
    }
    return PyErr_Occurred() ? -1 : k;
}

/* (rows, z, variances, slope, spread, offset, missing, own): the logit is slope z + offset; see ItemTerms. */
static PyObject* py_chances_of_logits(PyObject* module, PyObject* args) {
    PyObject *rows_, *z_, *variances_, *offset_, *missing_, *own_;
    double slope, spread;
    if (!PyArg_ParseTuple(args, "OOOddOOO", &rows_, &z_, &variances_, &slope, &spread, &offset_, &missing_, &own_))
        return NULL;
    struct arrays arrays = {.count = 0};
    struct chance found[MOST_SELECTED];
    Py_ssize_t rows[MOST_SELECTED], k = -1, n = 0;
    const float *z = open_array(&arrays, z_, FLOAT32, ANY_LENGTH, READ, "z"), *variances = NULL;
    const double *offset = NULL, *missing = NULL, *own = NULL;
    if (z) n = length_of(last_of(&arrays));
    if (z && (variances = open_array(&arrays, variances_, FLOAT32, n, READ, "variances")) &&
        (offset = open_array(&arrays, offset_, FLOAT64, n, READ, "offset")) &&
        (missing = open_array(&arrays, missing_, FLOAT64, n, READ, "missing")) &&
        (own = open_array(&arrays, own_, FLOAT64, n, READ, "own")))
        k = open_rows(rows_, n, rows);
    for (Py_ssize_t i = 0; i < k; i++) {
        Py_ssize_t row = rows[i];
        double middle = slope * z[row] + offset[row], wide = slope * spread;
        double of_user = wide * wide * variances[row] + missing[row];
        double chance = sigmoid(middle / sqrt(1.0 + EIGHTH_OF_PI * of_user));
        found[i] = chance_around(chance, middle, WIDTH * sqrt(of_user + own[row]));
    }
    close_arrays(&arrays);
    return k < 0 ? NULL : as_lists(found, k);
}

#endif
