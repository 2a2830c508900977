#include "language/rope_scaling.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "hugging_face/config_fields.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;

constexpr const char* kKnown = "\"default\", \"linear\", \"dynamic\", \"llama3\", \"yarn\" and \"longrope\"";
bool is_known(const std::string& type) { return std::ranges::find(kRopeTypes, type) != kRopeTypes.end(); }

double yarn_magnitude(double factor, double by = 1) {
  return factor <= 1 ? 1 : 0.1 * by * std::log(factor) + 1;
}

// Another way to say attention_factor, as DeepSeek's folders do.
void read_magnitude(const ConfigFile& rope, RopeScaling& scaling) {
  rope.read("mscale", scaling.mscale);
  rope.read("mscale_all_dim", scaling.mscale_all_dim);
}

hugging_face::Fields<RopeScaling> file_fields() {
  using namespace hugging_face;
  Fields<RopeScaling> fields{{"partial_rotary_factor", only({1.0})}};
  for (const char* key : {"type", "rope_type", "rope_theta", "mscale", "mscale_all_dim"})
    fields.push_back({key, kReadElsewhere});
  for (const RopeField& row : rope_fields()) fields.push_back({row.field.name, kReadElsewhere});
  return fields;
}

}  // namespace

const std::vector<RopeField>& rope_fields() {
  using Field = hugging_face::ModelField<RopeScaling>;
  static const std::vector<RopeField> kFields{
      {Field("factor", &RopeScaling::factor,
             "linear, dynamic, llama3, yarn: slow angles are divided by this; longrope: attention_factor "
             "follows")
           .set_from(1),
       {"linear", "dynamic", "llama3"},
       {"yarn", "longrope"}},
      {Field("short_factor", &RopeScaling::short_factor,
             "longrope: the numbers, for sequences of up to the original length"),
       {"longrope"}},
      {Field("long_factor", &RopeScaling::long_factor, "longrope: the numbers, for longer sequences"),
       {"longrope"}},
      {Field("low_freq_factor", &RopeScaling::low_freq_factor,
             "llama3: turns in the original length below which all is divided")
           .positive(),
       {"llama3"}},
      {Field("high_freq_factor", &RopeScaling::high_freq_factor, "llama3: turns above which nothing is")
           .positive(),
       {"llama3"}},
      {Field("beta_slow", &RopeScaling::beta_slow,
             "yarn: turns in the original length below which all is divided")
           .positive(),
       {},
       {"yarn"}},
      {Field("beta_fast", &RopeScaling::beta_fast, "yarn: turns above which nothing is").positive(),
       {},
       {"yarn"}},
      {Field("truncate", &RopeScaling::truncate,
             "yarn: these limits fall between pairs of channels, not on one"),
       {},
       {"yarn"}},
      {Field("attention_factor", &RopeScaling::attention_factor,
             "yarn, longrope: what cosines and sines are multiplied by; 0: yarn's is 0.1 ln(factor) + 1, "
             "longrope's sqrt(1 + ln(factor) / ln(original length))")
           .set_from(0),
       {},
       {"yarn", "longrope"}},
      {Field("original_max_position_embeddings", &RopeScaling::original_max_position_embeddings,
             "llama3, yarn, longrope: the original length")
           .set_from(1, 1 << 24)
           .unit("tokens"),
       {},
       {"llama3", "yarn", "longrope"}},
  };
  return kFields;
}

void RopeScaling::describe(Options& o) {
  o("type", type,
    "how rotary positions are stretched; linear: all divided by factor; dynamic: beyond "
    "max_position_embeddings alone, so that nothing changes here; llama3: as in Llama 3.1; yarn: as in "
    "Qwen2.5's instructions for long texts; longrope: each pair of channels by a number of its own")
      .choices({kRopeTypes.begin(), kRopeTypes.end()})
      .of_model();
  for (const RopeField& row : rope_fields())
    hugging_face::describe_fields<RopeScaling>(o, {row.field}, *this);
}

void RopeScaling::validate(const ConfigErrors& errors) const {
  if (high_freq_factor <= low_freq_factor)
    errors("high_freq_factor", concat("must be above low_freq_factor (", low_freq_factor, ")"));
  if (beta_fast < beta_slow) errors("beta_fast", concat("must not be below beta_slow (", beta_slow, ")"));
}

void RopeScaling::check(int64_t head_width) const {
  if (!is_known(type))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.type = \"", type, "\": only ", kKnown, " are computed here");
  if (!(factor >= 1)) fail_with(PL_ERROR_CONFIG, "rope_scaling.factor = ", factor, ": must be at least 1");
  hugging_face::check_positive("rope_scaling.low_freq_factor", low_freq_factor);
  if (!(high_freq_factor > low_freq_factor))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.high_freq_factor = ", high_freq_factor,
              ": must be above low_freq_factor (", low_freq_factor, ")");
  hugging_face::check_positive("rope_scaling.beta_slow", beta_slow);
  if (!(beta_fast >= beta_slow))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.beta_fast = ", beta_fast, ": must not be below beta_slow (",
              beta_slow, ")");
  if (type == "longrope")
    for (const auto& [key, factors] :
         {std::pair("short_factor", &short_factor), {"long_factor", &long_factor}})
      if (static_cast<int64_t>(factors->size()) != head_width / 2 ||
          !std::ranges::all_of(*factors, [](double one) { return one > 0 && std::isfinite(one); }))
        fail_with(PL_ERROR_CONFIG, "rope_scaling.", key, " has ", factors->size(),
                  " numbers: must be one above 0 for each pair of a head's channels (", head_width / 2, ")");
  if (!(attention_factor >= 0))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.attention_factor = ", attention_factor,
              ": must not be negative");
  hugging_face::check_range("rope_scaling.original_max_position_embeddings", original_max_position_embeddings,
                            type == "longrope" ? 2 : 1, 1 << 24);
}

double RopeScaling::magnitude() const {
  if (type != "yarn" && type != "longrope") return 1;
  if (attention_factor > 0) return attention_factor;
  if (type == "yarn") return yarn_magnitude(factor);
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_max_position_embeddings)));
}

namespace {

// Channels that turn often in the original length keep their frequency, those that turn seldom have it
// divided.
at::Tensor yarn(const RopeScaling& scaling, const at::Tensor& frequencies, double base) {
  const auto dim = static_cast<double>(2 * frequencies.size(0)),
             length = static_cast<double>(scaling.original_max_position_embeddings);
  const auto channel = [&](double turns) {  // the channel that turns so often
    return dim * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = channel(scaling.beta_fast), high = channel(scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dim - 1);
  const at::Tensor numbers = at::arange(frequencies.size(0), at::kFloat);
  const at::Tensor ramp = ((numbers - low) / (high == low ? 0.001 : high - low)).clamp(0, 1);
  const at::Tensor kept = 1 - ramp;
  return frequencies / scaling.factor * (1 - kept) + frequencies * kept;
}

}  // namespace

at::Tensor RopeScaling::frequencies(int64_t head_width, double base, bool is_long) const {
  if (type == "longrope") {
    const at::Tensor exponents = at::arange(0, head_width, 2, at::kFloat) / static_cast<double>(head_width);
    return (at::tensor(is_long ? long_factor : short_factor, at::kFloat) * at::pow(base, exponents))
        .reciprocal();
  }
  const at::Tensor frequencies = transformer::rotary_frequencies(head_width, base);
  if (type == "default" || type == "dynamic") return frequencies;
  if (type == "linear") return frequencies / factor;
  if (type == "yarn") return yarn(*this, frequencies, base);
  const auto length = static_cast<double>(original_max_position_embeddings);
  const double longest = length / low_freq_factor, shortest = length / high_freq_factor;
  const at::Tensor waves = frequencies.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor slow = waves > longest, fast = waves < shortest;
  const at::Tensor share =
      (waves.reciprocal() * length - low_freq_factor) / (high_freq_factor - low_freq_factor);
  const at::Tensor between = (1 - share) * frequencies / factor + share * frequencies;
  return at::where(slow, frequencies / factor, at::where(fast, frequencies, between));
}

// transformers chooses by the longest sequence of a batch instead, so there a result depends on what else is
// in the batch.
at::Tensor RopeScaling::is_long(const at::Tensor& positions) const {
  const at::Tensor sequence = positions.eq(0).cumsum(0);  // numbered from 1; 0: a row without its beginning
  const at::Tensor last =
      at::zeros({positions.size(0) + 1}, positions.options()).scatter_reduce(0, sequence, positions, "amax");
  return at::where(sequence.eq(0), positions, last.gather(0, sequence)) >= original_max_position_embeddings;
}

void read_rope_values(const ConfigFile& rope, const char* config_class, RopeScaling& scaling,
                      double& rope_theta) {
  for (const char* name : {"type", "rope_type"}) {  // an old name and a new one
    rope.read(name, scaling.type);
    if (rope.find(name) != nullptr && !is_known(scaling.type))
      rope.fail(name, concat("only ", kKnown, " are computed here"));
  }
  hugging_face::read_fields(rope, file_fields(), config_class, scaling);
  if (scaling.type == "longrope" || scaling.type == "yarn") scaling.factor = 0;
  scaling.original_max_position_embeddings = 0;
  visit_rope_values(scaling, [&](const char* name, auto& value, bool is_needed) {
    if (is_needed && rope.find(name) == nullptr)
      rope.fail(rope.find("rope_type") != nullptr ? "rope_type" : "type",
                concat("needs ", name, ", which is missing"));
    rope.read(name, value);
  });
  read_magnitude(rope, scaling);
  for (const auto& [value, usual] :
       {std::pair(&scaling.beta_fast, 32.0), {&scaling.beta_slow, 1.0}})  // in transformers, too, 0 is none
    if (*value == 0) *value = usual;
  rope.read("rope_theta", rope_theta);
}

void complete_rope(RopeScaling& scaling, int64_t max_position_embeddings) {
  const bool has_length = scaling.type == "llama3" || scaling.type == "yarn" || scaling.type == "longrope";
  if (int64_t& original = scaling.original_max_position_embeddings; original == 0)
    original = has_length ? max_position_embeddings : RopeScaling().original_max_position_embeddings;
  if (scaling.factor == 0)
    scaling.factor = std::max(1.0, static_cast<double>(max_position_embeddings) /
                                       static_cast<double>(scaling.original_max_position_embeddings));
  const double above = std::exchange(scaling.mscale, 0), below = std::exchange(scaling.mscale_all_dim, 0);
  if (scaling.type == "yarn" && scaling.attention_factor == 0 && above != 0 && below != 0)
    scaling.attention_factor = yarn_magnitude(scaling.factor, above) / yarn_magnitude(scaling.factor, below);
}

void read_rope(const ConfigFile& config, const char* config_class, RopeScaling& scaling, double& rope_theta) {
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (config.find(key) != nullptr) read_rope_values(config.part(key), config_class, scaling, rope_theta);
}

nlohmann::json rope_json(const RopeScaling& scaling) {
  if (scaling.type == "default") return nullptr;
  nlohmann::json values = {{"rope_type", scaling.type}};
  visit_rope_values(scaling, [&](const char* key, const auto& value, bool) { values[key] = value; });
  if (values.contains("attention_factor")) values["attention_factor"] = scaling.magnitude();
  return values;
}

void compare_rope(const RopeScaling& ours, const RopeScaling& theirs,
                  hugging_face::Differences& differences) {
  const std::string group = "task.language.rope_scaling.";
  differences.compare(group + "type", ours.type, theirs.type);
  RopeScaling mine = ours;
  mine.type = theirs.type;
  const nlohmann::json values = rope_json(mine);
  const nlohmann::json others = rope_json(theirs);
  for (const auto& [key, other] : others.items())
    if (key != "rope_type") differences.compare(group + key, values[key], other);
}

}  // namespace pipeline::language
