#include "adapters/peft_folder.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include "core/json/strict_json.hpp"
#include "core/safetensors/file.hpp"
#include "files/regular_file.hpp"
#include "hugging_face/config_fields.hpp"

namespace pipeline::adapters {
namespace {

using hugging_face::Piece;

constexpr const char *kConfig = "adapter_config.json", *kWeights = "adapter_model.safetensors";
constexpr const char *kRankPattern = "rank_pattern", *kAlphaPattern = "alpha_pattern";
constexpr std::string_view kPrefix = "base_model.model.", kDown = ".lora_A.weight", kUp = ".lora_B.weight";
constexpr std::string_view kOurs = "lora.", kOurDown = ".down", kOurUp = ".up";

const hugging_face::Fields<LoraConfig>& fields() {
  using namespace hugging_face;
  static const Fields<LoraConfig> kFields{
      {"peft_type", required("LORA")},
      {"r", &LoraConfig::rank},
      {"lora_alpha", &LoraConfig::alpha},
      {"lora_dropout", &LoraConfig::dropout},
      {"use_rslora", &LoraConfig::use_rslora},
      {"bias", only({"none"})},
      {"modules_to_save", kReadElsewhere},
      // Other ways change the model itself before LoRA is added to it.
      {"init_lora_weights", only({true, false, "gaussian", "orthogonal", "eva"})},
      {"use_dora", only({false})},
      {"use_qalora", only({false})},
      {"lora_bias", only({false})},
      {"rank_pattern", kReadElsewhere},
      {"alpha_pattern", kReadElsewhere},
      {"eva_config", kWithoutEffect},  // how the first values were found
      {"trainable_token_indices", only({nullptr})},
      {"layer_replication", only({nullptr})},
      {"target_parameters", only({nullptr})},
      {"target_modules", kWithoutEffect},  // the tensors say which
      {"exclude_modules", kWithoutEffect},
      {"layers_to_transform", kWithoutEffect},
      {"layers_pattern", kWithoutEffect},
      {"fan_in_fan_out", kWithoutEffect},  // the model says it
      {"task_type", kWithoutEffect},
      {"base_model_name_or_path", kWithoutEffect},
      {"revision", kWithoutEffect},
      {"inference_mode", kWithoutEffect},
      {"auto_mapping", kWithoutEffect},
      {"peft_version", kWithoutEffect},
      {"ensure_weight_tying", kWithoutEffect},
      {"megatron_core", kWithoutEffect},
      {"qalora_group_size", kWithoutEffect},
  };
  return kFields;
}

std::string_view without(std::string_view text, std::string_view end) {
  return text.substr(0, text.size() - end.size());
}

// The shortest names that fit these modules of the model and no others.
std::vector<std::string> names_of(const std::set<std::string>& modules, const AdaptedModel& model) {
  std::set<std::string> ends;
  for (const std::string& module : modules) ends.insert(module.substr(module.rfind('.') + 1));
  std::vector<std::string> names(ends.begin(), ends.end());
  const auto is_right = [&](const LoraTarget& target) {
    return is_one_of(target.module, names) == modules.contains(target.module);
  };
  const auto is_other = [&](const std::string& module) { return is_one_of(module, names); };
  if (!std::ranges::all_of(model.targets, is_right) || std::ranges::any_of(model.others, is_other))
    names.assign(modules.begin(), modules.end());
  return names;
}

// Throws where the folder is none of PEFT's.
void require_adapter(const std::string& folder) {
  const std::filesystem::path path = folder;
  const auto has = [&](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(path / name, ignored);
  };
  if (!has(kConfig))
    fail_with(PL_ERROR_CONFIG, folder, ": is no PEFT adapter: it has no ", kConfig,
              has("config.json") ? "; a model's folder is what train.init_from names"
              : has("checkpoints")
                  ? "; of a run name what `pipeline export` writes, or begin with the run by "
                    "train.init_from"
                  : "");
  if (!has(kWeights))
    fail_with(PL_ERROR_CONFIG, folder, "/", kWeights, ": is not there",
              has("adapter_model.bin") ? ": adapter_model.bin is PyTorch's format: save it by peft with "
                                         "safe_serialization=True"
                                       : "");
}

safetensors::Folder open(const std::string& folder) try {
  require_adapter(folder);
  return safetensors::Folder::open(folder, kWeights);
} catch (const std::exception& error) {
  fail_with(PL_ERROR_CONFIG, error.what());
}

// The parameters' tensors in the folder, without what `wants` does not want. is_part: the folder is the
// larger model's.
hugging_face::NameMap name_map(const AdaptedModel& model, bool is_part,
                               std::function<bool(const Parameter&)> wants) {
  const auto named = [](const std::string& name) {
    return name.empty() ? name : std::string(kPrefix) + name;
  };
  return {.pieces =
              [model, is_part, wants = std::move(wants)](const Parameter& parameter) {
                const std::string_view name = parameter.name;
                if (!wants(parameter)) return std::vector<Piece>();
                if (name.starts_with(kOurs)) {
                  const bool is_down = name.ends_with(kOurDown);
                  std::string_view module = without(name.substr(kOurs.size()), is_down ? kOurDown : kOurUp);
                  if (is_part) module.remove_prefix(model.ours.size());
                  return std::vector<Piece>{
                      {.name = concat(kPrefix, is_part ? model.theirs : "", module, is_down ? kDown : kUp),
                       .transposed = true}};
                }
                std::vector<Piece> all = model.pieces(parameter);
                for (Piece& piece : all) piece.name.insert(0, kPrefix);
                return all;
              },
          .head = named(model.head),
          .tied_to = named(model.tied_to),
          .file = kWeights};
}

bool is_part(const safetensors::Folder& folder, const AdaptedModel& model) {
  const auto is_theirs = [&](const std::string& name) {
    return name.starts_with(std::string(kPrefix) + model.theirs);
  };
  const std::vector<std::string> names = folder.names();
  return !model.theirs.empty() && std::ranges::any_of(names, is_theirs);
}

// A module's path in the folder as it is here.
std::string ours_of(const std::string& module, const AdaptedModel& model) {
  const bool is_theirs = !model.theirs.empty() && module.starts_with(model.theirs);
  return is_theirs ? model.ours + module.substr(model.theirs.size()) : module;
}

// Whether these texts say of each of the folder's `modules` what the others say of it by its path here.
bool say_the_same(const char* key, const std::vector<std::string>& of_folder,
                  const std::vector<std::string>& of_ours, const std::set<std::string>& modules,
                  const AdaptedModel& model) {
  return std::ranges::all_of(modules, [&](const std::string& module) {
    return value_of(key, of_folder, module, 0) == value_of(key, of_ours, ours_of(module, model), 0);
  });
}

// "PATTERN = VALUE", in the file's order, of those that mean one of the folder's `modules`.
std::vector<std::string> read_pattern(const hugging_face::ConfigFile& file, const std::string& path,
                                      const char* key, const std::set<std::string>& modules,
                                      const AdaptedModel& model) {
  const nlohmann::json* const found = file.find(key);
  if (found == nullptr) return {};
  if (!found->is_object()) file.fail(key, "must be an object of patterns and numbers");
  std::vector<std::string> texts, of_modules;
  const auto ordered = strict_json::parse_ordered(files::read_regular(path, files::kMostSettings), path);
  for (const auto& [pattern, value] : ordered.at(key).items()) {
    if (!value.is_number()) file.fail(key, "must be an object of patterns and numbers");
    texts.push_back(concat(pattern, " = ", value.dump()));
  }
  for (const std::string& module : modules)
    if (const double value = value_of(key, texts, module, 0); value > 0)
      of_modules.push_back(concat(ours_of(module, model), " = ", nlohmann::json(value).dump()));
  std::erase_if(texts, [&](const std::string& text) {
    return std::ranges::none_of(
        modules, [&](const std::string& module) { return value_of(key, {text}, module, 0) > 0; });
  });
  return say_the_same(key, texts, texts, modules, model) ? texts : of_modules;
}

// The patterns sorted, as PEFT writes them, if they mean the same so; else the value of each module.
nlohmann::json pattern_json(const char* key, const std::vector<std::string>& texts,
                            const std::set<std::string>& modules, const AdaptedModel& model) {
  const auto number = [](double value) {
    return value == std::floor(value) ? nlohmann::json(static_cast<int64_t>(value)) : nlohmann::json(value);
  };
  nlohmann::json values = nlohmann::json::object(), of_modules = values;
  for (const std::string& text : texts) {
    const auto [pattern, value] = pattern_of(key, text);
    if (!values.contains(pattern)) values[pattern] = number(value);
  }
  std::vector<std::string> sorted;
  for (const auto& [pattern, value] : values.items()) sorted.push_back(concat(pattern, " = ", value.dump()));
  for (const std::string& module : modules)
    if (const double value = value_of(key, texts, ours_of(module, model), 0); value > 0)
      of_modules[module] = number(value);
  return say_the_same(key, sorted, texts, modules, model) ? values : of_modules;
}

// Takes what the folder has as a whole, which is trained as a whole here: also an embedding that PEFT saved
// because of new tokens.
void take_saved(const hugging_face::ConfigFile& file, const safetensors::Folder& files,
                const AdaptedModel& model, LoraConfig& config) {
  std::set<std::string> saved;
  for (const std::string& name : files.names())
    if (name.find(".lora_") != std::string::npos && !name.ends_with(kDown) && !name.ends_with(kUp))
      fail_with(PL_ERROR_CONFIG, files.path(), "/", kWeights, ": ", hugging_face::shown(name),
                name.find(".lora_embedding") != std::string::npos
                    ? ": LoRA of an embedding is not computed here: train it as a whole, by "
                      "modules_to_save"
                    : ": is no part of a LoRA that is computed here");
    else if (name.starts_with(kPrefix) && !name.ends_with(kDown) && !name.ends_with(kUp))
      saved.insert(name.substr(kPrefix.size(), name.rfind('.') - kPrefix.size()));
  const auto is_below = [](const std::string& module, const std::string& name) {
    return ("." + module + ".").find("." + name + ".") != std::string::npos;
  };
  const auto module_of = [](const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); };
  const bool is_tied = !model.tied_to.empty();
  bool ties = false;
  file.read("ensure_weight_tying", ties);
  std::vector<std::string> named = std::exchange(config.modules_to_save, {});
  for (const std::string& name : named) {
    if (std::ranges::none_of(saved, [&](const std::string& module) { return is_below(module, name); }))
      file.fail("modules_to_save", concat(kWeights, " has no tensor of \"", name, "\""));
    if (is_tied && !ties && is_below(module_of(model.tied_to), name))
      file.fail("ensure_weight_tying", concat("must be true, since modules_to_save has \"", name,
                                              "\" and the model's output head is its embedding: PEFT would "
                                              "have two of them"));
  }
  const bool is_part = pipeline::adapters::is_part(files, model);
  const bool has_embedding = saved.contains(is_tied ? module_of(model.tied_to) : "");
  for (std::string module : saved) {
    if (is_tied && module == module_of(model.head)) {
      if (has_embedding) continue;
      file.fail("ensure_weight_tying",
                concat("must be true, with which PEFT saves ", module_of(model.tied_to),
                       " as well: ", kWeights, " has ", module,
                       ", which is the model's embedding again, and would "
                       "have to be another one"));
    }
    if (is_part && module.starts_with(model.theirs))
      module.replace(0, model.theirs.size(), model.ours);
    else if (is_part && module != "lm_head")
      continue;  // it belongs to the larger model, whose options say what is trained
    config.modules_to_save.push_back(module);
  }
}

}  // namespace

LoraConfig read_adapter(const std::string& folder, const AdaptedModel& model) {
  require_adapter(folder);
  const hugging_face::ConfigFile file(folder + "/" + kConfig);
  LoraConfig config = hugging_face::read_fields(file, fields(), "peft's LoraConfig", LoraConfig{.rank = 8});
  file.read("modules_to_save", config.modules_to_save);
  if (config.rank == 0) file.fail("r", "must be at least 1");
  std::set<std::string> modules, paths, known;  // paths: of the modules, in the folder
  for (const LoraTarget& target : model.targets) known.insert(target.module);
  const safetensors::Folder files = open(folder);
  const std::string theirs = is_part(files, model) ? model.theirs : "";
  for (const std::string& name : files.names()) {
    if (!name.ends_with(kDown) || !name.starts_with(std::string(kPrefix) + theirs)) continue;
    const std::string_view path =
        without(std::string_view(name).substr(kPrefix.size() + theirs.size()), kDown);
    const std::string module = concat(theirs.empty() ? "" : model.ours, path);
    if (!known.contains(module))
      fail_with(PL_ERROR_CONFIG, folder, "/", kWeights, ": ", hugging_face::shown(name),
                ": there is no LoRA here for ", hugging_face::shown(module),
                ", but to matrices of layers alone, such as ", model.targets.front().module,
                ": is the adapter for another model, or has it LoRA of an embedding or a head?");
    modules.insert(module);
    paths.insert(concat(theirs, path));
  }
  if (modules.empty())
    fail_with(PL_ERROR_CONFIG, folder, "/", kWeights, ": has no LoRA matrices (", kPrefix, "...", kDown, ")");
  config.targets = names_of(modules, model);
  take_saved(file, files, model, config);
  for (const auto& [key, texts] :
       {std::pair(kRankPattern, &config.rank_pattern), {kAlphaPattern, &config.alpha_pattern}})
    *texts = read_pattern(file, folder + "/" + kConfig, key, paths, model);
  for (const std::string& path : paths) {
    const LoraTarget& target = *std::ranges::find(model.targets, ours_of(path, model), &LoraTarget::module);
    const int64_t rank = config.rank_of(target.module);
    const safetensors::TensorView& down = files.at(concat(kPrefix, path, kDown));
    if (!down.shape.empty() && down.shape[0] != rank)
      fail_with(PL_ERROR_CONFIG, folder, "/", kWeights, ": ", hugging_face::shown(down.name), " is of rank ",
                down.shape[0], ", and r and rank_pattern of ", kConfig, " say ", rank);
    for (const auto& [end, shape] :
         {std::pair(kDown, std::vector{rank, target.in}), {kUp, std::vector{target.out, rank}}}) {
      const std::string name = concat(kPrefix, path, end);
      const safetensors::TensorView* const found = files.find(name);
      if (found == nullptr || found->shape != shape)
        fail_with(PL_ERROR_CONFIG, folder, "/", kWeights, ": ", hugging_face::shown(name), " is ",
                  found == nullptr ? "missing" : safetensors::shape_string(found->shape), ", must be ",
                  safetensors::shape_string(shape), ": the adapter is for another model, or not whole");
    }
  }
  return file.checked(config);
}

void start_from_adapter(const std::string& folder, ParameterRegistry& parameters, const AdaptedModel& model) {
  const auto opened = std::make_shared<std::shared_ptr<const hugging_face::Weights>>();
  const auto open_once = [=, &parameters] {
    if (*opened) return;
    const safetensors::Folder files = open(folder);
    hugging_face::NameMap map = name_map(model, is_part(files, model), [](const Parameter&) { return true; });
    map.pieces = [all = std::move(map.pieces), &files, &folder](const Parameter& parameter) {
      std::vector<Piece> pieces = all(parameter);
      if (parameter.name.starts_with(kOurs)) return pieces;
      const auto has = [&](const Piece& piece) { return files.find(piece.name) != nullptr; };
      if (pieces.empty() || !std::ranges::all_of(pieces, has)) return std::vector<Piece>();
      if (!parameter.trainable)
        fail_with(PL_ERROR_CONFIG, folder, ": has ", pieces.front().name, ", and ", parameter.name,
                  " is frozen here: lora.modules_to_save must name it, or be left out");
      for (Piece& piece : pieces)  // a folder may have more rows for tokens
        if (!piece.transposed && parameter.shape.size() == 2 && piece.columns == 0)
          piece.more_rows = files.at(piece.name).shape.front() - parameter.shape.front();
      return pieces;
    };
    *opened = std::make_shared<const hugging_face::Weights>(folder, parameters, map);
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto read = [=, &parameters, as_ours = model.as_ours, before = parameters[i].initial](
                          at::Tensor& out, uint64_t seed) {
      open_once();
      if (!(*opened)->has(i)) return before(out, seed);
      (*opened)->read(i, out);
      if (as_ours) as_ours(parameters[i], out);
      if (!out.isfinite().all().item<bool>())
        fail_with(PL_ERROR_CONFIG, folder, "/", kWeights, ": has values that are not finite");
    };
    const auto read_code = [=, before = parameters[i].initial_code](uint32_t form, std::byte* out) {
      open_once();
      return before && !(*opened)->has(i) && before(form, out);
    };
    parameters.start_from(i, read, read_code);
  }
}

void export_adapter(const std::string& folder, const ParameterRegistry& parameters, const LoraConfig& config,
                    const AdaptedModel& model, const std::string& base_model) {
  const bool is_part = !model.theirs.empty();
  hugging_face::NameMap map =
      name_map(model, is_part, [](const Parameter& parameter) { return parameter.trainable; });
  map.value = model.value;
  std::set<std::string> modules, saved, longer;
  // PEFT writes and reads a tied head, too; and an embedding has all rows of the model's, which may have more
  // than the tokenizer has tokens.
  std::vector<std::pair<std::string, at::Tensor>> others;
  bool is_tied_saved = false;
  for (const ParameterRegistry::Declared& parameter : parameters)
    for (const Piece& piece : map.pieces(parameter)) {
      const std::string_view name = std::string_view(piece.name).substr(kPrefix.size());
      if (parameter.name.starts_with(kOurs))
        modules.emplace(without(name, parameter.name.ends_with(kOurDown) ? kDown : kUp));
      else
        saved.emplace(name.substr(0, name.rfind('.')));
      at::Tensor value = piece.written(parameter.value());
      const bool is_table = parameter.shape.size() == 2 && !piece.transposed && piece.columns == 0;
      if (const at::Tensor more = is_table ? hugging_face::rows_from(base_model, std::string(name),
                                                                     value.size(0), model.plain_name)
                                           : at::Tensor();
          more.defined()) {
        longer.insert(parameter.name);
        value = at::cat({value.to(at::kCPU, at::kFloat), more});
        others.emplace_back(piece.name, value);
      }
      if (model.tied_to.empty() || name != model.tied_to) continue;
      is_tied_saved = true;
      others.emplace_back(map.head, value);
    }
  map.pieces = [all = std::move(map.pieces), &longer](const Parameter& parameter) {
    return longer.contains(parameter.name) ? std::vector<Piece>() : all(parameter);
  };
  hugging_face::export_weights(folder, parameters, map, others);
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
  };
  nlohmann::json values{
      {"peft_type", "LORA"},
      {"task_type", or_null(model.task_type)},
      {"base_model_name_or_path", or_null(base_model)},
      {"inference_mode", true},
      {"bias", "none"},
      {"init_lora_weights", true},
      {"fan_in_fan_out", model.has_conv1d},
      {"target_modules", is_part ? std::vector(modules.begin(), modules.end()) : names_of(modules, model)},
      {"modules_to_save", nullptr}};
  if (!saved.empty()) values["modules_to_save"] = saved;
  if (is_tied_saved) values["ensure_weight_tying"] = true;
  hugging_face::write_fields(config, fields(), values);
  values[kRankPattern] = pattern_json(kRankPattern, config.rank_pattern, modules, model);
  values[kAlphaPattern] = pattern_json(kAlphaPattern, config.alpha_pattern, modules, model);
  hugging_face::write_text(folder + "/" + kConfig, values.dump(2) + "\n");
}

}  // namespace pipeline::adapters
