#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace pipeline::report {

// The object in a file of a run's folder. Throws Error (PL_ERROR_CONFIG) with the file for anything else.
nlohmann::ordered_json read_object(const std::filesystem::path& file);

}  // namespace pipeline::report
