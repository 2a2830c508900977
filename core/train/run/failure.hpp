// How the work of a verb or a stage may end besides well: stopped by a signal, or out of memory.
#pragma once

#include <functional>
#include <string>

#include "core/train/run/session.hpp"
#include "core/train/run/signals.hpp"

namespace pipeline::train {

// Does `work`. A cancellation that a signal asked for is logged and becomes Outcome::interrupted; running out
// of memory, in whatever form, becomes one error (PL_ERROR_OUT_OF_MEMORY) that says in which phase, how much
// there is, and which keys need less. `work_phase` says what is being done at the moment: "training step 12";
// while the session is set up, that is known here.
Outcome guard_work(const Session& session, const std::function<std::string()>& work_phase,
                   const std::function<Outcome()>& work);

}  // namespace pipeline::train
