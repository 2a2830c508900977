#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pipeline/options.hpp>
#include <pipeline/strategy.hpp>
#include <pipeline/torch/runtime.hpp>

#include <ATen/core/grad_mode.h>

#include "plugins/strategies/common/extensions.hpp"
#include "plugins/strategies/common/gradient_norm.hpp"
#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/step.hpp"
#include "plugins/strategies/sharded/reducer.hpp"
#include "plugins/strategies/sharded/shard.hpp"
#include "plugins/strategies/sharded/step_figures.hpp"
#include "plugins/strategies/sharded/unit_slots.hpp"

namespace pipeline::strategies {

struct ShardedConfig {
  int64_t zero_stage = 2;
  double bucket_mib = 8;
  std::string reduction = "fp32";
  bool overlap = true;
  int64_t unit_slots = 2;
  bool offload = false;
  bool offload_weights = false;
  std::string shard_group = "all";

  void describe(Options& o) {
    o("zero_stage", zero_stage, "1 shards optimizer state, 2 also gradients, 3 also parameters")
        .min(1)
        .max(3)
        .may_change();
    o("bucket_mib", bucket_mib, "maximum size of a bucket of gradients or weights")
        .above(0)
        .unit("MiB")
        .may_change();
    o("reduction", reduction, "dtype in which gradients are sent; bf16 halves the bytes; sums are in fp32")
        .choices({"fp32", "bf16"});
    o("overlap", overlap, "send during the backward pass, gather during the forward pass").may_change();
    o("unit_slots", unit_slots, "stage 3: units, besides unit 0, whose weights are held whole at once")
        .min(1)
        .may_change();
    o("shard_group", shard_group,
      "processes that hold one copy in shards: all, host (those of a host), or a number, as in \"4\"; "
      "gradients are "
      "summed between groups")
        .may_change();
    o("offload", offload, "keep optimizer state in pinned host memory; needs CUDA").may_change();
    o("offload_weights", offload_weights,
      "stage 3: keep weights in pinned host memory, too; each unit's are on the device while it is used")
        .may_change();
  }
};

// ZeRO (arXiv 1910.02054): every rank has its shard of the optimizer's state (stage 1), of the gradients'
// sums (2), of the weights (3), and updates that alone. README.md has the memory that this takes.
//
// A parameter that gets no gradient in a step is updated with a gradient of zero.
class Sharded : public Strategy<ShardedConfig> {
 public:
  explicit Sharded(Setup setup)
      : Strategy(std::move(setup)),
        device_(open_device(run())),
        groups_(context(), is_training() ? communicator() : nullptr, config().shard_group, errors(), device_),
        ranks_(groups_.within()),
        layout_(make_layout(parameters(), run(), ranks_.size() * kChunk)),
        partition_(*layout_, ranks_.rank(), ranks_.size(), bucket_length(), config().zero_stage == 3),
        values_(is_training() && config().zero_stage == 3
                    ? nullptr
                    : std::make_unique<Values>(layout_, partition_, ranks_, dtype())),
        shard_(
            context(), layout_, partition_, parameters(), optimizers(),
            {.dtype = dtype(),
             .device = device_,
             .arena = values_ ? &values_->arena() : nullptr,
             .state_on_host = is_offloaded(config().offload, "offload"),
             .weights_on_host = is_training() && is_offloaded(config().offload_weights, "offload_weights")}),
        tensors_(make_tensor_exchange()),
        reducer_(make_reducer()),
        figures_(*layout_, partition_, groups_.all(), config().zero_stage > 1, context().reproducible()) {
    check_config();
    apply_run_settings(context());
    if (values_) {
      bind_to(*values_);
    } else {
      unit_slots_ = std::make_unique<UnitSlots>(layout_, partition_, ranks_, shard_, dtype(),
                                                static_cast<size_t>(config().unit_slots));
      bind_to(*unit_slots_);
    }
  }

  static const void* query(std::string_view extension) { return extension_named(extension); }

  pl_strategy_info info() override {
    auto info = sized<pl_strategy_info>();
    info.flags = PL_STRATEGY_SAVES_TRAINED | PL_STRATEGY_TAKES_LOSSES;
    if (has_unit_slots()) info.flags |= PL_STRATEGY_NEEDS_UNIT_HOOKS;
    if (reducer_->takes_rows()) info.flags |= PL_STRATEGY_TAKES_ROWS;
    info.micro_batch_order = config().zero_stage > 1 ? PL_ORDER_INTERLEAVED : PL_ORDER_BLOCK;
    info.gradient_dtype = info.master_dtype = kFloat32;
    info.optimizer_dtype = shard_.optimizer_dtype();
    info.reduction_dtype = config().reduction == "bf16" ? kBFloat16 : kFloat32;
    return info;
  }

  Storage storage(uint64_t index) override {
    const pl_tensor value = views_[index].get();
    pl_tensor grad = value;
    grad.data = nullptr;  // hand over
    return {value, grad};
  }

  void enter_unit(uint32_t unit, uint32_t pass) override {
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

  void leave_unit(uint32_t unit, uint32_t pass) override {
    if (!has_unit_slots() || gathered_) return;
    const at::NoGradGuard no_grad;
    unit_slots_->leave(unit);
    if (pass == PL_PASS_FORWARD_ALONE) return;
    unit_order_.add({unit, pass, false});
    if (pass == PL_PASS_BACKWARD && unit_order_.is_through(unit)) reducer_->end_unit(unit);
  }

  void begin_step(uint64_t micro_batches) override {
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

  void gradient_ready(Gradient gradient) override {
    const auto slot = slot_of(gradient, parameters(), *layout_, run().device);
    progress_.require_micro_batch(parameters()[gradient.index()].name);
    if (!slot) return;
    const at::NoGradGuard no_grad;
    const RunStreamScope stream(run(), gradient.stream());
    reducer_->take(*slot, gradient);
  }

  void end_micro_batch(const pl_tensor* loss) override {
    const bool last = progress_.in_last_micro_batch();
    progress_.end_micro_batch();
    const at::NoGradGuard no_grad;
    if (loss == nullptr && has_unit_slots() && !unit_order_.has_begun()) keep_step_without_micro_batch();
    reducer_->end_micro_batch(loss == nullptr);
    figures_.add(keep_loss(loss));
    unit_order_.end();
    if (has_unit_slots() && config().overlap && !last) prefetch(unit_order_.next());
  }

  uint64_t step(const pl_step_args& args) override {
    progress_.finish();
    const at::NoGradGuard no_grad;
    reducer_->finish();
    const StepFigures::Totals totals = figures_.gather(shard_.squares(figures_.in_chunks()));
    const Verdict verdict = judge(totals.squares, args);
    if (verdict.skip) {
      shard_.clear_gradients();
    } else {
      update(args.learning_rate, verdict.scales);
    }
    return last_ticket_ = reports_.push(totals.loss, verdict.grad_norm, verdict.finite);
  }

  pl_step_report collect(uint64_t ticket) override {
    // Who asks for the last step may look at its weights, too: an evaluation.
    if (values_ && ticket == last_ticket_) values_->wait_all();
    return reports_.collect(ticket);
  }

  void load_state(const StateReader& reader) override {
    const at::NoGradGuard no_grad;
    if (values_) values_->wait_all();
    shard_.load(reader);
    publish();
  }

  std::unique_ptr<Snapshot> snapshot(uint32_t mode) override {
    const at::NoGradGuard no_grad;
    if (groups_.between().rank() > 0) return no_pieces();  // the first group has them
    return shard_.snapshot(mode);
  }

  void memory(const MemoryVisitor& visit) override {
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

  void swap_average() override {
    const at::NoGradGuard no_grad;
    if (values_) values_->wait_all();
    shard_.swap_average();
    publish();
  }

  void gather() override {
    const at::NoGradGuard no_grad;
    if (!has_unit_slots()) return values_->wait_all();
    // All ranks or none: who is short of memory must not leave the others waiting.
    std::vector<int32_t> is_short{0};
    try {
      gathered_ = std::make_unique<Values>(layout_, partition_, ranks_, dtype());
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

  void release() override {
    if (!has_unit_slots()) return;
    bind_to(*unit_slots_);
    gathered_.reset();
  }

 private:
  int64_t bucket_length() const {
    return static_cast<int64_t>(config().bucket_mib * (1 << 20) / sizeof(float));
  }
  bool is_training() const { return run().purpose == PL_PURPOSE_TRAIN; }
  bool has_unit_slots() const { return unit_slots_ != nullptr; }

  at::ScalarType dtype() const { return to_torch(run().parameter_dtype); }

  bool is_offloaded(bool asked, const char* option) const {
    if (asked && device_.is_cpu())
      config_error(
          option, "it would be in host memory, where it is already, since this run is on the CPU: remove it");
    return asked;
  }

  void check_config() const {
    if (config().offload_weights && config().zero_stage < 3)
      config_error("offload_weights",
                   "needs strategy.zero_stage = 3: below that every process has all weights");
    if (config().reduction == "bf16" && context().reproducible()) {
      config_error("reduction",
                   "rounds only the gradients that are sent, which depends on the number of processes: with "
                   "run.reproducible = true use \"fp32\"");
    }
  }

  std::unique_ptr<TensorExchange> make_tensor_exchange() const {
    std::vector<size_t> slots;
    for (const Group& group : layout_->groups()) {
      if (!shard_.has_tensor_rule(group)) continue;
      for (size_t i = 0; i < group.slot_count; ++i) slots.push_back(group.first_slot + i);
    }
    if (slots.empty()) return nullptr;
    return std::make_unique<TensorExchange>(layout_, partition_, ranks_, std::move(slots));
  }

  std::unique_ptr<Reducer> make_reducer() {
    const ReducerArgs args{.layout = layout_,
                           .partition = partition_,
                           .groups = groups_,
                           .ranks = ranks_,
                           .shard = shard_,
                           .every_micro_batch = config().zero_stage > 1};
    if (context().reproducible()) return ordered_reducer(args, run().micro_batches);
    // A unit may be left in the backward pass of a loss that runs through it, before the one that trains it.
    const bool at_the_end = !config().overlap || (config().zero_stage == 3 && layout_->losses() > 1);
    const auto when = at_the_end                 ? SendWhen::kMicroBatchEnd
                      : config().zero_stage == 3 ? SendWhen::kUnitEnd
                                                 : SendWhen::kComplete;
    return eager_reducer(args, parameters(), when, config().reduction == "bf16" ? at::kBFloat16 : at::kFloat);
  }

  template <class Place>
  void bind_to(const Place& place) {
    views_.clear();
    for (size_t i = 0; i < parameters().size(); ++i) {
      views_.emplace_back(place.address(i), dtype_of(parameters()[i], run()), parameters()[i].stored_shape(),
                          run().device);
    }
  }

  void prefetch(std::optional<uint32_t> unit) {
    if (unit) unit_slots_->prefetch(*unit);
  }

  // The other ranks gather and send as they go through their units: so must this one.
  void keep_step_without_micro_batch() {
    const std::vector<UnitOrder::Event> events = unit_order_.last();
    for (const UnitOrder::Event& event : events) {
      if (event.enter) {
        enter_unit(event.unit, event.pass);
      } else {
        leave_unit(event.unit, event.pass);
      }
    }
  }

  // The weights of units that the task does not announce must be there before it begins.
  void wait_for_units_without_hooks() {
    for (const Region& region : layout_->regions()) {
      if (!entered_.contains(region.unit)) values_->wait(region.begin, region.end);
    }
  }

  // Puts what is in the shards into what the task is bound to.
  void publish() {
    if (has_unit_slots()) return unit_slots_->invalidate();
    values_->gather_all(shard_);
    values_->wait_all();
  }

  void update(double learning_rate, const LossScales& scales) {
    if (values_) values_->wait_all();  // of a unit that this step did not enter
    shard_.advance(scales);
    if (tensors_) shard_.update_tensors(*tensors_, learning_rate, scales);
    for (size_t bucket = 0; bucket < partition_.trainable_buckets(); ++bucket) {
      shard_.update(bucket, learning_rate, scales);
      if (values_) values_->gather(bucket, shard_);
    }
    if (values_ && !config().overlap) values_->wait_all();
    if (!has_unit_slots()) return;
    unit_slots_->invalidate();
    if (config().overlap) prefetch(unit_order_.next());
  }

  at::Device device_;
  ShardGroups groups_;
  const RankGroup& ranks_;  // that hold the other shards
  std::shared_ptr<const Layout> layout_;
  Partition partition_;
  std::unique_ptr<Values> values_;  // but for stage 3 in training
  Shard shard_;
  std::unique_ptr<UnitSlots> unit_slots_;  // for that
  std::unique_ptr<Values> gathered_;       // with slots, between gather() and release()
  std::vector<TensorView> views_;
  std::unique_ptr<TensorExchange> tensors_;  // where a rule of tensors updates some
  std::unique_ptr<Reducer> reducer_;
  StepFigures figures_;
  StepProgress progress_;
  UnitOrder unit_order_;
  std::set<uint32_t> entered_;  // units that the task has entered so far
  ReportQueue reports_;
  uint64_t last_ticket_ = 0;
};

}  // namespace pipeline::strategies

PIPELINE_STRATEGY(pipeline::strategies::Sharded, "sharded", "1.0.0",
                  "Optimizer state, gradients and weights sharded across processes (ZeRO 1, 2, 3)")
