#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace pipeline::hugging_face {

// The options in which a model differs from the one in a folder, for one error that says all of them.
class Differences {
 public:
  // `option`: as the configuration writes it ("task.model.n_head"). `theirs`: null where the folder says nothing.
  void compare(const std::string& option, const nlohmann::json& ours, const nlohmann::json& theirs);

  // Throws Error (PL_ERROR_CONFIG) where there are any; `folder` comes first.
  void raise(const std::string& folder) const;

 private:
  std::string lines_;
};

}  // namespace pipeline::hugging_face
