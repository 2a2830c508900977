#include "plugins/tasks/summarization/task.hpp"

#include <algorithm>

#include <pipeline/numbers.hpp>

#include "files/data_errors.hpp"
#include "files/regular_file.hpp"
#include "generation/generate.hpp"
#include "hugging_face/weights.hpp"
#include "language/adapter.hpp"
#include "language/folder.hpp"
#include "plugins/scores/rouge/scorer.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::summarization {
namespace {

// For the log: one line, whatever an untrained model writes.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  const size_t end = text.find_last_not_of(' ');
  return end == std::string::npos ? "(nothing)" : text.substr(0, end + 1);
}

const std::vector<std::string>& rouge_types() {
  static const std::vector<std::string> kTypes{"rouge1", "rouge2", "rougeL", "rougeLsum"};
  return kTypes;
}

// The F measures of a written summary beside the real one; in a full evaluation the same with stemming.
void add_rouge(const EvaluationSink& sink, const std::string& prefix, std::string_view summary,
               std::string_view written) {
  static const rouge::Scorer plain(rouge_types(), false), stemmed(rouge_types(), true);
  const auto add = [&](const rouge::Scorer& scorer, const char* suffix) {
    const auto scores = scorer.score(summary, written);
    for (size_t i = 0; i < scores.size(); ++i) sink.value(prefix + rouge_types()[i] + suffix, scores[i].f, 1);
  };
  add(plain, "");
  if (sink.purpose() != Purpose::kValidate) add(stemmed, "_stem");
}

}  // namespace

void Summarization::set_extra_state(std::string_view state) {
  kept_tokenizer_ = tokenizer::tokenizer_of_checkpoint(
      state, is_set("tokenizer.path") ? config().tokenizer.path : std::filesystem::path(), context(),
      [&](const std::string& problem) { config_error("tokenizer.path", problem); });
}

std::string Summarization::extra_state() { return corpus_->tokenizer().state(); }

void Summarization::check_paths() const {
  const DataConfig& data = config().data;
  const bool to_use =
      run().purpose != PL_PURPOSE_TRAIN && (kept_tokenizer_ || !config().tokenizer.path.empty());
  const auto check = [this](const char* key, const std::filesystem::path& path) {
    if (path.empty()) return;
    if (const std::string problem = sources::problem_of(path.string()); !problem.empty())
      config_error(key, problem);
  };
  if (!to_use)  // a model can be used where its training files are not
    for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
      const sources::SplitOptions::Sources wanted = data.of(split);
      for (const std::string& named : wanted.named) check(wanted.key, named);
    }
  const std::filesystem::path& tokenizer = config().tokenizer.path;
  if ((!kept_tokenizer_ || (!to_use && is_set("tokenizer.path"))) && !tokenizer.empty() &&
      !files::path_problem(tokenizer, "file").empty())
    config_error("tokenizer.path", tokenizer::missing_tokenizer(tokenizer));
}

void Summarization::prepare() {
  check_paths();
  corpus_.emplace(config(), context(), kept_tokenizer_);
}

void Summarization::open_data() {
  if (!corpus_) corpus_.emplace(config(), context(), kept_tokenizer_);  // another process has prepared
  const tokenizer::Tokenizer& tokenizer = corpus_->tokenizer();
  if (!tokenizer.has_eot())
    fail_with(PL_ERROR_CONFIG,
              "the tokenizer names no token that ends a text (eos_token), which a summary ends with");
  rules_ = {.max_tokens = config().sequence.max_tokens,
            .max_summary_tokens = config().sequence.max_summary_tokens,
            .end_of_text = tokenizer.eot(),
            .loss_on_all = config().sequence.loss == "all"};
  if (!config().is_gpt2() && tokenizer.adds_bos()) rules_.start = {*tokenizer.bos()};
  for (const int32_t id : tokenizer.encode(config().sequence.separator)) rules_.separator.push_back(id);
  if (rules_.separator.empty())
    fail_with(PL_ERROR_CONFIG,
              "task.sequence.separator is empty: it tells the model where the document ends");
  const int64_t fixed = rules_.fixed();
  if (fixed + 2 > rules_.max_tokens)
    fail_with(PL_ERROR_CONFIG, "task.sequence.max_tokens = ", rules_.max_tokens,
              ": nothing of a document would fit: ", fixed, " tokens are the separator",
              rules_.start.empty() ? "" : " and the token of the start",
              ", and one ends the summary; at least ", fixed + 2);
  if (const std::string problem = config().writing_problem(fixed); !problem.empty())
    fail_with(PL_ERROR_CONFIG, "task.generate.max_tokens = ", config().generate.max_tokens, ": ", problem);
  ends_ = hugging_face::end_tokens(tokenizer.files(), own_tokens());
  if (run().purpose == PL_PURPOSE_EXPORT) return;
  const uint64_t train = corpus_->size(Split::kTrain);
  context().info("data       ", train, " training, ", corpus_->size(Split::kVal), " validation, ",
                 corpus_->size(Split::kTest), " test pairs; vocabulary of ", tokenizer.vocab_size(),
                 kept_tokenizer_ ? ", as the weights have it" : "");
  for (const std::string& line : corpus_->training().lines()) context().info(line);
  if (const uint64_t all = corpus_->size(Split::kTest), with = corpus_->summaries(Split::kTest);
      with < all && config().ask.prompt.empty())
    context().info(all - with, " of the ", all, " test pairs have no summary: evaluations count the other ",
                   with);
  warn_of_scripts();
}

void Summarization::warn_of_scripts() const {
  const bool trains = run().purpose == PL_PURPOSE_TRAIN;
  if (!trains && run().purpose != PL_PURPOSE_EVALUATE) return;
  for (const Split split : {Split::kVal, Split::kTest}) {
    if (trains && split == Split::kTest) continue;
    const int64_t most = trains ? config().rouge.validate_samples : config().rouge.evaluate_samples;
    uint64_t scored = corpus_->size(split), unseen = 0;
    if (trains || most > 0) scored = std::min(scored, static_cast<uint64_t>(most));
    for (uint64_t id = 0; id < scored; ++id) {
      const TokenSample sample = corpus_->sample(split, id);
      unseen += sample.summary.size() > 0 && rouge::tokenize(text(sample.summary), false).empty() ? 1 : 0;
    }
    if (unseen > 0)
      context().warn("ROUGE counts words of the letters a to z and digits alone: ", unseen, " of the ",
                     scored, split == Split::kVal ? " validation" : " test",
                     " summaries that it scores have none, and count as 0 whatever is written");
  }
}

std::shared_ptr<LanguageModel> Summarization::build_model() {
  const SummarizationConfig& options = this->config();
  const hugging_face::OwnTokens tokens = own_tokens();
  const int64_t size = corpus_->tokenizer().vocab_size();
  if (!options.is_gpt2())
    return language::make_adapted(options.language.model({size, tokens.begin, tokens.end}),
                                  options.language.lora);
  language::Config config = options.model.gpt2;
  config.vocab_size = std::max(size, options.language.vocab_size);
  config.written_tokens = config.vocab_size > size ? size : 0;
  config.bos_token_id = config.eos_token_id = tokens.end;
  return language::make_adapted(config, options.language.lora);
}

// The test data may change in a continued run, and training does not see them.
std::string Summarization::data_fingerprint() {
  if (run().purpose == PL_PURPOSE_TRAIN) return corpus_->fingerprint({Split::kTrain, Split::kVal});
  return corpus_->fingerprint({Split::kTrain, Split::kVal, Split::kTest});
}

double Summarization::sample_cost(Split split, uint64_t id) const {
  return static_cast<double>(sequence_length(corpus_->sample(split, id), rules_));
}

SummarizationBatch Summarization::make_batch(const LoadRequest& request) const {
  std::vector<std::vector<int64_t>> tokens, targets;
  for (const uint64_t id : request.ids) {
    Sequence sequence = make_sequence(corpus_->sample(request.split, id, request.epoch), rules_);
    tokens.push_back(std::move(sequence.tokens));
    targets.push_back(std::move(sequence.targets));
  }
  SummarizationBatch batch{.packed = transformer::pack(tokens, targets),
                           .ids = {request.ids.begin(), request.ids.end()},
                           .split = request.split};
  if (request.split == Split::kTrain) batch.sources = corpus_->training().sources_of(request.ids);
  batch.packed.full_length = rules_.max_tokens;
  require_ids(batch.packed.tokens, corpus_->tokenizer().vocab_size(), "token");
  require_ids(batch.packed.targets, corpus_->tokenizer().vocab_size(), "target");
  return batch;
}

BatchInfo Summarization::batch_info(const SummarizationBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.packed.sequences.rows());
  return {.weight = static_cast<double>(batch.packed.target_rows.size()),
          .samples = batch.ids.size(),
          .tokens = rows,
          .positions = rows};
}

void Summarization::import_model(const std::filesystem::path& folder) {
  if (config().tokenizer.path.empty() && !kept_tokenizer_)
    config_error("tokenizer.path",
                 concat("must be given with weights of ", folder.string(),
                        ", which know no tokens of a tokenizer that is trained here: name the "
                        "folder's own"));
  language::OptionNames names;
  if (config().is_gpt2()) names = {.table = "task.model.", .as_in_folder = true};
  const language::Config theirs = language::import_model(folder.string(), model(), names);
  language::start_from_adapter(model(), config().language.lora);
  const int64_t size = corpus_->tokenizer().vocab_size();
  if (const std::string note = language::note_of_vocabulary(folder.string(), size, size - theirs.vocab_size);
      !note.empty())
    context().info(note);
  if (const std::string note = hugging_face::note_of_weights(folder.string()); !note.empty())
    context().info(note);
  if (const auto warning = language::warning_of_new_tokens(model(), size - theirs.vocab_size);
      !warning.empty())
    context().warn(warning);
  hugging_face::OwnTokens own = own_tokens();
  if (!tokenizer::is_of_folder(corpus_->tokenizer().files(), folder))
    own.is_own = [&](int64_t id) { return corpus_->tokenizer().is_special(id); };
  tokenizer::Files files =
      files::with_data_errors([&] { return tokenizer::files_of(folder, tokenizer::kLanguageModelFiles); });
  files[tokenizer::kWeightsText] = language::kept_weights(folder.string(), model());
  for (const std::string& line : hugging_face::unknown_tokens(files, own, folder.string()))
    context().warn(line);
  corpus_->carry(hugging_face::without_unknown(files, own, folder.string()));
  ends_ = hugging_face::end_tokens(corpus_->tokenizer().files(), own_tokens());
}

hugging_face::OwnTokens Summarization::own_tokens() const {
  // A GPT-2 begins a text as it ends one.
  const std::optional<int32_t> begin = config().is_gpt2() ? std::nullopt : corpus_->tokenizer().bos();
  return {begin.value_or(rules_.end_of_text), rules_.end_of_text,
          [this](int64_t id) { return id >= 0 && id < corpus_->tokenizer().vocab_size(); }};
}

void Summarization::export_model(const std::filesystem::path& folder) {
  const tokenizer::Tokenizer& tokenizer = corpus_->tokenizer();
  language::export_model(folder, model(), config().language.lora, tokenizer.files(), own_tokens(),
                         [this](const std::string& note) { context().info(note); });
  tokenizer.save(folder.string());
}

std::string Summarization::text(const TokenView& tokens) const {
  std::vector<int32_t> ids(tokens.size());
  tokens.copy(ids.data(), 0, tokens.size());
  return corpus_->tokenizer().decode(ids);
}

std::vector<std::string> Summarization::write_summaries(Split split, Purpose purpose,
                                                        const std::vector<uint64_t>& ids) {
  const GenerateConfig& wanted = config().generate;
  auto options =
      wanted.decoding(ends_, context().seed("generate", static_cast<uint64_t>(split)), pass().compute);
  options.on_nan = [&](size_t i) {  // between steps the run sees by its loss that it has diverged
    if (purpose != Purpose::kValidate)
      fail_as_nan(one_line(std::string(corpus_->sample(split, ids[i]).id)), "summary");
  };
  options.on_step = [this] { context().throw_if_cancelled(); };
  std::vector<generation::Prompt> prompts;
  for (const uint64_t id : ids)
    prompts.push_back(
        {.id = id, .tokens = make_prompt(corpus_->sample(split, id), rules_, wanted.max_tokens)});
  std::vector<std::string> summaries;
  for (const std::vector<int64_t>& tokens : generation::generate(model(), prompts, options))
    summaries.push_back(corpus_->tokenizer().decode(std::vector<int32_t>(tokens.begin(), tokens.end())));
  return summaries;
}

// Whether the sample's summary is written and scored in this evaluation.
bool Summarization::is_scored(const EvaluationSink& sink, Split split, uint64_t id) const {
  return corpus_->sample(split, id).summary.size() > 0 && config().rouge.includes(sink.purpose(), id);
}

void Summarization::evaluate(const SummarizationBatch& batch, EvaluationSink& sink) {
  if (corpus_->summaries(batch.split) == 0)
    fail_with(PL_ERROR_CONFIG, "none of the ", corpus_->size(batch.split),
              " samples of this split has a summary in the column '", config().data.summary_column,
              "', so there is nothing to compare with: use `predict` to write summaries, or give "
              "task.data.summary_column the name of the column that has them");
  TorchTask::evaluate(batch, sink);
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < batch.ids.size(); ++i)
    if (is_scored(sink, batch.split, batch.ids[i]) || i < sink.samples_left()) ids.push_back(batch.ids[i]);
  if (ids.empty()) return;
  const std::vector<std::string> written = write_summaries(batch.split, sink.purpose(), ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    const TokenSample sample = corpus_->sample(batch.split, ids[i]);
    const std::string document = text(sample.document), summary = text(sample.summary);
    if (is_scored(sink, batch.split, ids[i])) {
      const auto lead_words = static_cast<size_t>(config().rouge.lead_words);
      add_rouge(sink, "", summary, written[i]);
      add_rouge(sink, "lead_", summary, rouge::lead_words(document, lead_words));  // the baseline
    }
    sink.sample(ids[i], concat("  ", one_line(std::string(sample.id)), ": ",
                               one_line(rouge::lead_words(document, 24)), " ...\n    real:    ",
                               one_line(summary), "\n    written: ", one_line(written[i])));
  }
}

void Summarization::predict(const SummarizationBatch& batch, const PredictionSink& sink) {
  const std::vector<std::string> written = write_summaries(batch.split, Purpose::kPredict, batch.ids);
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    sink.row(batch.ids[i], {written[i]});
    if (!config().ask.prompt.empty()) context().info(written[i]);
  }
}

std::vector<Metric> Summarization::metrics() {
  std::vector<Metric> result{
      {.name = "loss", .help = "cross-entropy per target token, in nats"},
      {.name = "perplexity", .help = "exp(loss)", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN}};
  for (const std::string prefix : {"", "lead_"})
    for (const std::string suffix : {"", "_stem"})
      for (const std::string& type : rouge_types())
        result.push_back({.name = prefix + type + suffix,
                          .help = type + " F" + (suffix.empty() ? "" : " with stemming") +
                                  (prefix.empty() ? "" : " of the document's first words"),
                          .better = PL_BETTER_HIGHER});
  return result;
}

std::string Summarization::sample_name(Split split, uint64_t id) const {
  return std::string(corpus_->sample(split, id).id);
}

}  // namespace pipeline::tasks::summarization

PIPELINE_TASK(pipeline::tasks::summarization::Summarization, "summarization", "1.0.0",
              "A language model learns to summarize pairs of document and summary. Weight decay: matrices "
              "and embeddings; not biases and norms")
