#include "plugins/tasks/common/language_task.hpp"

#include <pipeline/torch/tensor.hpp>

#include <nlohmann/json.hpp>

#include "files/data_errors.hpp"
#include "files/hash128.hpp"
#include "heads/label_folder.hpp"
#include "hugging_face/weights.hpp"
#include "language/folder.hpp"
#include "plugins/data/messages/conversation_store.hpp"

namespace pipeline::tasks::common {

namespace fs = std::filesystem;

void TaskTokenizer::set_state(std::string_view state, bool is_path_set) {
  kept_ = tokenizer::tokenizer_of_checkpoint(state, is_path_set ? options_.path : fs::path(), context_,
                                             [this](const std::string& problem) { refuse(problem); });
}

void TaskTokenizer::open(const std::function<tokenizer::TrainingTexts()>& texts) {
  tokenizer_ = tokenizer::tokenizer_of_task(kept_, options_, texts, context_,
                                            [this](const std::string& problem) { refuse(problem); });
}

void TaskTokenizer::require_end_of_text(const char* use) const {
  if (!tokenizer_->has_eot())
    fail_with(PL_ERROR_CONFIG, "the tokenizer names no token that ends a text (eos_token), ", use);
}

std::string TaskTokenizer::size_text() const {
  return concat("vocabulary of ", tokenizer_->vocab_size(), is_kept() ? ", as the weights have it" : "");
}

void TaskTokenizer::set_end(int64_t token) {
  end_ = token;
  ends_ = hugging_face::end_tokens(tokenizer_->files(), own_tokens());
}

hugging_face::OwnTokens TaskTokenizer::own_tokens() const {
  return {tokenizer_->bos().value_or(tokenizer_->eot()), end_,
          [this](int64_t id) { return id >= 0 && id < tokenizer_->vocab_size(); }};
}

void TaskTokenizer::require_path(const fs::path& folder) const {
  if (!is_given())
    refuse(concat("must be given with weights of ", folder.string(),
                  ", which know no tokens of a tokenizer that is trained here: name the folder's own"));
}

void TaskTokenizer::carry(const fs::path& folder, const tokenizer::Files& files) {
  hugging_face::OwnTokens own = own_tokens();
  if (!tokenizer::is_of_folder(tokenizer_->files(), folder))
    own.is_own = [this](int64_t id) { return tokenizer_->is_special(id); };
  for (const std::string& line : hugging_face::unknown_tokens(files, own, folder.string()))
    context_.warn(line);
  tokenizer_ = tokenizer_->with(hugging_face::without_unknown(files, own, folder.string()));
  set_end(end_);
}

tokenizer::TrainingTexts training_texts(const messages::StoredTexts& texts, int64_t size, const char* noun) {
  return {.key = files::hash128(texts.fingerprint + " " + std::to_string(size)).hex(),
          .bytes = texts.conversations,
          .what = concat(texts.conversations, " ", noun),
          .each = texts.each};
}

std::optional<language::Config> read_language_model(const tokenizer::TokenizerOptions& tokenizer,
                                                    const language::LanguageOptions& language,
                                                    const fs::path& init_from, const ModelOptions& say,
                                                    language::Heads heads) {
  tokenizer::check_tokenizer(say, tokenizer.path);
  const auto tell_adapter = [&](const language::Config& model) {
    adapters::tell_adapter(say, "language.lora.", language::adapted_model(model), language.lora,
                           init_from.string());
  };
  if (init_from.empty()) {
    language::Config model = language.model({});
    model.is_headless = heads == language::Heads::kNone;
    if (!language.lora.init_from.empty()) tell_adapter(model);
    return std::nullopt;
  }
  const fs::path file = init_from / "config.json";
  const language::Config theirs = language::read_config(hugging_face::ConfigFile(file.string()), heads);
  hugging_face::check_weights(init_from.string());
  language::tell_options(say, "language.", file, theirs, language);
  tell_adapter(theirs);
  tokenizer::follow_tokenizer(say, init_from, say.is_set("tokenizer.path"));
  return theirs;
}

void import_language_model(const fs::path& folder, const Context& context, const adapters::LoraOptions& lora,
                           language::LanguageModel& model, TaskTokenizer& tokenizer) {
  tokenizer.require_path(folder);
  const language::Config theirs = language::import_model(folder.string(), model);
  language::start_from_adapter(model, lora);
  if (model.config().label && !theirs.label &&
      (lora.init_from.empty() || !heads::adapter_predicts_labels(lora.init_from.string()))) {
    if (context.run().purpose != PL_PURPOSE_TRAIN)
      fail_with(PL_ERROR_CONFIG, folder.string(),
                ": has no head for labels: train one with train.init_from, which names it");
    context.info("weights    of ", folder.string(),
                 " without its output head; the head for labels (score) is new");
  }
  const int64_t size = tokenizer->vocab_size(), more = size - theirs.vocab_size;
  for (const std::string& note : {language::note_of_vocabulary(folder.string(), size, more),
                                  hugging_face::note_of_weights(folder.string())})
    if (!note.empty()) context.info(note);
  if (const std::string warning = language::warning_of_new_tokens(model, more); !warning.empty())
    context.warn(warning);
  tokenizer::Files files =
      files::with_data_errors([&] { return tokenizer::files_of(folder, tokenizer::kLanguageModelFiles); });
  files[hugging_face::kWeightsText] = language::kept_weights(folder.string(), model);
  tokenizer.carry(folder, files);
}

void take_encoder_texts(const fs::path& folder, const Context& context, int64_t their_tokens,
                        std::string kept, TaskTokenizer& tokenizer) {
  const int64_t size = tokenizer->vocab_size();
  for (const std::string& note : {language::note_of_vocabulary(folder.string(), size, size - their_tokens),
                                  hugging_face::note_of_weights(folder.string())})
    if (!note.empty()) context.info(note);
  tokenizer::Files files =
      files::with_data_errors([&] { return tokenizer::files_of(folder, {"config.json"}); });
  files[hugging_face::kWeightsText] = std::move(kept);
  tokenizer.replace(tokenizer->with(files));
}

void require_padding(int64_t token, const TaskTokenizer& tokenizer, const ConfigErrors& errors,
                     const char* key) {
  if (token >= 0 && !tokenizer->is_special(token))
    errors(key, concat("numbers positions from behind the number of the token for padding, ", token,
                       ", which is a word of this tokenizer: name a tokenizer of its kind, or take bert"));
}

void frame_exported_texts(const fs::path& folder, const TaskTokenizer& tokenizer) {
  if (tokenizer->adds_bos()) return;
  const std::string end = tokenizer->decode(std::vector{static_cast<int32_t>(tokenizer->eot())});
  tokenizer::end_texts_with(folder.string(), end, tokenizer->eot());
  const tokenizer::Files& files = tokenizer->files();
  const auto config = files.find("tokenizer_config.json");
  if (config == files.end() || config->second.find("\"pad_token\"") == std::string::npos)
    hugging_face::set_padding(folder.string(), tokenizer->eot(), end);
}

void export_language_model(const fs::path& folder, const Context& context, const adapters::LoraOptions& lora,
                           const language::LanguageModel& model, const TaskTokenizer& tokenizer) {
  language::export_model(folder, model, lora, tokenizer->files(), tokenizer.own_tokens(),
                         [&](const std::string& note) { context.info(note); });
  tokenizer->save(folder.string());
}

void choose_padding(const fs::path& folder, const TaskTokenizer& tokenizer, std::optional<int64_t> last,
                    const Context& context) {
  const std::optional<int64_t> named = hugging_face::padding_of(folder.string());
  if (named && named != last) return;
  std::optional<int64_t> chosen;
  if (tokenizer->eot() != last) chosen = tokenizer->eot();
  for (int64_t id = tokenizer->vocab_size() - 1; !chosen && id >= 0; --id)
    if (tokenizer->is_special(id) && id != last) chosen = id;
  if (!chosen)
    return context.warn(
        "the tokenizer has no token for padding beside the one that texts end with: give "
        "transformers one text at a time");
  const std::string text = tokenizer->decode(std::vector{static_cast<int32_t>(*chosen)});
  hugging_face::set_padding(folder.string(), *chosen, text);
  if (named)
    context.info("padding    ", text, ", as texts end with the token that ", folder.string(),
                 " would have for it, which transformers then passes over");
}

void require_same_tokens(const fs::path& folder, const TaskTokenizer& tokenizer, const ConfigErrors& errors) {
  files::with_data_errors([&] {
    if (tokenizer::load_tokenizer(folder.string())->fingerprint() != tokenizer->fingerprint())
      errors("teacher.init_from",
             concat("has another tokenizer than the model: a teacher's probabilities are of its own "
                    "tokens. Name its folder as task.tokenizer.path, too, or begin with a model "
                    "that has it"));
  });
}

void add_loss_metrics(const Context& context, const language::PackedBatch& batch,
                      const language::LossDetails& details, const std::vector<size_t>& sources,
                      std::span<const int64_t> ends, const std::vector<std::string>& names) {
  const at::Tensor& losses = details.row_losses;
  if (details.terms.any())
    context.metric("cross_entropy", to_pl(losses.sum(at::kDouble)), static_cast<double>(losses.size(0)));
  std::vector<size_t> source_of;
  for (size_t s = 0; s < sources.size(); ++s)
    while (source_of.size() < batch.target_rows.size() && batch.target_rows[source_of.size()] < ends[s])
      source_of.push_back(sources[s]);
  add_source_metrics(context, losses, source_of, sources, names);
}

void add_source_metrics(const Context& context, const at::Tensor& losses, std::span<const size_t> source_of,
                        std::span<const size_t> sources, const std::vector<std::string>& names) {
  if (sources.empty()) return;
  std::vector<double> samples(names.size());
  for (const size_t source : sources) samples[source] += 1;
  std::vector<std::vector<int64_t>> rows(names.size());  // of the losses
  for (size_t row = 0; row < source_of.size(); ++row)
    rows[source_of[row]].push_back(static_cast<int64_t>(row));
  for (size_t i = 0; i < names.size(); ++i) {
    if (samples[i] > 0) context.metric("samples/" + names[i], samples[i], 0);
    if (rows[i].empty()) continue;
    const at::Tensor sum =
        losses.index_select(0, transformer::to_device(rows[i], losses.device())).sum(at::kDouble);
    context.metric("loss/" + names[i], to_pl(sum), static_cast<double>(rows[i].size()));
  }
}

std::vector<std::string> logits_columns() {
  return {"prompt", "prompt_tokens", "messages", "tokens", "likeliest", "written", "ended"};
}

std::vector<std::string> logits_row(const Said& said, const language::LanguageModel& model,
                                    generation::GenerationOptions options) {
  constexpr int64_t kLikeliest = 8, kWritten = 24;
  const auto in_words = [](const std::vector<int64_t>& numbers) {
    std::string text;
    for (const int64_t number : numbers) text += concat(text.empty() ? "" : " ", number);
    return text;
  };
  const auto count = static_cast<int64_t>(said.tokens.size());
  const std::vector<int64_t> targets(said.tokens.size(), 0);
  const language::PackedBatch batch = batch_on(model.device(), transformer::pack({said.tokens}, {targets}));
  const transformer::LikeliestTokens likeliest =
      model.likeliest_tokens(batch, options.compute, model.config().vocab_size, kLikeliest, 1);
  const at::Tensor values_here = likeliest.log_p.cpu(), ids_here = likeliest.ids.cpu();
  nlohmann::json places = nlohmann::json::array();
  for (int64_t row = 0; row < count; ++row) {
    nlohmann::json& place = places.emplace_back();
    for (int64_t i = 0; i < ids_here.size(1); ++i)
      place.push_back({ids_here[row][i].item<int64_t>(), values_here[row][i].item<double>()});
  }
  options.beams = 1;
  options.sampling = {};
  options.max_new_tokens = std::min(options.max_new_tokens, kWritten);
  std::vector<int64_t> written;
  if (!said.prompt_tokens.empty())
    written = generation::generate(model, {{.id = 0, .tokens = said.prompt_tokens}}, options).front();
  const bool ended =
      !said.prompt_tokens.empty() && static_cast<int64_t>(written.size()) < options.max_new_tokens;
  return {said.prompt,      in_words(said.prompt_tokens),
          said.messages,    in_words(said.tokens),
          places.dump(),    in_words(written),
          ended ? "1" : "0"};
}

BatchInfo info_of(const language::PackedBatch& batch, double weight, size_t samples) {
  const auto rows = static_cast<uint64_t>(batch.sequences.rows());
  return {.weight = weight, .samples = samples, .tokens = rows, .positions = rows};
}

}  // namespace pipeline::tasks::common
