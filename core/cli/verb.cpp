#include "core/cli/verb.hpp"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <variant>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/program.hpp"
#include "core/base/utf8.hpp"
#include "core/launch/devices.hpp"
#include "core/train/processes/process_group.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::cli {

void print(std::string_view text) {
  std::fputs(printable(text).c_str(), stdout);
  std::fflush(stdout);  // before what is said on standard error
}

CLI::Validator at_least(double least, bool open) {
  return CLI::Validator(
      [=](const std::string& text) {
        double number = 0;
        const bool is_number = CLI::detail::lexical_cast(text, number);
        if (is_number && std::isfinite(number) && (number > least || (!open && number == least)))
          return std::string();
        return fmt::format("{}: must be a number {} {:g}", text, open ? "above" : "of at least", least);
      },
      "");
}

void add_checkpoint(CLI::App& verb, train::VerbArgs& args) {
  verb.add_option(
          "--checkpoint", args.checkpoint,
          "best (default), last, or the path of a checkpoint, a run, or a model folder of another tool")
      ->type_name("best|last|PATH");
}

void ConfigArgs::add_to(CLI::App& verb, bool takes_model) {
  verb.add_option("FILE", file,
                  takes_model
                      ? "the configuration, a TOML file, or the folder of a run, or of a model, which "
                        "transformers wrote"
                      : "the configuration, a TOML file, or the folder of a run")
      ->required();
  add_repeated(verb, "--set", sets, "KEY=VALUE",
               "override a value, as in --set train.max_steps=20; may be repeated");
  verb.add_option("--stage", stage, "only this [[stage]]")->type_name("NAME");
  add_repeated(verb, "--plugin-path", plugin_paths, "FOLDER", "one more plugin folder; may be repeated");
}

std::vector<std::string> ConfigArgs::words() const {
  std::vector<std::string> all{file};
  for (const std::string& set : sets) all.insert(all.end(), {"--set", set});
  for (const std::string& path : plugin_paths) all.insert(all.end(), {"--plugin-path", path});
  if (!stage.empty()) all.insert(all.end(), {"--stage", stage});
  return all;
}

config::Config ConfigArgs::load() const {
  const auto find_plugins = [&](const std::vector<std::string>& paths) {
    const auto registry = std::make_shared<plugins::Registry>(make_registry(plugin_paths, paths));
    return config::KnownPlugins{
        .options = [registry](std::string_view table,
                              const std::string& plugin) -> std::optional<std::span<const pl_option>> {
          try {
            if (const auto kind = plugins::kind_called(table)) return registry->find(*kind, plugin).options();
          } catch (const Error&) {  // said once the rest is in order
          }
          return std::nullopt;
        },
        .owners = [registry](std::string_view table) { return registry->options_of_all(table); }};
  };
  return config::load(
      {.file = file, .sets = sets, .changes = changes, .stage = stage, .find_plugins = find_plugins});
}

config::Config ConfigArgs::load_for_task() const {
  config::Config config = load();
  go_on_as_python(config);
  return config;
}

plugins::Registry make_registry(const std::vector<std::string>& command_line,
                                const std::vector<std::string>& config_paths) {
  std::vector<plugins::SearchFolder> given;
  for (const std::string& path : command_line) given.push_back({path, "--plugin-path"});
  for (const std::string& path : config_paths) given.push_back({path, "plugins.paths"});
  return plugins::Registry(plugins::search_folders(given));
}

std::optional<HostPort> serve_address(const config::Config& config) {
  const std::string& text = config.options().observe.serve;
  if (text.empty()) return std::nullopt;
  std::optional<HostPort> address = split_address(text);
  if (!address)
    throw config.error("observe.serve",
                       "must be HOST:PORT, such as 127.0.0.1:8080 or, for all of this host's "
                       "addresses, 0.0.0.0:8080");
  return address;
}

namespace {

// Throws where a stage has another value of what the whole command has once.
void require_same_for_all_stages(const config::Config& config) {
  if (!config.has_stages()) return;
  for (const std::string& name : config.stage_names()) {
    const config::Config stage = config.for_stage(name);
    for (const char* key : {"launch.processes", "launch.max_restarts", "launch.stall_seconds",
                            "launch.rendezvous_seconds", "observe.serve"})
      if (stage.has_value(key) && stage.show(key) != (config.has_value(key) ? config.show(key) : ""))
        throw stage.error(key,
                          fmt::format("must be the same for all stages: set it in the file's own [{}] table",
                                      std::string_view(key).substr(0, std::string_view(key).find('.'))));
  }
}

// Throws what is wrong with the configuration as a whole, before any process is started for it.
void check_whole(const config::Config& config) {
  require_same_for_all_stages(config);
  serve_address(config);
}

launch::LaunchRequest launch_request(const ConfigArgs& args, const config::Config& config, bool one_process) {
  launch::LaunchRequest request{
      .flags = args.launch, .cuda_devices = 0, .max_restarts = 0, .run_dir = train::run_dir(config)};
  if (one_process) {
    request.processes = 1;
    return request;
  }
  const config::CoreOptions& options = config.options();
  if (const auto processes = options.launch.processes) request.processes = static_cast<int32_t>(*processes);
  // Not in a rank, whose place is known: finding devices takes a while, and Python is yet to come.
  if (!request.processes && options.run.device != "cpu" && std::getenv(launch::kSupervisor) == nullptr)
    request.cuda_devices = static_cast<int32_t>(launch::find_devices().cuda.size());
  request.max_restarts = static_cast<uint32_t>(options.launch.max_restarts);
  return request;
}

observe::Console::Mode console_mode(const config::Config& config, const World& world) {
  const std::string& mode = config.options().observe.console;
  if (mode == "off" || world.rank != 0) return observe::Console::Mode::off;
  // mpirun gives every process a terminal and copies what comes out of it, wherever that goes.
  const bool terminal_of_mpirun = world.launcher.starts_with("OpenMPI");
  return mode == "plain" || terminal_of_mpirun ? observe::Console::Mode::plain
                                               : observe::Console::Mode::automatic;
}

observe::Level log_level(const config::Config& config) {
  const std::string& level = config.options().observe.log_level;
  return level == "debug"     ? observe::Level::debug
         : level == "warning" ? observe::Level::warning
         : level == "error"   ? observe::Level::error
                              : observe::Level::info;
}

}  // namespace

World planned_world(const launch::LaunchRequest& request) {
  const auto place = launch::find_place(request);
  if (const auto* world = std::get_if<World>(&place)) return *world;
  const auto& plan = std::get<launch::HostPlan>(place);
  World world;
  world.size = plan.processes * plan.nodes;
  world.local_size = plan.processes;
  return world;
}

World planned_world(const ConfigArgs& args, const config::Config& config) {
  check_whole(config);
  return planned_world(launch_request(args, config, false));
}

int with_workspace(const ConfigArgs& args, bool one_process,
                   const std::function<train::Outcome(const train::Workspace&)>& work) {
  const config::Config config = args.load();
  check_whole(config);
  const auto place = launch::find_place(launch_request(args, config, one_process));
  if (const auto* plan = std::get_if<launch::HostPlan>(&place)) return launch::supervise(*plan);
  go_on_as_python(config);  // here: the supervisor needs no task, and importing torch takes seconds
  World world = std::get<World>(place);

  const train::Signals signals(world.supervised);
  observe::Console console(console_mode(config, world));
  observe::Log log(console, log_level(config));
  plugins::Registry registry =
      make_registry(args.plugin_paths, config::absolute(config.options().plugins.paths));
  if (!world.note.empty()) log.info(world.note);
  const train::UnheardStop unheard(log);
  std::optional<train::ProcessGroup> processes;
  try {
    {  // the secret is of no use once all have met
      const launch::RunSecret secret(world, train::run_dir(config));
      if (!secret.note().empty() && world.rank == 0) log.warning(secret.note());
      const observe::Elapsed elapsed(console, "waiting for all ranks");
      processes.emplace(
          world, log,
          train::ProcessGroup::Options{
              .rendezvous = std::chrono::duration<double>(config.options().launch.rendezvous_seconds),
              .stall = std::chrono::duration<double>(config.options().launch.stall_seconds)});
    }
    train::set_environment(train::stages_of(config).front(), processes->sharing_cores());
    return work({.config = config, .registry = registry, .log = log, .processes = *processes}) ==
                   train::Outcome::finished
               ? kDone
               : kInterrupted;
  } catch (const std::exception& error) {
    console.status({});
    if (const auto* stopped = dynamic_cast<const Error*>(&error);
        !processes && stopped && stopped->code() == PL_ERROR_CANCELLED) {
      const std::string text = fmt::format("{}; nothing was started", error.what());
      log.info(text);
      if (world.rank != 0 && world.local_rank == 0)
        fmt::print(standard_error(), "{}\n", text);  // its console shows no info
      return kInterrupted;
    }
    log.file_only(std::string("error: ") + error.what());
    const auto cause = processes ? processes->cause_of(error) : std::nullopt;
    if (!cause) throw;
    log.file_only("caused by " + peers::describe(*cause));
    processes->tell(*cause);
    return processes->exit_code(*cause);
  }
}

void ConfigArgs::add_launch_to(CLI::App& verb) {
  const char* group = "Several hosts, by hand (the same command on each)";
  verb.add_option("--nodes", launch.nodes, "number of hosts")->type_name("N")->group(group);
  verb.add_option("--node-rank", launch.node_rank, "rank of this host, from 0")->type_name("K")->group(group);
  verb.add_option("--master-address", launch.master_address, "name or address of host 0")
      ->type_name("HOST")
      ->group(group);
  verb.add_option("--master-port", launch.master_port, "port on host 0; default: 29500")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT")
      ->group(group);
  verb.add_option("--local-rank,--local_rank", launch.local_rank)
      ->group("");  // torch.distributed.launch adds it
}

}  // namespace pipeline::cli
