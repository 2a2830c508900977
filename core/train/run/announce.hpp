// What a run or a verb says of itself before it works.
#pragma once

#include <string>
#include <string_view>

#include "core/observe/log.hpp"
#include "core/train/run/session.hpp"

namespace pipeline::train {

// One line: a word, and what there is to say of it.
void announce(observe::Log& log, std::string_view word, const std::string& text);

// The lines "device" and "processes": where the session works.
void announce_place(const Session& session);

// Logs a warning for each setting that training as configured makes no use of. No error: it may be inherited
// through `extends`.
void warn_of_unused_options(const Session& session);

}  // namespace pipeline::train
