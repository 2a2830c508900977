#include "core/train/session/session.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace pipeline::train {
namespace {

config::Config with(std::vector<std::string> sets) {
  sets.emplace_back("task.plugin=zoo");
  return config::load({.file = {}, .sets = std::move(sets), .stage = {}});
}

TEST(ComputeThreads, AreTheCoresSharedUnlessTheConfigurationSaysMore) {
  launch::Devices devices;
  devices.cores = 12;
  EXPECT_EQ(compute_threads(with({}), devices, 5), 2u);
  EXPECT_EQ(compute_threads(with({}), devices, 50), 1u);
  EXPECT_EQ(compute_threads(with({"run.reproducible=true"}), devices, 1), 1u);
  EXPECT_EQ(compute_threads(with({"run.reproducible=true", "launch.threads=7"}), devices, 2), 7u);
}

TEST(Environment, TellsLibrariesTheThreadsAndKeepsWhatTheUserSaid) {
  ::setenv("OMP_NUM_THREADS", "64", 1);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  set_environment(with({"run.reproducible=true", "launch.threads=3"}), 1);
  EXPECT_STREQ(std::getenv("OMP_NUM_THREADS"), "3");
  EXPECT_STREQ(std::getenv("MKL_NUM_THREADS"), "3");
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
  EXPECT_STREQ(std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
  EXPECT_STREQ(std::getenv("PYTORCH_ALLOC_CONF"), "expandable_segments:True");
}

}  // namespace
}  // namespace pipeline::train
