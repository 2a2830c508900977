// The plugin's options and entry. It links no CUDA library, so that it loads, and says what is missing, on
// any machine.
#include <pipeline/backend.hpp>

#include "backends/nccl/cuda_half.hpp"
#include "backends/nccl/group.hpp"

namespace pipeline::backends::nccl {
namespace {

class Nccl : public Backend<Config> {
 public:
  explicit Nccl(const Setup& setup)
      : Backend(setup), calls_(setup.args.rank, setup.args.world_size, PL_DEVICE_CUDA), group_(open(setup)) {}

  const std::string& library() const override { return group_->library(); }
  const std::string& transport() const override { return group_->transport(); }

  Started all_reduce(const pl_buffer& in_out, uint32_t reduce) override {
    return group_->start(calls_.all_reduce(in_out, reduce));
  }
  Started reduce_scatter(const pl_buffer& in, const pl_buffer& out_shard, Counts counts,
                         uint32_t reduce) override {
    return group_->start(calls_.reduce_scatter(in, out_shard, counts, reduce));
  }
  Started all_gather(const pl_buffer& in_shard, const pl_buffer& out_full, Counts counts) override {
    return group_->start(calls_.all_gather(in_shard, out_full, counts));
  }
  Started broadcast(const pl_buffer& in_out, int32_t root) override {
    return group_->start(calls_.broadcast(in_out, root));
  }
  Started all_to_all(const pl_buffer& in, const pl_buffer& out, Counts send_counts,
                     Counts receive_counts) override {
    return group_->start(calls_.all_to_all(in, out, send_counts, receive_counts));
  }
  Started barrier() override { return group_->start(calls_.barrier()); }
  void abort(std::string_view reason) override { group_->abort(reason); }

 private:
  static std::unique_ptr<Group> open(const Setup& setup) {
    pl_run_info run = setup.context.run();
    run.device = setup.args.device;
    const OpenGroup open_group = load_cuda_half(run);
    return std::unique_ptr<Group>(open_group(&host(), setup.context, setup.args, setup.config));
  }

  Calls calls_;
  std::unique_ptr<Group> group_;
};

}  // namespace
}  // namespace pipeline::backends::nccl

PIPELINE_BACKEND(pipeline::backends::nccl::Nccl, "nccl", "1.0.0",
                 "CUDA device memory, within and between hosts, with c10d's NCCL")
