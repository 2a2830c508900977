// The files that are built in, by their path in this repository.
#pragma once

#include <map>
#include <string_view>

namespace pipeline::templates {

const std::map<std::string_view, std::string_view>& sources();

}  // namespace pipeline::templates
