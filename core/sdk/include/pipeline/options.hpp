// A config struct declares its options once; the declaration is both the plugin's schema and its parser:
//
//   struct ModelConfig {
//     int64_t n_head = 12;
//     std::string activation = "gelu";
//     void describe(pipeline::Options& o) {
//       o("n_head", n_head, "attention heads").min(1);
//       o("activation", activation, "of the feed-forward part").choices({"gelu", "relu"});
//     }
//     void validate(const pipeline::ConfigErrors& errors) const {   // optional: what ranges cannot express
//       if (768 % n_head != 0) errors("n_head", "must divide n_embd (768)");
//     }
//   };
//   struct Config {
//     ModelConfig model;
//     void describe(pipeline::Options& o) { o.group("model", model); }   // its keys are model.n_head, ...
//   };
//
// Members may be bool, integers, float, double, std::string, std::filesystem::path and std::vector of
// int64_t, double, std::string and path. The initial value is the default.
#pragma once

#include <pipeline/host.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/option_spec.hpp>

#include <concepts>
#include <deque>
#include <limits>
#include <map>
#include <optional>

PIPELINE_SDK_BEGIN

// Reports a bad value as `file:line: table.key = value: problem`. Keys are relative to the struct's group.
class ConfigErrors {
 public:
  explicit ConfigErrors(const pl_config* config, std::string prefix = "", uint32_t purpose = PL_PURPOSE_TRAIN)
      : config_(config), prefix_(std::move(prefix)), purpose_(purpose) {}

  [[noreturn]] void operator()(std::string_view key, std::string_view problem) const {
    if (config_ != nullptr)
      check(host().config_error(config_, str(prefix_ + std::string(key)), str(problem)));
    fail_with(PL_ERROR_CONFIG, prefix_, key, ": ", problem);
  }

  // False: the default applies.
  bool is_set(std::string_view key) const {
    return host().config_is_set(config_, str(prefix_ + std::string(key))) != 0;
  }

  // False: the weights of a run or of a folder are used, by evaluate, predict or export, so that what only
  // training needs, such as its data, may be missing. Such an option is not required(): check it here.
  bool trains() const { return purpose_ == PL_PURPOSE_TRAIN; }

 private:
  const pl_config* config_;
  std::string prefix_;
  uint32_t purpose_;
};

class Options;

template <class T>
concept DescribesOptions = requires(T config, Options& options) {
  config.describe(options);
};

template <class T>
concept ValidatesOptions = requires(const T config, const ConfigErrors& errors) {
  config.validate(errors);
};

// The types that an option may have.
template <class T>
concept OptionValue = std::integral<T> || std::floating_point<T> || std::same_as<T, std::string> ||
    std::same_as<T, std::filesystem::path> || std::same_as<T, std::vector<int64_t>> ||
    std::same_as<T, std::vector<double>> || std::same_as<T, std::vector<std::string>> ||
    std::same_as<T, std::vector<std::filesystem::path>>;

// Options by name that are all numbers: those of an update rule that a strategy has itself (pl_optimizer).
using Numbers = std::map<std::string, double, std::less<>>;

// The visitor passed to `describe`. Without a config it collects declarations; with one it reads values.
class Options {
 public:
  Options() = default;
  // Reads the values without checking how they go together.
  explicit Options(const pl_config* config) : config_(config) {}
  // Reads the values and checks how they go together, for this purpose.
  Options(const pl_config* config, uint32_t purpose) : config_(config), purpose_(purpose) {}
  // Reads the values from numbers, of which each option must have one.
  explicit Options(const Numbers& numbers) : numbers_(&numbers) {}

  template <class T>
  OptionSpec& operator()(std::string_view key, T& value, std::string_view help) {
    static_assert(OptionValue<T>,
                  "an option is a bool, an integer, a float, a string, a path, or a vector of int64_t, "
                  "double, std::string or std::filesystem::path");
    if constexpr (OptionValue<T>) return add(prefix_ + std::string(key), value, help);
  }

  // Declares the options of `config` under `key`.
  template <DescribesOptions T>
  void group(std::string_view key, T& config) {
    const std::string outer = prefix_;
    prefix_ += std::string(key) + '.';
    config.describe(*this);
    if constexpr (ValidatesOptions<T>) {
      if (config_ != nullptr && purpose_) config.validate(ConfigErrors(config_, prefix_, *purpose_));
    }
    prefix_ = outer;
  }

  // Of the options that were declared.
  std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const OptionSpec& spec : specs_) all.push_back(spec.key_);
    return all;
  }

 private:
  friend class Schema;
  using Path = std::filesystem::path;

  template <class T>
  OptionSpec& add(const std::string& key, T& value, std::string_view help) {
    if (config_ != nullptr) {
      read(str(key), value);
      return ignored_ = OptionSpec();
    }
    if (numbers_ != nullptr) {
      if constexpr (std::is_arithmetic_v<T>) value = static_cast<T>(numbers_->at(key));
      return ignored_ = OptionSpec();
    }
    for (const OptionSpec& other : specs_) {
      if (other.key_ == key) fail("option ", key, " is declared twice");
    }
    OptionSpec& spec = specs_.emplace_back();
    spec.key_ = key;
    spec.help_ = help;
    declare(spec, value);
    return spec;
  }

  template <class T>
  static constexpr uint32_t kTypeOf = std::same_as<T, bool>                       ? PL_OPTION_BOOL
                                      : std::integral<T>                          ? PL_OPTION_INT
                                      : std::floating_point<T>                    ? PL_OPTION_FLOAT
                                      : std::same_as<T, std::string>              ? PL_OPTION_STRING
                                      : std::same_as<T, Path>                     ? PL_OPTION_PATH
                                      : std::same_as<T, std::vector<int64_t>>     ? PL_OPTION_INT_LIST
                                      : std::same_as<T, std::vector<double>>      ? PL_OPTION_FLOAT_LIST
                                      : std::same_as<T, std::vector<std::string>> ? PL_OPTION_STRING_LIST
                                                                                  : PL_OPTION_PATH_LIST;

  template <class T>
  static void declare(OptionSpec& spec, const T& value) {
    spec.type_ = kTypeOf<T>;
    if constexpr (kTypeOf<T> == PL_OPTION_INT) {
      spec.default_ = to_toml(static_cast<int64_t>(value));
      using Limits = std::numeric_limits<T>;
      if constexpr (std::is_unsigned_v<T>) spec.min(0);
      if constexpr (sizeof(T) < sizeof(int64_t))
        spec.min(static_cast<double>(Limits::min())).max(static_cast<double>(Limits::max()));
    } else if constexpr (kTypeOf<T> == PL_OPTION_FLOAT) {
      spec.default_ = to_toml(static_cast<double>(value));
    } else {
      spec.default_ = to_toml(value);
    }
  }

  void read(pl_str key, bool& value) const {
    uint32_t out = 0;
    check(host().config_bool(config_, key, &out));
    value = out != 0;
  }
  template <std::integral T>
  void read(pl_str key, T& value) const {
    int64_t out = 0;
    check(host().config_int(config_, key, &out));
    value = static_cast<T>(out);
  }
  template <std::floating_point T>
  void read(pl_str key, T& value) const {
    double out = 0;
    check(host().config_float(config_, key, &out));
    value = static_cast<T>(out);
  }
  void read(pl_str key, std::string& value) const { value = read_text(key); }
  void read(pl_str key, Path& value) const { value = read_text(key); }
  void read(pl_str key, std::vector<int64_t>& value) const { read_list(key, value, host().config_int_list); }
  void read(pl_str key, std::vector<double>& value) const { read_list(key, value, host().config_float_list); }
  void read(pl_str key, std::vector<std::string>& value) const { read_texts(key, value); }
  void read(pl_str key, std::vector<Path>& value) const { read_texts(key, value); }

  std::string read_text(pl_str key) const {
    pl_str out{};
    check(host().config_string(config_, key, &out));
    return std::string(view(out));
  }
  template <class T, class Getter>
  void read_list(pl_str key, std::vector<T>& value, Getter getter) const {
    const T* out = nullptr;
    uint64_t count = 0;
    check(getter(config_, key, &out, &count));
    value.assign(out, out + count);
  }
  template <class T>
  void read_texts(pl_str key, std::vector<T>& value) const {
    const pl_str* out = nullptr;
    uint64_t count = 0;
    check(host().config_string_list(config_, key, &out, &count));
    value.clear();
    for (uint64_t i = 0; i < count; ++i) value.emplace_back(std::string(view(out[i])));
  }

  const pl_config* config_ = nullptr;
  const Numbers* numbers_ = nullptr;
  std::optional<uint32_t> purpose_;
  std::string prefix_;
  std::deque<OptionSpec> specs_;  // a deque: `describe` holds references while it chains
  OptionSpec ignored_;            // the setters write here while reading
};

// For a plugin without options.
struct NoConfig {
  void describe(Options&) {}
};

// `purpose`: PL_PURPOSE_TRAIN, ...
template <class T>
T read_config(const pl_config* config, uint32_t purpose = PL_PURPOSE_TRAIN) {
  static_assert(DescribesOptions<T>,
                "a config struct needs `void describe(pipeline::Options& o)`: see pipeline/options.hpp");
  T result;
  Options reader(config, purpose);
  result.describe(reader);
  if constexpr (ValidatesOptions<T>) result.validate(ConfigErrors(config, "", purpose));
  return result;
}

PIPELINE_SDK_END
