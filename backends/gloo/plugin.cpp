// The plugin's options and entry.
#include <pipeline/backend.hpp>
#include <pipeline/tensor.hpp>
#include <pipeline/torch/runtime.hpp>

#include "backends/common/queued_backend.hpp"
#include "backends/gloo/gloo_transport.hpp"

namespace pipeline::backends::gloo {
namespace {

struct Config {
  std::string interface;
  void describe(Options& o) {
    o("interface", interface, "network interface to use, e.g. eth0; empty: the one that reaches rank 0")
        .may_change();
  }
};

class Gloo : public QueuedBackend<Config> {
 public:
  explicit Gloo(const Setup& setup) : QueuedBackend(setup, connect(setup)) {}

 private:
  static std::unique_ptr<Transport> connect(const Setup& setup) {
    check_open_args(setup.args, "use nccl, or train on the CPU");
    return std::make_unique<GlooTransport>(setup.context, setup.args, setup.config.interface);
  }
};

}  // namespace
}  // namespace pipeline::backends::gloo

PIPELINE_BACKEND(pipeline::backends::gloo::Gloo, "gloo", "1.0.0",
                 "host memory over TCP, within and between hosts, with c10d's Gloo")
