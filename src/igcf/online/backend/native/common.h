/* What all of the compiled loops share. */
#ifndef IGCF_COMMON_H
#define IGCF_COMMON_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* One version of a function per generation of processors, picked when the module is loaded. The loader of glibc does
 * that; other C libraries (musl), other compilers and IGCF_ONE_VERSION get a single version. IGCF_PLAIN_LOOPS asks for
 * what compilers without shuffles of vectors get. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(IGCF_ONE_VERSION)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

/* igcf.online.backend.types has the same numbers, but for the items worked on at a time. */
enum { NEWTON_STEPS = 8, MOST_SELECTED = 64, MOST_CHANNELS = 8, BLOCK = 64 };
static const double LOWEST = -80.0; /* igcf.model.channel.LOWEST */

#endif
