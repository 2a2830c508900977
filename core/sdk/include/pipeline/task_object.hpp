#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/object.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/task_types.hpp>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

PIPELINE_SDK_BEGIN

// A task and what the host borrows from it: the ABI returns views of strings and shapes, the C++ interface
// returns values.
template <class T>
struct TaskObject {
  explicit TaskObject(typename T::Setup setup) : task(std::move(setup)) {}

  void open() {
    task.open();
    parameters = task.parameters();
    metrics = task.metrics();
    fingerprint = task.data_fingerprint();
    columns = task.prediction_columns();
    for (const std::string& column : columns) column_views.push_back(str(column));
  }

  const Parameter& parameter(uint64_t index) const {
    if (index >= parameters.size()) fail("parameter ", index, " of ", parameters.size());
    return parameters[index];
  }

  pl_metric metric(uint64_t index) const {
    if (index >= metrics.size()) fail("metric ", index, " of ", metrics.size());
    auto out = sized<pl_metric>();
    out.aggregate = metrics[index].aggregate;
    out.better = metrics[index].better;
    out.name = str(metrics[index].name);
    out.source = str(metrics[index].source);
    out.help = str(metrics[index].help);
    return out;
  }

  void check_shape(uint64_t index, const char* what, const pl_tensor& tensor) const {
    const Parameter& expected = parameter(index);
    const auto shape = shape_of(tensor);
    if (!std::equal(shape.begin(), shape.end(), expected.shape.begin(), expected.shape.end()))
      fail(what, " of ", expected.name, " has shape ", name_of(shape), ", expected ",
           name_of(expected.shape));
  }

  // The host may use a name as long as this object lives: a returned name is never replaced, and each
  // sample has only one. [any-thread]
  const std::string& keep_name(Split split, uint64_t id) {
    std::string name = std::as_const(task).sample_name(split, id);
    const std::lock_guard lock(names_mutex);
    return names.try_emplace({split, id}, std::move(name)).first->second;
  }

  T task;
  std::vector<Parameter> parameters;
  std::vector<Metric> metrics;
  std::string fingerprint, extra_state;
  std::vector<std::string> columns;
  std::vector<pl_str> column_views;
  pl_unit_hooks hooks{};
  std::mutex names_mutex;
  std::map<std::pair<Split, uint64_t>, std::string> names;
};

PIPELINE_SDK_END
