#include "core/train/stages/inference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/file_lock.hpp"
#include "core/base/program.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/observe/format.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/results/export_folder.hpp"
#include "core/train/results/prediction.hpp"
#include "core/train/results/result_files.hpp"
#include "core/train/session/extra_state.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/session.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/stages/found_micro_batch.hpp"
#include "core/train/telemetry/reporter.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLooking = "looking at the place for the results";  // before the work

// Which checkpoint is the best one is for rank 0 to say.
checkpoint::Checkpoint open_the_same(Session& session, const InferenceArgs& args) {
  std::optional<checkpoint::Checkpoint> checkpoint;
  const std::string path = session.processes().on_first("finding the checkpoint", [&] {
    checkpoint = open_checkpoint(
        args.checkpoint, args.last ? checkpoint::Which::kLast : checkpoint::Which::kBest, session.log());
    return checkpoint->path();
  });
  return checkpoint ? std::move(*checkpoint) : checkpoint::Checkpoint::open(path);
}

// A session with weights in place: those of a checkpoint of ours, or of a folder of another tool.
struct Loaded {
  Session& session;
  std::optional<checkpoint::Checkpoint> checkpoint;  // of ours
  std::optional<checkpoint::Average> average;        // of the checkpoint and those before it, if asked for
  plugins::PieceReader values;                       // of the checkpoint's, or in place of them
  std::string folder;                                // of another tool, if not of ours
  std::string path;                                  // for people
  uint64_t step = 0;

  Loaded(const Loaded&) = delete;  // `values` refers to it
  Loaded& operator=(const Loaded&) = delete;
  Loaded(Session& with, const InferenceArgs& args)
      : session(with), folder(args.checkpoint), path(as_shown(args.checkpoint)) {
    if (!is_foreign(args.checkpoint)) {
      checkpoint = open_the_same(with, args);
      path = as_shown(checkpoint->path());
      step = checkpoint->contents().step;
    } else {
      say_what_is_not_used();
    }
    step_of_weights = step;
    session.open_task(checkpoint ? &*checkpoint : nullptr);
    if (!checkpoint && !session.task().has_import_model())
      fail(PL_ERROR_CONFIG, "{} {}: is the model folder of another tool, and {} reads none", args.named_by,
           path, session.task_plugin().label());
    require_same_on_all_ranks(session);
    session.create_strategy();
    const observe::Elapsed elapsed(session.log().console(), "loading weights");
    if (!checkpoint) {
      load_weights(session, {.foreign = folder});
    } else {
      values = [this](const pl_piece& piece, void* destination) { checkpoint->read(piece, destination); };
      if (args.ema) {
        values = moving_average_in(*checkpoint);
        path += ", moving average";
      } else if (args.average > 1) {
        take_mean(args.average);
      }
      load_values(session, *checkpoint, values);
    }
    if (const auto parts = origins_of_parts(session); !checkpoint && !parts.empty())  // such as an adapter
      path += fmt::format(", with {}", fmt::join(parts, ", "));
    session.bind();
    session.log().info(checkpoint
                           ? fmt::format("{} of {}, step {}", session.task_plugin().label(), path, step)
                           : fmt::format("{} of {}", session.task_plugin().label(), path));
    announce_place(session);
  }

  void take_mean(uint64_t count) {
    average = checkpoint::Average::before(checkpoint::Checkpoint::open(checkpoint->path()), count);
    values = [this](const pl_piece& piece, void* destination) { average->read(piece, destination); };
    std::vector<uint64_t> steps;
    bool same_state = true;
    for (const checkpoint::Checkpoint& one : average->of()) {
      require_values(session, one, /*may_drop=*/true);
      steps.push_back(one.contents().step);
      same_state = same_state && same_extra_state(session.task(), *checkpoint, one);
    }
    path += fmt::format(", averaged with steps {}", fmt::join(steps.begin() + 1, steps.end(), ", "));
    if (!same_state)
      session.log().warning(
          fmt::format("what {} keeps beside its weights, such as running statistics, differs between these "
                      "checkpoints: it is that of step {}, not a mean",
                      session.task_plugin().label(), step));
  }

  // A launch that names two folders means both.
  void say_what_is_not_used() const {
    const config::Config& config = session.config();
    const config::Origin& init_from = config.origin("train.init_from");
    if (init_from.is_argument() &&
        config::absolute_path(config.options().train.init_from, init_from.base) != folder)
      session.log().warning(
          fmt::format("{}: is what training begins with, and is not used here: the weights are those of {}",
                      init_from.describe(), path));
  }

  // What is computed with the same weights can be continued.
  std::string identity() const {
    if (!checkpoint) return fmt::format("{} {}", path, state_of_folder(folder));
    if (!average) return fmt::format("{} {}", path, checkpoint->contents().train_state_json);
    std::string text = path;
    for (const checkpoint::Checkpoint& one : average->of()) text += " " + one.contents().train_state_json;
    return text;
  }
};

ValueSource values_of(const std::string& weights) {
  return is_foreign(weights) ? ValueSource{.folder = weights} : values_of_result(weights);
}

// A session for `purpose`, and `work` in it.
Outcome with_session(const config::Config& config, const Workspace& workspace, const InferenceArgs& args,
                     uint32_t purpose, const char* phase, const std::function<Outcome(Session&)>& work) {
  require_named_weights(config, workspace.registry, args);
  Session session(config, workspace.registry, workspace.log,
                  session_args(workspace, purpose, args.folder, values_of(args.checkpoint)));
  if (args.output.empty() && workspace.processes.is_first()) RunFolder::make(args.folder);
  if (!workspace.processes.is_first() && fs::exists(args.folder))
    workspace.log.open_files(args.folder, workspace.processes.world().rank);
  workspace.processes.at(phase, 0);
  const observe::Elapsed elapsed(workspace.log.console(), phase);
  return guard_work(
      session, [&] { return std::string(phase); }, [&] { return work(session); });
}

// What can be done about a place that cannot be used.
std::string remedy_for(const InferenceArgs& args) {
  return args.output.empty() ? "choose another run.dir" : "choose another --output";
}

std::string chosen_split_name(const Session& session, const InferenceArgs& args) {
  return args.split.empty() ? session.options().evaluate.split : args.split;
}

uint32_t chosen_split(Session& session, const InferenceArgs& args) {
  const std::string name = chosen_split_name(session, args);
  const uint32_t split = split_code(name);
  if (session.task().sample_count(split) == 0)
    fail(PL_ERROR_CONFIG, "{} has no samples in the split '{}': give its data, or use another --split",
         session.task_plugin().label(), name);
  return split;
}

Outcome cut_off(const Workspace& workspace, const std::string& what) {
  workspace.log.console().status({});
  workspace.log.info(fmt::format(
      "{}: {}", Signals::received() != 0 ? Signals::name(Signals::received()) : "a signal to another rank",
      what));
  workspace.processes.leave_together();
  return Outcome::interrupted;
}

Outcome evaluate_checkpoint(const config::Config& config, const Workspace& workspace,
                            const InferenceArgs& args) {
  return with_session(config, workspace, args, PL_PURPOSE_EVALUATE, "evaluating", [&](Session& session) {
    std::optional<EvaluationFiles> output;  // before the work: see there
    if (session.processes().is_first())
      output.emplace(args.output.empty()
                         ? args.folder / fmt::format("evaluation-{}.json", chosen_split_name(session, args))
                         : args.output,
                     remedy_for(args));
    const Loaded loaded(session, args);
    const uint32_t split = chosen_split(session, args);
    EvaluationRequest request = request_for(session, split, PL_PURPOSE_EVALUATE);
    request.progress = [&](uint64_t done, uint64_t total) {
      workspace.log.console().progress("evaluating", done, total);
    };
    request.show = [&](uint64_t, std::string_view text) { workspace.log.info(text); };
    const auto result = evaluate(session.processes(), session.task(), request);
    if (!result) return cut_off(workspace, "the evaluation was stopped");
    workspace.log.console().status({});

    workspace.log.info(fmt::format("{} of the {} samples of {} in {:.1f} s",
                                   observe::grouped(result->samples), observe::grouped(result->available),
                                   split_name(split), result->seconds));
    tell_and_keep({{"checkpoint", loaded.path}, {"step", loaded.step}}, *result, workspace.log, output);
    return Outcome::finished;
  });
}

Outcome predict_with_checkpoint(const config::Config& config, const Workspace& workspace,
                                const InferenceArgs& args) {
  return with_session(config, workspace, args, PL_PURPOSE_PREDICT, "predicting", [&](Session& session) {
    const fs::path output = args.output.empty() ? args.folder / "submission.csv" : args.output;
    std::optional<OutputLock> lock;  // of rank 0
    session.processes().on_first(kLooking, [&] {
      lock.emplace(output, side_files_of(output), remedy_for(args));
      require_file_place(output, remedy_for(args));
    });
    const Loaded loaded(session, args);
    const uint32_t split = chosen_split(session, args);
    const auto result = predict(
        session,
        {.split = split,
         .output = output,
         .samples = args.samples,
         .identity = fmt::format("{} split {} samples {} data {}\n{}", loaded.identity(), split_name(split),
                                 args.samples, session.task().data_fingerprint(), session.resolved_toml())});
    if (!result.complete)
      return cut_off(workspace, fmt::format("stopped after {} samples; the same command goes on from there",
                                            result.samples));
    workspace.log.info(fmt::format(
        "{} {} in {:.1f} s{}, written to {}", observe::grouped(result.samples),
        result.samples == 1 ? "sample" : "samples", result.seconds,
        result.continued > 0 ? fmt::format(" (the first {} by an earlier process)", result.continued) : "",
        output.string()));
    return Outcome::finished;
  });
}

ModelCard card_of(Session& session, const Loaded& loaded, const InferenceArgs& args) {
  ModelCard card{.name = session.config().options().run.name,
                 .task = session.task_plugin().name() + " " + session.task_plugin().version(),
                 .weights = loaded.path,
                 .data_fingerprint = session.task().data_fingerprint(),
                 .run_dir = args.folder};
  if (loaded.checkpoint)  // RUN/checkpoints/step-N; perhaps of another run, or of an earlier stage
    card.run_dir = fs::path(loaded.checkpoint->path()).parent_path().parent_path();
  if (card.name.empty()) card.name = args.folder.filename().string();
  const config::PluginConfig& options = session.task_config();
  if (const std::string& base = session.options().train.init_from; is_foreign(base))
    card.bases.push_back(base);
  for (const std::string& key : options.keys()) {
    const uint32_t type = options.setting(key).option.type;
    if ((type != PL_OPTION_PATH && type != PL_OPTION_PATH_LIST) || !options.is_set(key)) continue;
    const auto begins = [&](const char* start) { return key.starts_with(start); };
    if (key == "file" || key == "python" || begins("tokenizer.") || begins("ask.") || begins("chat."))
      continue;
    if (!key.ends_with("init_from"))
      card.data += fmt::format("{}`{} = {}`", card.data.empty() ? "" : ", ", key, options.show(key));
    else if (const std::string base = options.find_string(key).value_or(""); !base.empty())
      card.bases.push_back(base);
  }
  return card;
}

Outcome export_checkpoint(const config::Config& config, const Workspace& workspace,
                          const InferenceArgs& args) {
  const fs::path output = args.output.empty() ? args.folder / "export" : args.output;
  if (workspace.processes.is_first() && fs::exists(output) && !fs::is_empty(output))
    fail(PL_ERROR_CONFIG, "{}: is there already: remove it, or choose another --output", output.string());
  return with_session(config, workspace, args, PL_PURPOSE_EXPORT, "exporting", [&](Session& session) {
    std::optional<OutputLock> lock;  // of rank 0
    session.processes().on_first(kLooking, [&] {
      lock.emplace(output, output, remedy_for(args));
      require_folder_place(output, remedy_for(args));
    });
    const Loaded loaded(session, args);
    plugins::Task& task = session.task();
    workspace.processes.on_first("exporting", [&] {
      const fs::path temporary = output.string() + ".tmp";
      fs::remove_all(temporary);
      fs::create_directories(temporary);
      if (task.has_export_model())
        task.export_model(temporary);
      else if (!loaded.checkpoint)
        fail(PL_ERROR_CONFIG, "{} is in another tool's form already", loaded.path);
      else
        export_parameters(*loaded.checkpoint, loaded.values, task, temporary, remedy_for(args));
      convert_export(temporary, session.options().exports, workspace.log);
      write_model_card(temporary, card_of(session, loaded, args));
      fs::remove(output);  // an empty folder
      fs::rename(temporary, output);
    });
    workspace.log.info(fmt::format("{}written to {}",
                                   task.has_export_model() ? "" : "the parameters, as its README.md says, ",
                                   output.string()));
    return Outcome::finished;
  });
}

// Whether a finished stage was just this: `before` as it is written below, by a launch that may have been
// elsewhere and have found the same options in another file.
bool is_as_before(const std::string& before, const std::string& kind, const std::string& weights,
                  const Session& session) {
  const std::string begin = kind + " of ";
  const size_t end = before.find('\n');
  if (!before.starts_with(begin) || end == std::string::npos ||
      !same_weights(before.substr(begin.size(), end - begin.size()), weights, session.config().paths_from()))
    return false;
  return other_options(before.substr(end + 1), session.config(), session.plugin_configs()).empty();
}

}  // namespace

Outcome infer(std::string_view verb, const config::Config& stage, const Workspace& workspace,
              const InferenceArgs& args) {
  const config::Config config = with_recorded_micro_batch(workspace.processes, stage, args.checkpoint, 1);
  return verb == "evaluate"  ? evaluate_checkpoint(config, workspace, args)
         : verb == "predict" ? predict_with_checkpoint(config, workspace, args)
                             : export_checkpoint(config, workspace, args);
}

Outcome converse(const config::Config& config, const Workspace& workspace, const InferenceArgs& args,
                 const std::function<void(const Reply& reply)>& talk) {
  require_named_weights(config, workspace.registry, args);
  Session session(config, workspace.registry, workspace.log,
                  session_args(workspace, PL_PURPOSE_PREDICT, args.folder, values_of(args.checkpoint)));
  return guard_work(
      session, [] { return std::string("answering"); },
      [&] {
        const Loaded loaded(session, args);
        if (!session.task().has_reply())
          fail(PL_ERROR_CONFIG,
               "{} does not answer in conversations: export its model (pipeline export), and name the folder "
               "that this writes",
               session.task_plugin().label());
        const ProcessGroup::Busy busy(session.processes());  // waits for a person
        talk([&](const std::string& messages, const auto& on_text) {
          session.task().reply(messages, on_text);
        });
        return Outcome::finished;
      });
}

Outcome inference_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config,
                        const std::string& weights, const OnBegin& on_begin) {
  const std::string& kind = config.options().stage.kind;
  ProcessGroup& processes = workspace.processes;
  workspace.log.open_files(folder.path(), processes.world().rank);
  const Session options(config, workspace.registry, workspace.log,
                        session_args(workspace, purpose_of_stage(config), folder.path(), values_of(weights)));
  const std::string checkpoint = checkpoint_of(weights);
  const std::string what = fmt::format("{} of {}\n{}", kind, checkpoint, options.resolved_toml());
  const std::string finished = processes.on_first("looking at the run folder", [&] {
    if (const auto before = folder.finished()) {
      if (is_as_before(*before, kind, checkpoint, options)) return "yes";
      workspace.log.info(
          fmt::format("{} was made with other options or weights: repeating it", folder.path().string()));
      folder.unmark_finished();
    }
    on_begin();
    if (kind == "export") fs::remove_all(folder.path() / "export");  // unfinished, or of other weights
    return "no";
  });
  if (finished == "yes") {
    workspace.log.info(fmt::format("{} is already finished", folder.path().string()));
    return Outcome::finished;
  }
  const InferenceArgs args{.checkpoint = weights, .named_by = weights_key(config), .folder = folder.path()};
  const Outcome outcome = infer(kind, config, workspace, args);
  if (outcome == Outcome::finished && processes.is_first()) folder.mark_finished(what);
  return outcome;
}

}  // namespace pipeline::train
