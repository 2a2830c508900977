// The template task, loaded as the core loads it.
#include "task_runner.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <fstream>
#include <test_paths.hpp>

namespace {

const pl_plugin* load_template() {
  const std::string path = PIPELINE_BUILD_DIR "/lib/pipeline/plugins/tasks/template.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<pl_plugin_entry_fn>(dlsym(library, "pl_plugin_entry"));
  if (entry == nullptr) throw std::runtime_error(dlerror());
  pl_error* error = nullptr;
  const pl_plugin* plugin = entry(&fake::host(), &error);
  if (error != nullptr) throw std::runtime_error(fake::take(error).message);
  return plugin;
}

TEST(TemplateTest, learns_the_sine) {
  fake::TaskRunner runner(*load_template(), "samples = 500\nnoise = 0.1");
  runner.start();
  std::vector<uint64_t> train_ids(500), val_ids(50);
  std::iota(train_ids.begin(), train_ids.end(), 0);
  std::iota(val_ids.begin(), val_ids.end(), 0);
  const auto batch = runner.load(train_ids);
  const auto held_out = runner.load(val_ids, PL_SPLIT_VAL);
  EXPECT_GT(runner.evaluate(held_out), 0.2) << "before training";
  for (uint64_t step = 0; step < 1500; ++step) {
    ASSERT_EQ(runner.train(batch, 1 / runner.weight(batch), step).message, "");
    runner.descend(0.1);
  }
  EXPECT_LT(runner.evaluate(held_out), 0.03) << "the noise alone has a variance of 0.01";
  EXPECT_LT(runner.evaluated["distance"].first / runner.evaluated["distance"].second, 0.15);
  EXPECT_EQ(fake::live_errors(), 0);
}

TEST(TemplateTest, samples_depend_on_their_id_and_the_seed_alone) {
  const pl_plugin& plugin = *load_template();
  fake::TaskRunner runner(plugin, "noise = 0.3"), again(plugin, "noise = 0.3"), other(plugin, "noise = 0.3");
  other.context.run.seed = 2;
  for (fake::TaskRunner* r : {&runner, &again, &other}) r->start();
  const double alone = runner.evaluate(runner.load({7}));
  EXPECT_EQ(again.evaluate(again.load({7})), alone);
  EXPECT_NE(other.evaluate(other.load({7})), alone);
  const double pair = runner.evaluate(runner.load({7, 8})) * 2;
  EXPECT_NEAR(pair, alone + runner.evaluate(runner.load({8})), 1e-5);
}

// With units the task runs where a strategy keeps one layer's weights at a time.
TEST(TemplateTest, has_a_unit_for_each_layer) {
  fake::TaskRunner runner(*load_template(), "");
  runner.start();
  EXPECT_NE(runner.api().set_unit_hooks, nullptr);
  std::map<std::string, uint32_t> units;
  for (size_t i = 0; i < runner.names.size(); ++i) units[runner.names[i]] = runner.parameters[i].unit;
  EXPECT_THAT(
      units, testing::UnorderedElementsAre(testing::Pair("hidden.weight", 0), testing::Pair("hidden.bias", 0),
                                           testing::Pair("out.weight", 1), testing::Pair("out.bias", 1)));
}

TEST(TemplateTest, is_as_short_as_it_says) {
  std::ifstream file(PIPELINE_SOURCE_DIR "/plugins/template/template.cpp");
  const auto lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  EXPECT_GT(lines, 0);
  EXPECT_LE(lines, 90);
}

}  // namespace
