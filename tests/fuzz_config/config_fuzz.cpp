// TOML text and --set arguments to a configuration: whatever comes in, there is either a ConfigError that
// says something or a configuration that is written and read back as the same one. Input: the file, then a
// line `---`, then one --set argument a line.
#include <filesystem>
#include <fstream>
#include <string>

#include "core/config/config.hpp"
#include "tests/config/plugin_options.hpp"
#include "tests/support/fuzz.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace pipeline::config;
using pipeline::tests::require;

class File {
 public:
  const std::string& path() const { return path_; }
  // A new file each time: some file systems wait for the disk when an old one is cut to nothing and written
  // again.
  void write(std::string_view text) const {
    std::filesystem::remove(path_);
    std::ofstream(path_, std::ios::binary) << text;
  }

 private:
  pipeline::tests::TemporaryFolder folder_;
  std::string path_ = folder_.path() / "x.toml";
};

// Every value in force, for all stages, with the plugin's options checked.
std::string all_values(const Config& config) {
  std::string values;
  const auto options = task_options();
  for (const std::string& name : config.stage_names()) {
    const Config stage = config.for_stage(name);
    for (const Row& row : stage.rows()) values += row.key + " = " + row.value + '\n';
    require(differences(stage.to_toml(true), stage).empty(), "a configuration differs from its own record");
    try {
      const pl_config task = stage.plugin("task", options);
      const PluginConfig* plugins[] = {&task};
      require(differences(stage.to_toml(true, plugins), stage, plugins).empty(),
              "a task differs from its own record");
    } catch (const ConfigError& error) {
      require(!error.problems().empty(), "an error without a problem");
    }
  }
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const File file;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find("\n---\n"), input.size());
  LoadArgs args{.file = file.path(), .sets = {}, .stage = ""};
  for (size_t begin = end + 5; begin < input.size();) {
    const size_t line_end = std::min(input.find('\n', begin), input.size());
    args.sets.push_back(input.substr(begin, line_end - begin));
    begin = line_end + 1;
  }
  try {
    file.write(input.substr(0, end));
    const Config config = load(args);
    const std::string values = all_values(config);
    file.write(config.to_toml(true));
    require(all_values(load({.file = file.path(), .sets = {}, .stage = ""})) == values,
            "a configuration does not read back as the same");
  } catch (const ConfigError& error) {
    require(!error.problems().empty() && error.what()[0] != '\0', "an error without a problem");
    require(error.code() == PL_ERROR_CONFIG, "an error with another code");
  }
  return 0;
}
