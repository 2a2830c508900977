// DiLoCo (Douillard et al., arXiv 2311.08105): each process trains a copy of the weights by itself with
// AdamW, the inner optimizer. After every sync_steps updates the mean of what the copies have moved is the
// gradient of a Nesterov step, the outer one, of the weights that all share; from those the copies go on.
#include <pipeline/strategy.hpp>
#include <pipeline/torch/runtime.hpp>

#include <array>

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace {

using pipeline::concat, pipeline::fail, pipeline::fail_with, pipeline::kFloat32, pipeline::kInt64,
    pipeline::kUInt8, pipeline::to_pl;

constexpr int64_t kAlignment = 32;             // elements: 64 bytes also of a narrow dtype
constexpr int64_t kAtOnce = int64_t{1} << 23;  // elements that are exchanged at once, about
struct Config {
  int64_t sync_steps = 100;
  double outer_lr = 0.7, outer_momentum = 0.9;
  void describe(pipeline::Options& o) {
    o("sync_steps", sync_steps, "updates that each process makes by itself before an outer step").min(1);
    o("outer_lr", outer_lr, "learning rate of the outer step").above(0);
    o("outer_momentum", outer_momentum, "Nesterov momentum of the outer step").min(0).below(1);
  }
};

class Diloco : public pipeline::Strategy<Config> {
 public:
  explicit Diloco(Setup setup) : Strategy(std::move(setup)), device_(pipeline::open_device(run())) {
    pipeline::apply_run_settings(context());
    for (const pipeline::OptimizerRule& rule : optimizers()) require_adamw(rule);
    const bool trains = run().purpose == PL_PURPOSE_TRAIN;
    int64_t length = 0;
    for (size_t i = 0; i < parameters().size(); ++i) {
      const pipeline::Parameter& p = parameters()[i];
      const auto dtype = p.is_coded()                 ? at::kByte
                         : p.form == PL_FORM_BFLOAT16 ? at::kBFloat16
                                                      : pipeline::to_torch(run().parameter_dtype);
      shapes_.push_back(p.stored_shape());
      const auto count = int64_t(pipeline::element_count(shapes_[i]));
      offsets_.push_back(trains && p.trainable ? length : kFrozen);
      if (offsets_[i] == kFrozen)
        frozen_[i] = at::zeros({count}, at::TensorOptions().dtype(dtype).device(device_));
      else
        length += round_up(count, kAlignment);
    }
    length = round_up(length, kAlignment * ranks());  // so that all ranks have equal parts
    for (at::Tensor* flat : {&local_, &gradient_, &exp_avg_, &exp_avg_sq_, &outer_, &outer_momentum_})
      *flat = at::zeros({length}, at::TensorOptions().device(device_));
    bound_ = local_.to(pipeline::to_torch(run().parameter_dtype));  // in float32 the same memory
    if (!trains) return;
    const int64_t m = int64_t(run().micro_batches);
    if (m > 0 && (ranks() - 1) * ((m + ranks() - 1) / ranks()) >= m)
      fail_with(PL_ERROR_CONFIG, ranks(), " processes, and ", m,
                " micro-batches leave the last without any: use a smaller train.micro_batch");
    context().info("DiLoCo: ", ranks(), " process(es), joined every ", config().sync_steps,
                   " updates: losses depend on both; evaluated and exported is what was last joined");
    if (context().reproducible())
      context().warn("run.reproducible = true holds for ", ranks(), " process(es) alone");
  }
  pl_strategy_info info() override {
    auto info = pipeline::sized<pl_strategy_info>();
    info.flags = PL_STRATEGY_SAVES_TRAINED;
    info.micro_batch_order = PL_ORDER_BLOCK;
    info.gradient_dtype = info.reduction_dtype = info.master_dtype = info.optimizer_dtype = kFloat32;
    return info;
  }
  Storage storage(uint64_t i) override {
    const bool trained = offsets_[i] != kFrozen;
    const at::Tensor& values = !trained ? frozen_.at(i) : is_gathered_ && !is_narrow() ? outer_ : bound_;
    Storage storage{view(values, i), view(trained ? gradient_ : values, i)};
    if (!trained) storage.grad.data = nullptr;
    return storage;
  }
  void gather() override { show(true); }  // evaluations are of the outer weights, alike on all ranks
  void release() override { show(false); }
  void memory(const pipeline::MemoryVisitor& visit) override {
    uint64_t values = bound_.nbytes();
    for (const auto& [index, frozen] : frozen_) values += frozen.nbytes();
    visit("parameters", values);
    if (is_narrow()) visit("master weights", local_.nbytes());
    visit("gradients", gradient_.nbytes());
    visit("optimizer state", exp_avg_.nbytes() + exp_avg_sq_.nbytes());
    visit("outer weights and momentum", outer_.nbytes() + outer_momentum_.nbytes());
    visit("outer step", uint64_t(at_once()) * sizeof(float) * (ranks() > 1 ? 2 : 1));
  }
  void begin_step(uint64_t micro_batches) override {
    gradient_.zero_();
    loss_ = at::zeros({}, local_.options().dtype(at::kDouble));
    expected_ = micro_batches, ended_ = filled_ = 0;
  }
  void gradient_ready(pipeline::Gradient gradient) override {  // the task has added it to the bound memory
    const std::string& name = parameters().at(gradient.index()).name;
    if (offsets_[gradient.index()] == kFrozen) fail("gradient of ", name, ", which is frozen");
    if (ended_ >= expected_) fail("gradient of ", name, " outside of a micro-batch");
    if (pipeline::data_of(gradient.tensor()) != view(gradient_, gradient.index()).data)
      fail("gradient of ", name, " is in memory of the task's own: add it to the bound gradient");
    const pipeline::RunStreamScope ordered(run(), gradient.stream());
  }
  void end_micro_batch(const pl_tensor* loss) override {
    ++ended_;
    if (loss != nullptr) loss_.add_(pipeline::to_torch(*loss)), ++filled_;
  }
  uint64_t step(const pl_step_args& args) override {
    if (ended_ == 0 || ended_ != expected_) fail("step: after ", ended_, " of ", expected_, " micro-batches");
    expected_ = ended_ = 0;
    const std::vector<at::Tensor> norms = at::_foreach_norm(gradient_.split(kAtOnce), 2, at::kDouble);
    const at::Tensor square = at::stack(norms).square_().sum();
    at::Tensor mine = at::stack({loss_, square, at::full({}, double(filled_), square.options())});
    at::Tensor all = mine.unsqueeze(0);
    if (communicator() != nullptr) {
      all = at::empty({ranks(), 3}, mine.options());
      communicator()->all_gather(buffer(mine, "loss, norm and micro-batches"), buffer(all)).wait();
    }
    // Gradients are divided by all ranks' weight. A rank's own is not told: micro-batches stand for it, those
    // of this step, which may be short. A rank without any has the gradient zero.
    const at::Tensor filled = all.select(1, 2);
    const at::Tensor scales = filled.sum().div(filled.clamp_min(1)).mul_(args.inverse_scale);
    const at::Tensor scale = scales[run().rank], norm = square.sqrt_().mul_(scale);
    const at::Tensor loss_sum = all.select(1, 0).sum(), squares = all.select(1, 1).mul(scales.square());
    const at::Tensor grad_norm = squares.sum().div_(filled.gt(0).sum()).sqrt_();
    const at::Tensor finite = grad_norm.isfinite().to(at::kDouble);  // alike on all ranks
    at::Tensor divisor = scale.reciprocal();
    if (args.clip_norm > 0) divisor.div_(norm.add(1e-6).reciprocal_().mul_(args.clip_norm).clamp_max_(1.0));
    if (args.clip_value > 0)
      gradient_.mul_(scale).clamp_(-args.clip_value, args.clip_value), divisor.fill_(1);
    inner_step(args.learning_rate, divisor.to(at::kFloat), finite.lt(1).to(at::kFloat));
    // The host does not know which of the last steps were skipped; it asks where an outer step may be due.
    if (++since_sync_ >= config().sync_steps) {
      since_sync_ = updates() % config().sync_steps;
      if (since_sync_ == 0 && finite.item<double>() == 1) outer_step();
    }
    show(false);
    auto& [figures, copied] = reports_[++steps_ % reports_.size()];
    figures = at::empty({3}, at::TensorOptions().dtype(at::kDouble).pinned_memory(device_.is_cuda()));
    figures.copy_(at::stack({loss_sum, grad_norm, finite}), /*non_blocking=*/true);
    if (device_.is_cuda()) {
      copied.emplace(device_.type());
      copied->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    }
    return steps_;
  }
  pl_step_report collect(uint64_t ticket) override {
    const auto& [figures, copied] = reports_[ticket % reports_.size()];
    if (copied) copied->synchronize();
    const double* values = figures.const_data_ptr<double>();
    auto out = pipeline::sized<pl_step_report>();
    out.loss_sum = values[0], out.grad_norm = values[1], out.finite = values[2] == 1;
    return out;
  }
  void load_state(const pipeline::StateReader& reader) override {
    const bool starts = reader.values_only();
    if (!starts) require_same_ranks(reader);
    for (auto& [piece, values] : state(true))
      values.copy_(starts && piece.kind != "value" && !pipeline::same(piece.dtype, kUInt8)
                       ? at::zeros({})
                       : read(reader, piece));
    if (starts) local_.copy_(outer_);
    step_count_.copy_(counts_[0]);
    since_sync_ = updates() % config().sync_steps;
    show(false);
  }
  std::unique_ptr<pipeline::Snapshot> snapshot(uint32_t mode) override {
    counts_[0] = updates(), counts_[1] = ranks();
    if (steps_ > 0 && updates() < config().sync_steps)
      context().warn("no outer step yet: the model that is saved is the one that training began with");
    auto copy = std::make_unique<Copy>();
    copy->entries = state(run().rank == 0, (mode & PL_SNAPSHOT_TRAINED) != 0);
    for (auto& [piece, values] : copy->entries) {
      const auto host = at::TensorOptions().device(at::kCPU).dtype(pipeline::to_torch(piece.dtype));
      values = values.to(host, false, (mode & PL_SNAPSHOT_COPY) != 0);
    }
    return copy;
  }

 private:
  static constexpr int64_t kFrozen = -1;
  using Report = std::pair<at::Tensor, std::optional<c10::Event>>;  // on the host; once it is there
  using Entry = std::pair<pipeline::Piece, at::Tensor>;  // of the state; names are borrowed from this object
  struct Copy : pipeline::Snapshot {
    void visit(const Visitor& visitor) const override {
      for (auto [piece, values] : entries) {
        piece.data = values.const_data_ptr();
        visitor(piece);
      }
    }
    std::vector<Entry> entries;
  };
  static int64_t round_up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }
  int64_t ranks() const { return communicator() == nullptr ? 1 : communicator()->world_size(); }
  int64_t at_once() const { return std::min(local_.numel(), round_up(kAtOnce, kAlignment * ranks())); }
  int64_t updates() const { return step_count_.item().to<int64_t>(); }
  bool is_narrow() const { return bound_.scalar_type() != at::kFloat; }
  void show(bool outer) {
    is_gathered_ = outer;
    if (is_narrow()) bound_.copy_(outer ? outer_ : local_);
  }
  at::Tensor part(const at::Tensor& flat, size_t i) const {
    return flat.narrow(0, offsets_[i], int64_t(parameters()[i].count()));
  }
  pl_tensor view(const at::Tensor& values, size_t i) const {
    pl_tensor view = to_pl(offsets_[i] == kFrozen ? values : part(values, i));
    view.ndim = int32_t(shapes_[i].size());
    view.shape = const_cast<int64_t*>(shapes_[i].data());
    return view;
  }
  pl_buffer buffer(const at::Tensor& tensor, std::string_view label = {}) const {
    return pipeline::buffer(tensor.data_ptr(), uint64_t(tensor.numel()), to_pl(tensor.scalar_type()),
                            run().device, pipeline::current_stream(device_), label);
  }
  static void require_adamw(const pipeline::OptimizerRule& rule) {
    const auto refuse = [](const auto&... what) { fail_with(PL_ERROR_UNSUPPORTED, "optimizer", what...); };
    if (rule.name != "adamw" || rule.flags != 0)
      refuse(" ", rule.name, ": the inner steps are AdamW's: optimizer.kind = \"adamw\", and no plugin");
    for (const char* key : {"ema_decay", "state_bits"})
      if (rule.options.contains(key))
        refuse(".", key, " = ", rule.option(key),
               ": diloco keeps float32 moments and no average: leave it out");
    rule.require_options({"beta1", "beta2", "epsilon", "weight_decay"});
  }
  void inner_step(double learning_rate, const at::Tensor& divisor, const at::Tensor& skipped) {
    step_count_.add_(1).sub_(skipped);
    for (size_t i = 0; i < parameters().size(); ++i) {
      if (offsets_[i] == kFrozen) continue;
      const pipeline::Parameter& p = parameters()[i];
      const pipeline::OptimizerRule& rule = optimizers()[p.optimizer];
      at::_fused_adamw_({part(local_, i)}, {part(gradient_, i)}, {part(exp_avg_, i)}, {part(exp_avg_sq_, i)},
                        {}, {step_count_}, learning_rate * p.lr_multiplier, rule.option("beta1"),
                        rule.option("beta2"), rule.option("weight_decay"), rule.option("epsilon"),
                        /*amsgrad=*/false, /*maximize=*/false, divisor, skipped);
    }
  }
  void outer_step() {  // as torch.optim.SGD with nesterov=True
    for (int64_t begin = 0; begin < local_.numel(); begin += at_once()) {
      const int64_t count = std::min(at_once(), local_.numel() - begin);
      const auto here = [&](const at::Tensor& flat) { return flat.narrow(0, begin, count); };
      at::Tensor moved = here(outer_).sub(here(local_));
      if (communicator() != nullptr) {  // added in the order of ranks: the same bits over every backend
        const at::Tensor parts = at::empty({ranks(), count / ranks()}, moved.options());
        communicator()->all_to_all(buffer(moved, "what ranks have moved"), buffer(parts)).wait();
        at::Tensor sum = parts[0];
        for (int64_t rank = 1; rank < ranks(); ++rank) sum.add_(parts[rank]);
        communicator()->all_gather(buffer(sum.div_(ranks()), "mean of it"), buffer(moved)).wait();
      }
      const at::Tensor velocity = here(outer_momentum_).mul_(config().outer_momentum).add_(moved);
      here(outer_).sub_(moved.add_(velocity, config().outer_momentum), config().outer_lr);
      here(local_).copy_(here(outer_));
    }
  }
  static at::Tensor read(const pipeline::StateReader& reader, const pipeline::Piece& piece) {
    at::Tensor host = at::empty({int64_t(piece.count)}, pipeline::to_torch(piece.dtype));
    reader.read(piece, host.data_ptr());
    return host;
  }
  void require_same_ranks(const pipeline::StateReader& reader) const {
    const char* remedy = ": go on as it was saved (strategy, launch.processes) or begin with train.init_from";
    int64_t saved = 0;
    try {
      saved = read(reader, state(true).back().first).item<int64_t>();
    } catch (const pipeline::Error&) {  // a reader's error must be passed on as it is
      context().warn("the checkpoint is not of diloco, which needs weights of each process", remedy);
      throw;
    }
    if (saved != ranks())
      fail_with(PL_ERROR_CONFIG, "the checkpoint is of ", saved, " process(es), this run has ", ranks(),
                remedy);
  }
  // `shared`: with what is the same on all ranks, which rank 0 saves. The rest has the rank in its name.
  std::vector<Entry> state(bool shared, bool trained_alone = false) const {
    std::vector<Entry> all;
    for (size_t i = 0; i < parameters().size(); ++i) {
      const pipeline::Parameter& p = parameters()[i];
      const bool trained = offsets_[i] != kFrozen;
      if (trained_alone && !trained) continue;
      const auto add = [&](std::string_view kind, const at::Tensor& values) {
        const at::Tensor own = trained ? part(values, i) : values;
        all.push_back({{.parameter = p.name,
                        .kind = kind,
                        .shape = shapes_[i],
                        .count = uint64_t(own.numel()),
                        .dtype = own.scalar_type() == at::kByte ? kUInt8 : kFloat32},
                       own});
      };
      if (shared) add(p.value_kind(), trained ? outer_ : frozen_.at(i));
      if (shared && trained) add("outer_momentum", outer_momentum_);
      if (trained) add(kinds_[0], local_), add(kinds_[1], exp_avg_), add(kinds_[2], exp_avg_sq_);
    }
    if (!shared) return all;
    all.push_back({{.kind = "step", .count = 1, .dtype = kInt64}, counts_.narrow(0, 0, 1)});
    all.push_back({{.kind = "processes", .count = 1, .dtype = kInt64}, counts_.narrow(0, 1, 1)});
    return all;
  }

  const c10::Device device_;
  const std::array<std::string, 3> kinds_{concat("local.", run().rank), concat("exp_avg.", run().rank),
                                          concat("exp_avg_sq.", run().rank)};
  std::vector<std::vector<int64_t>> shapes_;  // as stored
  std::vector<int64_t> offsets_;              // of each parameter in what is flat, or kFrozen
  std::map<size_t, at::Tensor> frozen_;       // by parameter; all of them where a run does not train
  // Flat: this rank's weights, in float32 and as bound, their gradient and moments; what all ranks share.
  at::Tensor local_, bound_, gradient_, exp_avg_, exp_avg_sq_, outer_, outer_momentum_;
  at::Tensor step_count_ = at::zeros({}, device_), loss_, counts_ = at::zeros({2}, at::kLong);
  int64_t since_sync_ = 0;  // updates since an outer step, or more where steps were skipped
  uint64_t expected_ = 0, ended_ = 0, filled_ = 0;  // micro-batches of the step
  std::array<Report, 2> reports_;                   // of the last two steps
  uint64_t steps_ = 0;
  bool is_gathered_ = false;
};

}  // namespace
PIPELINE_STRATEGY(Diloco, "diloco", "1.0.0", "Local AdamW, joined by outer Nesterov steps (DiLoCo)")
