#include "core/train/results/export_folder.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/observe/format.hpp"
#include "core/safetensors/rewrite.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kWhole = "model.safetensors";  // which others find in shards, too

// How an option's value is called in files, and by transformers.
struct ExportType {
  std::string_view option;
  safetensors::Dtype dtype;
  std::string name;
};
const ExportType kTypes[] = {{"fp32", safetensors::Dtype::kF32, "float32"},
                             {"bf16", safetensors::Dtype::kBF16, "bfloat16"},
                             {"fp16", safetensors::Dtype::kF16, "float16"}};

// Of what the iterator finds in a folder, the files that `is_one` takes, sorted.
template <class Iterator, class IsOne>
std::vector<fs::path> files_of(const fs::path& folder, IsOne&& is_one) {
  std::vector<fs::path> files;
  std::error_code none;  // of a folder that is not there
  for (const auto& entry : Iterator(folder, none))
    if (entry.is_regular_file() && is_one(entry.path())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}
using Within = fs::directory_iterator;
using Below = fs::recursive_directory_iterator;

Json read_json(const fs::path& file) {
  return is_there(file) ? Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false) : Json();
}

// As transformers calls it, at every depth: a model of several parts has a configuration for each.
void set_dtype(Json& values, const std::string& dtype) {
  for (auto& [key, value] : values.items()) {
    if (value.is_object()) set_dtype(value, dtype);
    if (key == "dtype" || key == "torch_dtype") value = dtype;
  }
}

void say_dtype(const fs::path& file, const std::string& dtype) {
  Json config = read_json(file);
  if (!config.is_object() || !config.contains("model_type")) return;
  if (!config.contains("dtype") && !config.contains("torch_dtype")) config["dtype"] = dtype;
  set_dtype(config, dtype);
  write_atomically(file, config.dump(2) + "\n");
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// How others load the folder, and what hubs call it.
struct Use {
  std::string library, tag, code;
};
Use use_of(const fs::path& folder) {
  if (const Json adapter = read_json(folder / "adapter_config.json"); adapter.is_object()) {
    constexpr std::pair<const char*, const char*> kKinds[] = {{"CAUSAL_LM", "ForCausalLM"},
                                                              {"SEQ_CLS", "ForSequenceClassification"},
                                                              {"TOKEN_CLS", "ForTokenClassification"},
                                                              {"FEATURE_EXTRACTION", "ForFeatureExtraction"}};
    const auto kind =
        std::ranges::find(kKinds, text_of(adapter, "task_type"), [](const auto& one) { return one.first; });
    return {"peft", "",
            fmt::format("from peft import {0}\nmodel = {0}.from_pretrained(\".\")",
                        std::string("AutoPeftModel") + (kind == std::end(kKinds) ? "" : kind->second))};
  }
  if (is_there(folder / "modules.json"))
    return {"sentence-transformers", "sentence-similarity",
            "from sentence_transformers import SentenceTransformer\nmodel = SentenceTransformer(\".\")"};
  const Json config = read_json(folder / "config.json");
  if (!config.is_object() || !config.contains("model_type")) return {};
  const Json names = config.value("architectures", Json::array());
  const std::string name = !names.empty() && names[0].is_string() ? names[0].get<std::string>() : "AutoModel";
  constexpr std::pair<const char*, const char*> kTags[] = {
      {"ForCausalLM", "text-generation"},
      {"LMHeadModel", "text-generation"},
      {"ForMaskedLM", "fill-mask"},
      {"ForSequenceClassification", "text-classification"},
      {"ForTokenClassification", "token-classification"},
      {"ForConditionalGeneration", "image-text-to-text"},
      {"CLIPModel", "zero-shot-image-classification"},
      {"SiglipModel", "zero-shot-image-classification"},
      {"Model", "feature-extraction"}};
  Use use{"transformers", "",
          fmt::format("from transformers import {0}\nmodel = {0}.from_pretrained(\".\")", name)};
  for (const auto& [end, tag] : kTags)
    if (use.tag.empty() && name.ends_with(end)) use.tag = tag;
  if (is_there(folder / "tokenizer.json") || is_there(folder / "tokenizer_config.json"))
    use.code +=
        "\n\nfrom transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained(\".\")";
  return use;
}

// config.toml without the options that are not set, and without tables of which nothing is left.
std::string set_options(const std::string& toml) {
  std::string text, head;
  for (size_t begin = 0; begin < toml.size();) {
    const size_t end = std::min(toml.find('\n', begin), toml.size());
    const std::string line = toml.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || line[0] == '#' || line.starts_with("started_in")) continue;
    if (line[0] == '[') {
      head = (text.empty() ? "" : "\n") + line + "\n";
      continue;
    }
    text += std::exchange(head, "") + line + "\n";
  }
  return text;
}

// What a task has said of its figures in tables, such as their intervals, unless they are long.
std::string small_tables(const fs::path& folder) {
  constexpr size_t kMostRows = 40;
  std::string text;
  for (const fs::path& file :
       files_of<Within>(folder, [](const fs::path& one) { return one.extension() == ".csv"; })) {
    const std::vector<CsvRow> rows = csv_rows(read_file(file));
    if (rows.size() < 2 || rows.size() > kMostRows) continue;
    text += fmt::format("\n`{}`:\n\n", file.filename().string());
    for (size_t i = 0; i < rows.size(); ++i) {
      text += fmt::format("| {} |\n", fmt::join(rows[i].cells, " | "));
      for (size_t cell = 0; i == 0 && cell < rows[i].cells.size(); ++cell) text += "| --- ";
      if (i == 0) text += "|\n";
    }
  }
  return text;
}

std::string figures_of(const fs::path& run_dir, const std::string& checkpoint) {
  constexpr std::string_view kEvaluation = "evaluation-";
  const auto is_evaluation = [&](const fs::path& file) {
    return file.filename().string().starts_with(kEvaluation) && file.extension() == ".json";
  };
  std::string text;
  for (const fs::path& file : files_of<Within>(run_dir, is_evaluation)) {
    const Json evaluation = read_json(file);
    if (!evaluation.is_object() || !evaluation.value("figures", Json()).is_object()) continue;
    if (fs::path(text_of(evaluation, "checkpoint")).filename() != fs::path(checkpoint).filename()) continue;
    text += fmt::format(
        "\nSplit `{}`, {} samples, of the weights after step {}:\n\n| figure | value |\n| --- | --- |\n",
        file.stem().string().substr(kEvaluation.size()), evaluation.value("samples", Json()).dump(),
        evaluation.value("step", Json()).dump());
    for (const auto& [name, value] : evaluation["figures"].items())
      text += fmt::format("| {} | {} |\n", name,
                          value.is_number() ? fmt::format("{:.6g}", value.get<double>()) : value.dump());
    text += small_tables(run_dir / (file.stem().string() + "-files"));
  }
  return text;
}

}  // namespace

void convert_export(const fs::path& folder, const config::ExportOptions& options, observe::Log& log) {
  const auto* const type = std::ranges::find(kTypes, options.dtype, &ExportType::option);
  const bool as_written = type == std::end(kTypes);  // "auto"
  const auto weights =
      files_of<Below>(folder, [](const fs::path& file) { return file.extension() == ".safetensors"; });
  if (weights.empty() && !as_written)
    fail(PL_ERROR_CONFIG,
         "export.dtype = \"{}\": this task exports no safetensors files, which alone can be converted: leave "
         "it out",
         options.dtype);
  safetensors::Rewritten all;
  try {
    for (const fs::path& file : weights) {
      const safetensors::Rewritten one =
          safetensors::rewrite(file, as_written ? std::nullopt : std::optional(type->dtype),
                               file.filename() == kWhole ? options.shard_size * 1'000'000 : UINT64_MAX);
      all.values += one.values;
      all.rounded += one.rounded;
      all.largest_change = std::max(all.largest_change, one.largest_change);
      if (one.shards > 1)
        log.info(fmt::format("the weights are in {} files of at most {} MB (export.shard_size)", one.shards,
                             options.shard_size));
    }
  } catch (const safetensors::SafetensorsError& error) {
    if (error.os_error() != 0) throw write_error(folder, error.os_error());
    fail(PL_ERROR_CONFIG, "export.dtype = \"{}\": {}", options.dtype, error.what());
  }
  if (as_written) return;
  for (const fs::path& file :
       files_of<Below>(folder, [](const fs::path& one) { return one.filename() == "config.json"; }))
    say_dtype(file, type->name);
  log.info(all.rounded == 0
               ? fmt::format("the weights are written in {}, none of them rounded", type->name)
               : fmt::format("the weights are written in {}: of {} values {} are rounded, by {:.2g} at most",
                             type->name, observe::grouped(all.values), observe::grouped(all.rounded),
                             all.largest_change));
}

void write_model_card(const fs::path& folder, const ModelCard& card) {
  if (is_there(folder / "README.md")) return;
  const Use use = use_of(folder);
  std::string text = "---\n# license: add yours; that of the base model, if there is one, limits it\n";
  if (!use.library.empty()) text += "library_name: " + use.library + "\n";
  if (!use.tag.empty()) text += "pipeline_tag: " + use.tag + "\n";
  if (!card.bases.empty()) {
    text += "base_model:\n";
    for (const std::string& base : card.bases)
      text += "- " + Json(fs::path(base).filename().string()).dump() + "\n";
  }
  text += "---\n\n# " + card.name + "\n\n" +
          fmt::format("Task {}; the weights are those of {}.\n", card.task, card.weights);
  if (!use.code.empty()) text += "\n## Loading it\n\n```python\n" + use.code + "\n```\n";
  text += "\n## Where it comes from\n\n| | |\n| --- | --- |\n";
  for (const std::string& base : card.bases) text += fmt::format("| base | `{}` |\n", base);
  if (!card.data.empty()) text += fmt::format("| data | {} |\n", card.data);
  if (!card.data_fingerprint.empty())
    text += fmt::format("| its content's hash | `{}` |\n", card.data_fingerprint);
  if (const std::string figures = figures_of(card.run_dir, card.weights); !figures.empty())
    text += "\n## Figures\n" + figures;
  if (const fs::path config = card.run_dir / "config.toml"; is_there(config))
    text += "\n## Options\n\n```toml\n" + set_options(read_file(config)) + "```\n";
  write_atomically(folder / "README.md", text);
}

}  // namespace pipeline::train
