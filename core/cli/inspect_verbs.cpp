// The verbs that only look.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/fail.hpp"
#include "core/cli/verb.hpp"
#include "core/config/error.hpp"
#include "core/config/explain.hpp"
#include "core/config/option.hpp"
#include "core/config/suggest.hpp"
#include "core/launch/devices.hpp"
#include "core/observe/format.hpp"
#include "core/observe/log.hpp"
#include "core/plugins/check/check_plugin.hpp"
#include "core/train/session/session.hpp"
#include "core/train/telemetry/reporter.hpp"

namespace pipeline::cli {

namespace {

// The paths of a task in Python where nothing is: only the task knows whether it reads there or writes.
void warn_of_missing_paths(const train::Session& session, observe::Log& log) {
  if (session.task_plugin().name() != plugins::kPythonTask) return;
  for (const auto& [key, path] : train::set_paths(session.task_config()))
    if (std::error_code ignored; !path.empty() && !std::filesystem::exists(path, ignored))
      log.warning(
          session.task_config()
              .error(key, fmt::format("there is nothing at {}: a run whose task reads it will fail", path))
              .what());
}

[[noreturn]] void refuse(const plugins::Registry& registry, const std::string& name) {
  std::set<std::string> known{"core", plugins::kPythonTask};
  for (const pl_option& option : config::core_options()) {
    const std::string_view key = view(option.key);
    known.emplace(key.substr(0, key.find('.')));
  }
  for (const plugins::Kind kind : plugins::kKinds)
    for (std::string& plugin : registry.names(kind)) known.insert(std::move(plugin));
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string guess = config::closest(name, names);
  fail(PL_ERROR_CONFIG, "no plugin or core table is called '{}': {}", name,
       guess.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                     : fmt::format("did you mean '{}'?", guess));
}

int explain(plugins::Registry& registry, const std::string& name) {
  const auto core = config::core_options();
  if (name.empty() || name == "core") {
    std::fputs(config::explain(core).c_str(), stdout);
    return kDone;
  }
  std::vector<pl_option> of_table;
  std::ranges::copy_if(core, std::back_inserter(of_table),
                       [&](const pl_option& option) { return view(option.key).starts_with(name + '.'); });
  if (!of_table.empty()) std::fputs(config::explain(of_table).c_str(), stdout);
  bool found = !of_table.empty();
  const auto describe = [&](const plugins::Plugin& plugin) {
    fmt::print("{}{} {}: {}\n\n", found ? "\n" : "", plugin.label(), plugin.version(), plugin.summary());
    if (plugin.options().empty())
      fmt::print("It has no options of its own.\n");
    else
      std::fputs(
          config::explain(plugin.options(), std::string(plugins::kind_name(plugin.kind())) + ".").c_str(),
          stdout);
    found = true;
  };
  for (const plugins::Kind kind : plugins::kKinds) {
    const auto names = registry.names(kind);
    if (std::find(names.begin(), names.end(), name) != names.end()) describe(registry.find(kind, name));
  }
  if (const plugins::Plugin* own = plugins::Plugin::in_process(name)) describe(*own);
  if (name == plugins::kPythonTask) return std::fputs(about_python_tasks().c_str(), stdout), kDone;
  if (!found) refuse(registry, name);
  return kDone;
}

std::vector<config::PluginSchema> all_schemas(plugins::Registry& registry) {
  std::vector<config::PluginSchema> schemas;
  for (const plugins::Kind kind : plugins::kKinds)
    for (const plugins::Plugin* plugin : registry.all(kind))
      schemas.push_back({.table = std::string(plugins::kind_name(kind)),
                         .name = plugin->name(),
                         .summary = plugin->summary(),
                         .options = {plugin->options().begin(), plugin->options().end()}});
  return schemas;
}

// Each is loaded, with its libraries.
std::vector<plugins::Listing> list_plugins(const plugins::Registry& registry) {
  const Working working("loading the plugins");
  return registry.list();
}

void print_listing(const plugins::Listing& entry, bool verbose) {
  print(fmt::format("{:<9} {:<16} {:<8} {}\n", entry.kind.empty() ? "?" : entry.kind, entry.name,
                    entry.version, entry.summary));
  print(fmt::format("{:36}{}\n", "", entry.path.string()));
  if (!entry.problem.empty()) print(fmt::format("{:36}problem: {}\n", "", entry.problem));
  if (!verbose || entry.abi.empty()) return;  // it was refused
  fmt::print("{:36}ABI {}{}{}\n\n", "", entry.abi, entry.runtime.empty() ? "" : ", built for ",
             entry.runtime);
  fmt::print("{}\n", entry.options.empty() ? "It has no options of its own.\n" : entry.options);
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto verbose = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand(
      "check", "Checks a configuration and its plugins' options without loading data or training");
  args->add_to(*verb);
  args->add_launch_to(*verb);
  verb->add_flag("-v,--verbose", *verbose, "print every value in force and where it was set");
  verb->footer("Example:\n  pipeline check configs/summarization.toml -v");
  when_chosen(*verb, action, [=] {
    const config::Config config = args->load_for_task();
    train::run_dir(config);
    train::check_stages(config);
    const World world = planned_world(*args, config);
    observe::Console console(observe::Console::Mode::plain);
    observe::Log log(console, observe::Level::info);
    plugins::Registry registry =
        make_registry(args->plugin_paths, config::absolute(config.options().plugins.paths));
    train::ValueSources sources(config);
    for (const config::Config& stage : train::stages_of(config)) {
      train::Session session(stage, registry, log,
                             {.purpose = train::purpose_of_stage(stage),
                              .world = world,
                              .processes = nullptr,
                              .values = sources.of(stage)});
      const bool waits = train::reads_of_stage_before(config, session);
      if (!waits) session.check_task();
      sources.add_planned(session);
      train::announce_model_options(session);
      if (!waits) warn_of_missing_paths(session, log);
      if (session.args().purpose == PL_PURPOSE_TRAIN) train::warn_of_unused_options(session);
      if (const std::string& gave_way = session.plan().gave_way; !gave_way.empty()) log.info(gave_way);
      if (session.args().purpose == PL_PURPOSE_TRAIN && stage.options().train.micro_batch.is_auto)
        log.info("train.micro_batch = \"auto\": found when the run starts, by the memory there is then");
      if (config.has_stages()) console.line(fmt::format("# stage {}", stage.options().stage.name));
      if (*verbose) console.line(session.resolved_toml());
    }
    console.line(fmt::format("{}: in order", config.file()));
    return kDone;
  });
}

void add_check_plugin(CLI::App& app, Action& action) {
  auto args = std::make_shared<plugins::CheckArgs>();
  auto file = std::make_shared<std::string>();
  auto seconds = std::make_shared<int>(static_cast<int>(args->limit.count()));
  CLI::App* verb = app.add_subcommand(
      "check-plugin", "Checks that a plugin follows the ABI; each check runs in its own process");
  verb->add_option("PLUGIN", *file,
                   "the library, NAME.so, or a Python file with a task, FILE.py or FILE.py:Class")
      ->required();
  verb->add_option("--config", args->config,
                   "a configuration with options for this plugin; needed if an option is required")
      ->type_name("FILE");
  add_repeated(*verb, "--set", args->sets, "KEY=VALUE", "override a value; may be repeated");
  verb->add_option("--limit", *seconds, "seconds allowed per check")
      ->type_name("SECONDS")
      ->check(at_least(1));
  verb->footer("Example:\n  pipeline check-plugin my-plugins/tasks/my_task.so --config my_task.toml");
  when_chosen(*verb, action, [=]() -> int {
    args->plugin = go_on_as_python(*file);
    args->limit = std::chrono::seconds(*seconds);
    // At once, also into a pipe: a check may take minutes, and one that hangs should not be guessed.
    const auto print = [](const std::string& line) {
      std::puts(line.c_str());
      std::fflush(stdout);
    };
    return plugins::check_plugin(*args, print).passed() ? kDone : kFailed;
  });
}

void add_explain(CLI::App& app, Action& action) {
  auto name = std::make_shared<std::string>();
  auto paths = std::make_shared<std::vector<std::string>>();
  auto schema = std::make_shared<bool>(false);
  auto readme = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("explain", "Lists the options of a plugin, of the core, or of one table");
  verb->add_option(
      "NAME", *name,
      "a plugin, a Python file with a task (FILE.py or FILE.py:Class), core (default), or a core table");
  add_repeated(*verb, "--plugin-path", *paths, "FOLDER", "one more folder to look for plugins in");
  verb->add_flag("--schema", *schema, "print a JSON Schema of configuration files, for editors");
  verb->add_option("--readme", *readme,
                   "print a README of the configurations in this folder, with all options")
      ->type_name("FOLDER");
  verb->footer(
      "Examples:\n  pipeline explain summarization\n  pipeline explain core\n  pipeline explain launch\n  "
      "pipeline explain --schema > pipeline.schema.json");
  when_chosen(*verb, action, [=]() -> int {
    plugins::Registry registry = make_registry(*paths, {});
    if (!*schema && readme->empty()) return explain(registry, go_on_as_python(*name));
    const auto core = config::core_options();
    std::fputs((*schema ? config::json_schema(core, all_schemas(registry))
                        : config::configs_readme(config::list_configs(*readme), core, all_schemas(registry)))
                   .c_str(),
               stdout);
    return kDone;
  });
}

void add_plugins(CLI::App& app, Action& action) {
  auto file = std::make_shared<std::string>();
  auto paths = std::make_shared<std::vector<std::string>>();
  auto verbose = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("plugins", "Lists the plugins found, and why others are refused");
  verb->add_option("FILE", *file, "a configuration, whose [plugins] paths are searched, too");
  add_repeated(*verb, "--plugin-path", *paths, "FOLDER", "one more folder to look in");
  verb->add_flag("-v,--verbose", *verbose, "print ABI version and options of each");
  verb->footer("Examples:\n  pipeline plugins -v\n  PIPELINE_PLUGIN_PATH=my-plugins pipeline plugins");
  when_chosen(*verb, action, [=] {
    std::vector<std::string> named;
    if (!file->empty()) named = config::absolute(config::load({.file = *file}).options().plugins.paths);
    const plugins::Registry registry = make_registry(*paths, named);
    const std::vector<plugins::Listing> found = list_plugins(registry);
    for (const plugins::Listing& entry : found) print_listing(entry, *verbose);
    const auto refused =
        std::ranges::count_if(found, [](const auto& entry) { return !entry.problem.empty(); });
    fmt::print("\n{} found, {} of them refused; this program has plugin ABI {}.{}. Searched:\n", found.size(),
               refused, PL_ABI_MAJOR, PL_ABI_MINOR);
    std::error_code failure;
    for (const plugins::SearchFolder& folder : registry.folders())
      print(fmt::format("  {} ({}{})\n", folder.path.string(), folder.origin,
                        std::filesystem::is_directory(folder.path, failure) ? "" : ", not there"));
    return kDone;
  });
}

void add_devices(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("devices", "Shows the compute devices and how many processes a run would start");
  verb->footer("Example:\n  CUDA_VISIBLE_DEVICES=0,1 pipeline devices");
  when_chosen(*verb, action, [] {
    const launch::Devices devices = launch::find_devices();
    fmt::print("cpu        {}, {} core{}, {} memory\n", devices.cpu, devices.cores,
               devices.cores == 1 ? "" : "s", observe::human_bytes(devices.memory));
    fmt::print("cuda       {}\n", devices.cuda_driver == 0
                                      ? "no NVIDIA driver"
                                      : "driver for CUDA " + launch::cuda_version(devices.cuda_driver));
    if (!devices.cuda_problem.empty()) fmt::print("           problem: {}\n", devices.cuda_problem);
    for (size_t i = 0; i < devices.cuda.size(); ++i) {
      const launch::CudaDevice& gpu = devices.cuda[i];
      fmt::print("cuda:{:<5} {}, {}, compute capability {}.{}, bf16 {}\n", i, gpu.name,
                 observe::human_bytes(gpu.memory), gpu.major, gpu.minor,
                 launch::has_bf16(gpu) ? "yes" : "no");
    }
    const plugins::Registry registry = make_registry({}, {});
    for (const plugins::Listing& entry : list_plugins(registry))
      if (entry.kind == "strategy" || entry.kind == "backend")
        fmt::print("{:<10} {} {}{}\n", entry.kind, entry.name, entry.version,
                   entry.problem.empty() ? "" : ": " + entry.problem);
    launch::LaunchRequest request;
    request.cuda_devices = static_cast<int32_t>(devices.cuda.size());
    fmt::print("processes  {} would be started on this host (launch.processes)\n",
               planned_world(request).local_size);
    return kDone;
  });
}

}  // namespace pipeline::cli
