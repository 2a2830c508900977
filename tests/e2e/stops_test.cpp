// A stop is heard within two seconds in every phase, whatever a plugin does.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "tests/e2e/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr auto kMost = std::chrono::seconds(5);  // two, on a machine that does much else

constexpr const char* kConfig = R"([run]
dir = "run"
cache_dir = "cache"
device = "cpu"
[plugins]
paths = [")" PIPELINE_BUILD_DIR R"(/tests/zoo"]
[task]
plugin = "deaf"
[strategy]
plugin = "plain_sgd"
[optimizer]
kind = "sgd"
[train]
global_batch = 8
micro_batch = 4
max_steps = 100
[evaluate]
every = 0
at_end = false
)";

// The program with a task that hears nothing once it is in `slot`.
Words deaf_in(const std::string& slot, const std::string& verb) {
  Words command = pipeline_command({verb, "train.toml"});
  command.insert(command.begin(), {"/usr/bin/env", "ZOO_DEAF=" + slot});
  return command;
}

// Before a step is done, and where there is nothing to save, no task can hold up a stop.
TEST(Stops, AreHeardInEachPhase) {
  struct Phase {
    const char *verb, *slot;
    int signal, code;
    const char* said;
  };
  constexpr const char* kAtOnce = ": stopped at once";
  const Phase phases[] = {
      {"check", "create", SIGTERM, 128 + SIGTERM, ""},  // nothing is under way
      {"run", "prepare", SIGTERM, 75, kAtOnce},        {"run", "open", SIGINT, 75, kAtOnce},
      {"run", "train", SIGTERM, 75, kAtOnce},          {"plan", "open", SIGTERM, 75, kAtOnce},
      {"find-lr", "train", SIGINT, 75, kAtOnce},       {"evaluate", "evaluate", SIGINT, 75, kAtOnce},
      {"evaluate", "report", SIGTERM, 75, kAtOnce},    {"predict", "predict", SIGTERM, 75, kAtOnce},
      {"export", "export_model", SIGINT, 75, kAtOnce}};
  const TemporaryFolder all;
  const fs::path trained = all.path() / "trained";
  write_text(trained / "train.toml", kConfig);
  ASSERT_EQ(Process(deaf_in("nothing", "run"), trained).wait().code, 0);
  const auto folder_of = [&](const Phase& phase) {
    return all.path() / (std::string(phase.verb) + "-" + phase.slot);
  };
  std::list<Process> processes;  // all at once, since they do no more than wait
  for (const Phase& phase : phases) {
    fs::copy(trained, folder_of(phase), fs::copy_options::recursive);
    if (std::string_view(phase.verb) == "run") fs::remove_all(folder_of(phase) / "run");
    processes.emplace_back(deaf_in(phase.slot, phase.verb), folder_of(phase));
  }
  for (const Phase& phase : phases)
    ASSERT_TRUE(eventually([&] { return fs::exists(folder_of(phase) / phase.slot); })) << folder_of(phase);
  const auto begin = Clock::now();
  const Phase* phase = phases;
  for (const Process& process : processes) process.signal((phase++)->signal);
  phase = phases;
  for (Process& process : processes) {
    const Result result = process.wait();
    EXPECT_EQ(result.code, phase->code) << folder_of(*phase) << result.out << result.err;
    EXPECT_THAT(result.out + result.err, HasSubstr(phase->said)) << folder_of(*phase);
    ++phase;
  }
  EXPECT_LT(Clock::now() - begin, kMost);
}

// Once a step is done the next one is waited for, and that is said.
TEST(Stops, AreHeardWhereAStepIsWaitedFor) {
  const TemporaryFolder folder;
  write_text(folder.path() / "train.toml", kConfig);
  Process process(deaf_in("later train", "run"), folder.path());
  ASSERT_TRUE(eventually([&] { return fs::exists(folder.path() / "later train"); }));
  const auto begin = Clock::now();
  process.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] {
    return process.output().find(
               "SIGTERM: waiting for the end of training, step 21, to save it; a second signal leaves at "
               "once, without a checkpoint") != std::string::npos;
  })) << process.output();
  EXPECT_LT(Clock::now() - begin, kMost);
  EXPECT_TRUE(process.is_running());
  process.signal(SIGTERM);
  const Result result = process.wait().ended(128 + SIGTERM);
  EXPECT_THAT(result.err, HasSubstr("second signal: leaving at once"));
}

constexpr const char* kLongInput = R"([run]
dir = "run"
cache_dir = "cache"
device = "cpu"
[task]
plugin = "summarization"
tokenizer.vocab_size = 300
language = { num_hidden_layers = 2, num_attention_heads = 2, hidden_size = 16, max_position_embeddings = 64 }
sequence = { max_tokens = 48, max_summary_tokens = 16 }
generate.max_tokens = 8
[train]
max_steps = 1000000
)";

// Makes many names of one file: links cost little.
void write_many(const fs::path& folder, const fs::path& file, int count) {
  fs::create_directories(folder);
  for (int i = 0; i < count; ++i)
    fs::create_hard_link(file, folder / (std::to_string(i) + file.extension().string()));
}

// Stops in the task's own reading, which takes processor time instead of waiting: a pattern of many files,
// long texts that are tokenized, and tables.
TEST(Stops, AreHeardWhileInputIsRead) {
#ifndef PIPELINE_TEST_SUMMARIZATION
  GTEST_SKIP() << "the task is not built";
#endif
  const TemporaryFolder all;
  std::string texts;
  for (int i = 0; i < 40000; ++i) {
    std::string text;
    for (int k = 0; k < 60; ++k) text += std::to_string(i * 7919 + k * 104729) + " ";
    texts += R"({"document":")" + text + R"(","summary":"s"})" + "\n";
  }
  Words inputs{"many/*.jsonl", "long.jsonl"};
  write_text(all.path() / "long.jsonl", texts);
  write_text(all.path() / "one.jsonl", texts.substr(0, texts.find('\n') + 1));
  write_many(all.path() / "many", all.path() / "one.jsonl", 30000);
  if (fs::exists(PIPELINE_BUILD_DIR "/lib/pipeline/readers/parquet_reader.so")) {
    fs::copy_file(PIPELINE_SOURCE_DIR "/tests/data/parquet/fixtures/zstd.parquet",
                  all.path() / "one.parquet");
    write_many(all.path() / "tables", all.path() / "one.parquet", 20000);
    inputs.emplace_back("tables/*.parquet");
  }
  std::list<Process> started;
  for (const std::string& input : inputs) {
    const fs::path folder = all.path() / std::to_string(started.size());
    write_text(folder / "train.toml", kLongInput);
    started.emplace_back(pipeline_command({"run", "train.toml", "task.data.train=\"../" + input + "\""}),
                         folder);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // all are at it by now
  for (const Process& process : started) process.signal(SIGTERM);
  const auto begin = Clock::now();
  for (Process& process : started) {
    const Result result = process.wait();
    EXPECT_EQ(result.code, 75) << inputs.front() << result.out << result.err;
    EXPECT_THAT(result.out, testing::ContainsRegex("stopped by a signal before|stopped at once:"))
        << inputs.front();
    inputs.erase(inputs.begin());
  }
  EXPECT_LT(Clock::now() - begin, kMost);
}

}  // namespace
}  // namespace pipeline::tests
