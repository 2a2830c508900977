#include "core/train/session/weights.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/store.hpp"
#include "core/observe/format.hpp"
#include "core/train/session/left_out.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

void warn_of_rejected(observe::Log& log, const std::string& folder,
                      std::span<const checkpoint::Rejected> rejected) {
  for (const checkpoint::Rejected& entry : rejected) {
    const std::string path = folder + "/" + entry.name;
    const std::string_view reason = entry.reason;
    log.warning(fmt::format("{} is not used: {}", path,
                            reason.starts_with(path + "/") ? reason.substr(path.size() + 1) : reason));
  }
}

// The newest checkpoint that is good; nothing where there are none at all.
std::optional<checkpoint::Checkpoint> newest_checkpoint(const std::string& folder, observe::Log& log) {
  const observe::Elapsed elapsed(log.console(), "verifying the newest checkpoint in " + folder);
  checkpoint::Store store({.folder = folder});
  for (const std::string& line : store.recover()) log.info(line);
  std::vector<checkpoint::Rejected> rejected;
  auto found = store.newest_good(&rejected);
  warn_of_rejected(log, folder, rejected);
  const auto is_checkpoint = [](const checkpoint::Rejected& entry) {
    return checkpoint::step_of(entry.name).has_value();
  };
  if (const auto damaged = std::ranges::count_if(rejected, is_checkpoint); !found && damaged > 0)
    fail(PL_ERROR_CORRUPT,
         "{}: none of its {} checkpoint{} can be used, so the run cannot go on: repair {} (the lines above "
         "say what is wrong), or start over with --fresh, which moves the run aside",
         folder, damaged, damaged == 1 ? "" : "s", damaged == 1 ? "it" : "one");
  return found;
}

// A stage does not begin from one that has diverged, unless the user names it.
void require_not_diverged(const config::Config& config, observe::Log& log, const std::string& path) {
  const auto how = RunFolder::diverged_in(path);
  if (!how) return;
  const std::string key = weights_key(config);
  const std::string text = fmt::format("{} did not come to its end: {}", path, *how);
  if (key == "stage.init_from") throw config.error(key, text);
  log.warning(fmt::format("{} = {}", key, text));
}

bool is_left_out(const checkpoint::Checkpoint& from, std::string_view parameter) {
  return std::ranges::find(from.contents().left_out.parameters, parameter) !=
         from.contents().left_out.parameters.end();
}

// The parameters of a task as a checkpoint must have them. That of another stage may lack those that are new,
// and have those as float32 that the task has in 8 or 4 bits.
std::vector<checkpoint::Wanted> wanted_values(plugins::Task& task, const checkpoint::Checkpoint& from,
                                              bool is_of_stage) {
  std::vector<checkpoint::Wanted> wanted;
  for (const pl_parameter& parameter : task.parameters()) {
    const bool may_be_new = is_of_stage && (parameter.flags & PL_PARAMETER_NEW) != 0;
    wanted.push_back({.parameter = std::string(view(parameter.name)),
                      .shape = plugins::stored_shape(parameter),
                      .may_be_missing = may_be_new || is_left_out(from, view(parameter.name)),
                      .kind = std::string(plugins::value_kind(parameter))});
    if (is_of_stage && plugins::is_coded(parameter))
      wanted.back().value_shape = {parameter.shape, parameter.shape + parameter.ndim};
  }
  return wanted;
}

// Checkpoint::check for a session's parameters; an error ends with the options by which the two models
// differ.
checkpoint::Differences check_values(Session& session, const checkpoint::Checkpoint& from,
                                     std::span<const checkpoint::Wanted> wanted, bool may_drop) {
  try {
    return from.check(wanted, may_drop);
  } catch (const Error& error) {
    std::string text = error.what();
    const ValueSource there = values_of_checkpoint(from.path(), from.contents());
    for (const config::ModelOption& option :
         options_of_run(session.task_plugin(), session.task_config(), there))
      text += fmt::format(
          "\n  task.{} is {} there, and {} here: leave it out, so that it follows, or `pipeline export` that "
          "run and begin with the folder",
          option.key, option.value, session.task_config().show(option.key));
    throw Error(error.code(), text);
  }
}

// A plugins::PieceReader over Task::initialize and, for what is kept in 8 or 4 bits, Task::encode: one
// parameter at a time, so that no rank ever holds a whole model that it does not keep. `from`: where it has a
// value, that is encoded instead of the initial one.
class InitialValues {
 public:
  explicit InitialValues(plugins::Task& task, const checkpoint::Checkpoint* from = nullptr)
      : task_(task), from_(from) {
    const auto& parameters = task.parameters();
    for (uint64_t i = 0; i < parameters.size(); ++i) index_.emplace(view(parameters[i].name), i);
  }

  void operator()(const pl_piece& piece, void* destination) {
    const auto found = index_.find(view(piece.parameter));
    const pl_parameter* const parameter =
        found == index_.end() ? nullptr : &task_.parameters()[found->second];
    const bool is_coded = parameter != nullptr && plugins::is_coded(*parameter);
    const pl_dtype dtype = is_coded ? pl_dtype{PL_DTYPE_UINT, 8, 1} : pl_dtype{PL_DTYPE_FLOAT, 32, 1};
    if (parameter == nullptr || view(piece.kind) != plugins::value_kind(*parameter) ||
        piece.dtype.code != dtype.code || piece.dtype.bits != dtype.bits)
      fail(
          "the strategy asked for the initial {} of '{}' in {}, and there are only values of parameters in "
          "float32 or the form that was chosen",
          view(piece.kind), view(piece.parameter), dtype_name(piece.dtype));
    if (current_ != found->second) make(found->second);
    const size_t width = is_coded ? 1 : sizeof(float), size = is_coded ? bytes_.size() : value_.size();
    if (piece.offset + piece.count > size)
      fail("the strategy asked for elements {} to {} of '{}', which has {}", piece.offset,
           piece.offset + piece.count, view(piece.parameter), size);
    const std::byte* const all = is_coded ? bytes_.data() : std::as_bytes(std::span(value_)).data();
    std::memcpy(destination, all + piece.offset * width, piece.count * width);
  }

 private:
  void make(uint64_t index) {
    const pl_parameter& parameter = task_.parameters()[index];
    const uint64_t count = plugins::element_count(parameter);
    current_ = index;
    if (!plugins::is_coded(parameter)) {
      value_.resize(count);
      return task_.initialize(index, value_);
    }
    value_.clear();
    if (from_ != nullptr && from_->find("value", view(parameter.name)) != nullptr) {
      auto whole = sized<pl_piece>();
      whole.parameter = parameter.name;
      whole.kind = to_pl("value");
      whole.shape = parameter.shape;
      whole.ndim = parameter.ndim;
      whole.dtype = {PL_DTYPE_FLOAT, 32, 1};
      whole.count = count;
      value_.resize(count);
      from_->read(whole, value_.data());
    }
    bytes_.resize(parameter.form_bytes);
    task_.encode(index, value_, bytes_);
  }

  plugins::Task& task_;
  const checkpoint::Checkpoint* from_;
  std::map<std::string_view, uint64_t> index_;
  uint64_t current_ = ~uint64_t{0};
  std::vector<float> value_;      // of parameter `current_`
  std::vector<std::byte> bytes_;  // the same in 8 or 4 bits
};

// Loads the weights of another stage: what is new here keeps its initial value, what is kept in fewer bits
// here is encoded, and what that stage lets go stays behind.
void load_from_stage(Session& session, const checkpoint::Checkpoint& from) {
  checkpoint::Differences differ =
      check_values(session, from, wanted_values(session.task(), from, true), true);
  std::erase_if(differ.missing, [&](const std::string& name) { return is_left_out(from, name); });
  if (!differ.missing.empty())
    session.log().info(fmt::format("new, not in {}: {} parameter(s): {}", from.path(), differ.missing.size(),
                                   observe::listed(differ.missing)));
  if (!differ.dropped.empty())
    session.log().info(fmt::format("left out of {}: {} parameter(s): {}", from.path(), differ.dropped.size(),
                                   observe::listed(differ.dropped)));
  if (differ.missing.empty())
    for (const std::string& part : origins_of_parts(session))
      session.log().info(fmt::format("{} is not read: {} has all weights", part, from.path()));
  if (!from.contents().left_out.parameters.empty()) import_left_out(session, from);
  InitialValues initial(session.task(), &from);
  session.strategy().load_state(
      [&](const pl_piece& piece, void* destination) {
        if (from.find(view(piece.kind), view(piece.parameter)) == nullptr) return initial(piece, destination);
        from.read(piece, destination);
      },
      true);
}

// Loads what `read` gives of a checkpoint of the very same model, and what that leaves out.
void load_all(Session& session, const checkpoint::Checkpoint& from, const plugins::PieceReader& read,
              bool values_only) {
  require_values(session, from, /*may_drop=*/values_only);
  if (!from.contents().left_out.parameters.empty()) import_left_out(session, from);
  InitialValues initial(session.task());
  session.strategy().load_state(
      [&](const pl_piece& piece, void* destination) {
        is_left_out(from, view(piece.parameter)) ? initial(piece, destination) : read(piece, destination);
      },
      values_only);
}

}  // namespace

checkpoint::Checkpoint open_checkpoint(const std::string& path, checkpoint::Which which, observe::Log& log) {
  const observe::Elapsed elapsed(log.console(), "verifying the checkpoint of " + path);
  std::vector<checkpoint::Rejected> rejected;
  checkpoint::Checkpoint found = checkpoint::open_any(path, which, &rejected);
  warn_of_rejected(log, fs::path(found.path()).parent_path().string(), rejected);
  return found;
}

void require_values(Session& session, const checkpoint::Checkpoint& from, bool may_drop) {
  check_values(session, from, wanted_values(session.task(), from, false), may_drop);
}

void load_state(Session& session, const checkpoint::Checkpoint& from) {
  load_all(
      session, from, [&](const pl_piece& piece, void* destination) { from.read(piece, destination); }, false);
}

void load_values(Session& session, const checkpoint::Checkpoint& from, const plugins::PieceReader& read) {
  load_all(session, from, read, true);
}

plugins::PieceReader moving_average_in(const checkpoint::Checkpoint& from) {
  static constexpr std::string_view kKind = "ema";
  if (std::ranges::none_of(from.tensors(), [](const auto& tensor) { return tensor.kind == kKind; }))
    fail(PL_ERROR_CONFIG, "--ema: {} has no moving average: train with optimizer.ema_decay", from.path());
  return [&from](const pl_piece& piece, void* destination) {
    pl_piece wanted = piece;
    if (from.find(kKind, view(piece.parameter)) != nullptr) wanted.kind = to_pl(kKind);
    from.read(wanted, destination);
  };
}

std::string Origin::to_bytes() const {
  std::string bytes;  // CBOR takes paths that are not UTF-8, too
  nlohmann::json::to_cbor(nlohmann::json{{"resumed", resumed ? resumed->path() : ""},
                                         {"is_branch", is_branch},
                                         {"weights", weights ? weights->path() : ""},
                                         {"foreign", foreign}},
                          bytes);
  return bytes;
}

Origin Origin::from_bytes(const std::string& bytes) {
  const nlohmann::json json = nlohmann::json::from_cbor(bytes);
  Origin origin;
  if (const std::string path = json["resumed"]; !path.empty())
    origin.resumed = checkpoint::Checkpoint::open(path);
  if (const std::string path = json["weights"]; !path.empty())
    origin.weights = checkpoint::Checkpoint::open(path);
  origin.foreign = json["foreign"];
  origin.is_branch = json["is_branch"];
  return origin;
}

Origin find_origin(const config::Config& config, observe::Log& log, const RunFolder& folder,
                   const std::string& init_from) {
  Origin origin;
  origin.resumed = newest_checkpoint(folder.checkpoints().string(), log);
  if (origin.resumed) return origin;
  origin.is_branch = config.options().train.init_state;
  if (origin.is_branch && !is_ours(init_from))
    throw config.error("train.init_state",
                       fmt::format("needs {} = a run or a checkpoint of ours, and that is {}",
                                   weights_key(config), init_from.empty() ? "not set" : init_from));
  if (init_from.empty()) return origin;
  if (is_ours(init_from)) {
    require_not_diverged(config, log, init_from);
    if (origin.is_branch) {
      origin.resumed = open_checkpoint(init_from, checkpoint::Which::kLast, log);
      return origin;
    }
    origin.weights = open_checkpoint(init_from, checkpoint::Which::kBest, log);
    return origin;
  }
  require_folder(config, init_from);
  origin.foreign = init_from;
  return origin;
}

Origin find_common_origin(const config::Config& config, observe::Log& log, ProcessGroup& processes,
                          const RunFolder& folder, const std::string& init_from) {
  Origin origin;
  const std::string told = processes.on_first("finding the weights", [&] {
    origin = find_origin(config, log, folder, init_from);
    return origin.to_bytes();
  });
  return processes.is_first() ? std::move(origin) : Origin::from_bytes(told);
}

ValueSource values_of(const Origin& origin) {
  if (origin.checkpoint() == nullptr) return {.folder = origin.foreign};
  ValueSource source = values_of_checkpoint(origin.checkpoint()->path(), origin.checkpoint()->contents());
  source.is_own = source.goes_on = origin.resumed.has_value();
  return source;
}

std::string load_weights(Session& session, const Origin& origin) {
  if (const checkpoint::Checkpoint* from = origin.checkpoint()) {
    load_from_stage(session, *from);
    return "weights from " + from->path();
  }
  if (!origin.foreign.empty()) {
    if (!session.task().has_import_model())
      throw session.config().error(
          weights_key(session.config()),
          fmt::format("{} is no checkpoint of ours, and {} cannot read any other kind", origin.foreign,
                      session.task_plugin().label()));
    session.task().import_model(origin.foreign);
  }
  InitialValues values(session.task());
  session.strategy().load_state([&](const pl_piece& piece, void* destination) { values(piece, destination); },
                                true);
  if (!origin.foreign.empty()) return "weights imported from " + origin.foreign;
  const std::vector<std::string> parts = origins_of_parts(session);
  const auto is_frozen = [](const pl_parameter& p) { return (p.flags & PL_PARAMETER_TRAINABLE) == 0; };
  if (const auto frozen = std::ranges::count_if(session.task().parameters(), is_frozen);
      parts.empty() && frozen > 0)
    session.log().warning(fmt::format(
        "{} of {} parameters are frozen and have random values: give {} a model that they come from", frozen,
        session.task().parameters().size(), weights_key(session.config())));
  return fmt::format(
      "{} (run.seed {})",
      parts.empty() ? "fresh weights" : fmt::format("weights of {}, the rest fresh", fmt::join(parts, ", ")),
      session.run_info().seed);
}

std::vector<std::string> origins_of_parts(const Session& session) {
  std::vector<std::string> parts;
  const config::PluginConfig& options = session.task_config();
  for (const std::string& key : options.keys()) {
    if (options.setting(key).option.type != PL_OPTION_PATH ||
        (key != "init_from" && !key.ends_with(".init_from")))
      continue;
    if (const std::string folder = options.find_string(key).value_or(""); !folder.empty())
      parts.push_back(fmt::format("task.{} = {}", key, folder));
  }
  return parts;
}

}  // namespace pipeline::train
