// A task whose micro-batches use different layers, as a conversation does in which only some turns have a
// picture; and what else of the ABI no other task uses: step metrics on the device, groups, records,
// parameters that are new or may be left out.
#include <pipeline/torch/task.hpp>

#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/modules/linear.h>

#include <cstring>
#include <string>

namespace {

using namespace pipeline;

constexpr int64_t kWidth = 8;
// The tower that sees pictures, the text's own layers, the head.
enum Unit : uint32_t { kTower0, kTower1, kText, kHead };

struct Config {
  bool adapter = false, pictures = true;
  void describe(Options& o) {
    o("adapter", adapter, "a further layer, for a stage that starts from one without");
    o("pictures", pictures, "a third of the micro-batches has pictures; without, the tower is never used");
  }
};

struct Batch {
  at::Tensor text, picture, right;  // (B, kWidth), (B, kWidth), (B)
  std::vector<uint64_t> ids;
  bool has_picture = false;
  void tensors(auto&& visit) { visit(text), visit(picture), visit(right); }
};

struct Network : torch::nn::Module {
  explicit Network(bool with_adapter) {
    for (const char* name : {"tower0", "tower1", "text", "head"})
      layers.push_back(
          register_module(name, torch::nn::Linear(kWidth, std::strcmp(name, "head") == 0 ? 1 : kWidth)));
    if (with_adapter) adapter = register_module("adapter", torch::nn::Linear(kWidth, kWidth));
  }
  at::Tensor layer(uint32_t unit, const at::Tensor& x) { return at::tanh(layers[unit](x)); }
  std::vector<torch::nn::Linear> layers;
  torch::nn::Linear adapter{nullptr};
};

class MixedTurns : public TorchTask<Config, Network, Batch> {
 public:
  static constexpr bool kHasUnits = true;
  using TorchTask::TorchTask;

  void open_data() override {}
  std::string extra_state() override { return "turns"; }
  void set_extra_state(std::string_view /*state*/) override {}
  uint64_t sample_count(Split split) const override { return split == Split::kTrain ? 64 : 24; }
  Batch make_batch(const LoadRequest& request) const override {
    std::vector<at::Tensor> texts, pictures;
    for (const uint64_t id : request.ids) {
      const auto random = make_generator(context().seed("mixed", uint64_t(request.split), id));
      texts.push_back(at::randn({kWidth}, random));
      pictures.push_back(at::randn({kWidth}, random));
    }
    Batch batch{.text = at::stack(texts),
                .picture = at::stack(pictures),
                .ids = {request.ids.begin(), request.ids.end()}};
    batch.right = (batch.text.select(1, 0) > 0).to(at::kFloat);
    batch.has_picture = config().pictures && request.ids[0] % 3 == 0;
    return batch;
  }
  BatchInfo batch_info(const Batch& b) const override {
    return {.weight = double(b.ids.size()), .samples = b.ids.size()};
  }
  std::shared_ptr<Network> build_model() override { return std::make_shared<Network>(config().adapter); }
  void describe_parameter(Parameter& p) override {
    p.unit = p.name.starts_with("tower0")   ? kTower0
             : p.name.starts_with("tower1") ? kTower1
             : p.name.starts_with("head")   ? kHead
                                            : kText;
    p.is_new = p.droppable = p.name.starts_with("adapter");
  }

  // (B)
  at::Tensor scores(const Batch& b) {
    const auto run = [&](uint32_t unit, const at::Tensor& x) {
      return units().run(
          unit, [&](const Tensors& in) { return Tensors{model().layer(unit, in[0])}; }, {x},
          model().layers[unit]->parameters())[0];
    };
    const at::Tensor seen =
        b.has_picture ? run(kTower1, run(kTower0, b.picture)) : units().skip(kTower1, units().skip(kTower0));
    at::Tensor x = units().run(
        kText,
        [&](const Tensors& in) {
          at::Tensor y = model().layer(kText, in[0]);
          return Tensors{model().adapter ? y + model().adapter(y) : y};
        },
        {b.text}, text_parameters())[0];
    x = b.has_picture ? x + seen : units().joined(x, seen);
    return run(kHead, x).squeeze(1);
  }
  LossSum loss(const Batch& b) override {
    const at::Tensor wrong = (scores(b) - b.right).square();
    if (is_training()) metric("squares", wrong.sum(), double(b.ids.size()));
    return LossSum(wrong.sum());
  }

  // The area under the curve, which no sum gives: the share of pairs in which the right one has the higher
  // score.
  void evaluate(const Batch& b, EvaluationSink& sink) override {
    TorchTask::evaluate(b, sink);
    const at::Tensor scores_of = scores(b).cpu();
    const auto* score = scores_of.const_data_ptr<float>();
    for (size_t i = 0; i < b.ids.size(); ++i) {
      const bool right = b.right[int64_t(i)].item<float>() > 0;
      sink.value_of(b.ids[i] % 2 == 0 ? "even" : "odd", "right", right ? 1 : 0, 1);
      sink.record(b.ids[i], right ? "right" : "wrong",
                  std::string_view(reinterpret_cast<const char*>(score + i), sizeof(float)));
    }
  }
  void report(const Report& report, const ReportSink& sink) override {
    double above = 0, pairs = 0;
    uint64_t before = 0;
    for (const EvaluationRecord& one : report.records) {
      if (one.sample_id < before) fail("records are not in the order of the samples");
      before = one.sample_id;
      for (const EvaluationRecord& other : report.records) {
        if (one.key != "right" || other.key != "wrong") continue;
        float a = 0, b = 0;
        std::memcpy(&a, one.bytes.data(), sizeof a);
        std::memcpy(&b, other.bytes.data(), sizeof b);
        pairs += 1, above += a > b ? 1 : a == b ? 0.5 : 0;
      }
    }
    sink.figure("auroc", above / pairs, PL_BETTER_HIGHER);
    for (const EvaluationValue& value : report.values)
      if (!value.group.empty())
        sink.figure("right_" + std::string(value.group), value.sum / value.weight, PL_BETTER_HIGHER);
  }

 private:
  std::vector<at::Tensor> text_parameters() {
    std::vector<at::Tensor> all = model().layers[kText]->parameters();
    if (model().adapter)
      for (const at::Tensor& p : model().adapter->parameters()) all.push_back(p);
    return all;
  }
};

}  // namespace

PIPELINE_TASK(MixedTurns, "mixed_turns", "1.0.0", "Turns with and without a picture")
