// A group over c10d's ProcessGroupNCCL.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "backends/nccl/group.hpp"

namespace pipeline::backends::nccl {

// Collectives run on a stream of NCCL's own: it waits for the buffer's stream, and the stream given to wait()
// waits for it; the host waits only where it says so. The order of sums is NCCL's.
class NcclGroup : public Group {
 public:
  NcclGroup(const Context& context, const pl_backend_open_args& args, const Config& config);
  ~NcclGroup() override;

  std::unique_ptr<Work> start(const Call& call) override;
  void abort(std::string_view reason) override;
  const std::string& library() const override { return library_; }
  const std::string& transport() const override { return transport_; }

 private:
  class Started;
  using Handle = c10::intrusive_ptr<c10d::Work>;

  void check_device() const;
  std::string my_facts() const;
  void check_facts() const;
  void connect();
  void compare(const Call& call);
  Handle launch(const Call& call);
  Handle all_gather(const Call& call);
  Handle reduce_scatter(const Call& call);
  c10::cuda::CUDAStream cuda_stream(pl_stream stream) const;
  void wait(c10d::Work& work, pl_stream stream);
  void wait_host(c10d::Work& work, double timeout_seconds);
  template <class Wait>
  void finish(Wait&& wait);
  void wait_on_host(c10d::Work& work, double timeout_seconds);
  void throw_if_ended();
  void end(const Error& why);
  Error explained(const std::exception& seen) const;

  const int32_t rank_;
  const int32_t world_size_;
  const c10::Device device_;
  const double timeout_;
  const bool check_calls_;
  std::string library_;
  std::string transport_;
  const Context context_;
  const std::string name_;          // of the group, for what its ranks exchange
  std::vector<std::string> facts_;  // of each rank: host and GPU
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
  uint64_t sequence_ = 0;

  std::mutex mutex_;
  std::optional<Error> ended_;
  std::thread aborting_;  // NCCL's own abort may take its time
};

}  // namespace pipeline::backends::nccl
