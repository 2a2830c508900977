#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

PIPELINE_SDK_BEGIN

template <class T>
concept Sized = std::is_trivially_copyable_v<T> && requires(T t) {
  t.struct_size;
};

// Returns a copy of the fields that both sides know; fields that the sender lacks are zero.
template <Sized T>
T receive(const T* sent) {
  if (sent == nullptr) fail("a required struct is NULL");
  T own{};
  std::memcpy(static_cast<void*>(&own), sent, std::min<size_t>(sent->struct_size, sizeof(T)));
  own.struct_size = sizeof(T);
  return own;
}

// Receives an options struct (..._args); throws if the host sets an option unknown to this plugin.
template <Sized T>
T receive_args(const T* sent) {
  T own = receive(sent);
  if constexpr (requires { own.reserved; }) {
    if (own.reserved != 0)
      fail_with(PL_ERROR_UNSUPPORTED, "the host sets a reserved field of an options struct to ", own.reserved,
                ", must be 0 in ABI ", PL_ABI_MAJOR, ".", PL_ABI_MINOR, ": use a newer build of the plugin");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(sent);
  for (size_t i = sizeof(T); i < sent->struct_size; ++i) {
    if (bytes[i] != 0)
      fail_with(PL_ERROR_UNSUPPORTED, "the host asks for an option at byte ", i,
                " of a struct of which this plugin, built for ABI ", PL_ABI_MAJOR, ".", PL_ABI_MINOR,
                ", knows ", sizeof(T), " bytes: use a newer build of the plugin");
  }
  return own;
}

// Throws if `flags` has bits that this plugin neither knows nor may ignore.
inline void require_known_flags(const char* what, uint32_t flags, uint32_t known) {
  if (const uint32_t unknown = flags & ~(known | PL_FLAGS_MAY_IGNORE))
    fail_with(PL_ERROR_UNSUPPORTED, what, ": flags ", unknown,
              " are not known to this plugin, built for ABI ", PL_ABI_MAJOR, ".", PL_ABI_MINOR,
              ": use a newer build of it");
}

// Element `i` of an array whose stride is the first element's struct_size.
template <Sized T>
T receive_element(const T* array, uint64_t i) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(array);
  T own{};
  std::memcpy(static_cast<void*>(&own), bytes + i * array->struct_size,
              std::min<size_t>(array->struct_size, sizeof(T)));
  own.struct_size = sizeof(T);
  return own;
}

// Writes `value` into the caller's struct, as far as the caller knows its fields.
template <Sized T>
void fill(T* out, T value) {
  if (out == nullptr) fail("a required output struct is NULL");
  if (out->struct_size < sizeof(out->struct_size))
    fail("an output struct has struct_size ", out->struct_size, ": the caller must set it to sizeof");
  value.struct_size = out->struct_size;
  std::memcpy(static_cast<void*>(out), &value, std::min<size_t>(out->struct_size, sizeof(T)));
}

// A struct with its size set and all else zero.
template <Sized T>
T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// Set by the entry function, once per plugin.
struct Globals {
  pl_host host{};           // fields the host lacks are zero
  std::string plugin_name;  // prefix of every message
};

// Never destroyed: a worker thread may still fail while the process exits.
inline Globals& globals() {
  static Globals& instance = *new Globals;
  return instance;
}

inline const pl_host& host() { return globals().host; }

// Throws the error that an ABI call returned, if any, and frees it.
inline void check(pl_error* error) {
  if (error == nullptr) return;
  const Error copy =
      Error::received(host().error_code(error), std::string(view(host().error_message(error))));
  host().error_free(error);
  throw copy;
}

inline pl_error* make_error(uint32_t code, std::string_view message) {
  return host().error_new(code, str(message));
}

PIPELINE_SDK_END
