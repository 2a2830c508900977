// The plugin's options and entry.
#include <pipeline/backend.hpp>
#include <pipeline/tensor.hpp>
#include <pipeline/torch/runtime.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "backends/common/queued_backend.hpp"
#include "backends/gloo/gloo_transport.hpp"

namespace pipeline::backends::gloo {
namespace {

struct Config {
  std::string interface;
  void describe(Options& o) {
    o("interface", interface,
      "network interface to use, e.g. eth0; empty: GLOO_SOCKET_IFNAME, or the one that reaches rank 0")
        .may_change();
  }
};

// The option's interface, or the first of those that PyTorch's users have set for Gloo.
std::string interface_of(const Context& context, const Config& config) {
  const char* const set = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string_view names = set == nullptr ? "" : set;
  const size_t begin = names.find_first_not_of(',');
  if (!config.interface.empty() || begin == names.npos) return config.interface;
  std::string first(names.substr(begin, names.find(',', begin) - begin));
  context.info("backend.interface = \"", first, "\", from GLOO_SOCKET_IFNAME");
  return first;
}

class Gloo : public QueuedBackend<Config> {
 public:
  explicit Gloo(const Setup& setup) : QueuedBackend(setup, connect(setup)) {}
  static constexpr bool kHasGroups = true;

 private:
  static std::unique_ptr<Transport> connect(const Setup& setup) {
    check_open_args(setup.args, "use nccl, or train on the CPU");
    return std::make_unique<GlooTransport>(setup.context, setup.args,
                                           interface_of(setup.context, setup.config));
  }
};

}  // namespace
}  // namespace pipeline::backends::gloo

PIPELINE_BACKEND(pipeline::backends::gloo::Gloo, "gloo", "1.0.0",
                 "Host memory over TCP, within and between hosts, with c10d's Gloo")
