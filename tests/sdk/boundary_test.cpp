// Structs of other sizes, exceptions, and the entry function.
#include "fake_host.hpp"

#include <gmock/gmock.h>
#include <pipeline/backend.hpp>
#include <pipeline/strategy.hpp>
#include <pipeline/task.hpp>

#include <new>

namespace {

using testing::HasSubstr;

class BoundaryTest : public testing::Test {
 protected:
  void SetUp() override {
    pipeline::globals().host = fake::host();
    pipeline::globals().plugin_name = "probe";
  }
  void TearDown() override { EXPECT_EQ(fake::live_errors(), 0); }
};

// pl_train_args of a newer host.
struct NewerArgs {
  pl_train_args known;
  uint64_t added;
};

TEST_F(BoundaryTest, a_shorter_struct_is_filled_up_with_zeros) {
  pl_train_args sent{};
  sent.struct_size = offsetof(pl_train_args, step);
  sent.scale = 0.5;
  sent.step = 99;  // beyond what the sender claims to know
  const pl_train_args got = pipeline::receive_args(&sent);
  EXPECT_EQ(got.scale, 0.5);
  EXPECT_EQ(got.step, 0u);
  EXPECT_EQ(got.struct_size, sizeof(pl_train_args));
}

TEST_F(BoundaryTest, a_longer_options_struct_is_accepted_only_if_it_asks_for_nothing_new) {
  NewerArgs sent{};
  sent.known.struct_size = sizeof(NewerArgs);
  sent.known.scale = 0.5;
  EXPECT_EQ(pipeline::receive_args(&sent.known).scale, 0.5);
  sent.added = uint64_t{1} << 40;
  const auto failure = fake::take(pipeline::guard([&] { pipeline::receive_args(&sent.known); }));
  EXPECT_EQ(failure.code, PL_ERROR_UNSUPPORTED);
  EXPECT_THAT(failure.message, HasSubstr("probe: the host asks for an option at byte " +
                                         std::to_string(sizeof(pl_train_args) + 5)));
  EXPECT_EQ(pipeline::receive(&sent.known).scale, 0.5) << "what is no options struct may be longer";
  sent.added = 0;
  sent.known.reserved = 3;
  EXPECT_THAT(fake::take(pipeline::guard([&] { pipeline::receive_args(&sent.known); })).message,
              HasSubstr("a reserved field of an options struct to 3, must be 0"));
}

TEST_F(BoundaryTest, output_is_written_as_far_as_the_caller_knows_it) {
  pl_batch_info out{};
  out.struct_size = offsetof(pl_batch_info, tokens);
  out.tokens = 77;
  auto value = pipeline::sized<pl_batch_info>();
  value.weight = 3;
  value.tokens = 5;
  pipeline::fill(&out, value);
  EXPECT_EQ(out.weight, 3);
  EXPECT_EQ(out.tokens, 77u) << "beyond the caller's struct";
  EXPECT_EQ(out.struct_size, offsetof(pl_batch_info, tokens));

  out.struct_size = 0;
  EXPECT_THROW(pipeline::fill(&out, value), pipeline::Error);
}

TEST_F(BoundaryTest, arrays_are_read_with_the_senders_stride) {
  struct Longer {
    pl_parameter known;
    uint64_t added;
  };
  Longer sent[2]{};
  sent[0].known.struct_size = sent[1].known.struct_size = sizeof(Longer);
  sent[1].known.unit = 4;
  sent[1].added = 1;
  EXPECT_EQ(pipeline::receive_element(&sent[0].known, 1).unit, 4u);
}

TEST_F(BoundaryTest, every_exception_becomes_an_error_with_its_code) {
  auto failure = fake::take(pipeline::guard([] { pipeline::fail_with(PL_ERROR_CORRUPT, "bad ", 3); }));
  EXPECT_EQ(failure.code, PL_ERROR_CORRUPT);
  EXPECT_EQ(failure.message, "probe: bad 3");
  failure = fake::take(pipeline::guard([] { throw std::bad_alloc(); }));
  EXPECT_EQ(failure.code, PL_ERROR_OUT_OF_MEMORY);
  failure = fake::take(pipeline::guard([] { throw std::out_of_range("index 7"); }));
  EXPECT_EQ(failure.code, PL_ERROR_FAILED);
  EXPECT_EQ(failure.message, "probe: index 7");
  failure = fake::take(pipeline::guard([] { throw 3; }));
  EXPECT_EQ(failure.message, "probe: an exception that is not a std::exception");
  EXPECT_EQ(pipeline::guard([] {}), nullptr);
}

TEST_F(BoundaryTest, what_came_through_the_abi_is_passed_on_unchanged) {
  const auto failure = fake::take(pipeline::guard(
      [] { pipeline::check(fake::host().error_new(PL_ERROR_PEER, fake::str("gloo: rank 3 is gone"))); }));
  EXPECT_EQ(failure.code, PL_ERROR_PEER);
  EXPECT_EQ(failure.message, "gloo: rank 3 is gone");
}

TEST_F(BoundaryTest, a_slot_that_cannot_report_logs) {
  pl_context context;
  EXPECT_EQ(pipeline::guard_value(&context, 2.5, []() -> double { pipeline::fail("no figure"); }), 2.5);
  ASSERT_EQ(context.lines.size(), 1u);
  EXPECT_EQ(context.lines[0], std::make_pair(PL_LOG_ERROR, std::string("probe: no figure")));
}

TEST_F(BoundaryTest, the_context_reaches_the_host) {
  pl_context raw;
  const pipeline::Context context(&raw);
  context.warn("dropped ", 3, " rows");
  context.metric("accuracy", 3, 4);
  context.progress("tokenizing", 1, 2);
  EXPECT_EQ(raw.lines[0], std::make_pair(PL_LOG_WARNING, std::string("dropped 3 rows")));
  EXPECT_EQ(raw.metrics["accuracy"], std::make_pair(3.0, 4.0));
  EXPECT_EQ(raw.progress[0], "tokenizing 1/2");
  EXPECT_EQ(context.seed("a", 1), context.seed("a", 1));
  EXPECT_NE(context.seed("a", 1), context.seed("b", 1));
  EXPECT_NO_THROW(context.throw_if_cancelled());
  raw.cancelled = true;
  const auto failure = fake::take(pipeline::guard([&] { context.throw_if_cancelled(); }));
  EXPECT_EQ(failure.code, PL_ERROR_CANCELLED);
}

// The smallest task: only what is required.
struct Least : pipeline::Task<pipeline::NoConfig, int> {
  using Task::Task;
  void open() override {}
  uint64_t sample_count(pipeline::Split) const override { return 0; }
  int load(const pipeline::LoadRequest&) const override { return 0; }
  pipeline::BatchInfo batch_info(const int&) const override { return {}; }
  std::vector<pipeline::Parameter> parameters() override { return {}; }
  void initialize(uint64_t, pl_tensor&) override {}
  void bind(uint64_t, const pl_tensor&, const pl_tensor&) override {}
  pl_tensor train(const int&, const pipeline::TrainArgs&) override { return {}; }
  void evaluate(const int&, pipeline::EvaluationSink&) override {}
};

// A task that has everything.
struct Most : Least {
  using Least::Least;
  static constexpr bool kHasUnits = true;
  void prepare() override {}
  double sample_cost(pipeline::Split, uint64_t) const override { return 2; }
  std::string data_fingerprint() override { return "abc"; }
  void import_model(const std::filesystem::path&) override {}
  std::vector<pipeline::Metric> metrics() override { return {{"accuracy", "share of right answers"}}; }
  std::vector<std::string> prediction_columns() override { return {"y"}; }
  std::string sample_name(pipeline::Split, uint64_t) const override { return "n"; }
  void predict(const int&, const pipeline::PredictionSink&) override {}
  double flops(const int&) override { return 6; }
  std::string extra_state() override { return "s"; }
  void set_extra_state(std::string_view) override {}
  void report(const pipeline::Report&, const pipeline::ReportSink&) override {}
  void export_model(const std::filesystem::path&) override {}
  static const void* query(std::string_view id) { return id == "pl.probe/1" ? &kHasUnits : nullptr; }
  static void shutdown() { ++shutdowns; }
  static inline int shutdowns = 0;
};

template <class T>
const pl_plugin* enter(const pl_host& host, pl_error** error) {
  return pipeline::make_plugin<pipeline::TaskTable<T>>(&host, error, {"probe", "1.2.3", "A probe"});
}

TEST_F(BoundaryTest, optional_slots_are_offered_only_when_they_are_overridden) {
  pl_error* error = nullptr;
  const auto& least = *static_cast<const pl_task_api*>(enter<Least>(fake::host(), &error)->api);
  EXPECT_EQ(least.struct_size, sizeof(pl_task_api));
  EXPECT_TRUE(least.create && least.destroy && least.open && least.sample_count && least.load &&
              least.batch_info && least.batch_free && least.parameter_count && least.parameter &&
              least.initialize && least.bind && least.train && least.evaluate);
  EXPECT_FALSE(least.prepare || least.sample_costs || least.data_fingerprint || least.import_model ||
               least.set_unit_hooks || least.metric_count || least.metric || least.prediction_columns ||
               least.sample_name || least.predict || least.flops || least.export_model || least.extra_state ||
               least.set_extra_state || least.report);
  const auto& most = *static_cast<const pl_task_api*>(enter<Most>(fake::host(), &error)->api);
  EXPECT_TRUE(most.prepare && most.sample_costs && most.data_fingerprint && most.import_model &&
              most.set_unit_hooks && most.metric_count && most.metric && most.prediction_columns &&
              most.sample_name && most.predict && most.flops && most.export_model && most.extra_state &&
              most.set_extra_state && most.report);
}

TEST_F(BoundaryTest, the_entry_states_what_the_plugin_is) {
  pl_error* error = nullptr;
  const pl_plugin* plugin = enter<Most>(fake::host(), &error);
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(error, nullptr);
  EXPECT_EQ(plugin->struct_size, sizeof(pl_plugin));
  EXPECT_EQ(plugin->abi_major, PL_ABI_MAJOR);
  EXPECT_EQ(plugin->kind, PL_PLUGIN_TASK);
  EXPECT_EQ(fake::text(plugin->name), "probe");
  EXPECT_EQ(fake::text(plugin->version), "1.2.3");
  EXPECT_EQ(fake::text(plugin->summary), "A probe");
  EXPECT_EQ(plugin->runtime.len, 0u);
  EXPECT_EQ(plugin->option_count, 0u);
  ASSERT_NE(plugin->query, nullptr);
  EXPECT_NE(plugin->query(fake::str("pl.probe/1")), nullptr);
  EXPECT_EQ(plugin->query(fake::str("pl.probe/10")), nullptr);
  plugin->shutdown();
  EXPECT_EQ(Most::shutdowns, 1);
}

TEST_F(BoundaryTest, a_host_of_another_minor_version_is_accepted_either_way) {
  pl_error* error = nullptr;
  pl_host newer = fake::host();
  newer.abi_minor = 7;
  newer.struct_size += 64;
  struct {
    pl_host host;
    char more[64];
  } big{newer, {}};
  EXPECT_NE(enter<Least>(big.host, &error), nullptr);
  EXPECT_EQ(error, nullptr);
}

TEST_F(BoundaryTest, a_host_of_another_major_version_is_left_to_refuse_by_itself) {
  pl_error* error = nullptr;
  pl_host other = fake::host();
  other.abi_major = 9;
  other.error_new = nullptr;  // its layout is not known
  const pl_plugin* plugin = enter<Least>(other, &error);
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(plugin->abi_major, PL_ABI_MAJOR);
}

TEST_F(BoundaryTest, a_host_with_a_short_table_is_refused) {
  pl_error* error = nullptr;
  pl_host other = fake::host();
  other.struct_size = offsetof(pl_host, config_error);
  EXPECT_EQ(enter<Least>(other, &error), nullptr);
  EXPECT_THAT(fake::take(error).message, HasSubstr("probe: the host's table has"));
}

}  // namespace
