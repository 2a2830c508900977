#pragma once

#include "core/train/session.hpp"

namespace pipeline::train {

// Logs a warning for each setting that training as configured makes no use of. No error: it may be inherited through `extends`.
void warn_of_unused_options(const Session& session);

}  // namespace pipeline::train
