#pragma once

#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/tensor.hpp>

#include <string_view>
#include <utility>

PIPELINE_SDK_BEGIN

// `count` elements of contiguous memory on `device`, last written or used on `stream`. `label`: what a
// collective with it is for, "bucket 3", in traces and messages; it must live until the call returns.
inline pl_buffer buffer(void* data, uint64_t count, pl_dtype dtype, pl_device device = kCpu,
                        pl_stream stream = kNoStream, std::string_view label = {}) {
  auto out = sized<pl_buffer>();
  out.data = data;
  out.count = count;
  out.dtype = dtype;
  out.device = device;
  out.stream = stream;
  out.label = str(label);
  return out;
}

// The group of ranks that a strategy works in, borrowed from the host. Every collective starts and returns
// at once; all ranks must call the same ones in the same order with the same counts, one call at a time.
// The buffers must not be touched until the work is done: see pl_backend_api.
class Communicator {
 public:
  // A collective in progress. The destructor waits if nobody has, since the backend uses the buffers.
  class Work {
   public:
    Work(const Communicator& on, pl_work* work, pl_stream stream) : on_(&on), work_(work), stream_(stream) {}
    Work(Work&& other) noexcept
        : on_(other.on_), work_(std::exchange(other.work_, nullptr)), stream_(other.stream_) {}
    Work& operator=(Work&&) = delete;
    ~Work() {
      if (pl_work* work = std::exchange(work_, nullptr))
        host().error_free(on_->api_.wait_host(on_->raw_.comm, work, 0));
    }
    // Orders later work on the buffers' stream after the result; on the CPU, blocks until it is there.
    void wait() { wait(stream_); }
    void wait(pl_stream stream) {
      if (pl_work* work = std::exchange(work_, nullptr)) check(on_->api_.wait(on_->raw_.comm, work, stream));
    }
    // Blocks until the work is done. timeout_seconds <= 0: the group's timeout.
    void wait_host(double timeout_seconds = 0) {
      if (pl_work* work = std::exchange(work_, nullptr))
        check(on_->api_.wait_host(on_->raw_.comm, work, timeout_seconds));
    }
    // False while wait() would block this thread; true where the backend cannot tell.
    bool is_done() const {
      return on_->api_.is_done == nullptr || on_->api_.is_done(on_->raw_.comm, work_) != 0;
    }

   private:
    const Communicator* on_;
    pl_work* work_;
    pl_stream stream_;
  };

  explicit Communicator(const pl_communicator* sent) : raw_(receive(sent)), api_(receive(raw_.api)) {
    require_known_flags("the communicator", raw_.flags, 0);
  }

  int32_t rank() const { return raw_.rank; }
  int32_t world_size() const { return raw_.world_size; }

  Work all_reduce(const pl_buffer& in_out, uint32_t reduce = PL_REDUCE_SUM) const {
    return start<&pl_backend_api::all_reduce>(in_out.stream, &in_out, reduce);
  }
  // `counts`: elements per rank, world_size of them; NULL: split evenly.
  Work reduce_scatter(const pl_buffer& in, const pl_buffer& out_shard, const uint64_t* counts = nullptr,
                      uint32_t reduce = PL_REDUCE_SUM) const {
    return start<&pl_backend_api::reduce_scatter>(out_shard.stream, &in, &out_shard, counts, reduce);
  }
  Work all_gather(const pl_buffer& in_shard, const pl_buffer& out_full,
                  const uint64_t* counts = nullptr) const {
    return start<&pl_backend_api::all_gather>(out_full.stream, &in_shard, &out_full, counts);
  }
  Work broadcast(const pl_buffer& in_out, int32_t root) const {
    return start<&pl_backend_api::broadcast>(in_out.stream, &in_out, root);
  }
  Work all_to_all(const pl_buffer& in, const pl_buffer& out, const uint64_t* send_counts = nullptr,
                  const uint64_t* receive_counts = nullptr) const {
    return start<&pl_backend_api::all_to_all>(out.stream, &in, &out, send_counts, receive_counts);
  }
  Work barrier() const { return start<&pl_backend_api::barrier>(kNoStream); }
  // May run concurrently with everything.
  void abort(std::string_view reason) const { api_.abort(raw_.comm, str(reason)); }

 private:
  template <auto slot>
  Work start(pl_stream stream, const auto&... args) const {
    pl_work* work = nullptr;
    check((api_.*slot)(raw_.comm, args..., &work));
    return Work(*this, work, stream);
  }

  pl_communicator raw_;
  pl_backend_api api_;
};

PIPELINE_SDK_END
