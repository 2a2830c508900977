#include "competitors.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <ATen/ops/from_blob.h>

#include "core/config/config.hpp"
#include "core/config/plugin_config.hpp"
#include "core/plugins/backend.hpp"
#include "core/plugins/host.hpp"

namespace bench {
namespace {

using namespace pipeline;

class Ours : public Competitor {
 public:
  Ours(const std::string& name, const Place& place)
      : name_(name),
        plugin_(plugins::Plugin::load(std::string(BACKENDS) + '/' + name + ".so")),
        config_(config::load({"", {"task.plugin=none", "backend.plugin=" + name}, ""})
                    .plugin("backend", plugin_.options())),
        context_(name),
        group_((plugins::give_exchange(context_, *place.peers), plugin_), context_, &config_,
               args(name, place)) {}

  std::string name() const override { return name_; }
  void run(Operation operation, std::vector<float>& full, std::vector<float>& shard) override {
    const pl_buffer whole = plugins::host_buffer(full.data(), full.size());
    const pl_buffer part = plugins::host_buffer(shard.data(), shard.size());
    switch (operation) {
      case Operation::all_reduce:
        return group_.all_reduce(whole).wait();
      case Operation::reduce_scatter:
        return group_.reduce_scatter(whole, part).wait();
      case Operation::all_gather:
        return group_.all_gather(part, whole).wait();
    }
  }
  void barrier() override { group_.barrier().wait(); }

 private:
  static plugins::OpenArgs args(const std::string& name, const Place& place) {
    plugins::OpenArgs args;
    args.address = "127.0.0.1";
    args.group = name;
    args.rank = args.local_rank = place.rank;
    args.world_size = args.local_world_size = place.ranks;
    return args;
  }

  std::string name_;
  const plugins::Plugin& plugin_;
  pl_config config_;
  pl_context context_;
  plugins::Communicator group_;
};

class C10d : public Competitor {
 public:
  explicit C10d(const Place& place) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(place.port);
    options.isServer = place.rank == 0;
    options.waitWorkers = false;
    auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    auto group_options = c10d::ProcessGroupGloo::Options::create();
    group_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.ranks, group_options);
  }
  std::string name() const override { return "c10d"; }
  void run(Operation operation, std::vector<float>& full, std::vector<float>& shard) override {
    std::vector<at::Tensor> whole{tensor(full)}, part{tensor(shard)};
    switch (operation) {
      case Operation::all_reduce:
        group_->allreduce(whole)->wait();
        return;
      case Operation::reduce_scatter:
        group_->_reduce_scatter_base(part[0], whole[0])->wait();
        return;
      case Operation::all_gather:
        group_->_allgather_base(whole[0], part[0])->wait();
        return;
    }
  }
  void barrier() override { group_->barrier()->wait(); }

 private:
  static at::Tensor tensor(std::vector<float>& values) {
    return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat);
  }
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<Competitor> our_backend(const std::string& name, const Place& place) {
  return std::make_unique<Ours>(name, place);
}
std::unique_ptr<Competitor> c10d_gloo(const Place& place) { return std::make_unique<C10d>(place); }

}  // namespace bench
