#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pipeline::plugins {

// The candidate that `word` was probably meant to be; empty when none is near (at most a third of its letters
// wrong, swapped, missing or too many).
std::string closest(std::string_view word, std::span<const std::string> candidates);

}  // namespace pipeline::plugins
