/* NumPy arrays as pointers, checked: contiguous, of the right type and of the right length. */
#ifndef IGCF_BUFFERS_H
#define IGCF_BUFFERS_H
#include "common.h"

enum { FLOAT32 = 'f', FLOAT64 = 'd', BOOL = '?', UINT8 = 'B', INT32 = 'i', INT64 = 'q' };
enum { READ = 0, WRITE = PyBUF_WRITABLE, ANY_LENGTH = -1 };

/* All arrays of one call. */
struct arrays {
    Py_buffer buffers[6 * MOST_CHANNELS + 8];
    Py_ssize_t count;
};

static void close_arrays(struct arrays* arrays) {
    while (arrays->count > 0) PyBuffer_Release(arrays->buffers + --arrays->count);
}

static int is_of_type(const Py_buffer* buffer, char type) {
    const char* format = buffer->format ? buffer->format : "B";
    if (format[0] == '\0' || format[1] != '\0') return 0;
    if (type == INT64) return buffer->itemsize == 8 && (format[0] == 'l' || format[0] == 'q');
    return format[0] == type;
}

static const Py_buffer* last_of(const struct arrays* arrays) { return arrays->buffers + arrays->count - 1; }

static Py_ssize_t length_of(const Py_buffer* buffer) { return buffer->len / buffer->itemsize; }

/* The numbers of an array, or NULL with an error set. */
static void* open_array(struct arrays* arrays, PyObject* array, char type, Py_ssize_t length, int access,
                        const char* name) {
    if (!array) return NULL;
    if (arrays->count == (Py_ssize_t)(sizeof arrays->buffers / sizeof *arrays->buffers)) {
        PyErr_SetString(PyExc_ValueError, "too many arrays");
        return NULL;
    }
    Py_buffer* buffer = arrays->buffers + arrays->count;
    if (PyObject_GetBuffer(array, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | access)) return NULL;
    arrays->count++;
    if (!is_of_type(buffer, type)) {
        PyErr_Format(PyExc_TypeError, "%s holds numbers of format '%s', expected '%c'", name,
                     buffer->format ? buffer->format : "B", type);
        return NULL;
    }
    if (length != ANY_LENGTH && length_of(buffer) != length) {
        PyErr_Format(PyExc_ValueError, "%s holds %zd numbers, expected %zd", name, length_of(buffer), length);
        return NULL;
    }
    return buffer->buf;
}

static int has_length(PyObject* tuple, Py_ssize_t length, const char* name) {
    Py_ssize_t found = PyTuple_Size(tuple);
    if (found == length) return 1;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s are %zd arrays, expected %zd", name, found, length);
    return 0;
}

/* The float32 arrays of a tuple, one per channel, `length` numbers each. */
static int open_channels(struct arrays* arrays, PyObject* tuple, Py_ssize_t n_channels, Py_ssize_t length, int access,
                         const char* name, float** numbers) {
    if (!has_length(tuple, n_channels, name)) return 0;
    for (Py_ssize_t c = 0; c < n_channels; c++)
        if (!(numbers[c] = open_array(arrays, PyTuple_GetItem(tuple, c), FLOAT32, length, access, name))) return 0;
    return 1;
}

static PyObject* done(struct arrays* arrays, int is_good) {
    close_arrays(arrays);
    if (!is_good) return NULL;
    Py_RETURN_NONE;
}

static int do_not_fit(const char* what) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s do not fit together", what);
    return 0;
}

#endif
