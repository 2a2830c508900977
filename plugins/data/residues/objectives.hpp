// What a model is to learn of residues, as the data and models name it.
#pragma once

#include <cstdint>

namespace pipeline::residues {

// task.objective. Masked residues are no label.
inline constexpr const char *kMasked = "masked", *kRegression = "regression",
                            *kClassification = "classification", *kContacts = "contacts";

// What a pair of residues is; kNoPair: nothing is known, or it is too near along the chain to count.
constexpr uint8_t kNoContact = 0, kContact = 1, kNoPair = 2;

}  // namespace pipeline::residues
