// The plugin's options and entry.
#include <pipeline/backend.hpp>

#include "backends/common/queued_backend.hpp"
#include "backends/shm/shm_transport.hpp"

namespace pipeline::backends::shm {
namespace {

struct Config {
  int64_t buffer_kib = 512;
  void describe(Options& o) {
    o("buffer_kib", buffer_kib, "size of a shared slot; each process has two")
        .min(64)
        .max(65536)
        .unit("KiB")
        .may_change();
  }
};

class Shm : public QueuedBackend<Config> {
 public:
  explicit Shm(const Setup& setup) : QueuedBackend(setup, connect(setup)) {}

 private:
  static std::unique_ptr<Transport> connect(const Setup& setup) {
    const pl_backend_open_args& args = setup.args;
    check_open_args(args, "use nccl, or train on the CPU");
    if (args.local_world_size != args.world_size) {
      fail_with(PL_ERROR_UNSUPPORTED, "open: it works for processes of one host alone, and of this group's ",
                args.world_size, " ranks ", args.local_world_size, " are on this host: use gloo");
    }
    return std::make_unique<ShmTransport>(setup.context, args,
                                          static_cast<size_t>(setup.config.buffer_kib) << 10);
  }
};

}  // namespace
}  // namespace pipeline::backends::shm

PIPELINE_BACKEND(pipeline::backends::shm::Shm, "shm", "1.0.0",
                 "Host memory within one host, through shared memory")
