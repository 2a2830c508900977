/* Reductions by dtype. Each result is exact or rounded once: half precisions go through float. */
#include <math.h>
#include <string.h>

#include "fake.h"

static double combine_real(double a, double b, uint32_t reduce) {
  if (reduce == PL_REDUCE_SUM) return a + b;
  if (a != a || b != b) return a + b; /* NaN stays NaN in minimum and maximum, too */
  return (reduce == PL_REDUCE_MIN) == (a < b) ? a : b;
}

static float bfloat16_to_float(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* To nearest, ties to even. */
static uint16_t float_to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static float float16_to_float(uint16_t bits) {
  const double sign = bits & 0x8000u ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 0x3ff;
  if (exponent == 31) return fraction ? NAN : (float)(sign * (double)INFINITY);
  if (exponent == 0) return (float)(sign * ldexp((double)fraction, -24));
  return (float)(sign * ldexp((double)(fraction + 1024), exponent - 25));
}

/* To nearest, ties to even (the default rounding of nearbyint). */
static uint16_t float_to_float16(float value) {
  const uint16_t sign = (uint16_t)(signbit(value) ? 0x8000u : 0u);
  const double magnitude = fabs((double)value);
  int exponent;
  double units;
  if (value != value) return (uint16_t)(sign | 0x7e00u);
  if (magnitude == 0) return sign;
  if (isinf(value)) return (uint16_t)(sign | 0x7c00u);
  frexp(magnitude, &exponent); /* magnitude is in [2^(exponent-1), 2^exponent) */
  if (exponent < -13) exponent = -13;
  units = nearbyint(
      ldexp(magnitude, 11 - exponent)); /* of 2^(exponent-11); 2048 carries into the exponent below */
  if (units >= 2048) {
    units = 1024;
    ++exponent;
  }
  if (exponent > 16) return (uint16_t)(sign | 0x7c00u);
  if (units < 1024) return (uint16_t)(sign | (uint16_t)units);
  return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)(units - 1024));
}

#define REDUCE_LOOP(type, expression)                    \
  do {                                                   \
    type* a = (type*)to;                                 \
    const type* b = (const type*)from;                   \
    for (i = 0; i < count; ++i) a[i] = (type)expression; \
  } while (0)

#define REDUCE_INTEGER(type, wide)                                       \
  REDUCE_LOOP(type,                                                      \
              (reduce == PL_REDUCE_SUM ? (wide)((wide)a[i] + (wide)b[i]) \
                                       : (wide)((reduce == PL_REDUCE_MIN) == (a[i] < b[i]) ? a[i] : b[i])))

static int reduce_float(void* to, const void* from, uint64_t count, pl_dtype dtype, uint32_t reduce) {
  uint64_t i;
  if (dtype.code == PL_DTYPE_BFLOAT && dtype.bits == 16)
    REDUCE_LOOP(uint16_t, float_to_bfloat16((float)combine_real((double)bfloat16_to_float(a[i]),
                                                                (double)bfloat16_to_float(b[i]), reduce)));
  else if (dtype.code == PL_DTYPE_FLOAT && dtype.bits == 16)
    REDUCE_LOOP(uint16_t, float_to_float16((float)combine_real((double)float16_to_float(a[i]),
                                                               (double)float16_to_float(b[i]), reduce)));
  else if (dtype.code == PL_DTYPE_FLOAT && dtype.bits == 32)
    REDUCE_LOOP(float, combine_real((double)a[i], (double)b[i], reduce));
  else if (dtype.code == PL_DTYPE_FLOAT && dtype.bits == 64)
    REDUCE_LOOP(double, combine_real(a[i], b[i], reduce));
  else
    return 0;
  return 1;
}

/* Sums wrap around, as unsigned arithmetic does. */
static int reduce_integer(void* to, const void* from, uint64_t count, pl_dtype dtype, uint32_t reduce) {
  uint64_t i;
  const int is_signed = dtype.code == PL_DTYPE_INT;
  switch (dtype.bits) {
    case 8:
      if (is_signed)
        REDUCE_INTEGER(int8_t, uint64_t);
      else
        REDUCE_INTEGER(uint8_t, uint64_t);
      return 1;
    case 16:
      if (is_signed)
        REDUCE_INTEGER(int16_t, uint64_t);
      else
        REDUCE_INTEGER(uint16_t, uint64_t);
      return 1;
    case 32:
      if (is_signed)
        REDUCE_INTEGER(int32_t, uint64_t);
      else
        REDUCE_INTEGER(uint32_t, uint64_t);
      return 1;
    case 64:
      if (is_signed)
        REDUCE_INTEGER(int64_t, uint64_t);
      else
        REDUCE_INTEGER(uint64_t, uint64_t);
      return 1;
    default:
      return 0;
  }
}

/* A sum of booleans is "any". */
static int reduce_bool(void* to, const void* from, uint64_t count, pl_dtype dtype, uint32_t reduce) {
  uint64_t i;
  if (dtype.bits != 8) return 0;
  REDUCE_LOOP(uint8_t, (reduce == PL_REDUCE_MIN ? (a[i] && b[i]) : (a[i] || b[i])));
  return 1;
}

int fake_reduce(void* to, const void* from, uint64_t count, pl_dtype dtype, uint32_t reduce) {
  switch (dtype.code) {
    case PL_DTYPE_FLOAT:
    case PL_DTYPE_BFLOAT:
      return reduce_float(to, from, count, dtype, reduce);
    case PL_DTYPE_INT:
    case PL_DTYPE_UINT:
      return reduce_integer(to, from, count, dtype, reduce);
    case PL_DTYPE_BOOL:
      return reduce_bool(to, from, count, dtype, reduce);
    default:
      return 0;
  }
}
