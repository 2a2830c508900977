#include "core/report/json_file.hpp"

#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/json/strict_json.hpp"

namespace pipeline::report {

nlohmann::ordered_json read_object(const std::filesystem::path& file) {
  try {
    nlohmann::ordered_json object = strict_json::parse_ordered(read_file(file), file.string());
    if (!object.is_object()) throw strict_json::Error(file.string() + ": is no JSON object");
    return object;
  } catch (const strict_json::Error& error) {
    throw Error(PL_ERROR_CONFIG, error.what());
  }
}

}  // namespace pipeline::report
