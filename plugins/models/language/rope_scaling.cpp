#include "language/rope_scaling.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>

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
  if (scaling.type != "llama3") return;
  visit("low_freq_factor", scaling.low_freq_factor);
  visit("high_freq_factor", scaling.high_freq_factor);
  visit("original_max_position_embeddings", scaling.original_max_position_embeddings);
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
      {"partial_rotary_factor", only({1.0})},
  };
  return kFields;
}

}  // namespace

void RopeScaling::check() const {
  if (type != "default" && type != "linear" && type != "llama3")
    fail_with(PL_ERROR_CONFIG, "rope_scaling.type = \"", type,
              "\": must be \"default\", \"linear\" or \"llama3\"");
  if (!(factor >= 1)) fail_with(PL_ERROR_CONFIG, "rope_scaling.factor = ", factor, ": must be at least 1");
  hugging_face::check_positive("rope_scaling.low_freq_factor", low_freq_factor);
  if (!(high_freq_factor > low_freq_factor))
    fail_with(PL_ERROR_CONFIG, "rope_scaling.high_freq_factor = ", high_freq_factor,
              ": must be above low_freq_factor (", low_freq_factor, ")");
  hugging_face::check_range("rope_scaling.original_max_position_embeddings", original_max_position_embeddings,
                            1, 1 << 24);
}

at::Tensor RopeScaling::scaled(const at::Tensor& frequencies) const {
  if (type == "default") return frequencies;
  if (type == "linear") return frequencies / factor;
  const auto length = static_cast<double>(original_max_position_embeddings);
  const double longest = length / low_freq_factor, shortest = length / high_freq_factor;
  const at::Tensor waves = frequencies.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor slow = waves > longest, fast = waves < shortest;
  const at::Tensor share =
      (waves.reciprocal() * length - low_freq_factor) / (high_freq_factor - low_freq_factor);
  const at::Tensor between = (1 - share) * frequencies / factor + share * frequencies;
  return at::where(slow, frequencies / factor, at::where(fast, frequencies, between));
}

void read_rope(const ConfigFile& config, const char* config_class, RopeScaling& scaling, double& rope_theta) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (config.find(key) == nullptr) continue;
    const ConfigFile rope = config.part(key);
    for (const char* name : {"type", "rope_type"}) {  // an old name and a new one
      rope.read(name, scaling.type);
      if (rope.find(name) != nullptr && scaling.type != "default" && scaling.type != "linear" &&
          scaling.type != "llama3")
        rope.fail(name, "only \"default\", \"linear\" and \"llama3\" are computed here");
    }
    hugging_face::read_fields(rope, rope_fields(), config_class, scaling);
    rope_values(scaling, [&](const char* name, auto& value) {
      if (rope.find(name) == nullptr)
        rope.fail(rope.find("rope_type") != nullptr ? "rope_type" : "type",
                  std::string("needs ") + name + ", which is missing");
      rope.read(name, value);
    });
    rope.read("rope_theta", rope_theta);
  }
}

nlohmann::json rope_json(const RopeScaling& scaling) {
  if (scaling.type == "default") return nullptr;
  nlohmann::json values = {{"rope_type", scaling.type}};
  rope_values(scaling, [&](const char* key, auto value) { values[key] = value; });
  return values;
}

void compare_rope(const RopeScaling& ours, const RopeScaling& theirs,
                  hugging_face::Differences& differences) {
  const std::string group = "task.language.rope_scaling.";
  differences.compare(group + "type", ours.type, theirs.type);
  RopeScaling mine = ours;
  mine.type = theirs.type;
  const nlohmann::json values = rope_json(mine);
  rope_values(theirs,
              [&](const char* key, auto other) { differences.compare(group + key, values[key], other); });
}

}  // namespace pipeline::language
