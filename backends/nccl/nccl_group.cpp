// A group over c10d's ProcessGroupNCCL.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pipeline/torch/runtime.hpp>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "backends/common/host_store.hpp"
#include "backends/nccl/group.hpp"

namespace pipeline::backends::nccl {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kOldestDevice = 75;  // compute capability that LibTorch's CUDA 13 wheel has code for
// c10d's own timeout, which only marks a call as failed, comes after ours.
constexpr double kWatchdogLater = 30;

at::Tensor tensor_of(const pl_buffer& buffer) { return to_torch(buffer, 0, buffer.count); }

// One tensor for each rank's shard of `full`.
std::vector<at::Tensor> shards_of(const pl_buffer& full, const std::vector<uint64_t>& counts) {
  std::vector<at::Tensor> shards;
  uint64_t begin = 0;
  for (const uint64_t count : counts) {
    shards.push_back(to_torch(full, begin, count));
    begin += count;
  }
  return shards;
}

bool even(const std::vector<uint64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](uint64_t count) { return count == counts.front(); });
}

std::vector<int64_t> as_signed(const std::vector<uint64_t>& counts) { return {counts.begin(), counts.end()}; }

c10d::ReduceOp op_of(uint32_t reduce) {
  return reduce == PL_REDUCE_SUM   ? c10d::ReduceOp::SUM
         : reduce == PL_REDUCE_MIN ? c10d::ReduceOp::MIN
                                   : c10d::ReduceOp::MAX;
}

}  // namespace

// Collectives run on a stream of NCCL's own: it waits for the buffer's stream, and the stream given to wait()
// waits for it; the host waits only where it says so. The order of sums is NCCL's.
class NcclGroup : public Group {
 public:
  NcclGroup(const Context& context, const pl_backend_open_args& args, const Config& config)
      : rank_(args.rank),
        world_size_(args.world_size),
        device_(to_torch(args.device)),
        timeout_(args.timeout_seconds),
        check_calls_(config.check_calls),
        library_("NCCL " + c10d::getNcclVersion()),
        context_(context),
        name_(view(args.group)) {
    const c10::cuda::CUDAGuard guard(device_);
    check_device();
    facts_ = context_.exchange(name_ + "/facts", my_facts());
    check_facts();
    transport_ = concat("links of NCCL's choice, which NCCL_DEBUG=INFO shows; this rank: ", my_facts());
    connect();
  }

  ~NcclGroup() override {
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) ended_ = Error(PL_ERROR_PEER, "the group is closed");
    }
    if (aborting_.joinable()) aborting_.join();
  }

  std::unique_ptr<Work> start(const Call& call) override {
    throw_if_ended();
    ++sequence_;
    if (check_calls_) compare(call);
    try {
      const c10::cuda::CUDAGuard guard(device_);
      const bool has_stream = call.out.stream.kind != PL_STREAM_NONE;
      const auto stream = cuda_stream(has_stream ? call.out.stream : call.in.stream);
      if (call.in.stream.kind != PL_STREAM_NONE && cuda_stream(call.in.stream) != stream) {
        at::cuda::CUDAEvent filled;
        filled.record(cuda_stream(call.in.stream));
        filled.block(stream);
      }
      const c10::cuda::CUDAStreamGuard scope(stream);
      return std::make_unique<Started>(*this, launch(call));
    } catch (const std::exception& e) {
      const Error why = explained(e);
      end(why);
      throw why;
    }
  }

  void abort(std::string_view reason) override {
    end(Error(PL_ERROR_PEER, concat("aborted by rank ", rank_, ": ", reason)));
  }

  const std::string& library() const override { return library_; }
  const std::string& transport() const override { return transport_; }

 private:
  using Handle = c10::intrusive_ptr<c10d::Work>;

  class Started : public Work {
   public:
    Started(NcclGroup& group, Handle work) : group_(group), work_(std::move(work)) {}
    void wait(pl_stream stream) override { group_.wait(*work_, stream); }
    void wait_host(double timeout_seconds) override { group_.wait_host(*work_, timeout_seconds); }

   private:
    NcclGroup& group_;
    Handle work_;
  };

  void check_device() const {
    const cudaDeviceProp& device = *at::cuda::getDeviceProperties(device_.index());
    if (device.major * 10 + device.minor >= kOldestDevice) return;
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", device.name, " has compute capability ", device.major, '.',
              device.minor,
              "; LibTorch and NCCL here are built for 7.5 and later: use another GPU, or the CPU");
  }

  // "node7, NVIDIA H100 80GB HBM3 at 0000:18:00.0"
  std::string my_facts() const {
    char bus[32] = "";
    cudaDeviceGetPCIBusId(bus, sizeof bus, device_.index());
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    return concat(host, ", ", at::cuda::getDeviceProperties(device_.index())->name, " at ", bus);
  }

  void check_facts() const {
    for (int32_t r = 0; r < world_size_; ++r) {
      if (r == rank_ || facts_[static_cast<size_t>(r)] != facts_[static_cast<size_t>(rank_)]) continue;
      fail_with(PL_ERROR_UNSUPPORTED, "open: ranks ", std::min(r, rank_), " and ", std::max(r, rank_),
                " have the same GPU (", facts_[static_cast<size_t>(r)],
                "), and NCCL needs one for each: start fewer processes per host, or show each its own in "
                "CUDA_VISIBLE_DEVICES");
    }
  }

  void connect() {
    silence_c10d();
    try {
      auto options = c10d::ProcessGroupNCCL::Options::create();
      options->timeout = std::chrono::ceil<milliseconds>(duration<double>(timeout_ + kWatchdogLater));
      const auto store = c10::make_intrusive<HostStore>(context_, name_, timeout_);
      group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank_, world_size_, options);
      group_->eagerConnectSingleDevice(device_);
      wait_on_host(*launch(Call{}), timeout_);  // links are made by the first call
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      throw explained(e);
    }
  }

  // The comparison goes over the host's exchange and takes most of a millisecond, so it is off by default.
  void compare(const Call& call) {
    std::string mine;  // what this rank says to each
    for (int32_t r = 0; r < world_size_; ++r) {
      const Signature signature = signature_of(call, sequence_, r);
      mine.append(reinterpret_cast<const char*>(&signature), sizeof signature);
    }
    const std::vector<std::string> all = context_.exchange(name_ + "/calls", mine);
    for (int32_t r = 0; r < world_size_; ++r) {
      Signature theirs;
      all[static_cast<size_t>(r)].copy(reinterpret_cast<char*>(&theirs), sizeof theirs,
                                       static_cast<size_t>(rank_) * sizeof theirs);
      if (r == rank_) continue;
      if (const auto differs = difference(signature_of(call, sequence_, r), rank_, theirs, r)) {
        end(Error(*differs));
        fail(*differs);
      }
    }
  }

  Handle launch(const Call& call) {
    switch (call.operation) {
      case Operation::kAllReduce: {
        std::vector<at::Tensor> tensors{tensor_of(call.in)};
        c10d::AllreduceOptions options;
        options.reduceOp = op_of(call.reduce);
        return group_->allreduce(tensors, options);
      }
      case Operation::kReduceScatter:
        return reduce_scatter(call);
      case Operation::kAllGather:
        return all_gather(call);
      case Operation::kBroadcast: {
        std::vector<at::Tensor> tensors{tensor_of(call.in)};
        c10d::BroadcastOptions options;
        options.rootRank = call.root;
        return group_->broadcast(tensors, options);
      }
      case Operation::kAllToAll: {
        at::Tensor in = tensor_of(call.in), out = tensor_of(call.out);
        std::vector<int64_t> sends = as_signed(call.send), receives = as_signed(call.receive);
        return group_->alltoall_base(out, in, receives, sends);
      }
      case Operation::kBarrier: {
        c10d::BarrierOptions options;
        options.device = device_;
        return group_->barrier(options);
      }
    }
    fail("operation ", static_cast<uint32_t>(call.operation), " is unknown");
  }

  Handle all_gather(const Call& call) {
    at::Tensor in = tensor_of(call.in);
    if (even(call.send)) {
      at::Tensor out = tensor_of(call.out);
      return group_->_allgather_base(out, in);
    }
    std::vector<std::vector<at::Tensor>> outs{shards_of(call.out, call.send)};
    std::vector<at::Tensor> ins{in};
    return group_->allgather(outs, ins);
  }

  Handle reduce_scatter(const Call& call) {
    c10d::ReduceScatterOptions options;
    options.reduceOp = op_of(call.reduce);
    at::Tensor out = tensor_of(call.out);
    if (even(call.send)) {
      at::Tensor in = tensor_of(call.in);
      return group_->_reduce_scatter_base(out, in, options);
    }
    std::vector<at::Tensor> outs{out};
    std::vector<std::vector<at::Tensor>> ins{shards_of(call.in, call.send)};
    return group_->reduce_scatter(outs, ins, options);
  }

  // The stream of a call's buffers. A barrier has no buffers: then this thread's current stream.
  c10::cuda::CUDAStream cuda_stream(pl_stream stream) const {
    if (stream.kind == PL_STREAM_NONE) return c10::cuda::getCurrentCUDAStream(device_.index());
    return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream.handle), device_.index());
  }

  void wait(c10d::Work& work, pl_stream stream) {
    if (stream.kind == PL_STREAM_NONE) return wait_host(work, 0);
    finish([&] {
      const c10::cuda::CUDAStreamGuard scope(cuda_stream(stream));
      work.synchronize();
    });
  }

  void wait_host(c10d::Work& work, double timeout_seconds) {
    finish([&] { wait_on_host(work, timeout_seconds); });
  }

  template <class Wait>
  void finish(Wait&& wait) {
    throw_if_ended();
    try {
      const c10::cuda::CUDAGuard guard(device_);
      wait();
    } catch (const Error& e) {
      end(e);
      throw;
    } catch (const std::exception& e) {
      const Error why = explained(e);
      end(why);
      throw why;
    }
  }

  void wait_on_host(c10d::Work& work, double timeout_seconds) {
    const double seconds = timeout_seconds > 0 ? timeout_seconds : timeout_;
    const auto begin = Clock::now();
    for (int looks = 0; !work.isCompleted(); ++looks) {
      throw_if_ended();
      if (duration<double>(Clock::now() - begin).count() > seconds) {
        fail_with(
            PL_ERROR_TIMEOUT, "after ", seconds,
            " seconds it is not complete: a rank is late, stopped, or made another call (backend.check_calls "
            "= true compares them)");
      }
      if (looks > 1000) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (const std::exception_ptr problem = work.exception()) std::rethrow_exception(problem);
  }

  void throw_if_ended() {
    const std::lock_guard lock(mutex_);
    if (ended_) throw *ended_;
  }

  // The first reason stays. What NCCL has under way would wait for ever.
  void end(const Error& why) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = Error(PL_ERROR_PEER, why.what());
    aborting_ = std::thread([this] {
      try {
        group_->abort();
      } catch (const std::exception&) {  // the group is at its end anyway
      }
    });
  }

  Error explained(const std::exception& seen) const {
    const auto* torch = dynamic_cast<const c10::Error*>(&seen);
    const std::string text = torch == nullptr ? seen.what() : torch->what_without_backtrace();
    std::string others;
    for (size_t r = 0; r < facts_.size(); ++r)
      others += concat(others.empty() ? "" : "; ", "rank ", r, ": ", facts_[r]);
    return Error(
        PL_ERROR_PEER,
        concat(
            library_, ": ", text, " [", others,
            "] NCCL_DEBUG=INFO shows what NCCL was doing. Where GPUs of one host do not reach each other, "
            "NCCL_P2P_DISABLE=1; where hosts do not, NCCL_SOCKET_IFNAME=<interface>, and a firewall must let "
            "all TCP ports through between them"));
  }

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

extern "C" PL_EXPORT pipeline::backends::nccl::Group* pipeline_nccl_open_group(
    const pl_host* host, const pipeline::Context& context, const pl_backend_open_args& args,
    const pipeline::backends::nccl::Config& config);

pipeline::backends::nccl::Group* pipeline_nccl_open_group(const pl_host* host,
                                                          const pipeline::Context& context,
                                                          const pl_backend_open_args& args,
                                                          const pipeline::backends::nccl::Config& config) {
  pipeline::globals().host = *host;  // this library's own copy
  return new pipeline::backends::nccl::NcclGroup(context, args, config);
}
