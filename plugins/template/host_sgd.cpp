// A strategy without LibTorch: every process holds all parameters in host memory, in float32, and updates
// them by SGD as PyTorch defines it. `pipeline new strategy` copies this file; change what is yours.
#include <pipeline/strategy.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace {

using pipeline::kFloat32, pipeline::kFloat64, pipeline::same;
using Floats = std::vector<float>;

// A sum of gradients in a fixed order: node k holds the sum of 2^k micro-batches or is empty, and two nodes
// of one size make the next. So the bits are the same on any power of two of processes.
class Tree {
 public:
  void push(Floats leaf) {
    size_t level = 0;
    while (level < nodes_.size() && !nodes_[level].empty()) add(leaf, std::exchange(nodes_[level++], {}));
    if (level == nodes_.size()) nodes_.emplace_back();
    nodes_[level] = std::move(leaf);
  }
  // Leaves the tree empty.
  Floats take(size_t count) {
    Floats sum(count);
    for (Floats& node : nodes_)
      if (!node.empty()) add(sum, std::exchange(node, {}));
    return sum;
  }
  size_t nodes() const { return nodes_.size(); }

 private:
  static void add(Floats& sum, const Floats& other) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  }

  std::vector<Floats> nodes_;
};

// What a checkpoint holds.
struct State {
  Floats value, momentum;  // of all parameters, one after the other
  int64_t updates = 0;
};

class HostSgd : public pipeline::Strategy<pipeline::NoConfig> {
 public:
  explicit HostSgd(Setup setup) : Strategy(std::move(setup)) {
    if (run().device.type != PL_DEVICE_CPU)
      pipeline::fail_with(PL_ERROR_UNSUPPORTED, "computes in host memory only: set run.device = \"cpu\"");
    if (!same(run().parameter_dtype, kFloat32))
      pipeline::fail_with(PL_ERROR_UNSUPPORTED, "keeps float32 only: set train.precision = \"fp32\"");
    for (const pipeline::OptimizerRule& rule : optimizers()) {
      pipeline::require_known_flags("the optimizer", rule.flags, 0);
      if (rule.name != "sgd")
        pipeline::fail_with(PL_ERROR_UNSUPPORTED, "has one optimizer: set optimizer.kind = \"sgd\"");
      rule.require_options({"momentum", "nesterov", "weight_decay"});
    }
    for (const pipeline::Parameter& p : parameters()) {
      begin_.push_back(gradient_.size());
      gradient_.resize(gradient_.size() + p.count());
    }
    state_.value.resize(gradient_.size());
    state_.momentum.resize(gradient_.size());
    for (size_t i = 0; i < begin_.size(); ++i) {
      const pipeline::Parameter& p = parameters()[i];
      values_.emplace_back(state_.value.data() + begin_[i], kFloat32, p.shape);
      gradients_.emplace_back(p.trainable ? gradient_.data() + begin_[i] : nullptr, kFloat32, p.shape);
    }
  }

  pl_strategy_info info() override {
    auto info = pipeline::sized<pl_strategy_info>();
    info.micro_batch_order = PL_ORDER_BLOCK;
    info.gradient_dtype = info.reduction_dtype = info.master_dtype = info.optimizer_dtype = kFloat32;
    return info;
  }
  Storage storage(uint64_t index) override { return {values_[index].get(), gradients_[index].get()}; }
  void memory(const pipeline::MemoryVisitor& visit) override {
    const uint64_t bytes = gradient_.size() * sizeof(float);
    visit("parameters", bytes);
    visit("gradients", bytes * (1 + tree_.nodes()));
    visit("momentum", bytes);
  }

  void begin_step(uint64_t /*micro_batches*/) override {
    std::ranges::fill(gradient_, 0.0f);
    loss_ = 0;
  }
  void gradient_ready(pipeline::Gradient /*gradient*/) override {}  // the task has added it to gradient_
  void end_micro_batch(const pl_tensor* loss) override {
    if (loss != nullptr)
      loss_ += same(loss->dtype, kFloat64) ? pipeline::elements<double>(*loss, kFloat64)[0]
                                           : double(pipeline::elements<float>(*loss, kFloat32)[0]);
    tree_.push(gradient_);
    std::ranges::fill(gradient_, 0.0f);
  }
  uint64_t step(const pl_step_args& args) override {
    Floats gradient = sum_over_ranks(tree_.take(gradient_.size()));
    double squares = 0;
    for (const float g : gradient) squares += double(g) * double(g);
    auto& report = reports_[steps_ % 2] = pipeline::sized<pl_step_report>();
    report.grad_norm = std::sqrt(squares) * args.inverse_scale;
    report.loss_sum = loss_;
    report.finite = std::isfinite(report.grad_norm) ? 1 : 0;
    if (report.finite == 0) return steps_++;
    double scale = args.inverse_scale;
    if (args.clip_norm > 0) scale *= std::min(1.0, args.clip_norm / (report.grad_norm + 1e-6));
    if (args.clip_value > 0) {
      const auto limit = static_cast<float>(args.clip_value / args.inverse_scale);
      for (float& g : gradient) g = std::clamp(g, -limit, limit);
    }
    for (size_t i = 0; i < begin_.size(); ++i)
      if (parameters()[i].trainable) update(i, gradient, scale, args.learning_rate);
    ++state_.updates;
    return steps_++;
  }
  pl_step_report collect(uint64_t ticket) override { return reports_[ticket % 2]; }

  void load_state(const pipeline::StateReader& reader) override {
    state_.updates = 0;
    std::ranges::fill(state_.momentum, 0.0f);
    visit_pieces(state_, [&](const pipeline::Piece& piece, void* data) {
      if (piece.kind == "value" || !reader.values_only()) reader.read(piece, data);
    });
  }
  std::unique_ptr<pipeline::Snapshot> snapshot(uint32_t /*mode*/) override {  // a copy is as good as a view
    return std::make_unique<Copy>(*this, state_);
  }

 private:
  struct Copy : pipeline::Snapshot {
    Copy(const HostSgd& strategy, State state) : of(strategy), copied(std::move(state)) {}
    void visit(const Visitor& visitor) const override {
      if (of.run().rank != 0) return;  // rank 0 owns all of it
      of.visit_pieces(copied, [&](pipeline::Piece piece, const void* data) {
        piece.data = data;
        visitor(piece);
      });
    }
    const HostSgd& of;  // for names and shapes, which never change
    const State copied;
  };

  template <class StateT, class Visit>
  void visit_pieces(StateT& state, Visit&& visit) const {
    for (size_t i = 0; i < begin_.size(); ++i) {
      const pipeline::Parameter& p = parameters()[i];
      pipeline::Piece piece{.parameter = p.name, .kind = "value", .shape = p.shape, .count = p.count()};
      visit(piece, state.value.data() + begin_[i]);
      if (!p.trainable || optimizers()[p.optimizer].option("momentum") == 0) continue;
      piece.kind = "momentum";
      visit(piece, state.momentum.data() + begin_[i]);
    }
    pipeline::Piece step;
    step.kind = "step";
    step.count = 1;
    step.dtype = pipeline::kInt64;
    visit(step, &state.updates);
  }

  // The sums of all ranks, given this rank's; the ranks continue the tree over their micro-batches.
  Floats sum_over_ranks(Floats mine) {
    const pipeline::Communicator* ranks = communicator();
    if (ranks == nullptr) return mine;
    const auto size = size_t(ranks->world_size());
    Floats all(size * mine.size());
    std::vector<double> losses(size);
    ranks->all_gather(floats(mine), floats(all)).wait_host();
    ranks->all_gather(pipeline::buffer(&loss_, 1, kFloat64), pipeline::buffer(losses.data(), size, kFloat64))
        .wait_host();
    loss_ = 0;
    for (const double loss : losses) loss_ += loss;
    Tree sums;
    for (auto part = all.begin(); part != all.end(); part += std::ptrdiff_t(mine.size()))
      sums.push({part, part + std::ptrdiff_t(mine.size())});
    return sums.take(mine.size());
  }
  static pl_buffer floats(Floats& data) {
    return pipeline::buffer(data.data(), data.size(), kFloat32, pipeline::kCpu, pipeline::kNoStream,
                            "gradients");
  }

  // `scale`: of the gradient, with clipping.
  void update(size_t i, const Floats& gradient, double scale, double learning_rate) {
    const pipeline::Parameter& p = parameters()[i];
    const pipeline::OptimizerRule& rule = optimizers()[p.optimizer];
    const double mu = rule.option("momentum"), decay = rule.option("weight_decay");
    for (size_t j = begin_[i]; j < begin_[i] + p.count(); ++j) {
      float& value = state_.value[j];
      double direction = double(gradient[j]) * scale + decay * double(value);
      if (mu != 0) {
        const double velocity = mu * double(state_.momentum[j]) + direction;
        state_.momentum[j] = float(velocity);
        direction = rule.option("nesterov") != 0 ? direction + mu * velocity : velocity;
      }
      value -= float(learning_rate * p.lr_multiplier * direction);
    }
  }

  State state_;
  Floats gradient_;            // of the micro-batch under way
  std::vector<size_t> begin_;  // where each parameter begins in these
  std::vector<pipeline::TensorView> values_, gradients_;
  Tree tree_;
  double loss_ = 0;
  uint64_t steps_ = 0;
  std::array<pl_step_report, 2> reports_{};  // of the last two steps
};

}  // namespace

PIPELINE_STRATEGY(HostSgd, "host_sgd", "1.0.0", "SGD in host memory")
