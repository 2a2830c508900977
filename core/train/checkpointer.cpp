#include "core/train/checkpointer.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/config/config.hpp"
#include "core/observe/format.hpp"
#include "core/train/session/extra_state.hpp"
#include "core/train/session/left_out.hpp"
#include "core/train/session/weights.hpp"

namespace pipeline::train {
namespace {

checkpoint::StoreOptions store_options(Session& session, const RunFolder& folder) {
  const config::Config& config = session.config();
  return {.folder = folder.checkpoints().string(),
          .keep = config.options().checkpoint.keep,
          .keep_best = config.options().checkpoint.keep_best};
}

// The ranks that write, on a channel of their own, as it is used by the writing thread.
checkpoint::Group group_of(ProcessGroup& processes) {
  const auto worst = [&processes](uint32_t code) {
    uint32_t highest = 0;
    for (const std::string& rank : processes.peers().all_gather("checkpoint", std::to_string(code)))
      highest = std::max(highest, static_cast<uint32_t>(std::stoul(rank)));
    return highest;
  };
  return {.rank = processes.world().rank, .world_size = processes.world().size, .worst = worst};
}

// What else decides a run's numbers besides its options: another one cannot give the same bits.
nlohmann::json numeric_identity(const Session& session) {
  const pl_run_info& info = session.run_info();
  return {
      {"micro_batch", info.micro_batch},
      {"threads", session.is_same_on_any_threads() ? nlohmann::json("any") : nlohmann::json(info.threads)},
      {"device", info.device.type == PL_DEVICE_CUDA ? "cuda" : "cpu"},
      {"precision", session.precision().name},
      {"library", session.task_plugin().runtime()}};
}

// The order of the samples is one of their numbers: other data is another run.
nlohmann::json data_identity(plugins::Task& task) {
  return {{"content", task.data_fingerprint()}, {"samples", task.sample_count(PL_SPLIT_TRAIN)}};
}

// What trains: another version, such as a Python file that was edited, is another run from there on.
std::string task_identity(const Session& session) {
  return session.task_plugin().name() + " " + session.task_plugin().version();
}

// What is counted and averaged for each loss belongs to its place among them.
nlohmann::json loss_identity(plugins::Task& task) {
  nlohmann::json losses = nlohmann::json::array();
  for (size_t i = 0; i < task.losses().size(); ++i)
    losses.push_back({{"name", task.losses()[i].name},
                      {"parameters", std::ranges::count(task.parameters(), i, &pl_parameter::loss)}});
  return losses;
}

std::vector<std::string> parameters_with(plugins::Task& task, uint32_t flag, bool is_set = true) {
  std::vector<std::string> names;
  for (const pl_parameter& parameter : task.parameters())
    if (((parameter.flags & flag) != 0) == is_set) names.emplace_back(view(parameter.name));
  return names;
}

bool is_finite(const float* values, uint64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  bool finite = true;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    finite &= (bits & kExponent) != kExponent;
  }
  return finite;
}

// Those among `names` whose values in the pieces are not all finite.
std::vector<std::string> ruined(const checkpoint::PieceSource& pieces,
                                const std::vector<std::string>& names) {
  const std::set<std::string_view> wanted(names.begin(), names.end());
  std::set<std::string> found;
  pieces([&](const pl_piece& piece) {
    if (view(piece.kind) == "value" && piece.dtype.code == PL_DTYPE_FLOAT && piece.dtype.bits == 32 &&
        wanted.contains(view(piece.parameter)) &&
        !is_finite(static_cast<const float*>(piece.data), piece.count))
      found.emplace(view(piece.parameter));
  });
  return {found.begin(), found.end()};
}

// The weights in a checkpoint, tensor by tensor.
checkpoint::PieceSource values_of(const checkpoint::Checkpoint& from) {
  return [&from](const checkpoint::PieceVisitor& visit) {
    std::vector<float> values;
    for (const checkpoint::Tensor& tensor : from.tensors()) {
      if (tensor.kind != "value") continue;
      values.resize(checkpoint::element_count(tensor.shape));
      pl_piece piece = sized<pl_piece>();
      piece.parameter = to_pl(tensor.parameter);
      piece.kind = to_pl(tensor.kind);
      piece.ndim = static_cast<uint32_t>(tensor.shape.size());
      piece.shape = tensor.shape.data();
      piece.count = values.size();
      piece.dtype = {PL_DTYPE_FLOAT, 32, 1};
      from.read(piece, values.data());
      piece.data = values.data();
      visit(piece);
    }
  };
}

std::string describe_data(const nlohmann::json& identity) {
  return fmt::format("{} training samples (content {})", identity.value("samples", nlohmann::json()).dump(),
                     identity.value("content", nlohmann::json()).dump());
}

}  // namespace

Checkpointer::Checkpointer(Session& session, const RunFolder& folder)
    : session_(session),
      log_(session.log()),
      folder_(folder),
      store_(store_options(session, folder)),
      group_(group_of(session.processes())),
      constant_(parameters_with(session.task(), PL_PARAMETER_TRAINABLE, false)),
      writer_(store_, group_, &constant_),
      every_(session.options().checkpoint.every),
      every_seconds_(session.options().checkpoint.every_seconds),
      saved_at_(now_seconds()) {}

void Checkpointer::begin_changed() {
  changes_ = changes_from_start(session_.config(), folder_.path());
  left_out_ = what_is_left_out(session_, parameters_with(session_.task(), PL_PARAMETER_TRAINABLE, false));
}

void Checkpointer::begin_branch(const checkpoint::Checkpoint& from) {
  for (const config::Difference& d :
       config::require_resumable(from.contents().config_toml, from.path(), session_.config(),
                                 session_.plugin_configs(), config::GoesOn::another))
    if (d.by_name)
      log_.info(fmt::format("after step {}: {} = {} (was {})", from.contents().step, d.key,
                            config::or_not_set(d.now), config::or_not_set(d.before)));
  require_same_numbers(from);
  constant_.continue_from(from, group_);
  changes_ = changes_from_start(session_.config(), folder_.path());
  left_out_ = from.contents().left_out;
}

bool Checkpointer::continue_changed(const checkpoint::Checkpoint& from) {
  const checkpoint::Contents& contents = from.contents();
  changes_ = contents.changes;
  for (const config::Difference& d : config::require_resumable(
           contents.config_toml, from.path(), session_.config(), session_.plugin_configs())) {
    // An option that an earlier version did not have.
    if (d.before.empty() && d.origin.kind == config::Origin::Kind::kDefault && !d.with_its_plugin) continue;
    if (d.is_gone)
      log_.warning(fmt::format("{} = {} in {} is no option any more", d.key, d.before, from.path()));
    else if (!d.with_its_plugin)
      log_.info(fmt::format("changed {}: {} = {} (was {})",
                            d.named ? fmt::format("after step {}", contents.step) : "since the checkpoint",
                            d.key, config::or_not_set(d.now), config::or_not_set(d.before)));
    if (!d.named) continue;
    if (d.key == "optimizer.momentum" && config::same_value(d.before, "0"))
      throw session_.config().error(
          d.key,
          fmt::format(
              "was 0 in {}, which has no momentum to go on from: leave it at 0, or start over with --fresh",
              from.path()));
    changes_.push_back({contents.step, d.key, d.before, d.now});
  }
  require_same_numbers(from);
  tell_of_other_task(from);
  constant_.continue_from(from, group_);
  left_out_ = contents.left_out;
  return changes_.size() > contents.changes.size();
}

void Checkpointer::require_same_numbers(const checkpoint::Checkpoint& from) const {
  const checkpoint::Contents& contents = from.contents();
  const auto then = nlohmann::json::parse(contents.identity_json, nullptr, false);
  const nlohmann::json data = data_identity(session_.task());
  if (then.is_object() && then.contains("data") && then["data"] != data)
    fail(PL_ERROR_CONFIG,
         "{}: the data is not what this run began with: {} now, {} then: bring it back, or start over with "
         "--fresh",
         from.path(), describe_data(data), describe_data(then["data"]));
  const nlohmann::json losses = loss_identity(session_.task());
  if (then.is_object() && then.contains("losses") && then["losses"] != losses)
    fail(PL_ERROR_CONFIG,
         "{}: the losses are not those that this run began with: {} now, {} then: bring them back in this "
         "order, or begin another run from it by train.init_from",
         from.path(), losses.dump(), then["losses"].dump());
  const uint64_t batch = session_.plan().global_batch;
  if (then.is_object() && then.value("global_batch", batch) != batch)
    log_.warning(
        fmt::format("{}: its steps had {} samples, those on so many devices have {}: in this epoch samples "
                    "are left out or repeated, and the number of steps is another; give train.global_batch, "
                    "which is the same on any number of devices",
                    from.path(), then["global_batch"].dump(), batch));
  const nlohmann::json now = numeric_identity(session_);
  std::string changes;
  for (const auto& [key, value] : now.items())
    if (!then.is_object() || !then.contains(key) || then[key] != value)
      changes += fmt::format("{}{} {} (was {})", changes.empty() ? "" : ", ", key, value.dump(),
                             then.is_object() && then.contains(key) ? then[key].dump() : "not recorded");
  if (changes.empty()) return;
  if ((session_.run_info().flags & PL_RUN_REPRODUCIBLE) != 0)
    fail(PL_ERROR_CONFIG,
         "{}: cannot be continued with the same bits, and run.reproducible = true: {}: run it as before, or "
         "start over with --fresh",
         from.path(), changes);
  log_.info("changed since the checkpoint, so the last digits of the results may differ: " + changes);
}

void Checkpointer::tell_of_other_task(const checkpoint::Checkpoint& from) const {
  const auto then = nlohmann::json::parse(from.contents().identity_json, nullptr, false);
  const std::string before = then.is_object() ? then.value("task", "") : "", now = task_identity(session_);
  if (before.empty() || before == now) return;
  log_.warning(
      fmt::format("{}: has changed since step {} of this run: task {} now, {} then. From here on the run is "
                  "what it says now; --fresh starts over",
                  session_.task_plugin().path().string(), from.contents().step, now, before));
}

bool Checkpointer::due(uint64_t step) const {
  if (step == 0 || step == saved_step_) return false;
  return (every_ > 0 && step % every_ == 0) ||
         (every_seconds_ > 0 && now_seconds() - saved_at_ >= every_seconds_);
}

void Checkpointer::continue_from(uint64_t step, bool has_metric) {
  saved_step_ = step;
  saved_metric_ = has_metric;
  saved_at_ = now_seconds();
}

void Checkpointer::tell(const std::optional<checkpoint::Saved>& saved) {
  if (!saved) return;
  last_ = saved->path;
  const std::string size = observe::human_bytes(saved->bytes);
  if (session_.run_info().rank == 0) {
    log_.info(fmt::format("saved {} ({}, {:.1f} s)", saved->path, size, saved->seconds));
  } else {
    log_.debug(
        fmt::format("saved {}, of which {} are this rank's ({:.1f} s)", saved->path, size, saved->seconds));
  }
  if (!saved->prune_problem.empty())
    log_.warning("an older checkpoint could not be removed: " + saved->prune_problem);
  for (const std::string& name : saved->pruned) log_.debug("removed the older checkpoint " + name);
}

template <class Function>
void Checkpointer::guarded(bool strict, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    if (const std::string lost = folder_.lost(); !lost.empty()) throw Error(lost);  // why it could not be
    const bool goes_on = error.code() == PL_ERROR_NO_SPACE && !strict &&
                         session_.options().checkpoint.on_full_disk == "continue";
    if (error.code() != PL_ERROR_NO_SPACE) throw;
    const std::string text =
        fmt::format("{}: make room, lower checkpoint.keep, or move run.dir to another disk", error.what());
    if (!goes_on)
      throw Error(error.code(), text + "; then the same command goes on from the checkpoint before");
    log_.warning(
        fmt::format("no checkpoint was written: {}; the one before is untouched, training goes on "
                    "(checkpoint.on_full_disk = \"continue\")",
                    text));
  }
}

std::string Checkpointer::lost() const {
  if (last_.empty() || writer_.pending()) return "";  // the next one may have taken its place by now
  if (is_there(last_)) return "";
  return fmt::format("{}: was removed while the run goes on, which could not have gone back to it", last_);
}

bool Checkpointer::saved(uint64_t step, bool with_metric) const {
  return saved_step_ == step && (saved_metric_ || !with_metric);
}

std::vector<std::string> Checkpointer::ruined_on_any_rank(const checkpoint::PieceSource& pieces) const {
  std::set<std::string> names;
  for (const nlohmann::json& rank : session_.processes().exchange(
           "ruined", ruined(pieces, parameters_with(session_.task(), PL_PARAMETER_TRAINABLE))))
    for (const nlohmann::json& name : rank) names.insert(name);
  return {names.begin(), names.end()};
}

void Checkpointer::require_finite(const std::string& weights) const {
  const plugins::Snapshot snapshot(session_.strategy().snapshot(PL_SNAPSHOT_VIEW | PL_SNAPSHOT_TRAINED));
  const std::vector<std::string> names =
      ruined_on_any_rank([&](const checkpoint::PieceVisitor& visit) { snapshot.pieces(visit); });
  if (!names.empty())
    fail(PL_ERROR_CONFIG,
         "{}: has values that are not finite, so nothing can be learnt: {}: begin from other weights",
         weights, observe::listed(names));
}

std::vector<std::string> Checkpointer::save(const TrainState& state,
                                            const std::optional<checkpoint::Metric>& metric, bool wait) {
  nlohmann::json identity = numeric_identity(session_);
  identity["data"] = data_identity(session_.task());
  identity["losses"] = loss_identity(session_.task());
  identity["global_batch"] = session_.plan().global_batch;
  identity["task"] = task_identity(session_);
  checkpoint::Contents contents{.step = state.step,
                                .train_state_json = state.to_json(),
                                .config_toml = session_.resolved_toml(),
                                .identity_json = identity.dump(),
                                .metric = metric,
                                .droppable = parameters_with(session_.task(), PL_PARAMETER_DROPPABLE),
                                .changes = changes_,
                                .left_out = left_out_};
  const bool background = !wait && session_.options().checkpoint.background;
  guarded(false, [&] { tell(writer_.finish()); });
  store_.set_sound(state.health.sound_before_skips());
  const bool is_frozen_wanted = left_out_.parameters.empty() && !constant_.is_in_place();
  const auto snapshot = std::make_shared<plugins::Snapshot>(session_.strategy().snapshot(
      (background ? PL_SNAPSHOT_COPY : PL_SNAPSHOT_VIEW) | (is_frozen_wanted ? 0 : PL_SNAPSHOT_TRAINED)));
  checkpoint::PieceSource pieces = [snapshot](const checkpoint::PieceVisitor& visit) {
    snapshot->pieces(visit);
  };
  if (wait)
    if (std::vector<std::string> names = ruined_on_any_rank(pieces); !names.empty()) return names;
  continue_from(state.step, metric.has_value());
  guarded(wait, [&] {
    if (session_.run_info().rank == 0) pieces = with_extra_state(session_.task(), std::move(pieces));
    if (background)
      writer_.start(std::move(contents), pieces);
    else
      tell(checkpoint::write(store_, contents, pieces, group_, &constant_));
  });
  return {};
}

void Checkpointer::poll() {
  guarded(false, [&] { tell(writer_.poll()); });
}

void Checkpointer::finish() {
  guarded(true, [&] { tell(writer_.finish()); });
}

void Checkpointer::set_aside(uint64_t step, Divergence& divergence) {
  store_.set_sound(divergence.health.sound());
  const std::vector<std::string> names = parameters_with(session_.task(), PL_PARAMETER_TRAINABLE);
  const auto is_good = [&](const std::string& path) {  // a loss need not depend on all weights
    try {
      return ruined(values_of(checkpoint::Checkpoint::open(path)), names).empty();
    } catch (const Error&) {
      return false;
    }
  };
  auto good = store_.newest_sound();
  while (good && !is_good(good->path)) {
    store_.set_sound(good->step - 1);
    good = good->step > 0 ? store_.newest_sound() : std::nullopt;
  }
  if (good) divergence.last_good = good->path;
  divergence.set_aside = store_.set_aside(step);
}

}  // namespace pipeline::train
