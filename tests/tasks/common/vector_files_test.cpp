#include "plugins/tasks/common/vector_files.hpp"

#include <map>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace pipeline::tasks::common {
namespace {

// The files that a prediction of so many samples writes, of two rows each where they have several.
std::map<std::string, std::string> written(uint64_t samples, bool have_several) {
  std::map<std::string, std::string> files;
  pl_prediction_sink raw{};
  raw.struct_size = sizeof raw;
  raw.user = &files;
  raw.append = [](void* user, uint64_t, pl_str name, const void* bytes, uint64_t size) -> pl_error* {
    auto& all = *static_cast<std::map<std::string, std::string>*>(user);
    all[std::string(view(name))].append(static_cast<const char*>(bytes), size);
    return nullptr;
  };
  Vectors what{.samples = samples, .width = 1, .name = "v"};
  if (have_several) {
    what.rows = [](uint64_t) { return int64_t{2}; };
    what.tensor = [](uint64_t id) { return "t" + std::to_string(id); };
  }
  const auto vectors = vector_files("safetensors", std::move(what));
  for (uint64_t id = 0; id < samples; ++id)
    vectors->add(id, at::full({have_several ? 2 : 1, 1}, static_cast<double>(id), at::kFloat),
                 PredictionSink(&raw));
  return files;
}

TEST(VectorFiles, OfManyTensorsAreSeveral) {
  const auto several = written(10'001, true);
  ASSERT_EQ(several.size(), 2u);
  EXPECT_TRUE(several.contains("v-00001-of-00002.safetensors"));
  EXPECT_NE(several.at("v-00002-of-00002.safetensors").find("\"t10000\""), std::string::npos);
  const auto one = written(10'001, false);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_NE(one.at("v.safetensors").find("\"shape\":[10001,1]"), std::string::npos);
}

}  // namespace
}  // namespace pipeline::tasks::common
