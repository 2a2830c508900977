#include "core/templates/project.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"

namespace fs = std::filesystem;

namespace pipeline::templates {
namespace {

using plugins::Kind;

constexpr std::string_view kPython = "python";

struct Replacement {
  std::string text, by;
};

// A plugin of this tree that is copied. In the paths and texts of its files, its name is replaced.
struct Template {
  Kind kind;
  std::string_view language;
  std::string_view folder;  // with / at the end; the sources are given relative to it
  std::vector<std::string_view> files;
  std::string_view name;        // in the tree
  std::string_view config;      // in files/
  std::string_view components;  // of find_package
  std::string_view arguments;   // of pipeline_plugin
  std::string_view compared;    // arguments of `pipeline compare` for its test
  std::string_view about;       // what it is and where to begin, for its README
};

const std::vector<Template>& templates() {
  static const std::vector<Template> all{
      {.kind = Kind::kTask,
       .language = "c++",
       .folder = "plugins/template/",
       .files = {"template.cpp"},
       .name = "template",
       .config = "task_cpp.toml",
       .components = " COMPONENTS torch",
       .arguments = " TORCH",
       .compared = "--strategies single,sharded:3 --processes 1,2",
       .about =
           "A task: a network learns `y = sin(x)` from noisy samples. `@NAME@.cpp` is all of it: options, a\n"
           "batch, a model, data, a loss, an evaluation, predictions. Begin with `make_batch` and\n"
           "`build_model`; give each layer that you add a unit of its own."},
      {.kind = Kind::kTask,
       .language = "c",
       .folder = "tests/c_plugins/",
       .files = {"linear_regression.c", "linear_regression_data.c", "linear_regression_model.c",
                 "linear_regression.h", "plugin_helpers.h"},
       .name = "linear_regression",
       .config = "task_c.toml",
       .components = "",
       .arguments = " LIBS m",
       .compared = "--strategies single,sharded:3 --processes 1,2",
       .about =
           "A task in C99, without LibTorch: `y = w x + b` is fitted to data that a formula yields. The\n"
           "data are in `@NAME@_data.c`; parameters, loss and gradients in `@NAME@_model.c`; the rest in\n"
           "`@NAME@.c`."},
      {.kind = Kind::kTask,
       .language = "python",
       .folder = "plugins/template/",
       .files = {"template.py"},
       .name = "template",
       .config = "task_python.toml",
       .components = "",
       .compared = "--strategies single,sharded:3 --processes 1,2",
       .about = ""},
      {.kind = Kind::kStrategy,
       .language = "c++",
       .folder = "plugins/template/",
       .files = {"host_sgd.cpp"},
       .name = "host_sgd",
       .config = "strategy.toml",
       .components = "",
       .compared = "--strategies single,@NAME@",
       .about =
           "A strategy: every process holds all parameters in host memory, in float32, and updates them by\n"
           "SGD. `@NAME@.cpp` is all of it: storage, sums of gradients, a step, what a checkpoint holds.\n"
           "Begin with `update`. Where it updates otherwise than `single` on purpose, say so in\n"
           "`CMakeLists.txt`, at `losses_are_those_of`."},
      {.kind = Kind::kStrategy,
       .language = "c",
       .folder = "tests/c_plugins/",
       .files = {"plain_sgd.c", "plain_sgd_state.c", "plain_sgd_step.c", "plain_sgd.h", "plugin_helpers.h"},
       .name = "plain_sgd",
       .config = "strategy.toml",
       .components = "",
       .arguments = " LIBS m",
       .compared = "--strategies single,@NAME@",
       .about =
           "A strategy in C99: every process holds all parameters in host memory, in float32, and updates\n"
           "them by SGD. Storage is in `@NAME@.c`, a step in `@NAME@_step.c`, what a checkpoint holds in\n"
           "`@NAME@_state.c`. Where it updates otherwise than `single` on purpose, say so in\n"
           "`CMakeLists.txt`, at `losses_are_those_of`."},
      {.kind = Kind::kOptimizer,
       .language = "c++",
       .folder = "plugins/template/",
       .files = {"signum.cpp"},
       .name = "signum",
       .config = "optimizer.toml",
       .components = " COMPONENTS torch",
       .arguments = " TORCH",
       .compared = "--strategies single,sharded:2 --processes 1,2",
       .about =
           "An update rule: weights move along the sign of the gradient's moving average. `@NAME@.cpp` is "
           "all\n"
           "of it: options, state, the update. It works under every strategy, on the CPU and on a device."},
      {.kind = Kind::kOptimizer,
       .language = "c",
       .folder = "tests/c_plugins/",
       .files = {"sign_sgd.c", "plugin_helpers.h"},
       .name = "sign_sgd",
       .config = "optimizer.toml",
       .components = "",
       .compared = "--strategies single,sharded:2 --processes 1,2",
       .about = "An update rule in C99, without LibTorch, for runs on the CPU: weights move along the sign "
                "of the\n"
                "gradient. Begin with `update`."},
      {.kind = Kind::kBackend,
       .language = "c++",
       .folder = "backends/",
       .files = {"shm/plugin.cpp", "shm/rounds.cpp", "common/call.cpp", "common/queue.cpp",
                 "common/reduce.cpp", "shm/rounds.hpp", "common/call.hpp", "common/queue.hpp"},
       .name = "shm",
       .config = "backend.toml",
       .components = "",
       .compared = "--processes 1,2",
       .about =
           "A backend for the CPU processes of one host, through shared memory. `ShmTransport::run` in\n"
           "`plugin.cpp` carries out one collective: with pieces, rounds and segment it is what another way\n"
           "of moving bytes replaces. `common/` checks the calls, keeps their order, and ends them after a\n"
           "timeout or an abort."},
  };
  return all;
}

// Names that a plugin cannot have, space-separated, and why.
struct Taken {
  std::string_view names, why;
};

constexpr Taken kTaken[] = {
    {"all auto clean core depend edit_cache help install none package package_source pipeline plugin_helpers "
     "rebuild_cache test c dl m pthread rt torch torch_cpu c10",
     "it means something else in a configuration or to CMake"},
    {"chat contrastive ddp diloco embedding gloo labels masked nccl preference pretraining protein python "
     "sharded shm signum "
     "single summarization template vlm",
     "a plugin of this name comes with pipeline"},
    {"alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool "
     "break case catch char char8_t char16_t char32_t class co_await co_return co_yield compl concept const "
     "consteval constexpr constinit const_cast continue decltype default delete do double dynamic_cast else "
     "enum explicit export extern false float for friend goto if inline int long mutable namespace new "
     "noexcept not not_eq nullptr operator or or_eq private protected public reflexpr register "
     "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct "
     "switch synchronized this thread_local throw true try typedef typeid typename typeof typeof_unqual "
     "union unsigned using virtual void volatile wchar_t while xor xor_eq as assert async await def del elif "
     "except finally from global import in is lambda nonlocal pass raise with yield",
     "it is a reserved word of C, C++ or Python"},
    {"complex ctype errno fenv inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic "
     "stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype",
     "a header of the C library is called so, and the plugin's own would hide it"},
};

const Template& find(Kind kind, std::string_view language) {
  for (const Template& each : templates())
    if (each.kind == kind && each.language == language) return each;
  fail("there is no {} in {} to copy", plugins::kind_name(kind), language);
}

std::string replaced(std::string text, const std::vector<Replacement>& replacements) {
  for (const auto& [from, to] : replacements)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

std::string upper(std::string_view name) {
  std::string text(name);
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  return text;
}

// my_task: MyTask
std::string class_name(std::string_view name) {
  std::string text;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') text += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    begins = c == '_';
  }
  return text;
}

// What turns the tree's plugin into the user's. "shm" is also what the backend's classes and functions of the
// system are about: only its name is replaced.
std::vector<Replacement> renaming(const Template& from, std::string_view name) {
  const std::string own(name);
  if (from.kind == Kind::kBackend)
    return {{"\"shm\"", '"' + own + '"'},
            {"\"shm 1.0\"", '"' + own + " 1.0\""},
            {"shm works", own + " works"},
            {"backends/common/", "common/"},
            {"backends/shm/", ""}};
  std::vector<Replacement> by{{std::string(from.name), own}, {upper(from.name), upper(name)}};
  if (from.language == kPython) by.push_back({"Template", class_name(name)});
  if (from.name == "signum") by.push_back({"Signum", class_name(name)});
  return by;
}

std::string text_of(const std::string& path) { return std::string(sources().at(path)); }

}  // namespace

std::vector<std::string> languages(Kind kind) {
  std::vector<std::string> found;
  for (const Template& each : templates())
    if (each.kind == kind) found.emplace_back(each.language);
  return found;
}

void check_name(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    fail(PL_ERROR_CONFIG, "'{}' cannot be a plugin's name: {}", name, why);
  };
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (name.empty() || !is_letter(name.front()) ||
      !std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; }))
    refuse("it must be made of a-z, 0-9 and _, and begin with a letter, as in my_task");
  for (const auto& [names, why] : kTaken)
    if (fmt::format(" {} ", names).find(fmt::format(" {} ", name)) != std::string::npos)
      refuse(fmt::format("{}: choose another, such as my_{}", why, name));
}

std::vector<File> make_project(Kind kind, std::string_view language, std::string_view name) {
  const Template& from = find(kind, language);
  const auto rename = renaming(from, name);
  std::vector<File> files;
  std::string compiled;
  for (const std::string_view file : from.files) {
    const std::string source = std::string(from.folder) + std::string(file);
    const std::string path =
        kind == Kind::kBackend ? replaced(source, rename) : replaced(std::string(file), rename);
    if (path.ends_with(".c") || path.ends_with(".cpp")) compiled += "\n  " + path;
    files.push_back({path, replaced(text_of(source), rename)});
  }
  const std::string own(name), folder = "core/templates/files/";
  const bool is_strategy = kind == Kind::kStrategy;
  const std::vector<Replacement> fill{
      {"@ABOUT@", std::string(from.about)},
      {"@TEST@", text_of(folder + (is_strategy ? "losses_of_strategy.cmake" : "losses_alike.cmake"))},
      {"@COMPARED@", std::string(from.compared)},
      {"@COMPONENTS@", std::string(from.components)},
      {"@ARGUMENTS@", std::string(from.arguments)},
      {"@SOURCES@", compiled},
      {"@KIND@", std::string(plugins::kind_name(kind))},
      {"@FOLDER@", std::string(plugins::kind_folder(kind))},
      {"@NAME@", own}};
  files.push_back({own + ".toml", replaced(text_of(folder + std::string(from.config)), fill)});
  if (language == kPython) {
    files.push_back({"README.md", replaced(text_of(folder + "README_python.md"), fill)});
    return files;
  }
  files.push_back({"CMakeLists.txt", replaced(text_of(folder + "CMakeLists.txt"), fill)});
  files.push_back({"README.md", replaced(text_of(folder + "README.md"), fill)});
  if (is_strategy) files.push_back({"own_losses.cmake", text_of(folder + "own_losses.cmake")});
  return files;
}

void write_project(const fs::path& folder, std::span<const File> files) {
  constexpr std::string_view kRemedy = "choose another --output";
  std::error_code failure;
  const fs::file_type there = fs::symlink_status(folder, failure).type();
  if (there == fs::file_type::none) throw write_error(folder, failure.value(), kRemedy);
  if (there != fs::file_type::not_found)
    fail(PL_ERROR_CONFIG,
         "{} is there already, and nothing in it is overwritten: choose another name or --output",
         folder.string());
  on_disk(kRemedy, [&] {
    if (folder.has_parent_path()) fs::create_directories(folder.parent_path());
    if (!fs::create_directory(folder)) throw write_error(folder, EEXIST, kRemedy);
  });
  try {
    on_disk(kRemedy, [&] {
      for (const File& file : files) {
        const fs::path path = folder / file.path;
        fs::create_directories(path.parent_path());
        errno = 0;
        if (!(std::ofstream(path, std::ios::binary) << file.text << std::flush))
          throw write_error(path, errno, kRemedy);
      }
    });
  } catch (...) {
    fs::remove_all(folder, failure);
    throw;
  }
}

}  // namespace pipeline::templates
