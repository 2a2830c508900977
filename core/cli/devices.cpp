#include "core/cli/verb.hpp"

#include <fmt/format.h>

#include "core/launch/devices.hpp"
#include "core/observe/format.hpp"

namespace pipeline::cli {

void add_devices(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("devices", "Shows what there is to compute with, and how many processes a run would start");
  verb->footer("Example:\n  CUDA_VISIBLE_DEVICES=0,1 pipeline devices");
  verb->callback([&action] {
    action = [] {
      const launch::Devices devices = launch::find_devices();
      fmt::print("cpu        {}, {} core{}, {} memory\n", devices.cpu, devices.cores, devices.cores == 1 ? "" : "s",
                 observe::human_bytes(devices.memory));
      fmt::print("cuda       {}\n", devices.cuda_driver.empty() ? "no NVIDIA driver" : "driver for CUDA " + devices.cuda_driver);
      if (!devices.cuda_problem.empty()) fmt::print("           problem: {}\n", devices.cuda_problem);
      for (size_t i = 0; i < devices.cuda.size(); ++i) {
        const launch::CudaDevice& gpu = devices.cuda[i];
        fmt::print("cuda:{:<5} {}, {}, compute capability {}.{}, bf16 {}\n", i, gpu.name, observe::human_bytes(gpu.memory), gpu.major, gpu.minor,
                   launch::has_bf16(gpu) ? "yes" : "no");
      }
      const plugins::Registry registry = make_registry({}, {}, [](const std::string&) {});
      for (const plugins::Listing& entry : registry.list())
        if (entry.kind == "strategy" || entry.kind == "backend")
          fmt::print("{:<10} {} {}{}\n", entry.kind, entry.name, entry.version, entry.problem.empty() ? "" : ": " + entry.problem);
      launch::LaunchRequest request;
      request.cuda_devices = static_cast<int32_t>(devices.cuda.size());
      fmt::print("processes  {} would start on this host (launch.processes)\n", planned_world(request).local_size);
      return kDone;
    };
  });
}

}  // namespace pipeline::cli
