#include "core/config/config.hpp"

#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

class Differences : public ConfigFiles {
 protected:
  static constexpr std::string_view kBefore =
      "task.plugin = 't'\ntask.data.train = 'a.csv'\ntrain.max_steps = 5\ntrain.global_batch = "
      "256\noptimizer.lr = 1\n";

  static std::string stored() {
    const Config config = load_text(kBefore);
    const pl_config task = config.plugin("task", task_options());
    const PluginConfig* plugins[] = {&task};
    return config.to_toml(true, plugins);
  }
  // "key: before -> now" of each, with * where it may change.
  static std::vector<std::string> compare(std::string_view text, std::vector<std::string> sets = {}) {
    const std::string before = stored();
    const Config config = load_text(text, std::move(sets));
    const pl_config task = config.plugin("task", task_options());
    const PluginConfig* plugins[] = {&task};
    std::vector<std::string> lines;
    for (const Difference& d : differences(before, config, plugins))
      lines.push_back(d.key + (d.may_change ? "*: " : ": ") + d.before + " -> " + d.now);
    return lines;
  }
};

using Lines = std::vector<std::string>;

TEST_F(Differences, ThereAreNoneBetweenARunAndItsOwnRecord) {
  EXPECT_EQ(compare(kBefore), Lines{});
  EXPECT_EQ(compare(std::string(kBefore), {"optimizer.lr=1.0"}), Lines{});
}

TEST_F(Differences, ShowBothValuesAndWhetherTheyMayChange) {
  EXPECT_EQ(compare("task.plugin = 't'\ntask.data.train = 'b.csv'\ntrain.max_steps = 9\noptimizer.lr = "
                    "1\ntask.show = 4\n"
                    "strategy.plugin = 'ddp'\ntrain.max_epochs = 3\ntask.model.n_head = 8\n"),
            (Lines{"strategy.plugin*: \"auto\" -> \"ddp\"", "train.global_batch: 256 -> ",
                   "train.max_steps*: 5 -> 9", "train.max_epochs*:  -> 3", "task.model.n_head: 12 -> 8",
                   "task.data.train: \"a.csv\" -> \"b.csv\"", "task.show*: 3 -> 4"}));
}

TEST_F(Differences, InWhatMustStayAreAnErrorThatShowsBoth) {
  const std::string before = stored();
  const Config config = load_text(kBefore, {"train.global_batch=512", "train.max_steps=7"});
  const pl_config task = config.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  EXPECT_EQ(problems_of([&] { require_resumable(before, "runs/x", config, plugins); }),
            "--set train.global_batch=512: was 256 in runs/x, and it must stay the same when a run is "
            "continued: write 256, or start "
            "over with --fresh");
  const Config longer = load_text(kBefore, {"train.max_steps=7"});
  const std::vector<Difference> allowed = require_resumable(before, "runs/x", longer, plugins);
  ASSERT_EQ(allowed.size(), 1u);
  EXPECT_EQ(allowed[0].key, "train.max_steps");
}

TEST_F(Differences, OfAValueThatIsGoneOrNew) {
  const std::string before = stored();
  const Config config = load_text(
      "task.plugin = 't'\ntask.data.train = 'a.csv'\ntrain.max_steps = 5\ntrain.batch_per_device = "
      "16\noptimizer.lr = 1\n");
  const pl_config task = config.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  EXPECT_EQ(problems_of([&] { require_resumable(before, "runs/x", config, plugins); }),
            "(default): train.global_batch = not set: was 256 in runs/x, and it must stay the same when a "
            "run is continued: write 256, "
            "or start over with --fresh\n"
            "x.toml:4: train.batch_per_device = 16: was not set in runs/x, and it must stay the same when a "
            "run is continued: remove "
            "it, or start over with --fresh");
}

TEST_F(Differences, TheStrategysOptionsComeAndGoWithIt) {
  const Config one = load_text("task.plugin = 't'\n[strategy]\nplugin = 'ddp'\ndata.train = 'x'\n");
  const pl_config options = one.plugin("strategy", task_options());
  const PluginConfig* plugins[] = {&options};
  const Config other = load_text("task.plugin = 't'\n[strategy]\nplugin = 'single'\n");
  EXPECT_FALSE(require_resumable(one.to_toml(false, plugins), "runs/x", other, {}).empty());
  EXPECT_FALSE(require_resumable(other.to_toml(false), "runs/x", one, plugins).empty());
}

TEST_F(Differences, ADamagedRecordIsNamed) {
  const Config config = load_text(kBefore);
  EXPECT_EQ(problems_of([&] { differences("a = ", config); }),
            "stored configuration:1:5: the file ends in the middle of a key-value pair: close it");
}

}  // namespace
}  // namespace pipeline::config
