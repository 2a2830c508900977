// pl_tensor is laid out as DLPack's DLTensor with its codes. DLPack's definitions, as its header (version 1)
// has them, are repeated here so that a change on either side shows.
#include <gtest/gtest.h>

#include <cstdint>

#include "pipeline.h"

namespace {

enum DeviceType { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };
enum DataTypeCode { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };
struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

TEST(DLPack, TensorsHaveItsLayout) {
  EXPECT_EQ(sizeof(pl_tensor), sizeof(DLTensor));
  EXPECT_EQ(offsetof(pl_tensor, data), offsetof(DLTensor, data));
  EXPECT_EQ(offsetof(pl_tensor, device), offsetof(DLTensor, device));
  EXPECT_EQ(offsetof(pl_tensor, ndim), offsetof(DLTensor, ndim));
  EXPECT_EQ(offsetof(pl_tensor, dtype), offsetof(DLTensor, dtype));
  EXPECT_EQ(offsetof(pl_tensor, shape), offsetof(DLTensor, shape));
  EXPECT_EQ(offsetof(pl_tensor, strides), offsetof(DLTensor, strides));
  EXPECT_EQ(offsetof(pl_tensor, byte_offset), offsetof(DLTensor, byte_offset));
}

TEST(DLPack, CodesAreItsCodes) {
  EXPECT_EQ(PL_DEVICE_CPU, static_cast<int>(kDLCPU));
  EXPECT_EQ(PL_DEVICE_CUDA, static_cast<int>(kDLCUDA));
  EXPECT_EQ(PL_DEVICE_CUDA_HOST, static_cast<int>(kDLCUDAHost));
  EXPECT_EQ(PL_DTYPE_INT, static_cast<unsigned>(kDLInt));
  EXPECT_EQ(PL_DTYPE_UINT, static_cast<unsigned>(kDLUInt));
  EXPECT_EQ(PL_DTYPE_FLOAT, static_cast<unsigned>(kDLFloat));
  EXPECT_EQ(PL_DTYPE_BFLOAT, static_cast<unsigned>(kDLBfloat));
  EXPECT_EQ(PL_DTYPE_BOOL, static_cast<unsigned>(kDLBool));
}

}  // namespace
