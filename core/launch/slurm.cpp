#include "core/launch/rank_env.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/base/fail.hpp"

namespace pipeline::launch {
namespace {

constexpr uint64_t kMost = 1 << 20;  // nodes: more is a broken list

// Reads a list from left to right; what does not fit is an error that quotes all of it.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  bool take(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }
  std::string until(const char* ends) {
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string part = text_.substr(at_, end - at_);
    at_ = end;
    return part;
  }
  // Digits: their value; `width`: how many there are.
  uint64_t number(size_t* width = nullptr) {
    uint64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail();
    if (width != nullptr) *width = static_cast<size_t>(end - begin);
    at_ += static_cast<size_t>(end - begin);
    return value;
  }
  [[noreturn]] void fail() const {
    pipeline::fail(PL_ERROR_CONFIG, "'{}' is not a list as Slurm writes it (at position {})", text_, at_ + 1);
  }

 private:
  const std::string& text_;
  size_t at_ = 0;
};

// "1-3,07]", after the bracket: the numbers with their leading zeros.
std::vector<std::string> numbers(Reader& reader) {
  std::vector<std::string> all;
  do {
    size_t width = 0;
    const uint64_t first = reader.number(&width);
    const uint64_t last = reader.take('-') ? reader.number() : first;
    if (last < first || last - first >= kMost) reader.fail();
    for (uint64_t i = first; i <= last; ++i) all.push_back(fmt::format("{:0{}}", i, width));
  } while (reader.take(','));
  reader.expect(']');
  return all;
}

// One entry: names with any number of brackets, each multiplying what was before it ("rack[1-2]n[1-4]").
std::vector<std::string> entry(Reader& reader) {
  std::vector<std::string> names = {reader.until("[,")};
  while (reader.take('[')) {
    const std::vector<std::string> middle = numbers(reader);
    const std::string rest = reader.until("[,");
    if (names.size() * middle.size() > kMost) reader.fail();
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& number : middle) longer.push_back(name + number + rest);
    names = std::move(longer);
  }
  if (names.front().empty()) reader.fail();
  return names;
}

const std::string kBecause = "srun sets it; without srun unset SLURM_STEP_ID";

int32_t tasks_on_this_node(const Variables& variables, int32_t tasks) {
  const std::optional<std::string> list = text(variables, "SLURM_STEP_TASKS_PER_NODE");
  if (!list && tasks == 1) return 1;
  const std::vector<int32_t> all = expand_tasks(list.value_or(""));
  const int32_t node = required_number(variables, "SLURM_NODEID", 0, kBecause);
  if (static_cast<size_t>(node) >= all.size())
    fail(PL_ERROR_CONFIG,
         "SLURM_NODEID={} and SLURM_STEP_TASKS_PER_NODE={} in the environment contradict each other", node,
         *list);
  return all[static_cast<size_t>(node)];
}

// Task 0 is on the step's first node, unless the tasks were placed by hand; rank 0 can see that.
std::string first_node(const Variables& variables, int32_t rank) {
  const std::optional<std::string> list = text(variables, "SLURM_STEP_NODELIST");
  if (!list)
    fail(PL_ERROR_CONFIG, "SLURM_STEP_NODELIST is not set in the environment, and {}; or set MASTER_ADDR",
         kBecause);
  if (const auto node = number(variables, "SLURM_NODEID"); rank == 0 && node.value_or(0) != 0)
    fail(
        PL_ERROR_CONFIG,
        "task 0 runs on node {} of SLURM_STEP_NODELIST={}, not on the first one: set MASTER_ADDR to its host",
        *node, *list);
  return expand_nodes(*list).front();
}

}  // namespace

std::vector<std::string> expand_nodes(const std::string& list) {
  Reader reader(list);
  std::vector<std::string> nodes;
  do {
    const std::vector<std::string> more = entry(reader);
    nodes.insert(nodes.end(), more.begin(), more.end());
  } while (reader.take(','));
  if (!reader.done()) reader.fail();
  return nodes;
}

std::vector<int32_t> expand_tasks(const std::string& list) {
  Reader reader(list);
  std::vector<int32_t> tasks;
  do {
    const uint64_t count = reader.number();
    uint64_t times = 1;
    if (reader.take('(')) {
      reader.expect('x');
      times = reader.number();
      reader.expect(')');
    }
    if (count > kMost || times > kMost) reader.fail();
    tasks.insert(tasks.end(), times, static_cast<int32_t>(count));
  } while (reader.take(','));
  if (!reader.done()) reader.fail();
  return tasks;
}

// The shell of sbatch and salloc has SLURM_PROCID=0, too, but belongs to no step: it is not a rank.
std::optional<RankEnv> slurm_env(const Variables& variables) {
  if (!text(variables, "SLURM_STEP_ID") || !text(variables, "SLURM_PROCID")) return std::nullopt;
  RankEnv env{.rank_name = "SLURM_PROCID",
              .size_name = "SLURM_STEP_NUM_TASKS",
              .one_per_host = true,
              .counts_devices = true};
  World& world = env.world;
  world.launcher = "Slurm (srun)";
  world.rank = required_number(variables, "SLURM_PROCID", 0, kBecause);
  world.size = required_number(variables, "SLURM_STEP_NUM_TASKS", 1, kBecause);
  world.local_rank = required_number(variables, "SLURM_LOCALID", 0, kBecause);
  world.local_size = tasks_on_this_node(variables, world.size);
  world.attempt = static_cast<uint32_t>(number(variables, "SLURM_RESTART_COUNT").value_or(0));
  world.run_id = fmt::format("slurm {}.{} {}", text(variables, "SLURM_JOB_ID").value_or(""),
                             *text(variables, "SLURM_STEP_ID"), world.attempt);
  set_address(world, variables, [&] { return first_node(variables, world.rank); });
  return env;
}

}  // namespace pipeline::launch
