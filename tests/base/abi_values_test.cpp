#include "core/base/abi_values.hpp"

#include <gtest/gtest.h>

namespace pipeline {
namespace {

TEST(DtypeName, IsThatOfTheKindWithItsBits) {
  EXPECT_EQ(dtype_name({PL_DTYPE_FLOAT, 32, 1}), "float32");
  EXPECT_EQ(dtype_name({PL_DTYPE_BFLOAT, 16, 1}), "bfloat16");
  EXPECT_EQ(dtype_name({PL_DTYPE_INT, 64, 1}), "int64");
  EXPECT_EQ(dtype_name({99, 8, 1}), "unknown8");
}

TEST(DtypeName, OfAPrecisionIsAsTheConfigurationSaysIt) {
  EXPECT_EQ(precision_name({PL_DTYPE_FLOAT, 32, 1}), "fp32");
  EXPECT_EQ(precision_name({PL_DTYPE_FLOAT, 16, 1}), "fp16");
  EXPECT_EQ(precision_name({PL_DTYPE_BFLOAT, 16, 1}), "bf16");
}

}  // namespace
}  // namespace pipeline
