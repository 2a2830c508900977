#pragma once

#include "core/train/session/session.hpp"

namespace pipeline::train {

// That all ranks are about to do the same thing: a difference found late is a hang, or a wrong result.
// Compares options, plugins, data and parameters of all ranks, once the task is open. Throws Error
// (PL_ERROR_CONFIG) on rank 0, which names the rank and what differs.
void require_same_on_all_ranks(Session& session);

}  // namespace pipeline::train
