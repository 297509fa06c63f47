/* The inner loops of the online phase as a Python module. `igcf.online.kernels`, `choosing` and `combining` say what each
 * of them does, and do it in NumPy where this was not compiled. Buffers are contiguous; every length is checked before
 * anything is read or written. */
#include "belief.h"
#include "choosing.h"

/* Fails with a message unless a buffer holds exactly `count` numbers of `size` bytes. */
static int holds(const Py_buffer* buffer, Py_ssize_t count, size_t size, const char* name) {
    if (buffer->len == count * (Py_ssize_t)size) return 1;
    PyErr_Format(PyExc_ValueError, "%s holds %zd bytes, expected %zd", name, buffer->len, count * (Py_ssize_t)size);
    return 0;
}

/* Arrays that come in tuples, one per channel. */
struct opened {
    Py_buffer buffers[5 * MOST_CHANNELS];
    Py_ssize_t count;
};

static void close_all(struct opened* opened) {
    while (opened->count > 0) PyBuffer_Release(opened->buffers + --opened->count);
}

static void* open_one(struct opened* opened, PyObject* array, int flags) {
    if (!array || PyObject_GetBuffer(array, opened->buffers + opened->count, flags)) return NULL;
    return opened->buffers[opened->count++].buf;
}

static int has_length(PyObject* arrays, Py_ssize_t count) {
    if (PyTuple_Size(arrays) == count) return 1;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "expected %zd arrays", count);
    return 0;
}

/* `sizes` numbers in each array of a tuple. */
static int open_tuple(struct opened* opened, PyObject* arrays, const Py_ssize_t* sizes, Py_ssize_t count, int flags,
                      float** numbers) {
    if (!has_length(arrays, count)) return 0;
    for (Py_ssize_t c = 0; c < count; c++) {
        numbers[c] = open_one(opened, PyTuple_GetItem(arrays, c), flags);
        if (!numbers[c] || !holds(opened->buffers + opened->count - 1, sizes[c], sizeof(float), "a channel")) return 0;
    }
    return 1;
}

static int shape_of(PyObject* matrix, Py_ssize_t* rows, Py_ssize_t* columns) {
    PyObject* shape = PyObject_GetAttrString(matrix, "shape");
    int is_good = shape && PyArg_ParseTuple(shape, "nn", rows, columns);
    Py_XDECREF(shape);
    return is_good;
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

static PyObject* learn(PyObject* module, PyObject* args) {
    Py_buffer mean, cov, is_logit;
    PyObject *rewards, *vectors, *noise, *items, *zs, *variances;
    Py_ssize_t start, row;
    if (!PyArg_ParseTuple(args, "w*w*nnOOOy*OOO", &mean, &cov, &start, &row, &rewards, &vectors, &noise, &is_logit,
                          &items, &zs, &variances))
        return NULL;
    struct opened opened = {.count = 0};
    float *own_vectors[MOST_CHANNELS], *own_items[MOST_CHANNELS], *z[MOST_CHANNELS], *own_variances[MOST_CHANNELS];
    double own_rewards[MOST_CHANNELS], own_noise[MOST_CHANNELS];
    Py_ssize_t n = is_logit.len, stride = mean.len / (Py_ssize_t)sizeof(double), n_items = 0, d = 0, n_scored = 0;
    Py_ssize_t of_z[MOST_CHANNELS], of_items[MOST_CHANNELS];
    int is_good = n >= 1 && n <= MOST_CHANNELS && PyTuple_Size(rewards) == n && PyTuple_Size(vectors) == n &&
                  shape_of(PyTuple_GetItem(vectors, 0), &n_items, &d) && row >= 0 && row < n_items && start >= 0 &&
                  d <= stride && start <= stride - d;
    if (is_good) n_scored = PyTuple_Size(zs), is_good = n_scored >= 0 && n_scored <= MOST_CHANNELS;
    if (!is_good && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "reactions and channels do not fit together");
    for (Py_ssize_t c = 0; c < MOST_CHANNELS; c++) of_z[c] = n_items, of_items[c] = n_items * d;
    is_good = is_good && holds(&cov, stride * stride, sizeof(double), "cov") &&
              open_tuple(&opened, vectors, of_items, n, PyBUF_SIMPLE, own_vectors) &&
              open_tuple(&opened, items, of_items, n_scored, PyBUF_SIMPLE, own_items) &&
              open_tuple(&opened, zs, of_z, n_scored, PyBUF_WRITABLE, z) &&
              open_tuple(&opened, variances, of_z, n_scored, PyBUF_WRITABLE, own_variances);
    for (Py_ssize_t c = 0; is_good && c < n; c++) {
        const double* all_noise = open_one(&opened, PyTuple_GetItem(noise, c), PyBUF_SIMPLE);
        is_good = all_noise && holds(opened.buffers + opened.count - 1, n_items, sizeof(double), "noise");
        if (is_good) own_noise[c] = all_noise[row], own_rewards[c] = PyFloat_AsDouble(PyTuple_GetItem(rewards, c));
        is_good = is_good && !PyErr_Occurred();
    }
    double* x = is_good ? PyMem_Malloc((size_t)(n * d + n) * (2 * sizeof(double) + sizeof(float))) : NULL;
    if (x) {
        double *w = x + n * d, *steps = w + n * d;
        float* short_w = (float*)(steps + n);
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t c = 0; c < n; c++)
            for (Py_ssize_t j = 0; j < d; j++) x[c * d + j] = own_vectors[c][row * d + j];
        absorb_all((double*)mean.buf + start, (double*)cov.buf + start * stride + start, stride, d, n, x, own_rewards,
                   own_noise, is_logit.buf, w, steps);
        for (Py_ssize_t j = 0; j < n * d; j++) short_w[j] = (float)w[j];
        for (Py_ssize_t c = 0; c < n_scored; c++)
            carry_one(own_items[c], n_items, d, short_w, steps, n, z[c], own_variances[c]);
        Py_END_ALLOW_THREADS
        PyMem_Free(x);
    } else if (is_good) {
        PyErr_NoMemory();
    }
    close_all(&opened);
    Py_buffer* all[] = {&mean, &cov, &is_logit};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (!x) return NULL;
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
    is_good = is_good && holds(&means, n, sizeof(float), "means") && holds(&variances, n, sizeof(float), "variances") &&
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
        columns =
            Py_BuildValue("(NNNNN)", list_of_whole(rows, k, 0), list_of(best, NULL, k, 0), list_of(of, NULL, k, 0),
                          list_of(variances.buf, rows, k, 1), list_of_whole(counts, k, 1));
    Py_buffer* all[] = {&scores, &means, &variances, &is_available};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    if (is_good && is_tied) Py_RETURN_NONE;
    return columns;
}

/* (weights, is_member, is_logit, block) */
static int open_mixture(struct opened* opened, PyObject* parts, struct mixture* mixture) {
    PyObject *weights, *is_member, *is_logit, *block;
    if (!PyArg_ParseTuple(parts, "OOOO", &weights, &is_member, &is_logit, &block)) return 0;
    Py_buffer* first = opened->buffers + opened->count;
    if (!(mixture->weights = open_one(opened, weights, PyBUF_SIMPLE)) ||
        !(mixture->is_member = open_one(opened, is_member, PyBUF_SIMPLE)) ||
        !(mixture->is_logit = open_one(opened, is_logit, PyBUF_SIMPLE)) ||
        !(mixture->block = open_one(opened, block, PyBUF_SIMPLE)))
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
    float *z[MOST_CHANNELS], *z_variances[MOST_CHANNELS];
    Py_ssize_t n = result.len / (Py_ssize_t)sizeof(float), sizes[MOST_CHANNELS];
    for (Py_ssize_t c = 0; c < MOST_CHANNELS; c++) sizes[c] = n;
    int is_spread = variances != Py_None;
    int is_good = open_mixture(&opened, parts, &mixture) &&
                  open_tuple(&opened, zs, sizes, mixture.n_channels, PyBUF_SIMPLE, z) &&
                  (!is_spread || open_tuple(&opened, variances, sizes, mixture.n_channels, PyBUF_SIMPLE, z_variances));
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
    is_good = is_good && open_mixture(&opened, parts, &mixture) && has_length(items, mixture.n_channels);
    for (Py_ssize_t c = 0; is_good && c < mixture.n_channels; c++) {
        Py_ssize_t length, d = 0;
        is_good = shape_of(PyTuple_GetItem(items, c), &length, &d);
        sizes[c] = n, of_items[c] = n * d, of_covs[c] = d * d, user.dims[c] = d;
        if (d > widest) widest = d;
    }
    is_good = is_good && open_tuple(&opened, items, of_items, mixture.n_channels, PyBUF_SIMPLE, user.items) &&
              open_tuple(&opened, covs, of_covs, mixture.n_channels, PyBUF_SIMPLE, user.covs) &&
              open_tuple(&opened, zs, sizes, mixture.n_channels, PyBUF_SIMPLE, user.z) &&
              open_tuple(&opened, bounds, sizes, mixture.n_channels, PyBUF_SIMPLE, user.bounds) &&
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
    if (holds(&means, n, sizeof(float), "means") && !(counts = PyMem_Calloc((size_t)k + 1, sizeof(int64_t))))
        PyErr_NoMemory();
    if (counts) {
        count_above(means.buf, is_available.buf, n, of.buf, k, counts);
        found = list_of_whole(counts, k, 1);
    }
    PyMem_Free(counts);
    Py_buffer* all[] = {&means, &is_available, &of};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) PyBuffer_Release(all[i]);
    return found;
}

static PyMethodDef functions[] = {
    {"absorb", absorb, METH_VARARGS, "Reactions into beliefs, in place."},
    {"learn", learn, METH_VARARGS, "Reactions of one user into belief, means and variances."},
    {"carry_products", carry_products, METH_VARARGS,
     "Updates of many users, whose products are known, into means and variances."},
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
