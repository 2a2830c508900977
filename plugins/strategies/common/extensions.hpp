#pragma once

#include <string_view>

namespace pipeline::strategies {

// The table of an extension that all strategies have, or null. Static.
const void* extension_named(std::string_view id);

}  // namespace pipeline::strategies
