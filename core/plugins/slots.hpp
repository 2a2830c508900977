#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/plugins/kind.hpp"

namespace pipeline::plugins {

// A function pointer of an API table.
struct Slot {
  const char* name;
  uint32_t offset;
  bool required;
};

// The slots of a kind's table, in the order of the header.
std::span<const Slot> slots(Kind kind);

// Size in bytes of a kind's table, as this program knows it.
uint32_t api_size(Kind kind);

// Returns what is wrong with an API table (a copy of api_size(kind) bytes, of which the plugin provided
// `received`): a missing required slot, or an incomplete group of slots. Empty: nothing is wrong.
std::string slot_problem(Kind kind, const void* api, uint32_t received);

}  // namespace pipeline::plugins
