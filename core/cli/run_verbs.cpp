// The verbs that work in the folder of a run.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/cli/verb.hpp"
#include "core/config/error.hpp"
#include "core/config/suggest.hpp"
#include "core/launch/devices.hpp"
#include "core/report/live_page.hpp"
#include "core/report/run_record.hpp"
#include "core/train/session/value_source.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;

// The page of the run that begins; none where it is not wanted or cannot be had, which ends no run.
std::unique_ptr<report::LivePage> serve(const train::Workspace& workspace) {
  const std::optional<HostPort> address = serve_address(workspace.config);
  if (!address || !workspace.processes.is_first()) return nullptr;
  try {
    auto page = std::make_unique<report::LivePage>(*address, train::run_dir(workspace.config),
                                                   launch::peak_host_memory);
    // Others may read the log's files, so the token is not in them.
    const std::string& url = page->url();
    const size_t token = url.find('?');
    if (token != std::string::npos && workspace.config.options().observe.console == "off")
      throw Error(
          "only the console shows the token that a page at this address needs, and observe.console is "
          "\"off\"");
    workspace.log.console().line("page       " + url);
    workspace.log.file_only(
        "page       " + url.substr(0, token) +
        (token == std::string::npos ? "" : ", with the token that the console has shown"));
    return page;
  } catch (const std::exception& error) {
    workspace.log.warning(
        fmt::format("observe.serve = \"{}\": {}: the run goes on without its page; choose another address or "
                    "port (port 0: any that is free)",
                    to_text(address->host, address->port), error.what()));
    return nullptr;
  }
}

std::optional<config::Config> last_run;  // as it was when it began

// What a verb does not know is an option of the task's `ask` table: --image cat.png sets task.ask.image.
// Given several times, it is a list, whose name is the plural: task.ask.images.
void ask(const std::vector<std::string>& words, ConfigArgs& args) {
  std::map<std::string, std::vector<std::string>> values;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string name = words[i].substr(std::min<size_t>(2, words[i].size()));
    if (!words[i].starts_with("--") || i + 1 == words.size()) {
      const std::string_view ours = config::our_name_for_option(name);
      fail(PL_ERROR_CONFIG, "{}: {}", words[i],
           ours.empty() ? "is no option; what a task can be asked comes as --NAME VALUE, where task.ask.NAME "
                          "is one of its options: see pipeline explain"
                        : ours);
    }
    std::string value;
    for (const char c : words[i + 1])
      value += c == '\\' || c == '"' ? std::string{'\\', c} : c == '\n' ? "\\n" : std::string{c};
    values[name].push_back("\"" + value + "\"");
  }
  for (const auto& [name, given] : values)
    args.sets.push_back("task.ask." + name +
                        (given.size() == 1 ? "=" + given[0] : fmt::format("s=[{}]", fmt::join(given, ", "))));
}

// evaluate, predict and export take the same arguments.
void add(CLI::App& app, Action& action, const char* name, const char* help, const std::string& example,
         bool one_process) {
  auto args = std::make_shared<ConfigArgs>();
  auto verb_args = std::make_shared<train::VerbArgs>();
  auto output = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(name, help);
  args->add_to(*verb, /*takes_model=*/true);
  if (!one_process) args->add_launch_to(*verb);
  add_checkpoint(*verb, *verb_args);
  add_means(*verb, *verb_args);
  if (!one_process)
    verb->add_option("--split", verb_args->split, "val or test; default: evaluate.split")
        ->type_name("val|test")
        ->check(CLI::IsMember({"val", "test"}));
  verb->add_option("--output", *output,
                   "where to write; default: in the run folder; where FILE is a model's folder NAME, in "
                   "runs/NAME-model")
      ->type_name("PATH");
  verb->footer("Example:\n  " + example);
  const bool may_ask = std::string_view(name) == "predict", exports = std::string_view(name) == "export";
  auto gguf = std::make_shared<std::string>();
  auto verifies = std::make_shared<bool>(false);
  if (exports) {
    verb->add_option("--gguf", *gguf, "write a GGUF file into the folder, too: see pipeline gguf")
        ->type_name("TYPE")
        ->check(CLI::IsMember(kGgufTypes));
    verb->add_flag("--verify", *verifies, "then do what pipeline verify does");
  }
  if (may_ask)
    verb->add_option("--samples", verb_args->samples, "only the first N samples of the split, in samples.csv")
        ->type_name("N")
        ->check(at_least(1));
  if (may_ask) verb->allow_extras();
  when_chosen(*verb, action, [=] {
    verb_args->output = *output;
    take_model_folder(*args, *verb_args);
    const bool is_best = verb_args->checkpoint == train::VerbArgs().checkpoint;
    if (verb->count("--average") > 0 && verb->count("--checkpoint") == 0 && is_best)
      verb_args->checkpoint = "last";
    if (may_ask) ask(verb->remaining(), *args);
    verb_args->asked = may_ask && verb->remaining_size() > 0;
    const int code = with_workspace(
        *args, one_process, [&](const train::Workspace& w) { return train::run_verb(name, w, *verb_args); });
    if (code != kDone || !exports || launch::rank_in_environment() > 0) return code;
    if (*verifies) verify_export(*args, *verb_args, 4, *gguf);
    if (!gguf->empty()) write_gguf(train::export_folder(args->load(), *verb_args), *gguf);
    return code;
  });
}

// The examples, and what is to be said of the last two.
std::string of_models(const char* examples) {
  return std::string(examples) +
         "The last two need no training: the weights are those of a folder that transformers wrote. Without "
         "a\n"
         "configuration the task is the one that takes such models, chat for language models; --set\n"
         "task.plugin=NAME chooses another one.";
}

}  // namespace

void add_means(CLI::App& verb, train::VerbArgs& args) {
  verb.add_option(
          "--average", args.average,
          "the mean of the last N checkpoints' weights: up to that of --checkpoint, here last by default")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1000}));
  verb.add_flag("--ema", args.ema,
                "the moving average of the weights, which optimizer.ema_decay keeps, in their place")
      ->excludes("--average");
}

std::string result_of_run() {
  if (!last_run) return "[]";
  const config::Config& config = *last_run;
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const config::Config& stage : train::stages_of(config)) {
    const std::string name = config.has_stages() ? stage.options().stage.name : "";
    const fs::path folder = config.has_stages() ? train::run_dir(config) / name : train::run_dir(config);
    const std::string best = train::best_checkpoint(folder), last = report::last_checkpoint(folder);
    stages.push_back({{"name", name},
                      {"kind", stage.options().stage.kind},
                      {"folder", folder.string()},
                      {"best", last.empty() ? "" : best},
                      {"last", last.empty() ? "" : (folder / "checkpoints" / last).string()}});
  }
  return stages.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void add_run(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto fresh = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("run", "Trains as configured, or continues an interrupted run");
  args->add_to(*verb);
  args->add_launch_to(*verb);
  add_repeated(*verb, "--change", args->changes, "KEY=VALUE",
               "as --set, and a continued run takes it from its next step on: learning rate, schedule, "
               "weight decay and the like, marked + in pipeline explain; may be repeated");
  verb->add_flag("--fresh", *fresh, "start over; the old run in run.dir is moved aside, not deleted");
  verb->footer(
      "Example:\n  pipeline run configs/summarization.toml --set train.max_steps=20 --set run.dir=runs/try\n"
      "  pipeline run configs/summarization.toml --change optimizer.lr=1e-4\n\n"
      "The same command continues the run. Ctrl-C saves a checkpoint and exits with code 75;\na second "
      "Ctrl-C exits at once.");
  when_chosen(*verb, action, [=] {
    last_run.emplace(args->load());
    return with_workspace(*args, false, [&](const train::Workspace& w) {
      const auto page = serve(w);
      return train::run_stages(w, *fresh, [&](const fs::path& folder, const std::string& kind) {
        if (page) page->show(folder, kind);
      });
    });
  });
}

void add_evaluate(CLI::App& app, Action& action) {
  add(app, action, "evaluate", "Evaluates a checkpoint of the run, or a model, on held-out data",
      of_models("pipeline evaluate configs/summarization.toml --checkpoint best --split test\n"
                "  pipeline evaluate configs/summarization-gpt2.toml --checkpoint models/gpt2\n"
                "  pipeline evaluate models/gpt2 --set task.data.test=questions.jsonl\n\n"),
      false);
}

void add_predict(CLI::App& app, Action& action) {
  add(app, action, "predict",
      "Predicts with a checkpoint of the run, or with a model, and writes submission.csv",
      of_models("pipeline predict configs/summarization.toml --split test --output answers.csv\n"
                "  pipeline predict configs/vlm.toml --image cat.png --question \"What is this?\"\n"
                "  pipeline predict configs/protein-esm2.toml --checkpoint models/esm2_t6_8M_UR50D\n"
                "  pipeline predict models/esm2_t6_8M_UR50D --set task.test_path=my-structures\n\n"
                "The second one asks about one thing: --NAME VALUE sets task.ask.NAME, if the task has that "
                "option.\n"),
      false);
}

void add_export(CLI::App& app, Action& action) {
  add(app, action, "export", "Exports a checkpoint's model in a format that other tools load",
      "pipeline export configs/summarization.toml --checkpoint last --output my-model", true);
}

}  // namespace pipeline::cli
