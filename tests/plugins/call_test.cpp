// What is thrown where nothing may be thrown: by the host's own functions, and by slots.
#include "core/plugins/call.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <utility>

#include "core/base/abi_values.hpp"
#include "core/base/child.hpp"
#include "core/plugins/strategy.hpp"
#include "core/plugins/task.hpp"
#include "tests/plugins/zoo.hpp"

namespace pipeline::plugins {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct DiskIsFull {};

// A slot is a lambda here.
class CallerTest : public ::testing::Test {
 protected:
  CallerTest() : context_("task good"), caller_(Plugin::load(zoo("good")), context_) {
    context_.log = [](std::uint32_t, std::string_view) { throw DiskIsFull(); };
  }

  static pl_error* fine() { return nullptr; }

  pl_context context_;
  Caller caller_;
};

TEST_F(CallerTest, WhatACallbackThrowsComesOutOfTheCallThatMadeItAndOfNoOther) {
  const auto slot = [&]() -> pl_error* {
    pl_error* error = call_back([] { throw DiskIsFull(); });
    std::thread([&] { EXPECT_NO_THROW(caller_.any("load", fine)); }).join();  // a writer beside training
    EXPECT_NO_THROW(caller_.any("load", fine));
    return error;
  };
  EXPECT_THROW(caller_.any("snapshot_pieces", slot), DiskIsFull);
  EXPECT_NO_THROW(caller_.any("load", fine));
}

TEST_F(CallerTest, SoDoesWhatTheLogThrows) {
  const auto slot = [&]() -> pl_error* {
    host_table().log(&context_, PL_LOG_INFO, to_pl("line"));
    std::thread([&] { EXPECT_NO_THROW(caller_.any("load", fine)); }).join();
    return nullptr;
  };
  EXPECT_THROW(caller_.any("snapshot_pieces", slot), DiskIsFull);
  EXPECT_NO_THROW(caller_.any("load", fine));
}

TEST_F(CallerTest, AFailureOfWhatCannotFailIsLoggedOnce) {
  std::vector<std::string> lines;
  context_.log = [&](std::uint32_t level, std::string_view line) {
    EXPECT_EQ(level, PL_LOG_ERROR);
    lines.emplace_back(line);
  };
  for (int i = 0; i < 3; ++i) caller_.cannot_fail("abort", [] { throw std::runtime_error("no"); });
  EXPECT_THAT(lines,
              ElementsAre("task good: a C++ exception left its slot 'abort', which the ABI forbids: no"));
}

class SlotsThatThrow : public ::testing::Test {
 protected:
  SlotsThatThrow() {
    context_.log = [this](std::uint32_t, std::string_view line) { lines_.emplace_back(line); };
  }

  static std::string escaped(const std::string& who, const std::string& slot) {
    return who + ": a C++ exception left its slot '" + slot +
           "', which the ABI forbids: out of patience in " + slot;
  }
  template <class Function>
  static std::string problem_of(Function&& function) {
    try {
      function();
      return "none";
    } catch (const Error& e) {
      return e.what();
    }
  }

  pl_context context_{"zoo"};
  std::vector<std::string> lines_;
};

TEST_F(SlotsThatThrow, AreNamedWithTheirPlugin) {
  const std::string who = "task slots_throw";
  const Plugin& plugin = Plugin::load(zoo("slots_throw"));
  Task task(plugin, context_, nullptr);
  const std::vector<std::uint64_t> ids{1};
  const Batch batch = task.load({.ids = ids});
  EXPECT_EQ(problem_of([&] { task.train(batch, {}); }), escaped(who, "train"));
  EXPECT_EQ(problem_of([&] { task.flops(batch); }), escaped(who, "flops"));
  EXPECT_EQ(problem_of([&] { task.parameters(); }), escaped(who, "parameter_count"));
  EXPECT_EQ(problem_of([&] { task.metrics(); }), escaped(who, "metric_count"));
  EXPECT_EQ(problem_of([&] { task.data_fingerprint(); }), escaped(who, "data_fingerprint"));
  EXPECT_EQ(problem_of([&] { task.extra_state(); }), escaped(who, "extra_state"));
  EXPECT_EQ(problem_of([&] { task.report(PL_SPLIT_VAL, PL_PURPOSE_VALIDATE, {}, {}, {}); }),
            escaped(who, "report"));
  EXPECT_EQ(problem_of([&] { plugin.query("pl.x/1"); }), escaped(who, "query"));
  EXPECT_THAT(lines_, ElementsAre());
}

TEST_F(SlotsThatThrow, WhileSomethingIsFreedAreLogged) {
  { Task(Plugin::load(zoo("slots_throw")), context_, nullptr); }
  EXPECT_THAT(lines_, ElementsAre(escaped("task slots_throw", "destroy")));
  lines_.clear();
  Task task(Plugin::load(zoo("slots_throw")), context_, nullptr);
  const std::vector<std::uint64_t> ids{1};
  for (int i = 0; i < 2; ++i) task.load({.ids = ids});
  EXPECT_THAT(lines_, ElementsAre(escaped("task slots_throw", "batch_free")));
}

TEST_F(SlotsThatThrow, OfAStrategyAreLoggedToo) {
  {
    const Strategy strategy(Plugin::load(zoo("hooks")), context_, nullptr, {}, {}, nullptr);
    strategy.snapshot(PL_SNAPSHOT_COPY);
    EXPECT_THAT(lines_, ElementsAre(escaped("strategy hooks", "snapshot_free")));
  }
  lines_.clear();
  { Strategy(Plugin::load(zoo("hooks")), context_, nullptr, {}, {}, nullptr); }
  EXPECT_THAT(lines_, ElementsAre(escaped("strategy hooks", "destroy")));
}

TEST_F(SlotsThatThrow, AtShutdownAreSaidAndTheOthersStillShutDown) {
  const ChildResult child = run_in_child(std::chrono::seconds(60), [] {
    Plugin::load(zoo("slots_throw"));
    shutdown_plugins();
    return std::string("done");
  });
  EXPECT_EQ(child.value, "done") << child.problem;
  EXPECT_EQ(child.output, "error: " + escaped("task slots_throw", "shutdown") + "\n");
}

TEST(TaskSamples, AreCountedOutsideTraining) {
  pl_context context("zoo");
  const Task task(Plugin::load(zoo("endless_all")), context, nullptr);
  EXPECT_EQ(task.sample_count(PL_SPLIT_TRAIN), UINT64_MAX);
  for (const auto& [split, name] : {std::pair(PL_SPLIT_VAL, "val"), {PL_SPLIT_TEST, "test"}}) {
    try {
      task.sample_count(split);
      ADD_FAILURE() << "no error for " << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), PL_ERROR_UNSUPPORTED);
      EXPECT_EQ(error.what(), std::string("task endless_all: sample_count of the ") + name +
                                  " split is UINT64_MAX (unbounded), must be a number of samples: only "
                                  "training data may be unbounded");
    }
  }
}

TEST(StrategyHooks, LiveAsLongAsTheStrategy) {
  pl_context context("zoo");
  context.log = [](std::uint32_t, std::string_view) {};
  Strategy strategy(Plugin::load(zoo("hooks")), context, nullptr, {}, {}, nullptr);
  const pl_unit_hooks* hooks = &strategy.unit_hooks();
  EXPECT_EQ(hooks, &strategy.unit_hooks());
  EXPECT_EQ(hooks->struct_size, sizeof(pl_unit_hooks));
  EXPECT_EQ(hooks->enter(hooks->user, 0, PL_PASS_FORWARD), nullptr);
}

TEST(StrategyHooks, AreNotTakenWithoutGather) {
  pl_context context("zoo");
  try {
    Strategy(Plugin::load(zoo("no_gather")), context, nullptr, {}, {}, nullptr);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "strategy no_gather: says that it needs unit hooks and has no slot 'gather'");
  }
}

TEST_F(SlotsThatThrow, FlagsOfALaterVersionAreRefused) {
  Task task(Plugin::load(zoo("batch_flags")), context_, nullptr);
  const std::vector<std::uint64_t> ids{1};
  EXPECT_EQ(problem_of([&] { task.load({.ids = ids}); }),
            "task batch_flags: batch_info: flags 0x2 has bits that are unknown");
  const Strategy strategy(Plugin::load(zoo("hooks")), context_, nullptr, {}, {}, nullptr);
  EXPECT_EQ(problem_of([&] { strategy.snapshot(PL_SNAPSHOT_COPY).pieces([](const pl_piece&) {}); }),
            "state 'value' of 'weight': flags 0x1 has bits that are unknown");
}

TEST(ExtraState, CrossesWhole) {
  pl_context context("zoo");
  Task task(Plugin::load(zoo("rows_right")), context, nullptr);
  EXPECT_EQ(task.extra_state(), "fresh");
  const std::string state("a\0b", 3);
  task.set_extra_state(state);
  EXPECT_EQ(task.extra_state(), state);
}

TEST(ExtraState, BytesNowhereAreRefused) {
  pl_context context("zoo");
  Task task(Plugin::load(zoo("no_state")), context, nullptr);
  try {
    task.extra_state();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "task no_state: extra_state gave 5 bytes at NULL");
  }
}

// What the reports of a task of the zoo say, or the problem.
std::string report_with(const std::string& name) {
  pl_context context("zoo");
  Task task(Plugin::load(zoo(name)), context, nullptr);
  std::string said;
  const EvaluationValue values[] = {{"", "loss", 3, 2}, {"a", "loss", 5, 4}};
  try {
    task.report(
        PL_SPLIT_TEST, PL_PURPOSE_EVALUATE, values, {},
        {.figure = [&](std::string_view figure, double value,
                       std::uint32_t better) { said += fmt::format("{} {} {}; ", figure, value, better); },
         .text = [&](std::string_view lines) { said += fmt::format("{}; ", lines); },
         .file =
             [&](std::string_view file, std::span<const std::byte> bytes) {
               said += fmt::format("{} {}", file, bytes.size());
             }});
  } catch (const Error& e) {
    return e.what();
  }
  return said;
}

TEST(Report, GetsAllValuesAndAddsFiguresTextAndFiles) {
  EXPECT_EQ(report_with("rows_right"), "spread 28 2; two\nlines; table.csv 3");
}

TEST(Report, NamesThatCannotBeAreRefused) {
  EXPECT_EQ(report_with("report_nameless"), "task report_nameless: report gave a figure without a name");
  EXPECT_EQ(report_with("report_better"), "task report_better: report: figure 'own': better 7 is unknown");
  EXPECT_EQ(report_with("report_file"),
            "task report_file gave '../x' as the name of a file: must be a plain file name");
}

TEST(Report, FilesThatWouldBeLostAreRefused) {
  EXPECT_EQ(
      report_with("report_sums"),
      "task report_sums: report gave a file the name 'sums.json', which is the host's own: must be another");
  EXPECT_EQ(report_with("report_twice"),
            "task report_twice: report gave the file 'table.csv' twice: each must have a name of its own");
  EXPECT_EQ(report_with("report_null"), "task report_null gave the file 'table.csv' as 3 bytes at NULL");
}

// What an evaluation of sample 1 yields, or the problem.
std::string evaluate_with(const std::string& name) {
  pl_context context("zoo");
  Task task(Plugin::load(zoo(name)), context, nullptr);
  const std::vector<std::uint64_t> ids{1};
  const Batch batch = task.load({.purpose = PL_PURPOSE_EVALUATE, .ids = ids});
  std::string values;
  try {
    task.evaluate(batch, {},
                  {.value =
                       [&](const EvaluationValue& v) {
                         values += fmt::format("{}/{} {} {}; ", v.group, v.name, v.sum, v.weight);
                       },
                   .record =
                       [&](const EvaluationRecord& r) {
                         values += fmt::format("{} {} {}; ", r.sample_id, r.key, r.bytes);
                       },
                   .sample = {}});
  } catch (const Error& e) {
    return e.what();
  }
  return values;
}

TEST(EvaluationValues, OfGroupsAndRecordsCrossWhole) {
  EXPECT_EQ(evaluate_with("rows_right"), "/loss 3 2; 1 score 7; a/count 1 1; ");
  EXPECT_EQ(evaluate_with("value_nameless"), "task value_nameless: evaluate gave a value without a name");
}

TEST(EvaluationRecords, AreOfTheBatchAndOnce) {
  EXPECT_EQ(evaluate_with("record_elsewhere"),
            "task record_elsewhere: evaluate recorded 'score' of sample 9, which is not in its batch");
  EXPECT_EQ(evaluate_with("record_twice"),
            "task record_twice: evaluate recorded 'score' of sample 1 twice: must be once for each key");
}

// What a prediction of the samples 5 and 6 ends in.
std::string predict_with(const std::string& name) {
  pl_context context("zoo");
  Task task(Plugin::load(zoo(name)), context, nullptr);
  const std::vector<std::uint64_t> ids{5, 6};
  const Batch batch = task.load({.purpose = PL_PURPOSE_PREDICT, .ids = ids});
  try {
    task.predict(batch, {}, PredictionSink());
    return "fine";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(PredictionRows, AreOneForEachSampleOfTheBatch) {
  EXPECT_EQ(predict_with("rows_right"), "fine");
  EXPECT_EQ(predict_with("rows_long"),
            "task rows_long: predict gave the row of sample 5 3 fields, must give one for each of the 2 "
            "prediction_columns");
  EXPECT_EQ(predict_with("rows_foreign"),
            "task rows_foreign: predict yielded something for sample 99, which is not one of the 2 samples "
            "of its batch");
  EXPECT_EQ(predict_with("rows_twice"),
            "task rows_twice: predict gave sample 5 more than one row, must give each of the 2 samples of "
            "its batch one");
  EXPECT_EQ(predict_with("rows_none"),
            "task rows_none: predict gave 0 rows for the 2 samples of its batch, none for sample 5: must "
            "give each one");
}

}  // namespace
}  // namespace pipeline::plugins
