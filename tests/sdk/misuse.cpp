// What must not compile, one case a build (MISUSE = 1, 2, ...), and the words that the author then reads. 0
// compiles.
#include <pipeline/strategy.hpp>
#include <pipeline/task.hpp>

#include <map>

#if MISUSE == 1
struct Config {
  int64_t n_head = 12;
};
#elif MISUSE == 2
struct Config {
  std::map<std::string, int> table;
  void describe(pipeline::Options& o) { o("table", table, "of something"); }
};
#else
using Config = pipeline::NoConfig;
#endif

struct Probe : pipeline::Task<Config, int> {
  using Task::Task;
  void open() override {}
  uint64_t sample_count(pipeline::Split) const override { return 0; }
#if MISUSE == 3  // changes the object in a method that worker threads call
  int load(const pipeline::LoadRequest&) const override { return ++loaded; }
#else
  int load(const pipeline::LoadRequest&) const override { return 0; }
#endif
  pipeline::BatchInfo batch_info(const int&) const override { return {}; }
  std::vector<pipeline::Parameter> parameters() override { return {}; }
  void initialize(uint64_t, pl_tensor&) override {}
  void bind(uint64_t, const pl_tensor&, const pl_tensor&) override {}
#if MISUSE == 4
  void train(const int&, const pipeline::TrainArgs&) override {}
#else
  pl_tensor train(const int&, const pipeline::TrainArgs&) override { return {}; }
#endif
#if MISUSE != 5
  void evaluate(const int&, pipeline::EvaluationSink&) override {}
#endif
#if MISUSE == 6
  void predict(const int&, const pipeline::PredictionSink&) override {}
#endif
  int loaded = 0;
};

PIPELINE_TASK(Probe, "probe", "1.0.0", "A probe")
