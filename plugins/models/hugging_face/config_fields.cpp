#include "hugging_face/config_fields.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "hugging_face/bitsandbytes.hpp"

namespace pipeline::hugging_face {
namespace {

using nlohmann::json;

// The fields of transformers' PretrainedConfig, in version 5 and before.
const Fields<json>& shared_fields() {
  static const Fields<json> kFields = [] {
    Fields<json> fields{
        {"is_encoder_decoder", only({false})},
        {"is_decoder", only({false})},
        {"add_cross_attention", only({false})},
    };
    for (const char* key :
         {"model_type",  // checked before anything else
          "transformers_version", "architectures", "tokenizer_class", "transformers.js_config",
          // how weights are stored, and how much is computed at a time
          "dtype", "torch_dtype", "torchscript", "use_bfloat16", "chunk_size_feed_forward", "use_cache",
          // what a call gives back
          "return_dict", "output_hidden_states", "output_attentions",
          // other heads than that of the language model
          "id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params",
          // the tokenizer says them
          "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id",
          // generation
          "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
          "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
          "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
          "num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id",
          "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
          "suppress_tokens", "begin_suppress_tokens", "prefix"})
      fields.push_back({key, kWithoutEffect});
    return fields;
  }();
  return kFields;
}

bool means_not_used(const json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

}  // namespace

void FieldErrors::collect(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.code() != PL_ERROR_CONFIG) throw;
    lines_ += concat(lines_.empty() ? "" : "\n", error.what());
  }
}

void FieldErrors::raise() const {
  if (!lines_.empty()) throw Error(PL_ERROR_CONFIG, lines_);
}

void check_only(const ConfigFile& file, const char* key, const Only& only) {
  std::string accepted;
  for (const json& value : only.values) accepted += concat(accepted.empty() ? "" : ", ", value.dump());
  const json* const found = file.find(key);
  if (found == nullptr) {
    if (only.is_required) file.fail_missing(key, "must be " + accepted);
    return;
  }
  if (std::find(only.values.begin(), only.values.end(), *found) == only.values.end())
    file.fail(key, concat("only ", accepted, " is supported"));
}

void check_shared_field(const ConfigFile& file, const std::string& key, const std::string& type) {
  if (key.starts_with('_')) return;  // transformers' own notes
  if (key == "quantization_config") return check_quantization(file);
  for (const Field<json>& field : shared_fields()) {
    if (key != field.key) continue;
    if (const auto* only = std::get_if<Only>(&field.use)) check_only(file, field.key, *only);
    return;
  }
  if (const json* found = file.find(key); found != nullptr && !means_not_used(*found))
    file.fail(key, concat("is no field of a ", type,
                          " that is known here, so it may change what the model computes: if it does not, "
                          "take it out of the file"));
}

void Limits::limit(OptionSpec& option) const {
  if (!unit.empty()) option.unit(unit);
  if (!choices.empty()) option.choices(choices);
  if (least_set) option.min(static_cast<double>(*least_set));
  if (most_set) option.max(static_cast<double>(*most_set));
  if (kind == Kind::kPositive) option.above(0);
  if (kind == Kind::kNotNegative || kind == Kind::kShare) option.min(0);
  if (kind == Kind::kShare) option.below(1);
}

void Limits::check(const std::string& key, int64_t value) const {
  if (kind == Kind::kRange) check_range(key.c_str(), value, least, most);
}

void Limits::check(const std::string& key, double value) const {
  if (kind == Kind::kPositive) check_positive(key.c_str(), value);
  if (kind == Kind::kShare) check_share(key.c_str(), value);
  if (kind == Kind::kNotNegative && (!(value >= 0) || std::isinf(value)))
    fail_with(PL_ERROR_CONFIG, key, " = ", value, ": must be a number from 0 on");
}

void Limits::check(const std::string& key, const std::string& value) const {
  if (choices.empty() || std::ranges::find(choices, value) != choices.end()) return;
  std::string all;
  for (size_t i = 0; i < choices.size(); ++i)
    all += concat(i == 0 ? "" : i + 1 < choices.size() ? ", " : " or ", "\"", choices[i], "\"");
  fail_with(PL_ERROR_CONFIG, key, " = \"", value, "\": must be ", all);
}

void check_old_form(const ConfigFile& file, const std::string& part) {
  if (file.find(part + "_dict") == nullptr) return;
  const ConfigFile old = file.part((part + "_dict").c_str()), now = file.part(part.c_str());
  for (const std::string& key : old.keys())
    if (const auto* there = now.find(key), *here = old.find(key);
        here != nullptr && (there == nullptr || *here != *there))
      old.fail(key, concat("differs from what ", part, " says: take ", part, "_dict out of the file"));
}

}  // namespace pipeline::hugging_face
