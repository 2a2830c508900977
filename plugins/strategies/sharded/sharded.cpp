#include "plugins/strategies/sharded/sharded.hpp"

#include <optional>
#include <utility>

#include <pipeline/torch/runtime.hpp>

#include <ATen/core/grad_mode.h>

#include "plugins/strategies/common/extensions.hpp"
#include "plugins/strategies/common/gradient_check.hpp"
#include "plugins/strategies/common/gradient_norm.hpp"
#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/sharded/eager_reducer.hpp"

namespace pipeline::strategies {
namespace {

int64_t bucket_length(double mib) { return static_cast<int64_t>(mib * (1 << 20) / sizeof(float)); }

}  // namespace

const void* Sharded::query(std::string_view extension) { return extension_named(extension); }

Sharded::Sharded(Setup setup)
    : Strategy(std::move(setup)),
      device_(open_device(run())),
      groups_(context(), is_training() ? communicator() : nullptr, config().shard_group, errors(), device_),
      peers_(groups_.within()),
      layout_(make_layout(parameters(), run(), peers_.size() * kChunk)),
      partition_(*layout_, peers_.rank(), peers_.size(), bucket_length(config().bucket_mib),
                 config().zero_stage == 3),
      values_(is_training() && config().zero_stage == 3
                  ? nullptr
                  : std::make_unique<Values>(layout_, partition_, peers_, dtype())),
      shard_(context(), layout_, partition_, parameters(), optimizers(),
             {.dtype = dtype(),
              .device = device_,
              .arena = values_ ? &values_->arena() : nullptr,
              .state_on_host = is_offloaded(config().offload, "offload"),
              .weights_on_host = is_training() && is_offloaded(config().offload_weights, "offload_weights")}),
      tensors_(make_tensor_exchange()),
      reducer_(make_reducer()),
      figures_(partition_, groups_.all(), config().zero_stage > 1, context().reproducible()) {
  check_config();
  apply_run_settings(context());
  if (values_) {
    bind_to(*values_);
  } else {
    unit_slots_ = std::make_unique<UnitSlots>(layout_, partition_, peers_, shard_, dtype(),
                                              static_cast<size_t>(config().unit_slots));
    bind_to(*unit_slots_);
  }
}

bool Sharded::is_offloaded(bool asked, const char* option) const {
  if (asked && device_.is_cpu())
    config_error(option,
                 "it would be in host memory, where it is already, since this run is on the CPU: remove it");
  return asked;
}

void Sharded::check_config() const {
  if (config().offload_weights && config().zero_stage < 3)
    config_error("offload_weights",
                 "needs strategy.zero_stage = 3: below that every process has all weights");
  if (config().reduction == "bf16" && context().reproducible()) {
    config_error("reduction",
                 "rounds only the gradients that are sent, which depends on the number of processes: with "
                 "run.reproducible = true use \"fp32\"");
  }
}

std::unique_ptr<TensorExchange> Sharded::make_tensor_exchange() const {
  std::vector<size_t> slots;
  for (const Group& group : layout_->groups()) {
    if (!shard_.has_tensor_rule(group)) continue;
    for (size_t i = 0; i < group.slot_count; ++i) slots.push_back(group.first_slot + i);
  }
  if (slots.empty()) return nullptr;
  return std::make_unique<TensorExchange>(layout_, partition_, peers_, std::move(slots));
}

at::ScalarType Sharded::dtype() const { return to_torch(run().parameter_dtype); }

std::unique_ptr<Reducer> Sharded::make_reducer() {
  const ReducerArgs args{.layout = layout_,
                         .partition = partition_,
                         .groups = groups_,
                         .peers = peers_,
                         .shard = shard_,
                         .every_micro_batch = config().zero_stage > 1};
  if (context().reproducible()) return std::make_unique<OrderedReducer>(args, run().micro_batches);
  const auto when = !config().overlap          ? EagerReducer::When::kMicroBatchEnd
                    : config().zero_stage == 3 ? EagerReducer::When::kUnitEnd
                                               : EagerReducer::When::kComplete;
  return std::make_unique<EagerReducer>(args, parameters(), when,
                                        config().reduction == "bf16" ? at::kBFloat16 : at::kFloat);
}

template <class Place>
void Sharded::bind_to(const Place& place) {
  views_.clear();
  for (size_t i = 0; i < parameters().size(); ++i) {
    views_.emplace_back(place.address(i), dtype_of(parameters()[i], run()), parameters()[i].shape,
                        run().device);
  }
}

void Sharded::gather() {
  const at::NoGradGuard no_grad;
  if (!has_unit_slots()) return values_->wait_all();
  // All ranks or none: who is short of memory must not leave the others waiting.
  std::vector<int32_t> is_short{0};
  try {
    gathered_ = std::make_unique<Values>(layout_, partition_, peers_, dtype());
  } catch (const std::exception&) {
    is_short[0] = 1;
  }
  groups_.all().maximum(is_short);
  if (is_short[0] != 0) {
    gathered_.reset();
    fail_with(PL_ERROR_OUT_OF_MEMORY, "an evaluation needs all ", layout_->length(),
              " weights on each device, and "
              "there is no memory for them: set evaluate.every = 0 and evaluate.at_end = false");
  }
  gathered_->gather_all(shard_);
  gathered_->wait_all();
  bind_to(*gathered_);
}

void Sharded::release() {
  if (!has_unit_slots()) return;
  bind_to(*unit_slots_);
  gathered_.reset();
}

pl_strategy_info Sharded::info() {
  auto info = sized<pl_strategy_info>();
  if (has_unit_slots()) info.flags |= PL_STRATEGY_NEEDS_UNIT_HOOKS;
  if (reducer_->takes_rows()) info.flags |= PL_STRATEGY_TAKES_ROWS;
  info.micro_batch_order = config().zero_stage > 1 ? PL_ORDER_INTERLEAVED : PL_ORDER_BLOCK;
  info.gradient_dtype = info.master_dtype = kFloat32;
  info.optimizer_dtype = shard_.optimizer_dtype();
  info.reduction_dtype = config().reduction == "bf16" ? kBFloat16 : kFloat32;
  return info;
}

Sharded::Storage Sharded::storage(uint64_t index) {
  const pl_tensor value = views_[index].get();
  pl_tensor grad = value;
  grad.data = nullptr;  // hand over
  return {value, grad};
}

void Sharded::enter_unit(uint32_t unit, uint32_t pass) {
  const at::NoGradGuard no_grad;
  if (!has_unit_slots()) {
    entered_.insert(unit);
    for (const Region& region : layout_->regions()) {
      if (region.unit == unit) values_->wait(region.begin, region.end);
    }
    return;
  }
  if (gathered_) return;
  unit_slots_->enter(unit);
  // A pass before the micro-batches is no part of the order of one.
  if (pass != PL_PASS_FORWARD_ALONE) unit_order_.add({unit, pass, true});
  if (config().overlap)
    prefetch(pass == PL_PASS_FORWARD_ALONE ? unit_order_.after_forward(unit) : unit_order_.next());
}

void Sharded::leave_unit(uint32_t unit, uint32_t pass) {
  if (!has_unit_slots() || gathered_) return;
  const at::NoGradGuard no_grad;
  unit_slots_->leave(unit);
  if (pass == PL_PASS_FORWARD_ALONE) return;
  unit_order_.add({unit, pass, false});
  if (pass == PL_PASS_BACKWARD && unit_order_.is_through(unit)) reducer_->end_unit(unit);
}

void Sharded::prefetch(std::optional<uint32_t> unit) {
  if (unit) unit_slots_->prefetch(*unit);
}

void Sharded::begin_step(uint64_t micro_batches) {
  if (gathered_) fail("begin_step: between gather and release");
  progress_.begin(micro_batches);
  const at::NoGradGuard no_grad;
  figures_.begin();
  reducer_->begin(micro_batches);
  unit_order_.abandon();
  if (has_unit_slots()) {
    unit_slots_->abandon();
  } else {
    wait_for_units_without_hooks();
  }
}

// The weights of units that the task does not announce must be there before it begins.
void Sharded::wait_for_units_without_hooks() {
  for (const Region& region : layout_->regions()) {
    if (!entered_.contains(region.unit)) values_->wait(region.begin, region.end);
  }
}

void Sharded::gradient_ready(Gradient gradient) {
  const auto slot = slot_of(gradient, parameters(), *layout_, run().device);
  progress_.require_micro_batch(parameters()[gradient.index()].name);
  if (!slot) return;
  const at::NoGradGuard no_grad;
  const RunStreamScope stream(run(), gradient.stream());
  reducer_->take(*slot, gradient);
}

void Sharded::end_micro_batch(const pl_tensor* loss) {
  const bool last = progress_.in_last_micro_batch();
  progress_.end_micro_batch();
  const at::NoGradGuard no_grad;
  if (loss == nullptr && has_unit_slots() && !unit_order_.has_begun()) keep_step_without_micro_batch();
  reducer_->end_micro_batch(loss == nullptr);
  figures_.add(keep_loss(loss));
  unit_order_.end();
  if (has_unit_slots() && config().overlap && !last) prefetch(unit_order_.next());
}

// The other ranks gather and send as they go through their units: so must this one.
void Sharded::keep_step_without_micro_batch() {
  const std::vector<UnitOrder::Event> events = unit_order_.last();
  for (const UnitOrder::Event& event : events) {
    if (event.enter) {
      enter_unit(event.unit, event.pass);
    } else {
      leave_unit(event.unit, event.pass);
    }
  }
}

uint64_t Sharded::step(const pl_step_args& args) {
  progress_.finish();
  const at::NoGradGuard no_grad;
  reducer_->finish();
  const StepFigures::Totals totals = figures_.gather(shard_.squares(context().reproducible()));
  const Verdict verdict = judge(totals.sum_of_squares, args);
  if (verdict.skip) {
    shard_.clear_gradients();
  } else {
    update(args.learning_rate, verdict.scale);
  }
  return last_ticket_ = reports_.push(totals.loss, verdict.grad_norm, verdict.finite);
}

void Sharded::update(double learning_rate, const GradientScale& scale) {
  if (values_) values_->wait_all();  // of a unit that this step did not enter
  shard_.advance(scale);
  if (tensors_) shard_.update_tensors(*tensors_, learning_rate, scale);
  for (size_t bucket = 0; bucket < partition_.trainable_buckets(); ++bucket) {
    shard_.update(bucket, learning_rate, scale);
    if (values_) values_->gather(bucket, shard_);
  }
  if (values_ && !config().overlap) values_->wait_all();
  if (!has_unit_slots()) return;
  unit_slots_->invalidate();
  if (config().overlap) prefetch(unit_order_.next());
}

pl_step_report Sharded::collect(uint64_t ticket) {
  // Who asks for the last step may look at its weights, too: an evaluation.
  if (values_ && ticket == last_ticket_) values_->wait_all();
  return reports_.collect(ticket);
}

void Sharded::load_state(const StateReader& reader) {
  const at::NoGradGuard no_grad;
  if (values_) values_->wait_all();
  shard_.load(reader);
  publish();
}

// Puts what is in the shards into what the task is bound to.
void Sharded::publish() {
  if (has_unit_slots()) return unit_slots_->invalidate();
  values_->gather_all(shard_);
  values_->wait_all();
}

void Sharded::swap_average() {
  const at::NoGradGuard no_grad;
  if (values_) values_->wait_all();
  shard_.swap_average();
  publish();
}

std::unique_ptr<Snapshot> Sharded::snapshot(uint32_t mode) {
  const at::NoGradGuard no_grad;
  if (groups_.between().rank() > 0) return no_pieces();  // the first group has them
  return shard_.snapshot(mode);
}

void Sharded::memory(const MemoryVisitor& visit) {
  const auto say = [&](std::string_view what, uint64_t bytes) {
    if (bytes > 0) visit(what, bytes);
  };
  if (values_) {
    visit("parameters", values_->arena().bytes());
    say("master weights", shard_.value_bytes());
  } else {
    visit("parameters", shard_.value_bytes());
    visit("units in use", unit_slots_->bytes());
  }
  say("gradients", shard_.gradient_bytes());
  reducer_->memory(visit);
  say("optimizer state", shard_.optimizer_bytes());
}

}  // namespace pipeline::strategies

PIPELINE_STRATEGY(pipeline::strategies::Sharded, "sharded", "1.0.0",
                  "Optimizer state, gradients and weights sharded across processes (ZeRO 1, 2, 3)")
