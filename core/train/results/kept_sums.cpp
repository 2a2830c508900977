#include "core/train/results/kept_sums.hpp"

#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/checkpoint/file_system.hpp"
#include "core/json/strict_json.hpp"

namespace pipeline::train {
namespace {

using nlohmann::json;

// JSON has no such numbers: they go as text.
json from_double(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

bool is_double(const json& value) {
  return value.is_number() || value == "nan" || value == "inf" || value == "-inf";
}

double to_double(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  return value == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

// What a key may hold: a test, and its name in errors.
struct Form {
  bool (*holds)(const json&);
  const char* name;
};

template <unsigned low, unsigned high>
bool is_from_to(const json& value) {
  return value.is_number_unsigned() && value >= low && value <= high;
}

constexpr Form kCount{[](const json& value) { return value.is_number_unsigned(); }, "a count"};
constexpr Form kText{[](const json& value) { return value.is_string(); }, "a text"};
constexpr Form kList{[](const json& value) { return value.is_array(); }, "a list"};
constexpr Form kSplit{[](const json& value) { return value == "train" || value == "val" || value == "test"; },
                      "train, val or test"};
constexpr Form kAggregate{is_from_to<PL_AGGREGATE_MEAN, PL_AGGREGATE_EXP_MEAN>, "1, 2 or 3"};
constexpr Form kBetter{is_from_to<PL_BETTER_LOWER, PL_BETTER_HIGHER>, "1 or 2"};

const json& member(const json& object, const char* key, const Form& form) {
  static const json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  const json& value = object.is_object() && found != object.end() ? *found : kNothing;
  if (!form.holds(value))
    throw Error(fmt::format("'{}' is {}, must be {}", key,
                            &value == &kNothing ? "missing" : strict_json::excerpt(value), form.name));
  return value;
}

plugins::Metric to_metric(const json& from) {
  return {.name = member(from, "name", kText),
          .source = member(from, "source", kText),
          .help = {},
          .aggregate = member(from, "aggregate", kAggregate),
          .better = member(from, "better", kBetter)};
}

plugins::EvaluationValue to_value(const json& from) {
  if (!from.is_array() || from.size() != 4 || !from[0].is_string() || !from[1].is_string() ||
      !is_double(from[2]) || !is_double(from[3]))
    throw Error(fmt::format("{} in 'values': must be a group, a name, a sum and a weight",
                            strict_json::excerpt(from)));
  return {from[0], from[1], to_double(from[2]), to_double(from[3])};
}

KeptSums to_sums(const json& from) {
  if (!from.is_object()) throw Error(fmt::format("holds {}, must be an object", strict_json::excerpt(from)));
  KeptSums sums{.split = split_code(member(from, "split", kSplit).get<std::string>()),
                .samples = member(from, "samples", kCount),
                .available = member(from, "of", kCount),
                .metrics = {},
                .values = {},
                .records = member(from, "records", kCount),
                .files = {}};
  if (sums.samples > sums.available)
    throw Error(
        fmt::format("'samples' is {}, must be at most 'of', which is {}", sums.samples, sums.available));
  for (const json& metric : member(from, "metrics", kList)) sums.metrics.push_back(to_metric(metric));
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const json& value : member(from, "values", kList)) {
    sums.values.push_back(to_value(value));
    if (!names.emplace(value[0].get_ref<const std::string&>(), value[1].get_ref<const std::string&>()).second)
      throw Error(fmt::format("'{}' of group '{}' is twice in 'values'", sums.values.back().name,
                              sums.values.back().group));
  }
  for (const json& file : member(from, "files", kList)) {
    if (!file.is_string())
      throw Error(fmt::format("{} in 'files': must be a name", strict_json::excerpt(file)));
    sums.files.push_back(file);
  }
  return sums;
}

}  // namespace

KeptSums KeptSums::of(const Evaluation& evaluation, uint32_t split) {
  KeptSums sums{.split = split,
                .samples = evaluation.samples,
                .available = evaluation.available,
                .metrics = evaluation.metrics,
                .values = evaluation.sums,
                .records = evaluation.records,
                .files = {}};
  for (const ReportFile& file : evaluation.files) sums.files.push_back(file.name);
  return sums;
}

std::string to_text(const KeptSums& sums) {
  json metrics = json::array(), values = json::array();
  for (const plugins::Metric& metric : sums.metrics)
    metrics.push_back({{"name", metric.name},
                       {"source", metric.source},
                       {"aggregate", metric.aggregate},
                       {"better", metric.better}});
  for (const plugins::EvaluationValue& value : sums.values)
    values.push_back(
        json::array({value.group, value.name, from_double(value.sum), from_double(value.weight)}));
  const json all{{"split", split_name(sums.split)},
                 {"samples", sums.samples},
                 {"of", sums.available},
                 {"metrics", metrics},
                 {"values", values},
                 {"records", sums.records},
                 {"files", sums.files}};
  try {
    return all.dump();
  } catch (const json::type_error& error) {  // a name that is not UTF-8
    throw Error(fmt::format("the names of an evaluation's values, metrics and files must be UTF-8: {}",
                            error.what()));
  }
}

KeptSums parse_sums(std::string_view text, const std::string& context) {
  try {
    return to_sums(strict_json::parse(text, context));
  } catch (const strict_json::Error& error) {  // has the context
    throw Error(PL_ERROR_CORRUPT, error.what());
  } catch (const Error& error) {
    throw Error(PL_ERROR_CORRUPT, fmt::format("{}: {}", context, error.what()));
  }
}

KeptSums read_sums(const std::filesystem::path& file, std::string_view remedy) {
  try {
    return parse_sums(checkpoint::read_text(file.string()), file.string());
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", error.what(), remedy));
  }
}

}  // namespace pipeline::train
