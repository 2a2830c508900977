// A plugin of the user's own.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/cli/verb.hpp"
#include "core/config/error.hpp"
#include "core/config/suggest.hpp"
#include "core/templates/project.hpp"

namespace fs = std::filesystem;

namespace pipeline::cli {
namespace {

struct NewArgs {
  std::string kind, name, language, output = ".";
};

plugins::Kind kind_of(const std::string& word) {
  if (const auto kind = plugins::kind_called(word)) return *kind;
  std::vector<std::string> names;
  for (const plugins::Kind kind : plugins::kKinds) names.emplace_back(plugins::kind_name(kind));
  fail(PL_ERROR_CONFIG, "new {}: no kind of plugin: {}", word, config::did_you_mean(word, names));
}

const char* article(std::string_view kind) { return kind.starts_with('o') ? "an" : "a"; }

std::string language_of(const NewArgs& args, plugins::Kind kind) {
  const std::vector<std::string> known = templates::languages(kind);
  if (args.language.empty()) return known.front();
  if (std::ranges::find(known, args.language) != known.end()) return args.language;
  fail(PL_ERROR_CONFIG, "--language {}: {} {} is made in {}", args.language,
       article(plugins::kind_name(kind)), plugins::kind_name(kind), config::alternatives(known));
}

// Two plugins of one name could not be told apart in a configuration.
void require_free_name(const std::string& name) {
  const std::vector<fs::path> files = make_registry({}, {}).files(name);
  if (!files.empty())
    fail(PL_ERROR_CONFIG, "{}: a plugin of this name is there already: {}; choose another name", name,
         files.front().string());
}

// What has to come first where CMake would not find this program's package: it looks beside the folders of
// PATH.
std::string install_hint() {
  const fs::path& prefix = program().prefix;
  std::error_code failure;
  if (!fs::exists(prefix / "lib/cmake/pipeline/pipelineConfig.cmake", failure))
    return fmt::format("  cmake --install {} --prefix ~/pipeline\n  export PATH=~/pipeline/bin:$PATH\n",
                       prefix.string());
  const char* path = std::getenv("PATH");
  const std::string bin = (prefix / "bin").string();
  return fmt::format(":{}:", path ? path : "").find(':' + bin + ':') == std::string::npos
             ? fmt::format("  export PATH={}:$PATH\n", bin)
             : "";
}

int make_new(const NewArgs& args) {
  const plugins::Kind kind = kind_of(args.kind);
  const std::string language = language_of(args, kind);
  templates::check_name(args.name);
  require_free_name(args.name);
  const fs::path folder = (fs::path(args.output) / args.name).lexically_normal();
  const std::vector<templates::File> files = templates::make_project(kind, language, args.name);
  templates::write_project(folder, files);
  const std::string name = language == "c" ? "C" : language == "c++" ? "C++" : "Python";
  print(fmt::format("{}: {} {} in {}\n", folder.string(), article(args.kind), args.kind, name));
  for (const templates::File& file : files) print(fmt::format("  {}\n", file.path.string()));
  if (language == "python") {
    print(
        fmt::format("Next, with a Python that has torch:\n  cd {0}\n  pipeline check-plugin {1}.py\n"
                    "  pipeline run {1}.toml\n",
                    folder.string(), args.name));
    return kDone;
  }
  print(fmt::format(
      "Next:\n{}  cd {}\n  cmake -G Ninja -B build && cmake --build build\n  ctest --test-dir build\n"
      "  pipeline run {}.toml\n",
      install_hint(), folder.string(), args.name));
  return kDone;
}

}  // namespace

void add_new(CLI::App& app, Action& action) {
  auto args = std::make_shared<NewArgs>();
  CLI::App* verb =
      app.add_subcommand("new", "Makes a folder with a plugin of your own, which builds and trains");
  verb->add_option("KIND", args->kind, "what it is")
      ->required()
      ->type_name("task|strategy|backend|optimizer");
  verb->add_option("PLUGIN_NAME", args->name, "the plugin's name, also of its folder")->required();
  verb->add_option("--language", args->language,
                   "default: c++; a strategy or optimizer: c, too; a task: c or python, too")
      ->type_name("c|c++|python");
  verb->add_option("--output", args->output, "make the folder in this one; default: the current folder")
      ->type_name("FOLDER");
  verb->footer(
      "Examples:\n  pipeline new task my_task\n  pipeline new task my_task --language python\n"
      "  pipeline new strategy my_strategy --language c --output ~/plugins");
  when_chosen(*verb, action, [=] { return make_new(*args); });
}

}  // namespace pipeline::cli
