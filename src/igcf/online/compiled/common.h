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

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

/* igcf.online.kernels and igcf.online.choosing have the same numbers, but for the items worked on at a time. */
enum { NEWTON_STEPS = 8, MOST_CHOSEN = 64, MOST_CHANNELS = 8, BLOCK = 64 };
static const double LOWEST = -80.0;           /* igcf.model.channel.LOWEST */
static const float ABOVE_ROUNDING = 1.00001f; /* more than what single precision can change in a score */

#endif
