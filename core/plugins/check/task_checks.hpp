#pragma once

#include <string>
#include <vector>

#include "core/plugins/check/subject.hpp"

namespace pipeline::plugins {

// The promise without which hardly another one of a task's says anything.
inline constexpr const char* kSame = "the same ids and seed give the same loss and gradients, bit for bit";

// "" where both are the same but for rounding.
std::string difference(const std::vector<float>& expected, const std::vector<float>& seen);
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

// Parts of task_promises().
std::vector<Promise> data_promises();
std::vector<Promise> gradient_promises();
std::vector<Promise> evaluation_promises();

}  // namespace pipeline::plugins
