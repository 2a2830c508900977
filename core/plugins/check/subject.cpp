#include "core/plugins/check/subject.hpp"

#include <unistd.h>

#include <mutex>

#include "core/base/abi_values.hpp"
#include "core/config/config.hpp"

namespace fs = std::filesystem;

namespace pipeline::plugins {
namespace {

bool has_required_option(const Plugin& plugin) {
  for (const pl_option& option : plugin.options())
    if (option.flags & PL_OPTION_REQUIRED) return true;
  return false;
}

pl_config make_config(const Plugin& plugin, const CheckArgs& args) {
  if (args.config.empty() && args.sets.empty() && has_required_option(plugin))
    throw Skip{std::string(kNeedsConfig)};
  config::LoadArgs load;
  load.file = args.config;
  load.sets = args.sets;
  if (args.config.empty()) {
    load.sets.push_back("task.plugin=\"none\"");  // a configuration must name one; none is loaded for it
    load.sets.push_back(fmt::format("{}.plugin=\"{}\"", kind_name(plugin.kind()), plugin.name()));
  }
  config::Config whole = config::load(load);
  if (whole.has_stages()) whole = whole.for_stage(whole.stage_names().front());
  return whole.plugin(kind_name(plugin.kind()), plugin.options());
}

std::mutex error_mutex;
std::string first_error;

void keep_error(uint32_t level, std::string_view line) {
  const std::lock_guard lock(error_mutex);
  if (level == PL_LOG_ERROR && first_error.empty()) first_error = line;
}

fs::path make_folder() {
  std::string name = (fs::temp_directory_path() / "pipeline-check-XXXXXX").string();
  if (!::mkdtemp(name.data())) fail("cannot make a folder in {}", fs::temp_directory_path().string());
  return name;
}

}  // namespace

std::string logged_error() {
  const std::lock_guard lock(error_mutex);
  return first_error;
}

Subject::Subject(const CheckArgs& args, const SubjectHow& how)
    : plugin_(Plugin::load(args.plugin)),
      config_(make_config(plugin_, args)),
      context_(std::make_unique<pl_context>(plugin_.label())),
      folder_(make_folder()) {
  auto info = sized<pl_run_info>();
  info.purpose = how.purpose;
  info.flags = how.flags;
  info.threads = 1;
  info.world_size = info.local_world_size = 1;
  info.device = {PL_DEVICE_CPU, 0};
  info.parameter_dtype = info.compute_dtype = how.dtype;
  info.seed = 1;
  if (how.purpose == PL_PURPOSE_TRAIN) {
    info.global_batch = info.micro_batch = 2;
    info.micro_batches = 1;
  }
  const std::string folder = folder_.string();
  info.run_dir = info.cache_dir = to_pl(folder);
  context_->set_run_info(info);
  context_->log = keep_error;
}

Subject::~Subject() {
  std::error_code ignored;  // it lies in the folder for temporary files
  fs::remove_all(folder_, ignored);
}

}  // namespace pipeline::plugins
