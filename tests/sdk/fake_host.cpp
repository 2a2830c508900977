#include "fake_host.hpp"

#include <atomic>
#include <stdexcept>

struct pl_error {
  uint32_t code;
  std::string message;
};

namespace {

std::atomic<int> errors{0};

pl_error* new_error(uint32_t code, const std::string& message) {
  ++errors;
  return new pl_error{code, message};
}

// What the key means, or an error as the real host gives it.
template <class Read>
pl_error* read(const pl_config* config, pl_str key, Read&& read_value) {
  auto node = const_cast<pl_config*>(config)->values.at_path(std::string_view(key.ptr, key.len));
  if (!node) return new_error(PL_ERROR_FAILED, "no option " + fake::text(key));
  return read_value(*const_cast<pl_config*>(config), fake::text(key), node)
             ? nullptr
             : new_error(PL_ERROR_FAILED, "wrong type " + fake::text(key));
}

template <class T>
void to_list(toml::node_view<toml::node> node, std::vector<T>& out) {
  out.clear();
  for (auto& element : *node.as_array()) out.push_back(element.value<T>().value());
}

pl_error* config_bool(const pl_config* c, pl_str key, uint32_t* out) {
  return read(c, key, [&](pl_config&, const std::string&, auto node) {
    if (!node.is_boolean()) return false;
    *out = node.template value<bool>().value() ? 1 : 0;
    return true;
  });
}
pl_error* config_int(const pl_config* c, pl_str key, int64_t* out) {
  return read(c, key, [&](pl_config&, const std::string&, auto node) {
    if (!node.is_integer()) return false;
    *out = node.template value<int64_t>().value();
    return true;
  });
}
pl_error* config_float(const pl_config* c, pl_str key, double* out) {
  return read(c, key, [&](pl_config&, const std::string&, auto node) {
    if (!node.is_number()) return false;
    *out = node.template value<double>().value();
    return true;
  });
}
pl_error* config_string(const pl_config* c, pl_str key, pl_str* out) {
  return read(c, key, [&](pl_config& config, const std::string& name, auto node) {
    if (!node.is_string()) return false;
    *out = fake::str(config.texts[name] = node.template value<std::string>().value());
    return true;
  });
}
pl_error* config_int_list(const pl_config* c, pl_str key, const int64_t** out, uint64_t* count) {
  return read(c, key, [&](pl_config& config, const std::string& name, auto node) {
    if (!node.is_array()) return false;
    to_list(node, config.ints[name]);
    *out = config.ints[name].data();
    *count = config.ints[name].size();
    return true;
  });
}
pl_error* config_float_list(const pl_config* c, pl_str key, const double** out, uint64_t* count) {
  return read(c, key, [&](pl_config& config, const std::string& name, auto node) {
    if (!node.is_array()) return false;
    to_list(node, config.floats[name]);
    *out = config.floats[name].data();
    *count = config.floats[name].size();
    return true;
  });
}
pl_error* config_string_list(const pl_config* c, pl_str key, const pl_str** out, uint64_t* count) {
  return read(c, key, [&](pl_config& config, const std::string& name, auto node) {
    if (!node.is_array()) return false;
    to_list(node, config.lists[name]);
    config.list_views[name].clear();
    for (const std::string& element : config.lists[name])
      config.list_views[name].push_back(fake::str(element));
    *out = config.list_views[name].data();
    *count = config.list_views[name].size();
    return true;
  });
}

uint64_t mix(uint64_t x) {  // splitmix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t seed(const pl_context* context, pl_str stream, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t h = mix(context->run.seed + 1);
  for (size_t i = 0; i < stream.len; ++i) h = mix(h ^ static_cast<unsigned char>(stream.ptr[i]));
  for (const uint64_t value : {a, b, c}) h = mix(h * 3 ^ value);
  return h;
}

}  // namespace

pl_context::pl_context() {
  run.struct_size = sizeof(run);
  run.purpose = PL_PURPOSE_TRAIN;
  run.threads = 1;
  run.world_size = run.local_world_size = 1;
  run.device = {PL_DEVICE_CPU, 0};
  run.parameter_dtype = run.compute_dtype = {PL_DTYPE_FLOAT, 32, 1};
  run.seed = 1;
  run.global_batch = run.micro_batch = run.micro_batches = 1;
}

pl_config::pl_config(const pl_option* options, uint64_t count, const std::string& text) {
  toml::table user = toml::parse(text);
  std::string defaults;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = fake::text(options[i].key);
    set_by_user[key] = static_cast<bool>(user.at_path(key));
    if (set_by_user[key]) continue;
    if ((options[i].flags & PL_OPTION_REQUIRED) != 0) throw std::runtime_error("required option " + key);
    defaults += key + " = " + fake::text(options[i].default_value) + "\n";
  }
  values = toml::parse(defaults);
  for (uint64_t i = 0; i < count; ++i) {  // the user's values, below tables that may be there already
    const std::string key = fake::text(options[i].key);
    if (!set_by_user[key]) continue;
    toml::table* table = &values;
    std::string rest = key;
    for (size_t dot; (dot = rest.find('.')) != std::string::npos; rest = rest.substr(dot + 1)) {
      table->insert(rest.substr(0, dot), toml::table{});
      table = (*table)[rest.substr(0, dot)].as_table();
    }
    table->insert(rest, *user.at_path(key).node());
  }
}

const pl_host& fake::host() {
  static const pl_host table = [] {
    pl_host h{};
    h.struct_size = sizeof(h);
    h.abi_major = PL_ABI_MAJOR;
    h.abi_minor = PL_ABI_MINOR;
    h.error_new = [](uint32_t code, pl_str message) { return new_error(code, fake::text(message)); };
    h.error_code = [](const pl_error* error) { return error->code; };
    h.error_message = [](const pl_error* error) { return fake::str(error->message); };
    h.error_free = [](pl_error* error) {
      if (error == nullptr) return;
      --errors;
      delete error;
    };
    h.log = [](const pl_context* context, uint32_t level, pl_str line) {
      auto* c = const_cast<pl_context*>(context);
      if (c == nullptr) return;
      const std::lock_guard lock(c->mutex);
      c->lines.emplace_back(level, fake::text(line));
    };
    h.metric = [](const pl_context* context, pl_str name, double sum, double weight) {
      const_cast<pl_context*>(context)->metrics[fake::text(name)] = {sum, weight};
    };
    h.progress = [](const pl_context* context, pl_str what, uint64_t done, uint64_t total) {
      const_cast<pl_context*>(context)->progress.push_back(fake::text(what) + " " + std::to_string(done) +
                                                           "/" + std::to_string(total));
    };
    h.cancelled = [](const pl_context* context) -> uint32_t { return context->cancelled; };
    h.run_info = [](const pl_context* context) -> const pl_run_info* { return &context->run; };
    h.seed = seed;
    h.config_bool = config_bool;
    h.config_int = config_int;
    h.config_float = config_float;
    h.config_string = config_string;
    h.config_int_list = config_int_list;
    h.config_float_list = config_float_list;
    h.config_string_list = config_string_list;
    h.config_is_set = [](const pl_config* config, pl_str key) -> uint32_t {
      const auto found = config->set_by_user.find(fake::text(key));
      return found != config->set_by_user.end() && found->second;
    };
    h.config_error = [](const pl_config* config, pl_str key, pl_str problem) {
      return new_error(PL_ERROR_CONFIG,
                       "test.toml:1: " + config->prefix + fake::text(key) + ": " + fake::text(problem));
    };
    return h;
  }();
  return table;
}

int fake::live_errors() { return errors; }

fake::Failure fake::take(pl_error* error) {
  if (error == nullptr) return {};
  Failure failure{error->code, error->message};
  host().error_free(error);
  return failure;
}
