#pragma once

#include "core/train/session/session.hpp"

namespace pipeline::train {

// Compares options, plugins, data and parameters of all ranks, once the task is open: a difference that is
// found late is a hang, or a wrong result. Throws Error (PL_ERROR_CONFIG) on rank 0, which names the rank and
// what differs.
void require_same_on_all_ranks(Session& session);

}  // namespace pipeline::train
