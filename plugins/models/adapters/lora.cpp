#include "adapters/lora.hpp"

#include <fnmatch.h>

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>
#include <set>
#include <unordered_map>
#include <utility>

#include "hugging_face/config_file.hpp"

namespace pipeline::adapters {

namespace {

constexpr const char *kRanks = "lora.rank_pattern", *kAlphas = "lora.alpha_pattern";
constexpr int64_t kMostRank = 1 << 14;

// Whether a module fits a pattern, by PEFT's get_pattern_key(). Patterns are kept compiled: an adapter may
// have hundreds of them, and each is asked of each module.
bool fits(const char* key, const std::string& pattern, const std::string& module) try {
  constexpr size_t kMostKept = 4096;
  static thread_local std::unordered_map<std::string, std::regex> kept;
  auto found = kept.find(pattern);
  if (found == kept.end()) {
    std::regex compiled("(.*\\.)?(" + pattern + ")");
    if (kept.size() >= kMostKept) kept.clear();
    found = kept.emplace(pattern, std::move(compiled)).first;
  }
  return std::regex_match(module, found->second);
} catch (const std::regex_error& error) {
  fail_with(PL_ERROR_CONFIG, key, " has \"", pattern,
            "\", which is no regular expression that is read here: ", error.what());
}

}  // namespace

std::pair<std::string, double> pattern_of(const char* key, const std::string& text) {
  constexpr size_t kLongest = 1000;
  const size_t sign = text.rfind('='), end = text.find_last_not_of(' ', sign - 1),
               begin = text.find_first_not_of(' ', sign + 1);
  double value = 0;
  const char* const last = text.data() + text.size();
  if (sign == std::string::npos || sign == 0 || end == std::string::npos || begin == std::string::npos ||
      std::from_chars(text.data() + begin, last, value).ptr != last || !(value > 0) ||
      !std::isfinite(value) || end >= kLongest)
    fail_with(PL_ERROR_CONFIG, key, " has \"", text.substr(0, kLongest),
              "\": must be \"PATTERN = VALUE\", a regular expression of modules and a number above 0: "
              "\"layers.0.*q_proj = 8\"");
  return {text.substr(0, end + 1), value};
}

double value_of(const char* key, const std::vector<std::string>& texts, const std::string& module,
                double otherwise) {
  for (const std::string& text : texts)
    if (const auto [pattern, value] = pattern_of(key, text); fits(key, pattern, module)) return value;
  return otherwise;
}

int64_t LoraConfig::rank_of(const std::string& module) const {
  return static_cast<int64_t>(value_of(kRanks, rank_pattern, module, static_cast<double>(rank)));
}

double LoraConfig::alpha_of(const std::string& module) const {
  return value_of(kAlphas, alpha_pattern, module, alpha);
}

double LoraConfig::scale(const std::string& module) const {
  const auto size = static_cast<double>(rank_of(module));
  return alpha_of(module) / (use_rslora ? std::sqrt(size) : size);
}

void LoraConfig::check() const {
  hugging_face::check_range("lora.rank", rank, 0, kMostRank);
  hugging_face::check_positive("lora.alpha", alpha);
  hugging_face::check_share("lora.dropout", dropout);
  for (const std::string& text : alpha_pattern) pattern_of(kAlphas, text);
  for (const std::string& text : rank_pattern)
    if (const double size = pattern_of(kRanks, text).second; size != std::floor(size) || size > kMostRank)
      fail_with(PL_ERROR_CONFIG, kRanks, " has \"", text, "\": must be an integer from 1 to ", kMostRank);
}

bool is_one_of(const std::string& module, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), module.c_str(), 0) == 0 ||
           fnmatch(("*." + pattern).c_str(), module.c_str(), 0) == 0;
  });
}

namespace {

// A parameter that is several modules of PEFT's, by the end of its own.
struct Fused {
  const char* end;
  std::vector<const char*> parts;
};
const std::vector<Fused>& fused() {
  static const std::vector<Fused> kAll{{"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
                                       {"gate_up_proj", {"gate_proj", "up_proj"}},
                                       {"qkv", {"query", "key", "value"}}};
  return kAll;
}

// "model.norm" of "model.norm.weight". A bias by itself is no module.
std::vector<std::string> modules_of(const std::string& parameter) {
  if (parameter == "lm_head.bias") return {parameter};
  const std::string own = parameter.substr(0, parameter.rfind('.'));
  for (const auto& [end, parts] : fused()) {
    if (!own.ends_with(std::string(".") + end)) continue;
    std::vector<std::string> modules;
    for (const char* part : parts) modules.push_back(own.substr(0, own.rfind('.') + 1) + part);
    return modules;
  }
  return {own};
}

void check_modules(const ParameterRegistry& parameters, const LoraConfig& config,
                   const std::vector<LoraTarget>& targets) {
  const auto fail = [](const std::string& problem) {
    fail_with(PL_ERROR_CONFIG, "lora.modules_to_save has ", problem);
  };
  for (const std::string& pattern : config.modules_to_save) {
    const auto is_meant = [&](const Parameter& parameter) {
      return std::ranges::any_of(modules_of(parameter.name),
                                 [&](const std::string& module) { return is_one_of(module, {pattern}); });
    };
    if (!std::any_of(parameters.begin(), parameters.end(), is_meant))
      fail(concat(
          "\"", pattern, "\", which is no module that can be trained as a whole: there are, for example, ",
          modules_of(parameters[0].name)[0], " and ", modules_of(parameters[parameters.size() - 1].name)[0]));
  }
  const auto is_saved = [&](const std::string& module) { return is_one_of(module, config.modules_to_save); };
  for (const Parameter& parameter : parameters) {
    const std::vector<std::string> modules = modules_of(parameter.name);
    if (const auto saved = std::ranges::count_if(modules, is_saved);
        saved > 0 && saved < static_cast<int64_t>(modules.size()))
      fail(concat("a part of ", modules.front(), " and ", modules.size() - 1,
                  " more, which are one here: name all of them, or none"));
  }
  for (const LoraTarget& target : targets)
    if (is_saved(target.module))
      fail(concat(target.module, ", which lora.targets trains, too: leave it out of one of the two"));
}

}  // namespace

bool is_trained(const Parameter& parameter, const LoraConfig& config) {
  return config.rank == 0 || parameter.is_new ||
         std::ranges::all_of(modules_of(parameter.name), [&](const std::string& module) {
           return is_one_of(module, config.modules_to_save);
         });
}

void add_targets(std::vector<LoraTarget>& all, const std::string& prefix, int64_t number, uint32_t unit,
                 const std::vector<LayerMatrix>& matrices) {
  for (const LayerMatrix& matrix : matrices)
    all.push_back({.module = prefix + matrix.name,
                   .layer = static_cast<size_t>(number),
                   .lora = matrix.lora,
                   .first = matrix.first,
                   .in = matrix.in,
                   .out = matrix.out,
                   .unit = unit,
                   .is_usual = matrix.is_usual});
}

namespace {

constexpr std::string_view kAllLinear = "all-linear";  // PEFT's word for all but the output head
constexpr std::string_view kWholeModules[] = {"embed_tokens", "lm_head", "wte", "wpe", "word_embeddings"};

}  // namespace

ChosenTargets chosen(const LoraConfig& config, const std::vector<LoraTarget>& all) {
  ChosenTargets result;
  if (config.rank == 0) return result;
  const auto means = [](const std::string& pattern, const LoraTarget& target) {
    return pattern == kAllLinear || is_one_of(target.module, {pattern});
  };
  for (const LoraTarget& target : all)
    if (config.targets.empty() ? target.is_usual
                               : std::ranges::any_of(config.targets, [&](const std::string& pattern) {
                                   return means(pattern, target);
                                 }))
      result.targets.push_back(target);
  for (const auto& of : {std::pair(kRanks, &config.rank_pattern), {kAlphas, &config.alpha_pattern}})
    for (const std::string& text : *of.second)
      if (const std::string pattern = pattern_of(of.first, text).first;
          std::ranges::none_of(result.targets, [&](const LoraTarget& target) {
            return fits(of.first, pattern, target.module);
          })) {
        result.problem =
            concat("have no matrix that ", of.first, " means by \"", pattern, "\"",
                   result.targets.empty() ? "" : concat("; the first is ", result.targets.front().module));
        return result;
      }
  for (const std::string& pattern : config.targets) {
    const auto is_meant = [&](const LoraTarget& target) { return means(pattern, target); };
    if (std::ranges::any_of(all, is_meant)) continue;
    const std::string_view name = std::string_view(pattern).substr(pattern.rfind('.') + 1);
    if (std::ranges::find(kWholeModules, name) != std::end(kWholeModules)) {
      result.problem =
          concat("has \"", pattern,
                 "\": LoRA is for matrices of layers alone, not for "
                 "an embedding or an output head: train it as a whole, lora.modules_to_save = [\"",
                 pattern, "\"]");
      break;
    }
    std::set<std::string> ends;
    for (const LoraTarget& target : all) ends.insert(target.module.substr(target.module.rfind('.') + 1));
    std::string known;
    for (const std::string& end : ends) known += concat(known.empty() ? "" : ", ", end);
    result.problem =
        concat("has \"", pattern, "\", which is no matrix of the model: there are, for example, ", known,
               all.empty() ? "" : concat("; the first is ", all.front().module));
    break;
  }
  return result;
}

void add_lora(ParameterRegistry& parameters, const LoraConfig& config, const std::vector<LoraTarget>& all,
              std::vector<transformer::Layer>& layers) {
  config.check();
  const ChosenTargets wanted = chosen(config, all);
  if (!wanted.problem.empty()) fail_with(PL_ERROR_CONFIG, "lora.targets ", wanted.problem);
  if (config.rank > 0) check_modules(parameters, config, wanted.targets);
  for (const LoraTarget& target : wanted.targets) {
    const auto matrix = [&](const char* end, int64_t rows, int64_t columns, InitialValue initial) {
      return parameters.add({.name = "lora." + target.module + end,
                             .shape = {rows, columns},
                             .unit = target.unit,
                             .is_new = true},
                            std::move(initial));
    };
    const double bound = 1 / std::sqrt(static_cast<double>(target.in));
    const auto uniform = [bound](at::Tensor& values, uint64_t seed) {
      values.uniform_(-bound, bound, make_generator(seed));
    };
    const int64_t rank = config.rank_of(target.module);
    at::Tensor down = matrix(".down", target.in, rank, uniform);
    (layers.at(target.layer).*target.lora)
        .push_back({.down = std::move(down),
                    .up = matrix(".up", rank, target.out, constant(0)),
                    .first = target.first,
                    .scale = config.scale(target.module)});
  }
}

at::Tensor merged(const ParameterRegistry::Declared& parameter,
                  const std::vector<transformer::Layer>& layers) {
  const at::Tensor value = parameter.value();
  for (const transformer::Layer& layer : layers)
    for (const auto& [matrix, lora] : {std::pair(&layer.qkv, &layer.qkv_lora),
                                       {&layer.projection, &layer.projection_lora},
                                       {&layer.up, &layer.up_lora},
                                       {&layer.down, &layer.down_lora}}) {
      if (lora->empty() || !matrix->weight.is_same(parameter.tensor)) continue;
      const at::Tensor sum = value.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      for (const transformer::Lora& low : *lora)
        sum.narrow(1, low.first, low.up.size(1))
            .addmm_(low.down.detach().to(at::kFloat), low.up.detach().to(at::kFloat), 1, low.scale);
      return sum;
    }
  return value;
}

}  // namespace pipeline::adapters
