#include "adapters/freeze.hpp"

#include <fnmatch.h>

#include <set>

namespace pipeline::adapters {

bool Freeze::operator()(const std::string& name) {
  bool is_frozen = false;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (fnmatch(patterns_[i].c_str(), name.c_str(), 0) != 0) continue;
    used_[i] = is_frozen = true;
  }
  return is_frozen;
}

std::string Freeze::problem(const ParameterRegistry& parameters) const {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (used_[i]) continue;
    std::set<std::string> parts;
    for (const Parameter& parameter : parameters)
      parts.insert(parameter.name.substr(0, parameter.name.find('.')) + ".*");
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return concat("\"", patterns_[i], "\" matches no parameter; there are ", text);
  }
  return "";
}

}  // namespace pipeline::adapters
