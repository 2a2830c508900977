#include "plugins/tasks/common/hugging_face/differences.hpp"

#include <pipeline/error.hpp>

namespace pipeline::hugging_face {

void Differences::compare(const std::string& option, const nlohmann::json& ours, const nlohmann::json& theirs) {
  if (ours != theirs) lines_ += "\n  " + option + " = " + ours.dump() + ", the folder has " + (theirs.is_null() ? "none" : theirs.dump());
}

void Differences::raise(const std::string& folder) const {
  if (!lines_.empty()) fail_with(PL_ERROR_CONFIG, folder, ": the model there is another one; set these options to what it has, or take another folder:", lines_);
}

}  // namespace pipeline::hugging_face
