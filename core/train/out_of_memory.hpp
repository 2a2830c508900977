#pragma once

#include <string>

#include "core/plugins/error.hpp"
#include "core/train/session.hpp"

namespace pipeline::train {

// The one error that running out of memory ends in: when, how much, and the options that need less without changing the result.
Error explain_out_of_memory(const Session& session, const std::string& phase, const std::string& what);

}  // namespace pipeline::train
