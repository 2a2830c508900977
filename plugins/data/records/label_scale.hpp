// Labels in tables: numbers and classes as texts, and what a model learns of them.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace pipeline::records {

// The label that torch's cross entropy passes over.
constexpr double kIgnoreIndex = -100;

// The number that is written, NaN in any letters and infinities too; nothing: it is no number.
std::optional<double> written_number(std::string_view text);
// A number as tables have it; nothing: it is none, or none to learn, being too large for float32.
std::optional<double> label_number(std::string_view text);

// The values of a list as Python or NumPy prints it: ['a', "it's", None], [0 1]. Views into the text.
// Nothing: it is none, as where a text has brackets of its own.
std::optional<std::vector<std::string_view>> printed_list(std::string_view text);

// What a model learns of labels, found in its training data: it goes with the weights.
struct LabelScale {
  std::vector<std::string> classes;  // the model's outputs by number
  double mean = 0, deviation = 1;    // of numbers: they are learnt as (number - mean) / deviation
  std::string usual;                 // the most frequent class
  std::string kind, where;           // of which labels: a head is of use for its own kind alone
  uint64_t count = 0;                // of training labels that this was found in; 0: nothing is known of them

  bool operator==(const LabelScale&) const = default;
  // The number of the class of this name; nothing where there is none.
  std::optional<size_t> number_of(const std::string& name) const;
};
// For checkpoints. from_json() throws nlohmann::json::exception for anything else.
void to_json(nlohmann::json& json, const LabelScale& scale);
void from_json(const nlohmann::json& json, LabelScale& scale);

// Adds up labels of training samples, and the classes of all samples.
class LabelCounts {
 public:
  static constexpr size_t kMostClasses = 1000;  // beyond these one more is enough

  void add(double number, bool is_training);
  void add(const std::string& name, bool is_training);
  void pass_over(const std::string& word, uint64_t count) { passed_over_[word] += count; }
  // classes: the user's own; empty: those that were added, in the order of their names, or, where these are
  // whole numbers, of the numbers.
  LabelScale scale(const std::vector<std::string>& classes) const;

  const std::map<std::string, uint64_t>& classes() const { return classes_; }  // with how often in training
  const std::map<std::string, uint64_t>& passed_over() const { return passed_over_; }
  uint64_t ignore_indices() const { return ignore_indices_; }  // numbers that are torch's word for none

  // Throws by `errors` (of a task with task.objective and task.label.classes) where these classes cannot be
  // the model's, and warns of those that cannot be learnt.
  void check_classes(const LabelScale& scale, const Context& context, const ConfigErrors& errors) const;
  // Warns of words that look like labels, and of numbers that look like none. where: their source.
  void warn_of_words(const std::string& where, bool are_numbers, const Context& context) const;

 private:
  uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // Welford 1962
  std::map<std::string, uint64_t> classes_, passed_over_;
  uint64_t ignore_indices_ = 0;
};

// Names as a list for people, at most 20: "a", "b" and 7 more.
std::string quoted(const std::vector<std::string>& names);

}  // namespace pipeline::records
