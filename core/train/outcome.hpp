#pragma once

namespace pipeline::train {

// interrupted: by a signal; the same command goes on where it stopped.
enum class Outcome { finished, interrupted };

}  // namespace pipeline::train
