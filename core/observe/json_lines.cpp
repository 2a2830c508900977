#include "core/observe/json_lines.hpp"

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>

namespace pipeline::observe {
namespace {

// The integer under `key` of a line of JSON; nullopt where the line is broken or has none.
std::optional<uint64_t> integer_in(const std::string& line, const std::string& key) {
  const auto parsed = nlohmann::json::parse(line, nullptr, false);
  if (parsed.is_discarded() || !parsed.is_object()) return std::nullopt;
  const auto value = parsed.find(key);
  if (value == parsed.end() || !value->is_number_unsigned()) return std::nullopt;
  return value->get<uint64_t>();
}

}  // namespace

bool JsonLines::append(const nlohmann::ordered_json& line) {
  // Text from data may hold invalid UTF-8; a NaN becomes null, as JSON has none.
  return file_.append(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

bool JsonLines::contains(const std::filesystem::path& file, const std::string& key, uint64_t value) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (integer_in(line, key) == value) return true;
  return false;
}

uint64_t JsonLines::cut_back(const std::filesystem::path& file, const std::string& key, uint64_t limit) {
  std::ifstream in(file);
  if (!in) return 0;
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
