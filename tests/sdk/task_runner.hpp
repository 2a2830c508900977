#pragma once

#include "fake_host.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace fake {

// How a runner binds gradients.
enum class Gradients { kAccumulate, kHandOver };

// Drives a task through its C table like the core and a strategy do, on one device with float32 parameters.
class TaskRunner {
 public:
  TaskRunner(const pl_plugin& plugin, const std::string& toml, Gradients mode = Gradients::kAccumulate)
      : api_(*static_cast<const pl_task_api*>(plugin.api)),
        mode_(mode),
        config_(plugin.options, plugin.option_count, toml) {}
  ~TaskRunner() { api_.destroy(task_); }

  pl_context context;

  Failure create() { return take(api_.create(&host(), &context, &config_, &task_)); }

  // create, open, parameters, initialize, bind.
  void start() {
    ASSERT_OK(api_.create(&host(), &context, &config_, &task_));
    ASSERT_OK(api_.open(task_));
    read_parameters();
    for (size_t i = 0; i < values.size(); ++i) {
      pl_tensor out = view(i, values[i]);
      ASSERT_OK(api_.initialize(task_, i, &out));
    }
    for (size_t i = 0; i < values.size(); ++i) ASSERT_OK(bind(i));
  }

  void read_parameters() {
    const uint64_t count = api_.parameter_count(task_);
    for (uint64_t i = 0; i < count; ++i) {
      pl_parameter p{};
      p.struct_size = sizeof(p);
      ASSERT_OK(api_.parameter(task_, i, &p));
      names.push_back(text(p.name));
      shapes.emplace_back(p.shape, p.shape + p.ndim);
      parameters.push_back(p);
      const auto size = static_cast<size_t>(
          std::accumulate(shapes.back().begin(), shapes.back().end(), int64_t{1}, std::multiplies<>()));
      values.emplace_back(size, 0.0f);
      grads.emplace_back(size, 0.0f);
    }
  }

  pl_error* bind(size_t i) {
    const pl_tensor value = view(i, values[i]);
    pl_tensor grad = view(i, grads[i]);
    if (mode_ == Gradients::kHandOver) grad.data = nullptr;
    return api_.bind(task_, i, &value, &grad);
  }

  pl_tensor view(size_t i, std::vector<float>& memory) {
    pl_tensor t{};
    t.data = memory.data();
    t.device = {PL_DEVICE_CPU, 0};
    t.dtype = {PL_DTYPE_FLOAT, 32, 1};
    t.ndim = static_cast<int32_t>(shapes[i].size());
    t.shape = shapes[i].data();
    return t;
  }

  using Batch = std::unique_ptr<pl_batch, std::function<void(pl_batch*)>>;
  Batch load(const std::vector<uint64_t>& ids, uint32_t split = PL_SPLIT_TRAIN) {
    pl_load_args args{};
    args.struct_size = sizeof(args);
    args.split = split;
    args.purpose = context.run.purpose;
    args.ids = ids.data();
    args.count = ids.size();
    pl_batch* batch = nullptr;
    EXPECT_OK(api_.load(task_, &args, &batch));
    return Batch(batch, [this](pl_batch* b) { api_.batch_free(task_, b); });
  }
  double weight(const Batch& batch) {
    pl_batch_info info{};
    info.struct_size = sizeof(info);
    EXPECT_OK(api_.batch_info(task_, batch.get(), &info));
    return info.weight;
  }

  // Runs forward and backward; gradients are added to `grads` in either mode.
  Failure train(const Batch& batch, double scale = 1, uint64_t seed = 7) {
    ready.clear();
    pl_gradient_sink sink{};
    sink.struct_size = sizeof(sink);
    sink.user = this;
    sink.ready = [](void* user, const pl_gradient* g) {
      return static_cast<TaskRunner*>(user)->take_gradient(*g);
    };
    pl_train_args args{};
    args.struct_size = sizeof(args);
    args.scale = scale;
    args.seed = seed;
    args.gradients = &sink;
    pl_tensor out{};
    Failure failure = take(api_.train(task_, batch.get(), &args, &out));
    if (failure.code == 0)
      loss = out.dtype.bits == 64 ? *static_cast<double*>(out.data) : *static_cast<float*>(out.data);
    return failure;
  }

  // value -= lr * grad; grad = 0.
  void descend(double lr) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t k = 0; k < values[i].size(); ++k) values[i][k] -= static_cast<float>(lr) * grads[i][k];
      std::fill(grads[i].begin(), grads[i].end(), 0.0f);
    }
  }

  // Mean loss over a batch, by `evaluate`.
  double evaluate(const Batch& batch) {
    evaluated.clear();
    pl_evaluation_sink sink{};
    sink.struct_size = sizeof(sink);
    sink.user = this;
    sink.value = [](void* user, pl_str group, pl_str name, double sum, double weight) -> pl_error* {
      const std::string of = text(group);
      static_cast<TaskRunner*>(user)->evaluated[(of.empty() ? "" : of + "/") + text(name)] = {sum, weight};
      return nullptr;
    };
    sink.record = [](void* user, uint64_t id, pl_str key, const void* bytes, uint64_t size) -> pl_error* {
      static_cast<TaskRunner*>(user)->records[{id, text(key)}] =
          std::string(static_cast<const char*>(bytes), size);
      return nullptr;
    };
    sink.sample = [](void* user, uint64_t id, pl_str shown) -> pl_error* {
      static_cast<TaskRunner*>(user)->samples.emplace_back(id, text(shown));
      return nullptr;
    };
    pl_evaluate_args args{};
    args.struct_size = sizeof(args);
    args.purpose = PL_PURPOSE_EVALUATE;
    args.samples_to_show = 1;
    EXPECT_OK(api_.evaluate(task_, batch.get(), &args, &sink));
    return evaluated["loss"].first / evaluated["loss"].second;
  }

  const pl_task_api& api() const { return api_; }
  pl_task* task() const { return task_; }

  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<pl_parameter> parameters;
  std::vector<std::vector<float>> values, grads;
  std::vector<uint64_t> ready;  // in the order of arrival
  double loss = 0;
  std::map<std::string, std::pair<double, double>> evaluated;
  std::map<std::pair<uint64_t, std::string>, std::string> records;
  std::vector<std::pair<uint64_t, std::string>> samples;
  std::string fail_ready;  // nonempty: the sink refuses gradients with this message

 private:
  pl_error* take_gradient(const pl_gradient& g) {
    ready.push_back(g.index);
    if (mode_ == Gradients::kAccumulate) {
      EXPECT_EQ(g.owner, nullptr);
      EXPECT_EQ(g.tensor->data, grads[g.index].data());
    } else {
      EXPECT_NE(g.owner, nullptr);
      EXPECT_EQ(g.tensor->strides, nullptr) << "handed over contiguous";
      const auto* data = static_cast<const float*>(g.tensor->data);
      for (size_t k = 0; k < grads[g.index].size(); ++k) grads[g.index][k] += data[k];
      g.release(g.owner);
    }
    if (fail_ready.empty()) return nullptr;
    return host().error_new(PL_ERROR_PEER, str(fail_ready));
  }

  pl_task_api api_;
  Gradients mode_;
  pl_config config_;
  pl_task* task_ = nullptr;
};

}  // namespace fake
