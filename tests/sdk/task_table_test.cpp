// A task written without LibTorch, driven through its C table.
#include "task_runner.hpp"

#include <gmock/gmock.h>
#include <pipeline/task.hpp>

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct LineConfig {
  double slope = 2;
  std::string fail_in;
  void describe(pipeline::Options& o) {
    o("slope", slope, "of the line");
    o("fail_in", fail_in, "where to throw");
  }
};

struct Points {
  std::vector<float> x, y;
};

// Fits y = slope x + 1 by hand-written gradients.
class Line : public pipeline::Task<LineConfig, Points> {
 public:
  explicit Line(Setup setup) : Task(std::move(setup)) {
    if (config().slope == 0) config_error("slope", "must not be 0");
  }
  void open() override { throw_in("open"); }
  uint64_t sample_count(pipeline::Split split) const override {
    return split == pipeline::Split::kTest ? 0 : 100;
  }
  double sample_cost(pipeline::Split, uint64_t id) const override { return static_cast<double>(id) * 2; }
  std::string data_fingerprint() override { return "line-1"; }
  Points load(const pipeline::LoadRequest& request) const override {
    throw_in("load");
    Points p;
    for (const uint64_t id : request.ids) {
      p.x.push_back(static_cast<float>(id) / 50 - 1);
      p.y.push_back(static_cast<float>(config().slope) * p.x.back() + 1);
    }
    return p;
  }
  pipeline::BatchInfo batch_info(const Points& p) const override {
    return {.weight = static_cast<double>(p.x.size()), .samples = p.x.size(), .tokens = 3, .positions = 4};
  }
  std::vector<pipeline::Parameter> parameters() override {
    return {{.name = "w", .shape = {1, 1}, .unit = 1},
            {.name = "b", .shape = {1}, .decay = false, .lr_multiplier = 0.5}};
  }
  void initialize(uint64_t index, pl_tensor& out) override {
    pipeline::elements<float>(out, pipeline::kFloat32)[0] = index == 0 ? 0.25f : 0.0f;
  }
  void bind(uint64_t index, const pl_tensor& value, const pl_tensor& grad) override {
    value_[index] = pipeline::elements<float>(value, pipeline::kFloat32).data();
    grad_[index] = grad;
  }
  pl_tensor train(const Points& p, const pipeline::TrainArgs& args) override {
    throw_in("train");
    loss_ = 0;
    float d[2] = {0, 0};
    for (size_t i = 0; i < p.x.size(); ++i) {
      const float e = *value_[0] * p.x[i] + *value_[1] - p.y[i];
      loss_ += e * e;
      d[0] += 2 * e * p.x[i] * static_cast<float>(args.scale);
      d[1] += 2 * e * static_cast<float>(args.scale);
    }
    for (uint64_t i = 0; i < 2; ++i) {
      *static_cast<float*>(grad_[i].data) += d[i];
      args.gradients.ready(i, grad_[i]);
    }
    return loss_view_.get();
  }
  void evaluate(const Points& p, pipeline::EvaluationSink& sink) override {
    for (size_t i = 0; i < p.x.size(); ++i) {
      const double e = *value_[0] * p.x[i] + *value_[1] - p.y[i];
      sink.value("loss", e * e, 1);
      sink.sample(i, "point " + std::to_string(i));
    }
  }
  std::vector<pipeline::Metric> metrics() override {
    return {{.name = "ppl", .help = "perplexity", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN}};
  }
  std::vector<std::string> prediction_columns() override { return {"y", "note"}; }
  std::string sample_name(pipeline::Split, uint64_t id) const override {
    return "point number " + std::to_string(id) + " of the line";  // longer than a string holds in itself
  }
  void predict(const Points& p, const pipeline::PredictionSink& sink) override {
    for (size_t i = 0; i < p.x.size(); ++i) sink.row(i, {std::to_string(p.y[i]), "a, \"b\""});
    sink.file(0, "points.bin", std::string_view("\0\1", 2));
  }
  std::string extra_state() override { return state_; }
  void set_extra_state(std::string_view state) override { state_ = state; }
  void report(const pipeline::Report& report, const pipeline::ReportSink& sink) override {
    for (const pipeline::EvaluationValue& value : report.values)
      sink.figure(std::string(value.group) + std::string(value.name) + "_ratio", value.sum / value.weight,
                  PL_BETTER_HIGHER);
    for (const pipeline::EvaluationRecord& record : report.records)
      sink.text(std::to_string(record.sample_id) + " " + std::string(record.key) + " " +
                std::string(record.bytes));
    if (report.split == pipeline::Split::kTest && report.purpose == pipeline::Purpose::kEvaluate)
      sink.text("a\nb");
    sink.file("x.bin", std::string_view("\0\1", 2));
  }
  void export_model(const std::filesystem::path& folder) override {
    pipeline::fail("cannot write to ", folder.string());
  }

 private:
  void throw_in(const std::string& where) const {
    if (config().fail_in == where) throw std::runtime_error("as asked, in " + where);
  }
  std::string state_ = "of the line";
  float* value_[2] = {};
  pl_tensor grad_[2] = {};
  float loss_ = 0;
  pipeline::TensorView loss_view_{&loss_, pipeline::kFloat32, {}};
};

// A task whose evaluation gives groups and records beside figures.
class LineInGroups : public Line {
 public:
  using Line::Line;
  void evaluate(const Points& p, pipeline::EvaluationSink& sink) override {
    Line::evaluate(p, sink);
    sink.value_of("west", "loss", 1, 2);
    sink.record(7, "score", std::string_view("\0x", 2));
  }
};

class TaskTableTest : public testing::Test {
 protected:
  TaskTableTest() : plugin_(plugin_on<Line>(fake::host())) {}

  template <class Class>
  static const pl_plugin* plugin_on(const pl_host& host) {
    pl_error* error = nullptr;
    const pl_plugin* plugin =
        pipeline::make_plugin<pipeline::TaskTable<Class>>(&host, &error, {"line", "1.0.0", "Fits a line"});
    EXPECT_EQ(error, nullptr);
    return plugin;
  }

  void TearDown() override { EXPECT_EQ(fake::live_errors(), 0); }

  const pl_plugin* plugin_;  // notes its host again for each test
};

std::vector<uint64_t> all_ids() {
  std::vector<uint64_t> ids(100);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST_F(TaskTableTest, extra_state_crosses_both_ways) {
  fake::TaskRunner runner(*plugin_, "");
  ASSERT_EQ(runner.create().message, "");
  const void* state = nullptr;
  uint64_t bytes = 0;
  EXPECT_OK(runner.api().extra_state(runner.task(), &state, &bytes));
  EXPECT_EQ(std::string_view(static_cast<const char*>(state), bytes), "of the line");
  fake::TaskRunner other(*plugin_, "");
  ASSERT_EQ(other.create().message, "");
  EXPECT_OK(other.api().set_extra_state(other.task(), "a\0b", 3));
  EXPECT_OK(other.api().extra_state(other.task(), &state, &bytes));
  EXPECT_EQ(std::string_view(static_cast<const char*>(state), bytes), std::string_view("a\0b", 3));
}

TEST_F(TaskTableTest, groups_and_records_cross_whole) {
  fake::TaskRunner runner(*plugin_on<LineInGroups>(fake::host()), "");
  runner.start();
  runner.evaluate(runner.load({1}));
  EXPECT_EQ(runner.evaluated.at("west/loss"), (std::pair<double, double>(1, 2)));
  EXPECT_EQ(runner.records.at({7, "score"}), std::string("\0x", 2));
}

TEST_F(TaskTableTest, report_gets_the_values_and_adds_to_them) {
  fake::TaskRunner runner(*plugin_, "");
  ASSERT_EQ(runner.create().message, "");
  // Values from a host that has added a field.
  struct Larger {
    pl_value value;
    uint64_t more;
  };
  Larger sent[2] = {};
  const std::string names[] = {"a", "b"}, group = "west ";
  for (int i = 0; i < 2; ++i) {
    sent[i].value.struct_size = sizeof(Larger);
    sent[i].value.name = fake::str(names[i]);
    sent[i].value.sum = 6 + i;
    sent[i].value.weight = 2;
  }
  sent[1].value.group = fake::str(group);
  const std::string key = "score";
  pl_record record{};
  record.struct_size = sizeof record;
  record.sample_id = 7;
  record.key = fake::str(key);
  record.bytes = "0.5";
  record.size = 3;
  pl_report_args args{};
  args.struct_size = sizeof args;
  args.split = PL_SPLIT_TEST;
  args.purpose = PL_PURPOSE_EVALUATE;
  args.values = &sent[0].value;
  args.value_count = 2;
  args.records = &record;
  args.record_count = 1;
  std::string said;
  pl_report_sink sink{};
  sink.struct_size = sizeof sink;
  sink.user = &said;
  sink.figure = [](void* user, pl_str name, double value, uint32_t better) -> pl_error* {
    *static_cast<std::string*>(user) +=
        fake::text(name) + " " + std::to_string(value).substr(0, 3) + " " + std::to_string(better) + "; ";
    return nullptr;
  };
  sink.text = [](void* user, pl_str lines) -> pl_error* {
    *static_cast<std::string*>(user) += fake::text(lines) + "; ";
    return nullptr;
  };
  sink.file = [](void* user, pl_str name, const void*, uint64_t size) -> pl_error* {
    *static_cast<std::string*>(user) += fake::text(name) + " " + std::to_string(size);
    return nullptr;
  };
  EXPECT_OK(runner.api().report(runner.task(), &args, &sink));
  EXPECT_EQ(said, "a_ratio 3.0 2; west b_ratio 3.5 2; 7 score 0.5; a\nb; x.bin 2");
}

TEST_F(TaskTableTest, trains_to_the_right_answer) {
  fake::TaskRunner runner(*plugin_, "slope = 3.0");
  runner.start();
  const auto batch = runner.load(all_ids());
  for (int step = 0; step < 300; ++step) {
    ASSERT_EQ(runner.train(batch, 1 / runner.weight(batch)).message, "");
    runner.descend(0.2);
  }
  EXPECT_NEAR(runner.values[0][0], 3, 1e-3);
  EXPECT_NEAR(runner.values[1][0], 1, 1e-3);
  EXPECT_THAT(runner.ready, ElementsAre(0, 1));
  EXPECT_LT(runner.evaluate(batch), 1e-6);
  EXPECT_EQ(runner.samples.size(), 1u) << "samples_to_show is 1";
}

TEST_F(TaskTableTest, parameters_cross_whole) {
  fake::TaskRunner runner(*plugin_, "");
  runner.start();
  EXPECT_THAT(runner.names, ElementsAre("w", "b"));
  EXPECT_EQ(runner.shapes[0], (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(runner.parameters[0].flags, PL_PARAMETER_TRAINABLE | PL_PARAMETER_DECAY);
  EXPECT_EQ(runner.parameters[0].unit, 1u);
  EXPECT_EQ(runner.parameters[1].flags, PL_PARAMETER_TRAINABLE);
  EXPECT_EQ(runner.parameters[1].lr_multiplier, 0.5);
  EXPECT_EQ(runner.values[0][0], 0.25f);
}

TEST_F(TaskTableTest, data_slots_answer) {
  fake::TaskRunner runner(*plugin_, "");
  runner.start();
  uint64_t count = 1;
  EXPECT_OK(runner.api().sample_count(runner.task(), PL_SPLIT_TEST, &count));
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(fake::take(runner.api().sample_count(runner.task(), 3, &count)).message,
            "line: split 3 is not known");
  const uint64_t ids[] = {3, 1};
  double costs[2];
  EXPECT_OK(runner.api().sample_costs(runner.task(), PL_SPLIT_TRAIN, ids, 2, costs));
  EXPECT_EQ(costs[0], 6);
  EXPECT_EQ(costs[1], 2);
  EXPECT_EQ(fake::text(runner.api().data_fingerprint(runner.task())), "line-1");
  pl_metric metric{};
  metric.struct_size = sizeof(metric);
  ASSERT_EQ(runner.api().metric_count(runner.task()), 1u);
  EXPECT_OK(runner.api().metric(runner.task(), 0, &metric));
  EXPECT_EQ(fake::text(metric.name), "ppl");
  EXPECT_EQ(fake::text(metric.source), "loss");
  EXPECT_EQ(metric.aggregate, PL_AGGREGATE_EXP_MEAN);
  EXPECT_EQ(fake::take(runner.api().metric(runner.task(), 1, &metric)).message, "line: metric 1 of 1");
}

TEST_F(TaskTableTest, predictions_cross_whole) {
  fake::TaskRunner runner(*plugin_, "");
  runner.start();
  const pl_str* columns = nullptr;
  uint64_t count = 0;
  EXPECT_OK(runner.api().prediction_columns(runner.task(), &columns, &count));
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(fake::text(columns[1]), "note");
  pl_str name{}, other{}, again{};
  EXPECT_OK(runner.api().sample_name(runner.task(), PL_SPLIT_VAL, 5, &name));
  EXPECT_OK(runner.api().sample_name(runner.task(), PL_SPLIT_VAL, 6, &other));
  EXPECT_OK(runner.api().sample_name(runner.task(), PL_SPLIT_VAL, 5, &again));
  EXPECT_EQ(fake::text(name), "point number 5 of the line");
  EXPECT_EQ(name.ptr, again.ptr) << "a name that was lent stays where it is";

  struct Seen {
    std::vector<std::string> rows, files;
  } seen;
  pl_prediction_sink sink{};
  sink.struct_size = sizeof(sink);
  sink.user = &seen;
  sink.row = [](void* user, uint64_t id, const pl_str* fields, uint64_t n) -> pl_error* {
    std::string row = std::to_string(id);
    for (uint64_t i = 0; i < n; ++i) row += "|" + fake::text(fields[i]);
    static_cast<Seen*>(user)->rows.push_back(row);
    return nullptr;
  };
  sink.file = [](void* user, uint64_t, pl_str file, const void*, uint64_t size) -> pl_error* {
    static_cast<Seen*>(user)->files.push_back(fake::text(file) + ":" + std::to_string(size));
    return nullptr;
  };
  pl_evaluate_args args{};
  args.struct_size = sizeof(args);
  args.purpose = PL_PURPOSE_PREDICT;
  const auto batch = runner.load({50});
  EXPECT_OK(runner.api().predict(runner.task(), batch.get(), &args, &sink));
  EXPECT_THAT(seen.rows, ElementsAre("0|1.000000|a, \"b\""));
  EXPECT_THAT(seen.files, ElementsAre("points.bin:2"));
}

TEST_F(TaskTableTest, failures_name_the_plugin_and_the_cause) {
  {
    fake::TaskRunner runner(*plugin_, "slope = 0.0");
    EXPECT_EQ(runner.create().message, "test.toml:1: task.slope: must not be 0");
  }
  fake::TaskRunner runner(*plugin_, "fail_in = 'train'");
  runner.start();
  EXPECT_EQ(runner.train(runner.load({1})).message, "line: as asked, in train");

  pl_load_args args{};
  args.struct_size = sizeof(args);
  args.purpose = PL_PURPOSE_TRAIN;
  const uint64_t id = 100;
  args.ids = &id;
  args.count = 1;
  pl_batch* batch = nullptr;
  EXPECT_EQ(fake::take(runner.api().load(runner.task(), &args, &batch)).message,
            "line: sample 100 of split 0, which has 100");
  EXPECT_EQ(batch, nullptr);
  args.purpose = 77;
  EXPECT_EQ(fake::take(runner.api().load(runner.task(), &args, &batch)).message,
            "line: purpose 77 is not known");

  std::vector<float> memory(4);
  runner.shapes[0] = {2, 2};
  const pl_tensor wrong = runner.view(0, memory);
  EXPECT_EQ(fake::take(runner.api().bind(runner.task(), 0, &wrong, &wrong)).message,
            "line: the storage of the value of w has shape (2, 2), expected (1, 1)");
  EXPECT_EQ(fake::take(runner.api().export_model(runner.task(), fake::str("/nowhere"))).message,
            "line: cannot write to /nowhere");
}

TEST_F(TaskTableTest, a_gradient_that_is_refused_stops_training_with_the_reason) {
  fake::TaskRunner runner(*plugin_, "");
  runner.start();
  runner.fail_ready = "ddp: rank 2 is gone";
  const auto failure = runner.train(runner.load({1}));
  EXPECT_EQ(failure.code, PL_ERROR_PEER);
  EXPECT_EQ(failure.message, "ddp: rank 2 is gone");
  EXPECT_THAT(runner.ready, ElementsAre(0));
}

}  // namespace
