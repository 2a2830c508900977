// The nccl backend: what it says where there is no device, and one rank where there is one.
#include "tests/backends/backends_test.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "core/base/error.hpp"

namespace pipeline::tests {
namespace {

using ::testing::HasSubstr;

bool has_device() { return std::filesystem::exists("/dev/nvidiactl"); }

OpenArgs on(pl_device device, OpenArgs args) {
  args.device = device;
  args.timeout = std::chrono::seconds(60);
  return args;
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!was_built(tested())) GTEST_SKIP() << "nccl was not built";
  }
  static const BackendUnderTest& tested() { return backend("nccl"); }

  static std::string unsupported(pl_device device) {
    return on_raw_ranks(tested(), 1, [&](const OpenArgs& args, Scene&) {
      try {
        open_group(tested(), on(device, args));
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), PL_ERROR_UNSUPPORTED) << e.what();
        throw;
      }
    })[0];
  }
};

TEST_F(Nccl, SaysWhatIsMissingWithoutADevice) {
  if (has_device()) GTEST_SKIP() << "this machine has a device";
  const std::string problem = unsupported({PL_DEVICE_CUDA, 0});
  EXPECT_THAT(problem, HasSubstr("cuda:0: this machine has no NVIDIA driver (libcuda.so.1)"));
  EXPECT_EQ(problem.find('\n'), std::string::npos);
}

TEST_F(Nccl, RefusesTheCpu) {
  EXPECT_THAT(unsupported({PL_DEVICE_CPU, 0}),
              HasSubstr("it works in CUDA device memory only, cpu was asked for"));
}

// The CUDA runtime that LibTorch has loaded.
template <class Function>
Function cuda(const char* name) {
  void* library = ::dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function>(library == nullptr ? nullptr : ::dlsym(library, name));
}

// Device memory with the numbers 1, 2, 3...
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count) : host_(count) {
    for (std::size_t i = 0; i < count; ++i) host_[i] = static_cast<float>(i + 1);
    if (cuda<int (*)(void**, std::size_t)>("cudaMalloc")(&memory_, bytes()) != 0)
      throw std::runtime_error("cudaMalloc");
    copy(memory_, host_.data());
  }
  ~DeviceFloats() { cuda<int (*)(void*)>("cudaFree")(memory_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  pl_buffer buffer() {
    pl_buffer out = plugins::host_buffer(static_cast<float*>(memory_), host_.size());
    out.device = {PL_DEVICE_CUDA, 0};
    return out;
  }
  std::vector<float> values() {
    copy(host_.data(), memory_);
    return host_;
  }

 private:
  std::size_t bytes() const { return host_.size() * sizeof(float); }
  void copy(void* to, const void* from) {
    constexpr int kByAddress = 4;  // cudaMemcpyDefault
    if (cuda<int (*)(void*, const void*, std::size_t, int)>("cudaMemcpy")(to, from, bytes(), kByAddress) != 0)
      throw std::runtime_error("cudaMemcpy");
  }

  std::vector<float> host_;
  void* memory_ = nullptr;
};

TEST_F(Nccl, CollectivesOfOneRank) {
  if (!has_device()) GTEST_SKIP() << "this machine has no NVIDIA device";
  expect_fine(on_raw_ranks(tested(), 1, [](const OpenArgs& args, Scene&) {
    const auto group = open_group(tested(), on({PL_DEVICE_CUDA, 0}, args));
    DeviceFloats in(1000), out(1000);
    const std::vector<float> before = in.values();
    group->all_reduce(in.buffer()).wait();
    group->broadcast(in.buffer(), 0).wait();
    EXPECT_EQ(in.values(), before);
    group->reduce_scatter(in.buffer(), out.buffer()).wait();
    group->all_gather(in.buffer(), out.buffer()).wait();
    group->all_to_all(in.buffer(), out.buffer()).wait();
    EXPECT_EQ(out.values(), before);
    DeviceFloats none(0);  // a rank may have no part of a range
    group->all_reduce(none.buffer()).wait();
    group->all_gather(none.buffer(), none.buffer()).wait();
    group->all_to_all(none.buffer(), none.buffer()).wait();
    group->barrier().wait();
    group->abort("enough");
    EXPECT_THAT(problem_of([&] { group->barrier().wait(); }), HasSubstr("aborted by rank 0: enough"));
  }));
}

}  // namespace
}  // namespace pipeline::tests
