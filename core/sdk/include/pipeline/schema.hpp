#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/options.hpp>

#include <vector>

PIPELINE_SDK_BEGIN

// A plugin's options as ABI structs.
class Schema {
 public:
  explicit Schema(Options declared) : specs_(std::move(declared.specs_)) {
    for (OptionSpec& spec : specs_) {
      if (spec.flags_ & PL_OPTION_REQUIRED) spec.default_.clear();
      choices_.emplace_back();
      for (const std::string& choice : spec.choices_) choices_.back().push_back(str(choice));
    }
    for (size_t i = 0; i < specs_.size(); ++i) options_.push_back(option(specs_[i], choices_[i]));
  }
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  const std::vector<pl_option>& options() const { return options_; }

 private:
  static pl_option option(const OptionSpec& spec, const std::vector<pl_str>& choices) {
    auto out = sized<pl_option>();
    out.type = spec.type_;
    out.flags = spec.flags_;
    out.choice_count = static_cast<uint32_t>(choices.size());
    out.choices = choices.empty() ? nullptr : choices.data();
    out.key = str(spec.key_);
    out.default_value = str(spec.default_);
    out.unit = str(spec.unit_);
    out.help = str(spec.help_);
    out.minimum = spec.minimum_;
    out.maximum = spec.maximum_;
    return out;
  }

  std::deque<OptionSpec> specs_;
  std::deque<std::vector<pl_str>> choices_;
  std::vector<pl_option> options_;
};

// The schema of config struct T; static, as the ABI requires.
template <class T>
const std::vector<pl_option>& schema_of() {
  static_assert(DescribesOptions<T>,
                "a config struct needs `void describe(pipeline::Options& o)`: see pipeline/options.hpp");
  static const Schema& schema = *new Schema([] {
    T defaults;
    Options collector;
    defaults.describe(collector);
    return collector;
  }());
  return schema.options();
}

PIPELINE_SDK_END
