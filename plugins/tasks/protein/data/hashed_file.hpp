// Small files that are replaced as a whole: something to tell what they are, what they hold, and the hash of both.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace pipeline::protein {

// All of a file, nullopt if it cannot be opened. Throws DataError if what is there cannot be read, a folder for example.
std::optional<std::string> read_whole(const std::string& path);

// What the file holds; nullopt if there is none, and with `problem` set if there is one that is damaged or of another kind. Throws as
// read_whole().
std::optional<std::string> read_hashed(const std::string& path, std::string_view magic, bool& problem);

// Replaces the file at once. Throws DataError.
void write_hashed(const std::string& path, std::string_view magic, std::string_view held);

template <class T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

inline void put_text(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out += text;
}

// Takes the value off the start of `in`; false if it is too short.
template <class T>
bool take(std::string_view& in, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (in.size() < sizeof value) return false;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return true;
}

inline bool take_text(std::string_view& in, std::string& text) {
  uint64_t size = 0;
  if (!take(in, size) || size > in.size()) return false;
  text = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

}  // namespace pipeline::protein
