// Files that a task makes beside a result: pictures, tables.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::train {

// For results/x.csv: results/x-files.
std::filesystem::path side_files_of(const std::filesystem::path& output);

// Makes the folder if need be; replaces a file of that name. Throws Error with path and cause.
void write_side_file(const std::filesystem::path& folder, std::string_view name,
                     std::span<const std::byte> bytes);

// Which side files the predictions of one result have written, so that a later one can remove what is not of
// its own, and nothing of anybody else's. Kept in their folder, as a line a name, with an empty line where
// another prediction begins; a prediction that is killed and goes on is one. Throws Error with path and
// cause.
class SideFileRecord {
 public:
  explicit SideFileRecord(const std::filesystem::path& output);

  // A prediction starts, from the first sample on.
  void begin();
  // It is about to write these.
  void add(const std::vector<std::string>& names);
  // It has written all: those of the ones before it go, but for what another result with the same folder has,
  // too.
  void remove_others();

 private:
  using Names = std::set<std::string, std::less<>>;
  struct Content {
    Names before, now;
  };
  static Content read(const std::filesystem::path& file);
  void append(const std::string& text);
  Names of_other_results() const;

  std::filesystem::path folder_, file_;
  bool is_whole_ = false;  // the last line of the file ends
};

}  // namespace pipeline::train
