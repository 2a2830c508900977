#include "plugins/tasks/summarization/task/task.hpp"

#include <algorithm>

#include "plugins/tasks/common/hugging_face/differences.hpp"
#include "plugins/tasks/common/tokenizer/tokenizer_files.hpp"
#include "plugins/tasks/summarization/rouge/lead.hpp"

namespace pipeline::summarization {
namespace {

// For the log: one line, whatever an untrained model writes.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  const size_t end = text.find_last_not_of(' ');
  return end == std::string::npos ? "(nothing)" : text.substr(0, end + 1);
}

}  // namespace

void Summarization::set_extra_state(std::string_view state) {
  kept_tokenizer_.emplace(text::parse_tokenizer_json({"the checkpoint's tokenizer", std::string(state)}));
  const std::filesystem::path& path = config().tokenizer.path;
  if (path.empty()) return;
  if (run().purpose != PL_PURPOSE_TRAIN && !std::filesystem::exists(path)) {
    context().info(path.string(), " is not there: using the tokenizer that came with the weights");
    return;
  }
  check_paths();
  uint64_t given = 0;
  try {
    given = text::ByteLevelBpe::load(path.string()).fingerprint();
  } catch (const text::Error& error) {
    config_error("tokenizer.path", error.what());
  }
  if (given != kept_tokenizer_->fingerprint())
    config_error("tokenizer.path", "is not the tokenizer that the weights were trained with, so they would read other words: give that one, or "
                 "leave the key out, and the checkpoint's own is used");
}

std::string Summarization::extra_state() { return text::format_tokenizer_json(corpus_->tokenizer().vocabulary()); }

void Summarization::check_paths() const {
  const DataConfig& data = config().data;
  const bool to_use = run().purpose != PL_PURPOSE_TRAIN && (kept_tokenizer_ || !config().tokenizer.path.empty());
  const auto check = [this](const char* key, const std::filesystem::path& path, bool may_be_folder) {
    if (path.empty()) return;
    if (!std::filesystem::exists(path))
      config_error(key, "there is no such file; a path is taken from the folder in which the program is started");
    if (!may_be_folder && std::filesystem::is_directory(path)) config_error(key, "is a folder, must be a .jsonl, .csv or .tsv file");
  };
  if (!to_use) {  // a model can be used where its training files are not
    check("data.train", data.train, false);
    check("data.val", data.val, false);
    check("data.test", data.test, false);
  }
  if (!kept_tokenizer_ || !to_use) check("tokenizer.path", config().tokenizer.path, true);
}

void Summarization::prepare() {
  check_paths();
  corpus_.emplace(config(), context(), kept_tokenizer_);
}

void Summarization::open_data() {
  if (!corpus_) corpus_.emplace(config(), context(), kept_tokenizer_);  // another process has prepared
  const text::ByteLevelBpe& tokenizer = corpus_->tokenizer();
  if (!tokenizer.has_eot()) fail_with(PL_ERROR_CONFIG, "the tokenizer has no token <|endoftext|>, which ends a summary");
  rules_ = {.max_tokens = config().sequence.max_tokens,
            .max_summary_tokens = config().sequence.max_summary_tokens,
            .end_of_text = tokenizer.eot(),
            .loss_on_all = config().sequence.loss == "all"};
  for (const int32_t id : tokenizer.encode(config().sequence.separator)) rules_.separator.push_back(id);
  if (rules_.separator.empty()) fail_with(PL_ERROR_CONFIG, "task.sequence.separator is empty: it tells the model where the document ends");
  if (static_cast<int64_t>(rules_.separator.size()) + 2 > rules_.max_tokens)
    fail_with(PL_ERROR_CONFIG, "task.sequence.separator has ", rules_.separator.size(), " tokens, and task.sequence.max_tokens is ",
              rules_.max_tokens, ": nothing of a document would fit");
  if (const std::string problem = config().writing_problem(static_cast<int64_t>(rules_.separator.size())); !problem.empty())
    fail_with(PL_ERROR_CONFIG, "task.generate.max_tokens = ", config().generate.max_tokens, ": ", problem);
  scores_.emplace(config().rouge.lead_words);
  if (run().purpose == PL_PURPOSE_EXPORT) return;
  const uint64_t train = corpus_->size(Split::kTrain);
  context().info("data       ", train, " training, ", corpus_->size(Split::kVal), " validation, ", corpus_->size(Split::kTest),
                 " test pairs; vocabulary of ", tokenizer.vocab_size(), kept_tokenizer_ ? ", as the weights have it" : "");
  for (const auto& [split, name] : {std::pair(Split::kVal, "validation"), std::pair(Split::kTest, "test")})
    if (const uint64_t all = corpus_->size(split), with = corpus_->summaries(split); with < all)
      context().info(all - with, " of the ", all, " ", name, " pairs have no summary: evaluations count the other ", with);
}

std::shared_ptr<Gpt2> Summarization::build_model() {
  model_config_ = config().model.gpt2;
  model_config_.vocab_size = corpus_->tokenizer().vocab_size();
  model_config_.bos_token_id = model_config_.eos_token_id = corpus_->tokenizer().eot();
  model_config_.check();
  parameter_infos_ = parameter_list(model_config_);
  auto model = std::make_shared<Gpt2>(model_config_);
  model->set_unit_wrapper([this, raw = model.get()](int64_t unit, const Tensors& inputs, const UnitBody& body) {
    const auto index = static_cast<uint32_t>(unit);
    if (unit == 0) return units().run_once(index, body, inputs);
    return units().run(index, body, inputs, raw->layers()[index - 1].parameters());
  });
  return model;
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
  SummarizationBatch batch{.packed = {}, .ids = {request.ids.begin(), request.ids.end()}, .split = request.split};
  std::vector<std::vector<int64_t>> tokens, targets;
  for (const uint64_t id : request.ids) {
    Sequence sequence = make_sequence(corpus_->sample(request.split, id), rules_);
    batch.target_count += static_cast<uint64_t>(
        std::count_if(sequence.targets.begin(), sequence.targets.end(), [](int64_t target) { return target >= 0; }));
    tokens.push_back(std::move(sequence.tokens));
    targets.push_back(std::move(sequence.targets));
  }
  batch.packed = pack(tokens, targets);
  require_ids(batch.packed.tokens, model_config_.vocab_size, "token");
  require_ids(batch.packed.targets, model_config_.vocab_size, "target", /*may_be_none=*/true);
  return batch;
}

BatchInfo Summarization::batch_info(const SummarizationBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.packed.sequences.rows());
  return {.weight = static_cast<double>(batch.target_count), .samples = batch.ids.size(), .tokens = rows, .positions = rows};
}

void Summarization::describe_parameter(Parameter& parameter) {
  for (const ParameterInfo& info : parameter_infos_)
    if (info.name == parameter.name) {
      parameter.unit = static_cast<uint32_t>(info.unit);
      parameter.decay = info.weight_decay;
    }
}

void Summarization::initialize_parameter(uint64_t index, const std::string& /*name*/, at::Tensor& out) {
  if (imported_) return imported_->read(index, out);
  initial_value(model_config_, context().seed("initialize"), index, out);
}

void Summarization::import_model(const std::filesystem::path& folder) {
  imported_.emplace(folder.string());
  const Gpt2Config& theirs = imported_->config();
  hugging_face::Differences differences;
  differences.compare("the tokenizer's vocabulary", model_config_.vocab_size, theirs.vocab_size);
  differences.compare("task.model.n_layer", model_config_.n_layer, theirs.n_layer);
  differences.compare("task.model.n_head", model_config_.n_head, theirs.n_head);
  differences.compare("task.model.n_embd", model_config_.n_embd, theirs.n_embd);
  differences.compare("task.model.n_inner", model_config_.inner(), theirs.inner());
  differences.compare("task.model.n_positions", model_config_.n_positions, theirs.n_positions);
  differences.compare("task.model.layer_norm_epsilon", model_config_.layer_norm_epsilon, theirs.layer_norm_epsilon);
  differences.raise(folder.string());
}

void Summarization::export_model(const std::filesystem::path& folder) {
  const auto values = model().named_parameters();
  save_hugging_face_gpt2(folder.string(), model_config_, [&](size_t index) { return values[parameter_infos_[index].name]; });
  corpus_->tokenizer().save(folder.string());
}

LossSum Summarization::train_batch(const SummarizationBatch& batch, const TrainArgs& args) {
  // The head computes its gradients in the forward pass, so it has to know the scale.
  ForwardOptions options{.training = true, .dropout_seed = args.seed, .compute = compute_dtype(), .scale = args.scale};
  if (args.gradients.takes_rows()) {
    const at::Tensor& embedding = model().token_embedding();
    options.take_head = [&](at::Tensor gradient) { deliver(embedding, std::move(gradient)); };
    options.take_rows = [&](const at::Tensor& rows, const at::Tensor& values) { deliver_rows(embedding, rows, values); };
  }
  const transformer::Loss loss = model().loss(batch.packed, options);
  loss.scaled.backward();
  units().finish_backward();
  return LossSum(loss.sum);
}

LossSum Summarization::loss(const SummarizationBatch& batch) {
  return LossSum(model().loss(batch.packed, {.compute = compute_dtype()}).sum);
}

std::string Summarization::text(const TokenView& tokens) const {
  std::vector<int32_t> ids(tokens.size());
  tokens.copy(ids.data(), 0, tokens.size());
  return corpus_->tokenizer().decode(ids);
}

std::vector<std::string> Summarization::write_summaries(Split split, const std::vector<uint64_t>& ids) {
  const GenerateConfig& generation = config().generate;
  GenerationOptions options{.max_new_tokens = generation.max_tokens,
                            .eos_token_id = rules_.end_of_text,
                            .sampling = {},
                            .beams = generation.method == "beam" ? generation.beams : 1,
                            .length_penalty = generation.length_penalty,
                            .seed = context().seed("generate", static_cast<uint64_t>(split)),
                            .compute = compute_dtype()};
  if (generation.method == "sample")
    options.sampling = {.temperature = generation.temperature, .top_k = generation.top_k, .top_p = generation.top_p};
  std::vector<Prompt> prompts;
  for (const uint64_t id : ids)
    prompts.push_back({.id = id, .tokens = make_prompt(corpus_->sample(split, id), rules_, generation.max_tokens)});
  std::vector<std::string> summaries;
  for (const std::vector<int64_t>& tokens : generate(model(), prompts, options))
    summaries.push_back(corpus_->tokenizer().decode(std::vector<int32_t>(tokens.begin(), tokens.end())));
  return summaries;
}

// Whether the sample's summary is written and scored in this evaluation: for the first ones, so that the choice is the same everywhere.
bool Summarization::is_scored(const EvaluationSink& sink, Split split, uint64_t id) const {
  if (corpus_->sample(split, id).summary.size() == 0) return false;
  if (sink.purpose() == Purpose::kValidate) return id < static_cast<uint64_t>(config().rouge.validate_samples);
  return config().rouge.evaluate_samples == 0 || id < static_cast<uint64_t>(config().rouge.evaluate_samples);
}

void Summarization::evaluate(const SummarizationBatch& batch, EvaluationSink& sink) {
  if (corpus_->summaries(batch.split) == 0)
    fail_with(PL_ERROR_CONFIG, "none of the ", corpus_->size(batch.split), " samples of this split has a summary in the column '",
              config().data.summary_column, "', so there is nothing to compare with: use `predict` to write summaries, or give "
              "task.data.summary_column the name of the column that has them");
  TorchTask::evaluate(batch, sink);
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < batch.ids.size(); ++i)
    if (is_scored(sink, batch.split, batch.ids[i]) || i < sink.samples_left()) ids.push_back(batch.ids[i]);
  if (ids.empty()) return;
  const std::vector<std::string> written = write_summaries(batch.split, ids);
  for (size_t i = 0; i < ids.size(); ++i) {
    const TokenSample sample = corpus_->sample(batch.split, ids[i]);
    const std::string document = text(sample.document), summary = text(sample.summary);
    if (is_scored(sink, batch.split, ids[i])) scores_->add(sink, document, summary, written[i]);
    sink.sample(ids[i], concat("  ", one_line(std::string(sample.id)), ": ", one_line(rouge::lead_words(document, 24)), " ...\n    real:    ", one_line(summary),
                               "\n    written: ", one_line(written[i])));
  }
}

void Summarization::predict(const SummarizationBatch& batch, const PredictionSink& sink) {
  const std::vector<std::string> written = write_summaries(batch.split, batch.ids);
  for (size_t i = 0; i < batch.ids.size(); ++i) sink.row(batch.ids[i], {written[i]});
}

std::vector<Metric> Summarization::metrics() {
  std::vector<Metric> result{{.name = "loss", .help = "cross-entropy per target token, in nats"},
                             {.name = "perplexity", .help = "exp(loss)", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN}};
  for (Metric& metric : SummaryScores::metrics()) result.push_back(std::move(metric));
  return result;
}

std::string Summarization::sample_name(Split split, uint64_t id) const { return std::string(corpus_->sample(split, id).id); }

// Of the products that are computed: 2 m n k each, and twice that again for the backward pass. The output head is computed where
// there is a target, attention on the lower triangle.
double Summarization::flops(const SummarizationBatch& batch) {
  const transformer::Ragged& sequences = batch.packed.sequences;
  const auto width = static_cast<double>(model_config_.n_embd), inner = static_cast<double>(model_config_.inner());
  double attention = 0;
  for (int64_t s = 0; s < sequences.sequences(); ++s) {
    const auto length = static_cast<double>(sequences.length(s));
    attention += 2 * length * length * width;
  }
  const double layer = 2 * static_cast<double>(sequences.rows()) * (4 * width * width + 2 * width * inner) + attention;
  const double head = 2 * static_cast<double>(batch.target_count) * width * static_cast<double>(model_config_.vocab_size);
  return 3 * (static_cast<double>(model_config_.n_layer) * layer + head);
}

}  // namespace pipeline::summarization
