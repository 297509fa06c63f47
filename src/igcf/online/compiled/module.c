/* The inner loops of the online phase as a Python module. `igcf.online.kernels` says what each of them does, and does
 * it in NumPy where this was not compiled. Buffers are contiguous; every length is checked before anything is read or
 * written. */
#include "belief.h"
#include "choosing.h"

/* Fails with a message unless a buffer holds exactly `count` numbers of `size` bytes. */
static int holds(const Py_buffer* buffer, Py_ssize_t count, size_t size, const char* name) {
    if (buffer->len == count * (Py_ssize_t)size) return 1;
    PyErr_Format(PyExc_ValueError, "%s holds %zd bytes, expected %zd", name, buffer->len, count * (Py_ssize_t)size);
    return 0;
}

static PyObject* absorb(PyObject* module, PyObject* args) {
    Py_buffer means, covs, x, rewards, noise, is_logit, w, steps;
    Py_ssize_t n_users, start;
    if (!PyArg_ParseTuple(args, "w*w*nny*y*y*y*w*w*", &means, &covs, &n_users, &start, &x, &rewards, &noise, &is_logit,
                          &w, &steps))
        return NULL;
    Py_ssize_t n = rewards.len / (Py_ssize_t)sizeof(double), stride = means.len / (Py_ssize_t)sizeof(double), d = 0;
    if (n_users > 0) stride /= n_users;
    if (n > 0) d = x.len / (Py_ssize_t)sizeof(double) / n;
    int is_good = n_users > 0 && (n_users == 1 || n_users == n) && start >= 0 && d <= stride && start <= stride - d;
    if (!is_good) PyErr_SetString(PyExc_ValueError, "reactions, users and their vectors do not fit together");
    is_good = is_good && holds(&means, n_users * stride, sizeof(double), "means") &&
              holds(&covs, n_users * stride * stride, sizeof(double), "covs") &&
              holds(&x, n * d, sizeof(double), "x") && holds(&noise, n, sizeof(double), "noise") &&
              holds(&is_logit, n, 1, "is_logit") && holds(&w, n * d, sizeof(double), "w") &&
              holds(&steps, n, sizeof(double), "steps");
    Py_ssize_t each = n_users == 1 ? n : 1; /* reactions per user */
    for (Py_ssize_t user = 0; is_good && user < n_users; user++)
        absorb_all((double*)means.buf + user * stride + start,
                   (double*)covs.buf + (user * stride + start) * stride + start, stride, d, each,
                   (const double*)x.buf + user * d, (const double*)rewards.buf + user, (const double*)noise.buf + user,
                   (const uint8_t*)is_logit.buf + user, (double*)w.buf + user * d, (double*)steps.buf + user);
    Py_buffer* all[] = {&means, &covs, &x, &rewards, &noise, &is_logit, &w, &steps};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (!is_good) return NULL;
    Py_RETURN_NONE;
}

static PyObject* carry_over(PyObject* module, PyObject* args) {
    Py_buffer items, w, steps, z, variances;
    if (!PyArg_ParseTuple(args, "y*y*y*w*w*", &items, &w, &steps, &z, &variances)) return NULL;
    Py_ssize_t n = z.len / (Py_ssize_t)sizeof(float), n_updates = steps.len / (Py_ssize_t)sizeof(double), d = 0;
    if (n_updates > 0) d = w.len / (Py_ssize_t)sizeof(double) / n_updates;
    int is_good = n_updates == 0 ||
                  (holds(&items, n * d, sizeof(float), "items") && holds(&w, n_updates * d, sizeof(double), "w") &&
                   holds(&variances, n, sizeof(float), "variances"));
    float* short_w = is_good ? PyMem_Malloc((size_t)(n_updates * d + 1) * sizeof(float)) : NULL;
    if (short_w) {
        for (Py_ssize_t j = 0; j < n_updates * d; j++) short_w[j] = (float)((const double*)w.buf)[j];
        Py_BEGIN_ALLOW_THREADS
        carry_one(items.buf, n, d, short_w, steps.buf, n_updates, z.buf, variances.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(short_w);
    } else if (is_good) {
        PyErr_NoMemory();
    }
    Py_buffer* all[] = {&items, &w, &steps, &z, &variances};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (!short_w) return NULL;
    Py_RETURN_NONE;
}

static PyObject* carry_products(PyObject* module, PyObject* args) {
    Py_buffer products, steps, z, variances;
    if (!PyArg_ParseTuple(args, "y*y*w*w*", &products, &steps, &z, &variances)) return NULL;
    Py_ssize_t n_users = steps.len / (Py_ssize_t)sizeof(double), n = 0;
    if (n_users > 0) n = products.len / (Py_ssize_t)sizeof(float) / n_users;
    int is_good = holds(&products, n_users * n, sizeof(float), "products") &&
                  holds(&z, n_users * n, sizeof(float), "z") &&
                  holds(&variances, n_users * n, sizeof(float), "variances");
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        carry_rows(products.buf, n_users, n, steps.buf, z.buf, variances.buf);
        Py_END_ALLOW_THREADS
    }
    Py_buffer* all[] = {&products, &steps, &z, &variances};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (!is_good) return NULL;
    Py_RETURN_NONE;
}

static PyObject* choose(PyObject* module, PyObject* args) {
    Py_buffer means, variances, is_available, rows, scores, is_tied;
    Py_ssize_t k;
    float nu;
    if (!PyArg_ParseTuple(args, "y*z*y*fnw*w*w*", &means, &variances, &is_available, &nu, &k, &rows, &scores, &is_tied))
        return NULL;
    Py_ssize_t n_users = is_tied.len, n = 0;
    if (n_users > 0) n = is_available.len / n_users;
    int is_good = k >= 1 && k <= MOST_CHOSEN && k <= n;
    if (!is_good) PyErr_Format(PyExc_ValueError, "cannot choose %zd of %zd items", k, n);
    is_good = is_good && holds(&is_available, n_users * n, 1, "is_available") &&
              holds(&means, n_users * n, sizeof(float), "means") &&
              (!variances.buf || holds(&variances, n_users * n, sizeof(float), "variances")) &&
              holds(&rows, n_users * k, sizeof(int64_t), "rows") &&
              holds(&scores, n_users * k, sizeof(float), "scores");
    Py_ssize_t n_tied = 0;
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t user = 0; user < n_users; user++) {
            const float* own = variances.buf ? (const float*)variances.buf + user * n : NULL;
            uint8_t tied = (uint8_t)choose_one((const float*)means.buf + user * n, own,
                                               (const uint8_t*)is_available.buf + user * n, n, nu, k,
                                               (int64_t*)rows.buf + user * k, (float*)scores.buf + user * k);
            ((uint8_t*)is_tied.buf)[user] = tied;
            n_tied += tied;
        }
        Py_END_ALLOW_THREADS
    }
    Py_buffer* all[] = {&means, &variances, &is_available, &rows, &scores, &is_tied};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    return is_good ? PyLong_FromSsize_t(n_tied) : NULL;
}

static PyObject* list_of(const float* numbers, const int64_t* at, Py_ssize_t k, int is_root) {
    PyObject* list = PyList_New(k);
    for (Py_ssize_t place = 0; list && place < k; place++) {
        double number = numbers[at ? at[place] : place];
        PyList_SetItem(list, place, PyFloat_FromDouble(is_root ? sqrt(number) : number));
    }
    return list;
}

static PyObject* list_of_whole(const int64_t* numbers, Py_ssize_t k, int64_t added) {
    PyObject* list = PyList_New(k);
    for (Py_ssize_t place = 0; list && place < k; place++)
        PyList_SetItem(list, place, PyLong_FromLongLong(numbers[place] + added));
    return list;
}

static PyObject* answer(PyObject* module, PyObject* args) {
    Py_buffer scores, means, variances, is_available;
    float nu;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "z*y*y*y*fn", &scores, &means, &variances, &is_available, &nu, &k)) return NULL;
    Py_ssize_t n = is_available.len;
    int64_t rows[MOST_CHOSEN], counts[MOST_CHOSEN] = {0};
    float best[MOST_CHOSEN], of[MOST_CHOSEN];
    int is_good = k >= 1 && k <= MOST_CHOSEN && k <= n, is_tied = 0;
    if (!is_good) PyErr_Format(PyExc_ValueError, "cannot choose %zd of %zd items", k, n);
    is_good = is_good && holds(&means, n, sizeof(float), "means") &&
              holds(&variances, n, sizeof(float), "variances") &&
              (!scores.buf || holds(&scores, n, sizeof(float), "scores"));
    if (is_good) {
        const float* deviations = scores.buf || nu == 0.0f ? NULL : variances.buf;
        Py_BEGIN_ALLOW_THREADS
        is_tied = choose_one(scores.buf ? scores.buf : means.buf, deviations, is_available.buf, n, nu, k, rows, best);
        if (!is_tied) {
            for (Py_ssize_t place = 0; place < k; place++) of[place] = ((const float*)means.buf)[rows[place]];
            count_above(means.buf, is_available.buf, n, of, k, counts);
        }
        Py_END_ALLOW_THREADS
    }
    PyObject* columns = NULL;
    if (is_good && !is_tied)
        columns = Py_BuildValue("(NNNNN)", list_of_whole(rows, k, 0), list_of(best, NULL, k, 0), list_of(of, NULL, k, 0),
                                list_of(variances.buf, rows, k, 1), list_of_whole(counts, k, 1));
    Py_buffer* all[] = {&scores, &means, &variances, &is_available};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (is_good && is_tied) Py_RETURN_NONE;
    return columns;
}

/* Arrays that come in tuples, one per channel. */
struct opened {
    Py_buffer buffers[4 * MOST_CHANNELS + 4];
    Py_ssize_t count;
};

static void close_all(struct opened* opened) {
    while (opened->count > 0) PyBuffer_Release(opened->buffers + --opened->count);
}

static const void* open_one(struct opened* opened, PyObject* array) {
    if (PyObject_GetBuffer(array, opened->buffers + opened->count, PyBUF_SIMPLE)) return NULL;
    return opened->buffers[opened->count++].buf;
}

/* `sizes` numbers in each array of a tuple. */
static int open_tuple(struct opened* opened, PyObject* arrays, const Py_ssize_t* sizes, Py_ssize_t count,
                      const float** numbers) {
    if (PyTuple_Size(arrays) != count) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "expected %zd arrays", count);
        return 0;
    }
    for (Py_ssize_t c = 0; c < count; c++) {
        numbers[c] = open_one(opened, PyTuple_GetItem(arrays, c));
        if (!numbers[c] || !holds(opened->buffers + opened->count - 1, sizes[c], sizeof(float), "a channel")) return 0;
    }
    return 1;
}

/* (weights, is_member, is_logit, block) */
static int open_mixture(struct opened* opened, PyObject* parts, struct mixture* mixture) {
    PyObject *weights, *is_member, *is_logit, *block;
    if (!PyArg_ParseTuple(parts, "OOOO", &weights, &is_member, &is_logit, &block)) return 0;
    Py_buffer* first = opened->buffers + opened->count;
    if (!(mixture->weights = open_one(opened, weights)) || !(mixture->is_member = open_one(opened, is_member)) ||
        !(mixture->is_logit = open_one(opened, is_logit)) || !(mixture->block = open_one(opened, block)))
        return 0;
    mixture->n_terms = first[0].len / (Py_ssize_t)sizeof(double);
    mixture->n_channels = first[2].len;
    if (mixture->n_channels < 1 || mixture->n_channels > MOST_CHANNELS) {
        PyErr_Format(PyExc_ValueError, "%zd channels, expected 1 to %d", mixture->n_channels, (int)MOST_CHANNELS);
        return 0;
    }
    for (Py_ssize_t c = 0; c < mixture->n_channels; c++)
        if (mixture->block[c] >= mixture->n_channels) {
            PyErr_Format(PyExc_ValueError, "channel %zd is of block %d", c, (int)mixture->block[c]);
            return 0;
        }
    return holds(first + 1, mixture->n_terms * mixture->n_channels, 1, "is_member") &&
           holds(first + 3, mixture->n_channels, 1, "block");
}

static PyObject* combine(PyObject* module, PyObject* args) {
    PyObject *parts, *zs, *variances;
    Py_buffer result;
    if (!PyArg_ParseTuple(args, "OOOw*", &parts, &zs, &variances, &result)) return NULL;
    struct opened opened = {.count = 0};
    struct mixture mixture;
    const float *z[MOST_CHANNELS], *z_variances[MOST_CHANNELS];
    Py_ssize_t n = result.len / (Py_ssize_t)sizeof(float), sizes[MOST_CHANNELS];
    for (Py_ssize_t c = 0; c < MOST_CHANNELS; c++) sizes[c] = n;
    int is_spread = variances != Py_None;
    int is_good = open_mixture(&opened, parts, &mixture) && open_tuple(&opened, zs, sizes, mixture.n_channels, z) &&
                  (!is_spread || open_tuple(&opened, variances, sizes, mixture.n_channels, z_variances));
    if (is_good) {
        Py_BEGIN_ALLOW_THREADS
        if (is_spread)
            spread(&mixture, z, z_variances, n, result.buf);
        else
            expect(&mixture, z, n, result.buf);
        Py_END_ALLOW_THREADS
    }
    close_all(&opened);
    PyBuffer_Release(&result);
    if (!is_good) return NULL;
    Py_RETURN_NONE;
}

static PyObject* choose_by_bounds(PyObject* module, PyObject* args) {
    PyObject *parts, *items, *covs, *zs, *bounds;
    Py_buffer means, is_available, rows, scores, variances;
    float nu;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "OOOOOy*y*fnw*w*w*", &parts, &items, &covs, &zs, &bounds, &means, &is_available, &nu,
                          &k, &rows, &scores, &variances))
        return NULL;
    struct opened opened = {.count = 0};
    struct mixture mixture;
    struct returning user;
    Py_ssize_t n = is_available.len, sizes[MOST_CHANNELS], of_items[MOST_CHANNELS], of_covs[MOST_CHANNELS], widest = 0;
    int is_good = k >= 1 && k <= MOST_CHOSEN && k <= n, is_tied = 0;
    if (!is_good) PyErr_Format(PyExc_ValueError, "cannot choose %zd of %zd items", k, n);
    is_good = is_good && open_mixture(&opened, parts, &mixture) && PyTuple_Size(items) == mixture.n_channels;
    for (Py_ssize_t c = 0; is_good && c < mixture.n_channels; c++) {
        Py_ssize_t length, d = 0;
        PyObject* shape = PyObject_GetAttrString(PyTuple_GetItem(items, c), "shape");
        is_good = shape && PyArg_ParseTuple(shape, "nn", &length, &d);
        Py_XDECREF(shape);
        sizes[c] = n, of_items[c] = n * d, of_covs[c] = d * d, user.dims[c] = d;
        if (d > widest) widest = d;
    }
    is_good = is_good && open_tuple(&opened, items, of_items, mixture.n_channels, user.items) &&
              open_tuple(&opened, covs, of_covs, mixture.n_channels, user.covs) &&
              open_tuple(&opened, zs, sizes, mixture.n_channels, user.z) &&
              open_tuple(&opened, bounds, sizes, mixture.n_channels, user.bounds) &&
              holds(&means, n, sizeof(float), "means") && holds(&rows, k, sizeof(int64_t), "rows") &&
              holds(&scores, k, sizeof(float), "scores") && holds(&variances, k, sizeof(float), "variances");
    user.w = is_good ? PyMem_Malloc((size_t)(widest + 1) * sizeof(float)) : NULL;
    if (user.w) {
        Py_BEGIN_ALLOW_THREADS
        is_tied = choose_returning(&mixture, &user, means.buf, is_available.buf, n, nu, k, rows.buf, scores.buf,
                                   variances.buf);
        Py_END_ALLOW_THREADS
        PyMem_Free(user.w);
    } else if (is_good) {
        PyErr_NoMemory();
    }
    close_all(&opened);
    Py_buffer* all[] = {&means, &is_available, &rows, &scores, &variances};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (!user.w) return NULL;
    return PyLong_FromLong(is_tied);
}

static PyObject* ranks(PyObject* module, PyObject* args) {
    Py_buffer means, is_available, of;
    if (!PyArg_ParseTuple(args, "y*y*y*", &means, &is_available, &of)) return NULL;
    Py_ssize_t n = is_available.len, k = of.len / (Py_ssize_t)sizeof(float);
    PyObject* found = NULL;
    int64_t* counts = NULL;
    if (holds(&means, n, sizeof(float), "means")) {
        counts = PyMem_Calloc((size_t)k + 1, sizeof(int64_t));
        found = counts ? PyList_New(k) : PyErr_NoMemory();
    }
    if (found) count_above(means.buf, is_available.buf, n, of.buf, k, counts);
    for (Py_ssize_t place = 0; found && place < k; place++)
        PyList_SetItem(found, place, PyLong_FromLongLong(counts[place] + 1));
    PyMem_Free(counts);
    Py_buffer* all[] = {&means, &is_available, &of};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    return found;
}

static PyMethodDef functions[] = {
    {"absorb", absorb, METH_VARARGS, "Reactions into beliefs, in place."},
    {"carry_over", carry_over, METH_VARARGS, "Updates of a belief into the items' means and variances."},
    {"carry_products", carry_products, METH_VARARGS, "The same for many users, whose products are known."},
    {"answer", answer, METH_VARARGS, "Rows, scores, means, deviations and ranks of the k best items of one user."},
    {"choose", choose, METH_VARARGS, "The k best available items of each user."},
    {"combine", combine, METH_VARARGS, "Expected rewards, or their variances, from those of the channels."},
    {"choose_by_bounds", choose_by_bounds, METH_VARARGS,
     "The k best items of a user most of whose variances are not known."},
    {"ranks", ranks, METH_VARARGS, "1 + how many available items have a larger mean."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "igcf.online._compiled",
    "The inner loops of the online phase.",
    0,
    functions,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModuleDef_Init(&definition); }
