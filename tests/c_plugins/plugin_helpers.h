/* What plugins in plain C need beside pipeline.h: errors with printf formats, and the receiving side of the
 * struct_size rules. */
#ifndef PLUGIN_HELPERS_H
#define PLUGIN_HELPERS_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pipeline.h"

#define STR(literal) \
  { literal, sizeof(literal) - 1 }

#if defined(__GNUC__)
#define PRINTF_LIKE __attribute__((format(printf, 3, 4), unused))
#define MAYBE_UNUSED __attribute__((unused))
#else
#define PRINTF_LIKE
#define MAYBE_UNUSED
#endif

/* Where the plugin's memory is. pipeline's own tests also build for a CUDA device, which they imitate in
 * memory of the host. */
#ifndef COMPUTES_ON
#define COMPUTES_ON PL_DEVICE_CPU
#endif

/* Whether the run gives work on COMPUTES_ON its stream. */
static MAYBE_UNUSED int has_its_stream(const pl_run_info* run) {
  return COMPUTES_ON == PL_DEVICE_CPU ? run->stream.kind == PL_STREAM_NONE
                                      : run->stream.kind == PL_STREAM_DEVICE && run->stream.handle != NULL;
}

static PRINTF_LIKE pl_error* fail(const pl_host* host, uint32_t code, const char* format, ...) {
  char text[512];
  pl_str message;
  int length;
  va_list arguments;
  va_start(arguments, format);
  length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  message.ptr = text;
  message.len = length < 0 ? 0 : length < (int)sizeof text ? (size_t)length : sizeof text - 1;
  return host->error_new(code, message);
}

static MAYBE_UNUSED pl_str make_str(const char* text) {
  pl_str s;
  s.ptr = text;
  s.len = strlen(text);
  return s;
}

/* Copies an options struct of the other side into `to`, which has `known` bytes: a shorter one is filled up
 * with zeros. One that sets something this plugin does not know is refused: an option is never silently
 * ignored. `reserved`: where that field is; 0: there is none. `what` names the struct. */
static MAYBE_UNUSED pl_error* receive_args(const pl_host* host, void* to, size_t known, size_t reserved,
                                           const void* from, const char* what) {
  uint32_t sent;
  size_t i;
  memcpy(&sent, from, sizeof sent);
  for (i = known; i < sent; ++i)
    if (((const unsigned char*)from)[i] != 0)
      return fail(host, PL_ERROR_UNSUPPORTED,
                  "%s has %u bytes and sets an option beyond the %u that this plugin knows", what,
                  (unsigned)sent, (unsigned)known);
  memset(to, 0, known);
  memcpy(to, from, sent < known ? sent : known);
  memcpy(&sent, (const char*)to + reserved, sizeof sent);
  if (reserved > 0 && sent != 0)
    return fail(host, PL_ERROR_UNSUPPORTED, "%s.reserved is %u, must be 0", what, (unsigned)sent);
  return NULL;
}

/* Fills a struct of the other side, which may be shorter than ours; its struct_size stays what it is. */
static MAYBE_UNUSED void give(void* to, const void* value, size_t known) {
  uint32_t room;
  memcpy(&room, to, sizeof room);
  if (room > sizeof room)
    memcpy((char*)to + sizeof room, (const char*)value + sizeof room,
           (room < known ? room : known) - sizeof room);
}

/* Bytes of one element, 0 for a dtype with a fraction of a byte or none. */
static MAYBE_UNUSED size_t element_size(pl_dtype dtype) { return dtype.bits % 8 ? 0 : dtype.bits / 8u; }

static MAYBE_UNUSED int is_float32(pl_dtype dtype) {
  return dtype.code == PL_DTYPE_FLOAT && dtype.bits == 32 && dtype.lanes == 1;
}

#endif
