// A file of figures by step for TensorBoard: TFRecords of Event messages (tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/observe/json_lines.hpp"

namespace pipeline::observe {

class EventFile {
 public:
  // Begins a new file in `folder`. What the folder's earlier files have of `first_step` and later steps is
  // void: TensorBoard drops it at the restart that this one begins with. Throws std::system_error.
  EventFile(const std::filesystem::path& folder, uint64_t first_step);

  // Writes the numbers of `line`, but for its step, as scalars GROUP/NAME of now. What is null has no point.
  // False: the write failed, see AppendFile::append().
  bool append(std::string_view group, const nlohmann::ordered_json& line);
  int last_error() const { return file_.last_error(); }

 private:
  AppendFile file_;
};

}  // namespace pipeline::observe
