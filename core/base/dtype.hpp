// What people call the element types of tensors.
#pragma once

#include <string>

#include "pipeline.h"

namespace pipeline {

std::string dtype_name(pl_dtype dtype);      // "float32", "bfloat16", "int64"
std::string precision_name(pl_dtype dtype);  // as train.precision says it: "fp32", "bf16"; otherwise as above

}  // namespace pipeline
