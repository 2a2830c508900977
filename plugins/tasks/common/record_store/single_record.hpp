// Files that hold one thing and are replaced as a whole: a store of one record.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugins/tasks/common/record_store/record_format.hpp"

namespace pipeline::records {

// nullopt if there is no such file, and with `problem` set if there is one that is damaged or of another kind
// or key. Throws DataError if what is there cannot be read, a folder for example.
std::optional<std::string> load(const std::string& path, const Kind& kind, const Hash128& key, bool& problem);

// Replaces the file at once. Throws DataError.
void save(const std::string& path, const Kind& kind, const Hash128& key, std::string_view payload);

}  // namespace pipeline::records
