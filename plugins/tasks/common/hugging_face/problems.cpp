#include "plugins/tasks/common/hugging_face/problems.hpp"

#include <stdexcept>

#include "core/safetensors/header.hpp"

namespace pipeline::hugging_face {
namespace {

constexpr size_t kMostListed = 20;

}  // namespace

void Problems::add_shape(const std::string& tensor, const std::vector<int64_t>& is,
                         const std::vector<int64_t>& must_be) {
  add("of another shape",
      tensor + " is " + safetensors::shape_string(is) + ", must be " + safetensors::shape_string(must_be));
}

void Problems::raise(const std::string& folder) const {
  if (lists_.empty()) return;
  std::string message = folder + ": the weights are not those of its config.json:";
  for (const auto& [kind, list] : lists_) {
    message += "\n  " + kind + " (" + std::to_string(list.size()) + "): ";
    for (size_t i = 0; i < list.size() && i < kMostListed; ++i) message += (i ? ", " : "") + list[i];
    if (list.size() > kMostListed) message += ", and " + std::to_string(list.size() - kMostListed) + " more";
  }
  throw std::runtime_error(message);
}

}  // namespace pipeline::hugging_face
