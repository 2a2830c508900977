#include "core/observe/json_lines.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/file_lock.hpp"
#include "core/base/files.hpp"
#include "core/base/program.hpp"
#include "core/json/strict_json.hpp"

namespace pipeline::observe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNan = "NaN", kInfinity = "Infinity", kMinusInfinity = "-Infinity";

// A line whose bare words, NaN and Infinity as Python writes them, are put in quotes.
std::string with_quoted_words(const std::string& line) {
  if (line.find(kNan) == std::string::npos && line.find(kInfinity) == std::string::npos) return line;
  std::string result;
  bool in_string = false;
  for (size_t i = 0; i < line.size();) {
    const std::string_view rest = std::string_view(line).substr(i);
    size_t taken = in_string && rest[0] == '\\' ? std::min<size_t>(2, rest.size()) : 1;
    bool is_word = false;
    for (const std::string_view word : {kNan, kInfinity, kMinusInfinity})
      if (!in_string && rest.starts_with(word)) {
        taken = word.size();
        is_word = true;
      }
    if (rest[0] == '"') in_string = !in_string;
    result.append(is_word ? "\"" : "").append(rest.substr(0, taken)).append(is_word ? "\"" : "");
    i += taken;
  }
  return result;
}

// Throws strict_json::JsonError.
Json parse_line(const std::string& line, const std::string& where) {
  Json object = strict_json::parse_ordered(with_quoted_words(line), where);
  if (!object.is_object()) throw strict_json::JsonError(where + ": is no JSON object");
  return object;
}

// The integer under `key` of a line of JSON; nullopt where the line is broken or has none.
std::optional<uint64_t> integer_in(const std::string& line, const std::string& key) {
  try {
    const Json object = parse_line(line, "");
    const auto value = object.find(key);
    if (value == object.end() || !value->is_number_unsigned()) return std::nullopt;
    return value->get<uint64_t>();
  } catch (const strict_json::JsonError&) {
    return std::nullopt;
  }
}

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& file)
    : path_(file),
      descriptor_(above_standard(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644))) {
  if (descriptor_ < 0)
    throw std::system_error(errno, std::generic_category(), "cannot open " + file.string());
}

AppendFile::~AppendFile() {
  flush();
  ::close(descriptor_);
}

bool AppendFile::is_still_there() const { return is_still(path_, descriptor_); }

bool AppendFile::append(std::string_view record) {
  buffer_ += record;
  ++pending_;
  return flush();
}

bool AppendFile::flush() {
  if (buffer_.empty()) return true;
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) return error_ = errno, false;
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t wrote = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      error_ = wrote < 0 ? errno : ENOSPC;
      // Nothing can be done if this fails too; the next continued run drops the broken record.
      [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, before.st_size);
      return false;
    }
    done += static_cast<size_t>(wrote);
  }
  buffer_.clear();
  pending_ = 0;
  error_ = 0;
  return true;
}

Json json_of(double value) {
  if (std::isfinite(value)) return value;
  return std::string(std::isnan(value) ? kNan : value > 0 ? kInfinity : kMinusInfinity);
}

std::optional<double> figure_of(const Json& value) {
  using Limits = std::numeric_limits<double>;
  if (value.is_number()) return value.get<double>();
  if (value.is_null()) return Limits::quiet_NaN();
  const std::string* const word = value.get_ptr<const std::string*>();
  if (word == nullptr) return std::nullopt;
  if (*word == kNan) return Limits::quiet_NaN();
  if (*word == kInfinity) return Limits::infinity();
  if (*word == kMinusInfinity) return -Limits::infinity();
  return std::nullopt;
}

bool JsonLines::append(const Json& line) {
  Json strict = line;
  for (Json& value : strict)
    if (value.is_number_float()) value = json_of(value.get<double>());
  // Text from data may hold invalid UTF-8.
  return file_.append(strict.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
}

size_t JsonLines::read(const std::filesystem::path& file, const Use& use) {
  std::ifstream in = open_file(file);
  return read(in, file.string(), use);
}

size_t JsonLines::read(std::istream& in, const std::string& name, const Use& use) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    if (++number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json object;
    try {
      object = parse_line(line, name + ":" + std::to_string(number));
    } catch (const strict_json::JsonError& error) {
      if (in.eof()) return number;  // it has no end
      throw Error(PL_ERROR_CONFIG, error.what());
    }
    use(number, object);
  }
  return 0;
}

size_t JsonLines::read_end(const std::filesystem::path& file, uint64_t bytes, const Use& use) {
  std::ifstream in = open_file(file);
  in.seekg(0, std::ios::end);
  const auto size = static_cast<uint64_t>(in.tellg());
  in.seekg(size > bytes ? static_cast<std::streamoff>(size - bytes - 1) : 0);
  if (std::string before; size > bytes) std::getline(in, before);
  return read(in, file.string(), use);
}

bool JsonLines::contains(const std::filesystem::path& file, const std::string& key, uint64_t value) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (integer_in(line, key) == value) return true;
  return false;
}

uint64_t JsonLines::cut_back(const std::filesystem::path& file, const std::string& key, uint64_t limit) {
  if (!std::filesystem::exists(file)) return 0;
  std::ifstream in = open_file(file);
  uint64_t broken = 0;
  const std::filesystem::path temporary = file.string() + ".tmp";
  {
    std::ofstream out(temporary, std::ios::trunc);
    for (std::string line; std::getline(in, line);)
      if (const auto value = integer_in(line, key); !value)
        ++broken;
      else if (*value < limit)
        out << line << '\n';
    if (!out.flush())
      throw std::system_error(errno, std::generic_category(), "cannot write " + temporary.string());
  }
  std::filesystem::rename(temporary, file);
  return broken;
}

}  // namespace pipeline::observe
