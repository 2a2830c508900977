#pragma once

#include <functional>
#include <string>

#include "core/train/processes/signals.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// Does `work` of a verb or a stage. A cancellation that a signal asked for is logged and becomes
// Outcome::interrupted; running out of memory, in whatever form, becomes one error (PL_ERROR_OUT_OF_MEMORY)
// that says in which phase, how much there is, and which keys need less. `work_phase` says what is being done
// at the moment: "training step 12"; while the session is set up, that is known here.
Outcome guard_work(const Session& session, const std::function<std::string()>& work_phase,
                   const std::function<Outcome()>& work);

}  // namespace pipeline::train
