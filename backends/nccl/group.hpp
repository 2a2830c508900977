// The interface between the plugin, which loads everywhere, and the library that it loads where there is a
// CUDA device. The library links LibTorch's CUDA half and NCCL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/common/call.hpp"

namespace pipeline::backends::nccl {

struct Config {
  bool check_calls = false;
  void describe(Options& o) {
    o("check_calls", check_calls, "compare every call across ranks first: slow, for diagnosing NCCL hangs")
        .may_change();
  }
};

// A group of ranks. [any-thread], but `start` [collective]
class Group {
 public:
  virtual ~Group() = default;
  virtual std::unique_ptr<Work> start(const Call& call) = 0;
  virtual void abort(std::string_view reason) = 0;
  virtual const std::string& library() const = 0;
  virtual const std::string& transport() const = 0;
};

// The library's one function: blocks until all ranks are there; throws.
using OpenGroup = Group* (*)(const pl_host* host, const Context& context, const pl_backend_open_args& args,
                             const Config& config);
inline constexpr const char* kOpenGroup = "pipeline_nccl_open_group";

}  // namespace pipeline::backends::nccl
