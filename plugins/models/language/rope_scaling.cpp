#include "language/rope_scaling.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "hugging_face/config_fields.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;

// visit(key, value) for what the type needs.
template <class Scaling, class Visit>
void rope_values(Scaling& scaling, Visit&& visit) {
  if (scaling.type == "default") return;
  visit("factor", scaling.factor);
  if (scaling.type == "linear" || scaling.type == "dynamic") return;
  visit("original_max_position_embeddings", scaling.original_max_position_embeddings);
  if (scaling.type != "llama3") return;
  visit("low_freq_factor", scaling.low_freq_factor);
  visit("high_freq_factor", scaling.high_freq_factor);
}

// The same for what it may leave out.
template <class Scaling, class Visit>
void optional_rope_values(Scaling& scaling, Visit&& visit) {
  if (scaling.type != "yarn") return;
  visit("beta_fast", scaling.beta_fast);
  visit("beta_slow", scaling.beta_slow);
  visit("attention_factor", scaling.attention_factor);
}

constexpr std::array kTypes{"default", "linear", "dynamic", "llama3", "yarn"};
constexpr const char* kKnown = "\"default\", \"linear\", \"dynamic\", \"llama3\" and \"yarn\"";
bool is_known(const std::string& type) { return std::ranges::find(kTypes, type) != kTypes.end(); }

double yarn_magnitude(double factor, double by = 1) {
  return factor <= 1 ? 1 : 0.1 * by * std::log(factor) + 1;
}

// Another way to say attention_factor, as DeepSeek's folders do.
void read_magnitude(const ConfigFile& rope, RopeScaling& scaling) {
  double above = 0, below = 0;
  rope.read("mscale", above);
  rope.read("mscale_all_dim", below);
  if (scaling.type == "yarn" && scaling.attention_factor == 0 && above != 0 && below != 0)
    scaling.attention_factor = yarn_magnitude(scaling.factor, above) / yarn_magnitude(scaling.factor, below);
}

const hugging_face::Fields<RopeScaling>& rope_fields() {
  using namespace hugging_face;
  static const Fields<RopeScaling> kFields{
      {"type", kReadElsewhere},
      {"rope_type", kReadElsewhere},
      {"rope_theta", kReadElsewhere},
      {"factor", kReadElsewhere},
      {"low_freq_factor", kReadElsewhere},
      {"high_freq_factor", kReadElsewhere},
      {"original_max_position_embeddings", kReadElsewhere},
      {"beta_fast", kReadElsewhere},
      {"beta_slow", kReadElsewhere},
      {"attention_factor", kReadElsewhere},
      {"mscale", kReadElsewhere},
      {"mscale_all_dim", kReadElsewhere},
      {"truncate", only({true})},
      {"partial_rotary_factor", only({1.0})},
  };
  return kFields;
}

}  // namespace

void RopeScaling::check() const {
  if (!is_known(type))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.type = \"", type, "\": only ", kKnown, " are computed here");
  if (!(factor >= 1)) fail_with(PL_ERROR_CONFIG, "rope_scaling.factor = ", factor, ": must be at least 1");
  hugging_face::check_positive("rope_scaling.low_freq_factor", low_freq_factor);
  if (!(high_freq_factor > low_freq_factor))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.high_freq_factor = ", high_freq_factor,
              ": must be above low_freq_factor (", low_freq_factor, ")");
  hugging_face::check_positive("rope_scaling.beta_slow", beta_slow);
  if (!(beta_fast > beta_slow))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.beta_fast = ", beta_fast, ": must be above beta_slow (",
              beta_slow, ")");
  if (!(attention_factor >= 0))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.attention_factor = ", attention_factor,
              ": must not be negative");
  hugging_face::check_range("rope_scaling.original_max_position_embeddings", original_max_position_embeddings,
                            1, 1 << 24);
}

double RopeScaling::magnitude() const {
  if (type != "yarn") return 1;
  return attention_factor > 0 ? attention_factor : yarn_magnitude(factor);
}

namespace {

// Channels that turn often in the original length keep their frequency, those that turn seldom have it
// divided.
at::Tensor yarn(const RopeScaling& scaling, const at::Tensor& frequencies, double base) {
  const auto dim = static_cast<double>(2 * frequencies.size(0)),
             length = static_cast<double>(scaling.original_max_position_embeddings);
  const auto channel = [&](double turns) {  // that turns so often
    return dim * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  const double low = std::max(std::floor(channel(scaling.beta_fast)), 0.0),
               high = std::min(std::ceil(channel(scaling.beta_slow)), dim - 1);
  const at::Tensor numbers = at::arange(frequencies.size(0), at::kFloat);
  const at::Tensor ramp = ((numbers - low) / (high == low ? 0.001 : high - low)).clamp(0, 1);
  const at::Tensor kept = 1 - ramp;
  return frequencies / scaling.factor * (1 - kept) + frequencies * kept;
}

}  // namespace

at::Tensor RopeScaling::scaled(const at::Tensor& frequencies, double base) const {
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

void read_rope_values(const ConfigFile& rope, const char* config_class, RopeScaling& scaling,
                      double& rope_theta) {
  for (const char* name : {"type", "rope_type"}) {  // an old name and a new one
    rope.read(name, scaling.type);
    if (rope.find(name) != nullptr && !is_known(scaling.type))
      rope.fail(name, concat("only ", kKnown, " are computed here"));
  }
  hugging_face::read_fields(rope, rope_fields(), config_class, scaling);
  rope_values(scaling, [&](const char* name, auto& value) {
    if (rope.find(name) == nullptr)
      rope.fail(rope.find("rope_type") != nullptr ? "rope_type" : "type",
                std::string("needs ") + name + ", which is missing");
    rope.read(name, value);
  });
  optional_rope_values(scaling, [&](const char* name, auto& value) { rope.read(name, value); });
  read_magnitude(rope, scaling);
  rope.read("rope_theta", rope_theta);
}

void read_rope(const ConfigFile& config, const char* config_class, RopeScaling& scaling, double& rope_theta) {
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (config.find(key) != nullptr) read_rope_values(config.part(key), config_class, scaling, rope_theta);
}

nlohmann::json rope_json(const RopeScaling& scaling) {
  if (scaling.type == "default") return nullptr;
  nlohmann::json values = {{"rope_type", scaling.type}};
  const auto write = [&](const char* key, auto value) { values[key] = value; };
  rope_values(scaling, write);
  optional_rope_values(scaling, write);
  if (scaling.type == "yarn") values["attention_factor"] = scaling.magnitude();
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
