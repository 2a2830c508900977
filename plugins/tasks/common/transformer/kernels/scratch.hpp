#pragma once

#include <cstdint>

namespace pipeline::transformer {

enum class Scratch { kPackedA, kPackedB, kScores, kScoresGradient, kCount };

// At least `count` floats of the calling thread's own memory, aligned to 64 bytes, valid until its next call
// for the same purpose. Kept between calls: fresh memory from the kernel costs a page fault per 4 KiB, more
// than the work done in it.
float* scratch(Scratch purpose, int64_t count);

}  // namespace pipeline::transformer
