#include "core/train/plan/plan.hpp"

#include <cctype>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/fail.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

DeviceFigures figures(const char* name, uint64_t gib, int major, int minor, double tera_16, double tera_32,
                      double giga_link) {
  return {.name = name,
          .is = {.name = name, .memory = gib * kGiB, .major = major, .minor = minor},
          .peak_16 = tera_16 * 1e12,
          .peak_32 = tera_32 * 1e12,
          .link = giga_link * 1e9};
}

// Peaks by NVIDIA's data sheets, without sparsity. Links: NVLink as nccl-tests sees it, three quarters or so
// of the data sheet's; of the others PCIe through the host, as in scripts/bench/scaling_model.py.
const std::vector<DeviceFigures>& table() {
  static const std::vector<DeviceFigures> devices{
      figures("T4", 16, 7, 5, 65, 8.1, 6),
      figures("RTX 2080 Ti", 11, 7, 5, 53.8, 13.4, 6),
      figures("RTX 3090", 24, 8, 6, 71, 35.6, 10),
      figures("RTX 4090", 24, 8, 9, 165, 82.6, 10),
      figures("L4", 24, 8, 9, 121, 30.3, 10),
      figures("L40S", 48, 8, 9, 362, 91.6, 20),
      figures("A100 40GB", 40, 8, 0, 312, 19.5, 230),
      figures("A100 80GB", 80, 8, 0, 312, 19.5, 230),
      figures("H100", 80, 9, 0, 989, 67, 360),
      figures("H200", 141, 9, 0, 989, 67, 360),
  };
  return devices;
}

std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

}  // namespace

DeviceFigures device_figures(std::string_view name) {
  std::vector<std::string> names;
  for (const DeviceFigures& device : table()) {
    if (plain(device.name) == plain(name)) return device;
    names.push_back(device.name);
  }
  fail(PL_ERROR_CONFIG,
       "--device {}: there are no figures of such a device: use one of {}, or leave it out to plan for this "
       "machine",
       name, fmt::join(names, ", "));
}

}  // namespace pipeline::train
