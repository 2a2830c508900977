// The C table of a Task class. Included by task.hpp.
#pragma once

#include <pipeline/guard.hpp>
#include <pipeline/model_options.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/plugin.hpp>
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

template <class T>
class TaskTable {
  using Object = TaskObject<T>;
  using Batch = typename T::Batch;

 public:
  using Class = T;
  static constexpr uint32_t kKind = PL_PLUGIN_TASK;

  static const void* api() {
    static constexpr bool kColumns = PIPELINE_OVERRIDES(T, prediction_columns);
    static_assert(
        kColumns == PIPELINE_OVERRIDES(T, sample_name) && kColumns == PIPELINE_OVERRIDES(T, predict),
        "override prediction_columns, sample_name and predict, or none of them");
    static constexpr bool kExtraState = PIPELINE_OVERRIDES(T, extra_state);
    static_assert(kExtraState == PIPELINE_OVERRIDES(T, set_extra_state),
                  "override extra_state and set_extra_state, or neither");
    static const pl_task_api table = [] {
      auto t = sized<pl_task_api>();
      add_data(t);
      add_model(t);
      t.train = train;
      t.evaluate = evaluate;
      if constexpr (PIPELINE_OVERRIDES(T, metrics)) {
        t.metric_count = [](pl_task* s) -> uint64_t { return object(s).metrics.size(); };
        t.metric = [](pl_task* s, uint64_t index, pl_metric* out) {
          return guard([&] { fill(out, object(s).metric(index)); });
        };
      }
      if constexpr (PIPELINE_OVERRIDES(T, report)) t.report = report;
      if constexpr (kColumns) {
        t.prediction_columns = [](pl_task* s, const pl_str** out, uint64_t* count) {
          return guard([&] {
            *out = object(s).column_views.data();
            *count = object(s).column_views.size();
          });
        };
        t.sample_name = [](pl_task* s, uint32_t split, uint64_t id, pl_str* out) {
          return guard([&] { *out = str(object(s).keep_name(to_split(split), id)); });
        };
        t.predict = predict;
      }
      if constexpr (PIPELINE_OVERRIDES(T, finish_predictions)) {
        t.finish_predictions = [](pl_task* s, uint32_t split, pl_str folder, const pl_prediction_sink* sink) {
          return guard(
              [&] { self(s).finish_predictions(to_split(split), view(folder), PredictionSink(sink)); });
        };
      }
      if constexpr (PIPELINE_OVERRIDES(T, reply)) {
        t.reply = [](pl_task* s, pl_str messages, const pl_reply_sink* out) {
          return guard([&] { self(s).run_reply(view(messages), ReplySink(out)); });
        };
      }
      if constexpr (PIPELINE_OVERRIDES(T, flops)) {
        t.flops = [](pl_task* s, const pl_batch* b) {
          return guard_value(self(s).context().raw(), 0.0, [&] { return self(s).flops(batch(b)); });
        };
      }
      if constexpr (PIPELINE_OVERRIDES(T, export_model)) {
        t.export_model = [](pl_task* s, pl_str folder) {
          return guard([&] { self(s).export_model(view(folder)); });
        };
      }
      if constexpr (kExtraState) {
        t.extra_state = [](pl_task* s, const void** out, uint64_t* bytes) {
          return guard([&] {
            std::string& state = object(s).extra_state;  // lent for as long as the object lives
            if (state.empty()) state = self(s).extra_state();
            *out = state.data();
            *bytes = state.size();
          });
        };
        t.set_extra_state = [](pl_task* s, const void* state, uint64_t bytes) {
          return guard([&] { self(s).set_extra_state({static_cast<const char*>(state), bytes}); });
        };
      }
      return t;
    }();
    return &table;
  }

  // The extensions that come with what the task redeclares.
  static const void* query(std::string_view extension) {
    if constexpr (T::kIsSameOnAnyThreads) {
      static const pl_runtime table = [] {
        auto t = sized<pl_runtime>();
        if constexpr (requires { T::query(PL_EXTENSION_RUNTIME); })
          t = *static_cast<const pl_runtime*>(T::query(PL_EXTENSION_RUNTIME));
        t.flags |= PL_RUNTIME_SAME_ON_ANY_THREADS;
        return t;
      }();
      if (extension == PL_EXTENSION_RUNTIME) return &table;
    }
    if constexpr (T::kHasGlobalLoss) {
      static const pl_global_outputs table{
          .struct_size = sizeof(pl_global_outputs),
          .reserved = 0,
          .begin = [](pl_task* s, uint64_t rows,
                      pl_tensor* out) { return guard([&] { *out = self(s).make_room(rows); }); },
          .outputs =
              [](pl_task* s, const pl_batch* b, const pl_outputs_args* args) {
                return guard([&] { self(s).write_outputs(batch(b), OutputsArgs(receive_args(args))); });
              }};
      if (extension == PL_EXTENSION_GLOBAL_OUTPUTS) return &table;
    }
    return nullptr;
  }

 private:
  static Object& object(pl_task* s) { return *reinterpret_cast<Object*>(s); }
  static T& self(pl_task* s) { return object(s).task; }
  static const T& any_thread(pl_task* s) { return object(s).task; }  // its const methods may run concurrently
  static const Batch& batch(const pl_batch* b) { return *reinterpret_cast<const Batch*>(b); }

  static void add_data(pl_task_api& t) {
    t.create = [](const pl_host*, const pl_context* context, const pl_config* config, pl_task** out) {
      return guard([&] {
        *out = nullptr;
        *out = reinterpret_cast<pl_task*>(new Object(typename T::Setup(context, config)));
      });
    };
    t.destroy = [](pl_task* s) {
      if (s == nullptr) return;
      const pl_context* context = self(s).context().raw();
      guard_void(context, [&] { delete &object(s); });
    };
    if constexpr (ReadsModel<typename T::Config>) t.model_options = read_model_options<typename T::Config>;
    if constexpr (PIPELINE_OVERRIDES(T, prepare)) {
      t.prepare = [](pl_task* s) { return guard([&] { self(s).prepare(); }); };
    }
    t.open = [](pl_task* s) { return guard([&] { object(s).open(); }); };
    t.sample_count = [](pl_task* s, uint32_t split, uint64_t* out) {
      return guard([&] { *out = any_thread(s).sample_count(to_split(split)); });
    };
    if constexpr (PIPELINE_OVERRIDES(T, sample_cost)) {
      t.sample_costs = [](pl_task* s, uint32_t split, const uint64_t* ids, uint64_t count, double* out) {
        return guard([&] {
          for (uint64_t i = 0; i < count; ++i) out[i] = any_thread(s).sample_cost(to_split(split), ids[i]);
        });
      };
    }
    if constexpr (PIPELINE_OVERRIDES(T, data_fingerprint)) {
      t.data_fingerprint = [](pl_task* s) { return str(object(s).fingerprint); };
    }
    t.load = load;
    t.batch_info = batch_info;
    t.batch_free = [](pl_task* s, pl_batch* b) {
      guard_void(self(s).context().raw(), [&] { delete reinterpret_cast<Batch*>(b); });
    };
  }

  static void add_model(pl_task_api& t) {
    t.parameter_count = [](pl_task* s) -> uint64_t { return object(s).parameters.size(); };
    t.parameter = [](pl_task* s, uint64_t index, pl_parameter* out) {
      return guard([&] { fill(out, object(s).parameter(index).raw()); });
    };
    t.initialize = [](pl_task* s, uint64_t index, pl_tensor* out) {
      return guard([&] {
        object(s).check_shape(index, "the initial value", *out);
        self(s).initialize(index, *out);
      });
    };
    if constexpr (PIPELINE_OVERRIDES(T, import_model)) {
      t.import_model = [](pl_task* s, pl_str folder) {
        return guard([&] { self(s).import_model(view(folder)); });
      };
    }
    static constexpr bool kCodes = PIPELINE_OVERRIDES(T, encode_value);
    static_assert(kCodes == PIPELINE_OVERRIDES(T, form_bytes),
                  "override form_bytes and encode_value, or neither");
    if constexpr (kCodes) {
      t.form_bytes = [](pl_task* s, uint64_t index, uint32_t form, uint64_t* out) {
        return guard([&] { *out = self(s).form_bytes(index, form); });
      };
      t.encode_value = [](pl_task* s, uint64_t index, uint32_t form, const pl_tensor* values, void* out) {
        return guard([&] {
          if (values != nullptr) object(s).check_shape(index, "the value to encode", *values);
          self(s).encode_value(index, form, values, static_cast<std::byte*>(out));
        });
      };
    }
    t.bind = [](pl_task* s, uint64_t index, const pl_tensor* value, const pl_tensor* grad) {
      return guard([&] {
        const bool is_coded = (object(s).parameter(index).forms & (PL_FORM_INT8 | PL_FORM_NF4)) != 0 &&
                              same(value->dtype, kUInt8);  // whose bytes the task itself knows
        if (value->data != nullptr && !is_coded)
          object(s).check_shape(index, "the storage of the value", *value);
        if (grad->data != nullptr) object(s).check_shape(index, "the storage of the gradient", *grad);
        self(s).bind(index, *value, *grad);
      });
    };
    if constexpr (T::kHasUnits) {
      t.set_unit_hooks = [](pl_task* s, const pl_unit_hooks* hooks) {
        return guard([&] {
          object(s).hooks = receive(hooks);
          self(s).set_unit_hooks(object(s).hooks);
        });
      };
    }
  }

  static pl_error* load(pl_task* s, const pl_load_args* sent, pl_batch** out) {
    return guard([&] {
      *out = nullptr;
      const pl_load_args args = receive_args(sent);
      const LoadRequest request{
          to_split(args.split), to_purpose(args.purpose), {args.ids, args.count}, args.epoch};
      const uint64_t count = any_thread(s).sample_count(request.split);
      for (const uint64_t id : request.ids) {
        if (id >= count) fail("sample ", id, " of split ", args.split, ", which has ", count);
      }
      *out = reinterpret_cast<pl_batch*>(new Batch(any_thread(s).load(request)));
    });
  }

  static pl_error* batch_info(pl_task* s, const pl_batch* b, pl_batch_info* out) {
    return guard([&] {
      const BatchInfo info = any_thread(s).batch_info(batch(b));
      auto raw = sized<pl_batch_info>();
      raw.weight = info.weight;
      raw.samples = info.samples;
      raw.tokens = info.tokens;
      raw.positions = info.positions;
      fill(out, raw);
    });
  }

  static pl_error* train(pl_task* s, const pl_batch* b, const pl_train_args* args, pl_tensor* loss) {
    return guard([&] { *loss = self(s).train(batch(b), TrainArgs(receive_args(args))); });
  }

  static pl_error* evaluate(pl_task* s, const pl_batch* b, const pl_evaluate_args* args,
                            const pl_evaluation_sink* out) {
    return guard([&] {
      EvaluationSink sink(out, receive_args(args));
      self(s).run_evaluate(batch(b), sink);
    });
  }

  static pl_error* report(pl_task* s, const pl_report_args* sent, const pl_report_sink* out) {
    return guard([&] {
      const pl_report_args args = receive_args(sent);
      std::vector<EvaluationValue> values;
      for (uint64_t i = 0; i < args.value_count; ++i) {
        const pl_value value = receive_element(args.values, i);
        values.push_back({view(value.group), view(value.name), value.sum, value.weight});
      }
      std::vector<EvaluationRecord> records;
      for (uint64_t i = 0; i < args.record_count; ++i) {
        const pl_record record = receive_element(args.records, i);
        records.push_back(
            {record.sample_id, view(record.key), {static_cast<const char*>(record.bytes), record.size}});
      }
      self(s).report({to_split(args.split), to_purpose(args.purpose), values, records}, ReportSink(out));
    });
  }

  static pl_error* predict(pl_task* s, const pl_batch* b, const pl_evaluate_args* args,
                           const pl_prediction_sink* out) {
    return guard([&] {
      receive_args(args);
      self(s).run_predict(batch(b), PredictionSink(out));
    });
  }
};

PIPELINE_SDK_END
