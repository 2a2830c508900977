// A strategy and a backend as C++ classes, driven through their C tables.
#include "fake_host.hpp"

#include <gmock/gmock.h>
#include <pipeline/backend.hpp>
#include <pipeline/strategy.hpp>

#include <cstring>
#include <numeric>

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One rank that talks to itself: enough to see what crosses.
class Echo : public pipeline::Backend<pipeline::NoConfig> {
 public:
  explicit Echo(Setup setup) : Backend(setup), transport_(std::string(pipeline::view(setup.args.address))) {
    if (setup.args.rank != 0)
      pipeline::fail_with(PL_ERROR_TIMEOUT, "rank ", setup.args.rank, " waits for rank 0");
  }
  const std::string& library() const override { return library_; }
  const std::string& transport() const override { return transport_; }
  Started all_reduce(const pl_buffer& in_out, uint32_t) override {
    return work([=] {
      for (uint64_t i = 0; i < in_out.count; ++i) static_cast<float*>(in_out.data)[i] *= 2;
    });
  }
  Started reduce_scatter(const pl_buffer& in, const pl_buffer& out, pipeline::Counts counts,
                         uint32_t) override {
    last_count = counts ? (*counts)[0] : 0;
    return copy(in, out);
  }
  Started all_gather(const pl_buffer& in, const pl_buffer& out, pipeline::Counts) override {
    return copy(in, out);
  }
  Started broadcast(const pl_buffer&, int32_t root) override {
    if (root != 0) pipeline::fail("root ", root, " of 1 rank");
    return work([] {});
  }
  Started all_to_all(const pl_buffer& in, const pl_buffer& out, pipeline::Counts, pipeline::Counts) override {
    return copy(in, out);
  }
  Started barrier() override {
    return work([this] {
      if (aborted_) pipeline::fail_with(PL_ERROR_PEER, "aborted");
    });
  }
  void abort(std::string_view) override { aborted_ = true; }

  static inline uint64_t last_count = 0;
  static inline int live_works = 0;

 private:
  struct Job : pipeline::Work {
    explicit Job(std::function<void()> f) : body(std::move(f)) { ++live_works; }
    ~Job() override { --live_works; }
    void wait(pl_stream) override { body(); }
    void wait_host(double) override { body(); }
    std::function<void()> body;
  };
  static Started work(std::function<void()> body) { return std::make_unique<Job>(std::move(body)); }
  static Started copy(const pl_buffer& in, const pl_buffer& out) {
    return work([=] { std::memcpy(out.data, in.data, out.count * 4); });
  }
  std::string library_ = "echo 1.0", transport_;
  bool aborted_ = false;
};

struct OneOptions {
  double momentum = 0;
  void describe(pipeline::Options& o) { o("momentum", momentum, "of the test"); }
};

// Plain gradient descent over handed-over gradients.
class One : public pipeline::Strategy<OneOptions> {
 public:
  explicit One(Setup setup) : Strategy(std::move(setup)) {
    for (const pipeline::Parameter& p : parameters()) values_.emplace_back(p.count(), 1.0f);
    sums_ = values_;
  }
  pl_strategy_info info() override {
    auto out = pipeline::sized<pl_strategy_info>();
    out.flags = PL_STRATEGY_NEEDS_UNIT_HOOKS;
    out.micro_batch_order = PL_ORDER_BLOCK;
    out.gradient_dtype = pipeline::kFloat32;
    return out;
  }
  Storage storage(uint64_t index) override {
    shapes_.push_back(parameters()[index].shape);
    views_.emplace_back(values_[index].data(), pipeline::kFloat32, parameters()[index].shape);
    Storage s{views_.back().get(), views_.back().get()};
    s.grad.data = nullptr;
    return s;
  }
  void enter_unit(uint32_t unit, uint32_t) override { units.push_back(unit); }
  void leave_unit(uint32_t unit, uint32_t) override {
    if (unit == 99) pipeline::fail("unit 99 of 2");
    units.push_back(100 + unit);
  }
  void begin_step(uint64_t micro_batches) override {
    left_ = micro_batches;
    for (auto& sum : sums_) std::fill(sum.begin(), sum.end(), 0.0f);
  }
  void gradient_ready(pipeline::Gradient gradient) override {
    if (gradient.index() >= sums_.size()) pipeline::fail("gradient ", gradient.index(), " of ", sums_.size());
    const auto g = pipeline::elements<float>(gradient.tensor(), pipeline::kFloat32);
    for (size_t i = 0; i < g.size(); ++i) sums_[gradient.index()][i] += g[i];
    kept_.push_back(gradient.take_owner());
  }
  void end_micro_batch(const pl_tensor* loss) override {
    kept_.clear();
    --left_;
    if (loss != nullptr) loss_ += pipeline::elements<float>(*loss, pipeline::kFloat32)[0];
  }
  uint64_t step(const pl_step_args& args) override {
    if (left_ != 0) pipeline::fail(left_, " micro-batches are missing");
    if (communicator() != nullptr) {
      auto& sum = sums_[0];
      communicator()->all_reduce(pipeline::buffer(sum.data(), sum.size(), pipeline::kFloat32)).wait();
    }
    for (size_t p = 0; p < values_.size(); ++p) {
      for (size_t i = 0; i < values_[p].size(); ++i) {
        values_[p][i] -= static_cast<float>(args.learning_rate) * sums_[p][i];
      }
    }
    return ++ticket_;
  }
  pl_step_report collect(uint64_t ticket) override {
    if (ticket != ticket_) pipeline::fail("ticket ", ticket);
    auto out = pipeline::sized<pl_step_report>();
    out.finite = 1;
    out.loss_sum = loss_;
    return out;
  }
  void load_state(const pipeline::StateReader& reader) override {
    for (size_t i = 0; i < values_.size(); ++i) {
      reader.read({parameters()[i].name, "value", parameters()[i].shape, 0, values_[i].size()},
                  values_[i].data());
    }
    values_only = reader.values_only();
  }
  std::unique_ptr<pipeline::Snapshot> snapshot(uint32_t mode) override {
    struct Copy : pipeline::Snapshot {
      explicit Copy(One& from) : one(from), values(from.values_) {}
      void visit(const Visitor& visitor) const override {
        for (size_t i = 0; i < values.size(); ++i) {
          visitor({one.parameters()[i].name, "value", one.parameters()[i].shape, 0, values[i].size(),
                   pipeline::kFloat32, values[i].data()});
        }
      }
      One& one;
      std::vector<std::vector<float>> values;
    };
    last_mode = mode;
    return std::make_unique<Copy>(*this);
  }
  void memory(const pipeline::MemoryVisitor& visit) override { visit("parameters", 4 * values_[0].size()); }

  static inline std::vector<uint32_t> units;
  static inline bool values_only = false;
  static inline uint32_t last_mode = 0;

 private:
  std::vector<std::vector<float>> values_, sums_;
  std::vector<std::vector<int64_t>> shapes_;
  std::deque<pipeline::TensorView> views_;
  std::vector<pipeline::Gradient::Owner> kept_;
  uint64_t left_ = 0, ticket_ = 0;
  double loss_ = 0;
};

class StrategyTableTest : public testing::Test {
 protected:
  StrategyTableTest() {
    pl_error* error = nullptr;
    backend_plugin_ = pipeline::make_plugin<pipeline::BackendTable<Echo>>(
        &fake::host(), &error, {"echo", "1.0.0", "Talks to itself"});
    plugin_ = pipeline::make_plugin<pipeline::StrategyTable<One>>(&fake::host(), &error,
                                                                  {"one", "1.0.0", "One rank"});
    backend_ = static_cast<const pl_backend_api*>(backend_plugin_->api);
    api_ = static_cast<const pl_strategy_api*>(plugin_->api);
  }
  void TearDown() override {
    if (strategy_ != nullptr) api_->destroy(strategy_);
    if (comm_ != nullptr) backend_->close(comm_);
    EXPECT_EQ(fake::live_errors(), 0);
    EXPECT_EQ(Echo::live_works, 0);
  }

  pl_backend_open_args open_args() {
    pl_backend_open_args args{};
    args.struct_size = sizeof(args);
    args.world_size = 1;
    args.address = fake::str(address_);
    return args;
  }
  void open() {
    const pl_backend_open_args args = open_args();
    ASSERT_OK(backend_->open(&fake::host(), &context_, nullptr, &args, &comm_));
  }
  void create(bool with_communicator = false) {
    if (with_communicator) open();
    communicator_ = {sizeof(pl_communicator), 0, 1, 0, backend_, comm_};
    static const int64_t kShape[] = {2, 3};
    pl_parameter parameter{};
    parameter.struct_size = sizeof(parameter);
    parameter.flags = PL_PARAMETER_TRAINABLE;
    parameter.ndim = 2;
    parameter.shape = kShape;
    parameter.name = fake::str(name_);
    parameter.lr_multiplier = 1;
    static const std::string kSgd = "sgd";
    pl_optimizer optimizer{};
    optimizer.struct_size = sizeof(optimizer);
    optimizer.name = fake::str(kSgd);
    pl_strategy_args args{};
    args.struct_size = sizeof(args);
    args.parameters = &parameter;
    args.parameter_count = 1;
    args.optimizers = &optimizer;
    args.optimizer_count = 1;
    args.communicator = with_communicator ? &communicator_ : nullptr;
    config_ = std::make_unique<pl_config>(plugin_->options, plugin_->option_count, "");
    ASSERT_OK(api_->create(&fake::host(), &context_, config_.get(), &args, &strategy_));
  }

  static inline int released = 0;
  pl_error* give(uint64_t index, float value, uint32_t flags = 0) {
    static int64_t shape[] = {2, 3};
    auto* data = new std::vector<float>(6, value);
    pl_tensor tensor{};
    tensor.data = data->data();
    tensor.device = {PL_DEVICE_CPU, 0};
    tensor.dtype = {PL_DTYPE_FLOAT, 32, 1};
    tensor.ndim = 2;
    tensor.shape = shape;
    pl_gradient gradient{};
    gradient.struct_size = sizeof(gradient);
    gradient.flags = flags;
    gradient.index = index;
    gradient.tensor = &tensor;
    gradient.owner = data;
    gradient.release = [](void* owner) {
      delete static_cast<std::vector<float>*>(owner);
      ++released;
    };
    return api_->gradient_ready(strategy_, &gradient);
  }

  const pl_plugin* backend_plugin_;
  const pl_plugin* plugin_;
  const pl_backend_api* backend_;
  const pl_strategy_api* api_;
  pl_context context_;
  std::unique_ptr<pl_config> config_;
  pl_comm* comm_ = nullptr;
  pl_communicator communicator_{};
  pl_strategy* strategy_ = nullptr;
  std::string name_ = "w", address_ = "loopback";
};

TEST_F(StrategyTableTest, a_step_crosses_whole) {
  create(/*with_communicator=*/true);
  released = 0;
  pl_tensor value{}, grad{};
  ASSERT_OK(api_->storage(strategy_, 0, &value, &grad));
  EXPECT_EQ(grad.data, nullptr);
  EXPECT_EQ(value.ndim, 2);
  EXPECT_EQ(value.shape[1], 3);
  EXPECT_EQ(fake::take(api_->storage(strategy_, 1, &value, &grad)).message,
            "one: storage of parameter 1 of 1");

  ASSERT_OK(api_->begin_step(strategy_, 2));
  ASSERT_OK(give(0, 0.5f));
  EXPECT_EQ(released, 0) << "kept until the micro-batch ends";
  float loss = 3;
  pl_tensor loss_view{};
  loss_view.data = &loss;
  loss_view.dtype = {PL_DTYPE_FLOAT, 32, 1};
  loss_view.device = {PL_DEVICE_CPU, 0};
  ASSERT_OK(api_->end_micro_batch(strategy_, &loss_view));
  EXPECT_EQ(released, 1);
  pl_step_args step{};
  step.struct_size = sizeof(step);
  step.learning_rate = 1;
  uint64_t ticket = 0;
  EXPECT_EQ(fake::take(api_->step(strategy_, &step, &ticket)).message, "one: 1 micro-batches are missing");
  ASSERT_OK(api_->end_micro_batch(strategy_, nullptr));
  ASSERT_OK(api_->step(strategy_, &step, &ticket));
  EXPECT_EQ(static_cast<float*>(value.data)[5], 1 - 2 * 0.5f) << "all_reduce of the backend doubles";
  pl_step_report report{};
  report.struct_size = sizeof(report);
  ASSERT_OK(api_->collect(strategy_, ticket, &report));
  EXPECT_EQ(report.loss_sum, 3);
  EXPECT_EQ(report.finite, 1u);
}

TEST_F(StrategyTableTest, a_gradient_is_released_when_it_is_refused) {
  create();
  released = 0;
  ASSERT_OK(api_->begin_step(strategy_, 1));
  EXPECT_EQ(fake::take(give(5, 1)).message, "one: gradient 5 of 1");
  EXPECT_EQ(released, 1);
}

TEST_F(StrategyTableTest, a_gradient_with_a_flag_of_a_later_version_is_refused) {
  create();
  released = 0;
  ASSERT_OK(api_->begin_step(strategy_, 1));
  EXPECT_THAT(fake::take(give(0, 1, 1)).message, HasSubstr("a gradient: flags 1 are not known"));
  EXPECT_EQ(released, 1);
  EXPECT_OK(give(0, 1, PL_FLAGS_MAY_IGNORE));
}

TEST_F(StrategyTableTest, state_goes_out_and_comes_back) {
  create();
  pl_snapshot* snapshot = nullptr;
  EXPECT_EQ(fake::take(api_->snapshot(strategy_, 3, &snapshot)).message, "one: snapshot mode 3 is not known");
  ASSERT_OK(api_->snapshot(strategy_, PL_SNAPSHOT_COPY, &snapshot));
  EXPECT_EQ(One::last_mode, PL_SNAPSHOT_COPY);
  std::vector<std::string> seen;
  const pl_piece_visitor visit = [](void* user, const pl_piece* piece) -> pl_error* {
    static_cast<std::vector<std::string>*>(user)->push_back(
        fake::text(piece->parameter) + " " + fake::text(piece->kind) + " " + std::to_string(piece->shape[0]) +
        "x" + std::to_string(piece->shape[1]) + " " + std::to_string(piece->count) + " " +
        std::to_string(static_cast<const float*>(piece->data)[0]));
    return nullptr;
  };
  ASSERT_OK(api_->snapshot_pieces(snapshot, visit, &seen));
  EXPECT_THAT(seen, ElementsAre("w value 2x3 6 1.000000"));
  const pl_piece_visitor full = [](void*, const pl_piece*) {
    return fake::host().error_new(PL_ERROR_NO_SPACE, fake::str("disk full"));
  };
  const auto failure = fake::take(api_->snapshot_pieces(snapshot, full, nullptr));
  EXPECT_EQ(failure.code, PL_ERROR_NO_SPACE);
  EXPECT_EQ(failure.message, "disk full");
  api_->snapshot_free(snapshot);

  pl_state_reader reader{};
  reader.struct_size = sizeof(reader);
  reader.values_only = 1;
  reader.read = [](void*, const pl_piece* piece, void* destination) -> pl_error* {
    EXPECT_EQ(piece->data, nullptr);
    std::iota(static_cast<float*>(destination), static_cast<float*>(destination) + piece->count, 10.0f);
    return nullptr;
  };
  ASSERT_OK(api_->load_state(strategy_, &reader));
  EXPECT_TRUE(One::values_only);
  pl_tensor value{}, grad{};
  ASSERT_OK(api_->storage(strategy_, 0, &value, &grad));
  EXPECT_EQ(static_cast<float*>(value.data)[5], 15);

  uint64_t bytes = 0;
  ASSERT_OK(api_->memory(
      strategy_,
      [](void* user, pl_str what, uint64_t n) -> pl_error* {
        EXPECT_EQ(fake::text(what), "parameters");
        *static_cast<uint64_t*>(user) = n;
        return nullptr;
      },
      &bytes));
  EXPECT_EQ(bytes, 24u);
}

TEST_F(StrategyTableTest, unit_hooks_reach_the_strategy) {
  create();
  pl_strategy_info info{};
  info.struct_size = sizeof(info);
  ASSERT_OK(api_->info(strategy_, &info));
  EXPECT_EQ(info.flags, PL_STRATEGY_NEEDS_UNIT_HOOKS);
  pl_unit_hooks hooks{};
  hooks.struct_size = sizeof(hooks);
  ASSERT_OK(api_->unit_hooks(strategy_, &hooks));
  One::units.clear();
  ASSERT_OK(hooks.enter(hooks.user, 1, PL_PASS_FORWARD));
  ASSERT_OK(hooks.leave(hooks.user, 1, PL_PASS_FORWARD));
  EXPECT_THAT(One::units, ElementsAre(1, 101));
  EXPECT_EQ(fake::take(hooks.leave(hooks.user, 99, PL_PASS_FORWARD)).message, "one: unit 99 of 2");
}

TEST_F(StrategyTableTest, collectives_cross_and_their_work_is_freed) {
  open();
  pl_backend_info info{};
  info.struct_size = sizeof(info);
  ASSERT_OK(backend_->info(comm_, &info));
  EXPECT_EQ(fake::text(info.library), "echo 1.0");
  EXPECT_EQ(fake::text(info.transport), "loopback");

  communicator_ = {sizeof(pl_communicator), 0, 1, 0, backend_, comm_};
  const pipeline::Communicator group(&communicator_);
  std::vector<float> in{1, 2}, out{0, 0};
  const auto a = pipeline::buffer(in.data(), 2, pipeline::kFloat32),
             b = pipeline::buffer(out.data(), 2, pipeline::kFloat32);
  const uint64_t counts[] = {2};
  auto work = group.reduce_scatter(a, b, counts);
  EXPECT_EQ(Echo::live_works, 1);
  work.wait();
  EXPECT_EQ(Echo::live_works, 0);
  EXPECT_EQ(Echo::last_count, 2u);
  EXPECT_EQ(out, in);
  { const auto dropped = group.all_reduce(b); }
  EXPECT_EQ(out[1], 4) << "dropping the work waits for it";
  group.all_gather(a, b).wait();
  group.all_to_all(a, b).wait();
  group.broadcast(a, 0).wait();
  EXPECT_THROW(group.broadcast(a, 1), pipeline::Error);
  pl_work* none = nullptr;
  EXPECT_EQ(fake::take(backend_->all_reduce(comm_, &a, 9, &none)).code, PL_ERROR_UNSUPPORTED);
  group.barrier().wait();
  group.abort("test");
  try {
    group.barrier().wait();
    FAIL();
  } catch (const pipeline::Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_PEER);
  }
}

TEST_F(StrategyTableTest, a_backend_that_cannot_open_says_why) {
  pl_backend_open_args args = open_args();
  args.rank = 3;
  pl_comm* comm = nullptr;
  const auto failure = fake::take(backend_->open(&fake::host(), &context_, nullptr, &args, &comm));
  EXPECT_EQ(failure.code, PL_ERROR_TIMEOUT);
  EXPECT_THAT(failure.message, HasSubstr("rank 3 waits for rank 0"));
  EXPECT_EQ(comm, nullptr);
}

}  // namespace
