#include "plugins/tasks/preference/task.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

namespace pipeline::tasks::preference {
namespace {

constexpr const char* kReference = "reference.";  // what its parameters' names begin with

// Sums over the rows of each answer: of a pair the chosen one's, then the rejected one's.
LogProbabilities sums(const at::Tensor& of_rows, const at::Tensor& owners, int64_t pairs) {
  const at::Tensor all = at::zeros({2 * pairs}, of_rows.options().dtype(at::kDouble))
                             .index_add(0, owners, of_rows.to(at::kDouble))
                             .view({pairs, 2});
  return {all.select(1, 0), all.select(1, 1)};
}

// For each row with a target, the sequence that it is of.
std::vector<int64_t> owners_of(const language::PackedBatch& batch) {
  std::vector<int64_t> owners;
  int64_t sequence = 0;
  for (const int64_t row : batch.target_rows) {
    while (row >= batch.sequences.start(sequence + 1)) ++sequence;
    owners.push_back(sequence);
  }
  return owners;
}

struct Figure {
  const char *name, *help;
  uint32_t better;
};
constexpr std::array kFigures{
    Figure{"accuracy", "share of pairs whose chosen answer has the higher reward", PL_BETTER_HIGHER},
    Figure{"margin", "by how much its reward is higher", PL_BETTER_HIGHER},
    Figure{"reward_chosen", "beta x what the model gives the chosen answer more than the reference",
           PL_BETTER_HIGHER},
    Figure{"reward_rejected", "the same of the rejected answer", PL_BETTER_LOWER},
    Figure{"logp_chosen", "log-probability of the chosen answer", PL_BETTER_HIGHER},
    Figure{"logp_rejected", "log-probability of the rejected answer", PL_BETTER_LOWER}};

}  // namespace

std::shared_ptr<language::LanguageModel> Preference::build_model() {
  auto model = TextTask::build_model();
  if (!config().has_second_model()) return model;
  ParameterRegistry& registry = model->parameters();
  const size_t first = registry.size();
  registry.set_rule([](Parameter& parameter) {
    parameter.trainable = false;
    parameter.is_new = true;
  });
  second_ = std::make_unique<language::LanguageModel>(
      model->config(),
      language::ParameterPlace{.registry = model->place().registry,
                               .prefix = kReference,
                               .first_unit = static_cast<uint32_t>(model->layer_count() + 1)});
  registry.set_rule(nullptr);
  const auto refuse = [this](at::Tensor& /*out*/, uint64_t /*seed*/) {
    config_error(
        "preference.reference",
        concat(
            "is needed, the folder of the reference model: loss \"", config().preference.loss,
            "\" compares with it, and train.init_from names no folder of Hugging Face's; `pipeline export` "
            "makes one of a run; or train LoRA, whose reference is the model without it"));
  };
  for (size_t i = first; i < registry.size(); ++i) registry.start_from(i, refuse);
  if (const std::string folder = config().preference.reference.string(); !folder.empty())
    language::import_model(folder, *second_);
  return model;
}

void Preference::import_model(const std::filesystem::path& folder) {
  TextTask::import_model(folder);
  if (second_ && config().preference.reference.empty()) language::import_model(folder.string(), *second_);
}

void Preference::open_tokenizer() {
  format_ = conversation::open_format(config().chat, !config().tokenizer.path.empty(), context(), tokenizer(),
                                      errors());
}

tokenizer::TrainingTexts Preference::training_texts() const {
  auto texts = conversation::texts_of(
      corpus(), config().data,
      [this](const sources::SourceFiles& files) { return chosen_source(files, config().data); }, run(),
      config().tokenizer.vocab_size);
  if (!texts) config_error("data.train", "is needed to train a tokenizer on");
  return std::move(*texts);
}

std::string Preference::asked_sample() const {
  const Conversation asked{
      .id = "prompt", .images = {}, .turns = {{.role = "user", .text = config().ask.prompt}}};
  if (const std::string problem = conversation::problem_of(asked, false); !problem.empty())
    config_error("ask.prompt", problem);
  return recipe().asked_sample(asked);
}

BatchInfo Preference::batch_info(const text::TextBatch& batch) const {
  return common::info_of(batch.packed, static_cast<double>(batch.ids.size()), batch.ids.size());
}

Preference::Scores Preference::scores(const text::TextBatch& batch) {
  const auto pairs = static_cast<int64_t>(batch.ids.size());
  const at::Tensor owners = transformer::to_device(owners_of(batch.packed), batch.packed.targets.device());
  const PreferenceOptions& wanted = config().preference;
  Scores result;
  if (wanted.has_reference()) {
    const at::NoGradGuard no_grad;
    const ForwardPass pass{.compute = this->pass().compute, .units = this->pass().units};
    const at::Tensor rows = second_ ? second_->row_losses(batch.packed, pass)
                                    : model().row_losses(batch.packed, pass, /*without_adapters=*/true);
    result.reference = sums(-rows, owners, pairs);
  }
  const at::Tensor rows = model().row_losses(batch.packed, pass());
  result.model = sums(-rows, owners, pairs);
  result.lengths = sums(at::ones_like(rows), owners, pairs);
  result.losses = pair_losses(wanted, result.model, result.reference, result.lengths);
  const at::NoGradGuard no_grad;
  result.rewards = rewards(wanted, result.model, result.reference, result.lengths);
  return result;
}

LossSum Preference::train_batch(const text::TextBatch& batch, const TrainArgs& args) {
  is_first_step_ = args.step == 0;
  return TextTask::train_batch(batch, args);
}

// LoRA adds nothing at first, unless it comes from another run. Then the model without it is not what this
// one begins with.
void Preference::require_start_is_reference(const Scores& found) const {
  const language::LanguageOptions& model = config().language;
  if (!is_first_step_ || second_ || !found.reference.chosen.defined() || model.residual_dropout > 0 ||
      model.attention_dropout > 0 || model.embedding_dropout > 0)
    return;
  const at::Tensor apart =
      (found.model.chosen - found.reference.chosen).abs() / (1 + found.reference.chosen.abs());
  if (constexpr double kRounding = 1e-3; apart.max().item<double>() > kRounding)
    config_error(
        "preference.reference",
        "is needed: the weights that training begins with have a LoRA that has learnt already, so the model "
        "without it is no reference: `pipeline export` that run with task.language.lora.merge = true, and "
        "begin "
        "with the folder");
}

// The mean loss of each source's pairs.
void Preference::tell_sources(const text::TextBatch& batch, const at::Tensor& losses) const {
  if (batch.sources.empty()) return;
  const std::vector<std::string> names = source_names();
  std::vector<std::vector<int64_t>> pairs(names.size());
  for (size_t i = 0; i < batch.sources.size(); ++i)
    pairs[batch.sources[i]].push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < names.size(); ++i) {
    if (pairs[i].empty()) continue;
    const auto count = static_cast<double>(pairs[i].size());
    context().metric("samples/" + names[i], count, 0);
    const at::Tensor sum = losses.index_select(0, transformer::to_device(pairs[i], losses.device())).sum();
    context().metric("loss/" + names[i], to_pl(sum), count);
  }
}

LossSum Preference::loss(const text::TextBatch& batch) {
  const Scores found = scores(batch);
  const at::Tensor sum = found.losses.sum();
  const at::NoGradGuard no_grad;
  require_start_is_reference(found);
  const auto weight = static_cast<double>(batch.ids.size());
  const auto tell = [&](const char* name, const at::Tensor& values) {
    context().metric(name, to_pl(values.sum()), weight);
  };
  const at::Tensor margin = found.rewards.chosen - found.rewards.rejected;
  tell("accuracy", margin.gt(0).to(at::kDouble));
  tell("margin", margin);
  tell("reward_chosen", found.rewards.chosen);
  tell("reward_rejected", found.rewards.rejected);
  tell("logp_chosen", found.model.chosen.detach());
  tell("logp_rejected", found.model.rejected.detach());
  tell_sources(batch, found.losses.detach());
  return LossSum(sum);
}

// A reference takes one pass forward.
double Preference::flops(const text::TextBatch& batch) {
  return TextTask::flops(batch) * (config().preference.has_reference() ? 4.0 / 3 : 1);
}

std::vector<Metric> Preference::metrics() {
  std::vector<Metric> all{{.name = "loss", .help = "mean loss of the pairs"}};
  for (const Figure& figure : kFigures)
    all.push_back({.name = figure.name, .help = figure.help, .better = figure.better});
  return all;
}

void Preference::evaluate(const text::TextBatch& batch, EvaluationSink& sink) {
  const Scores found = scores(batch);
  const auto weight = static_cast<double>(batch.ids.size());
  const at::Tensor margin = found.rewards.chosen - found.rewards.rejected;
  sink.value("loss", found.losses.sum().item<double>(), weight);
  const std::array<at::Tensor, kFigures.size()> values{margin.gt(0).to(at::kDouble), margin,
                                                       found.rewards.chosen,         found.rewards.rejected,
                                                       found.model.chosen,           found.model.rejected};
  for (size_t i = 0; i < values.size(); ++i)
    sink.value(kFigures[i].name, values[i].sum().item<double>(), weight);
  evaluate_answers(batch, sink);
}

std::vector<std::string> Preference::prediction_columns() {
  if (is_asked()) return {"question", "answer"};
  return {"question",      "chosen",        "rejected",       "logp_chosen",
          "logp_rejected", "reward_chosen", "reward_rejected"};
}

std::vector<std::string> Preference::row(const Answered& one) const {
  return {one.question.text, one.answer};
}

void Preference::predict(const text::TextBatch& batch, const PredictionSink& sink) {
  if (is_asked()) return TextTask::predict(batch, sink);
  const Scores found = scores(batch);
  std::array<at::Tensor, 4> columns{found.model.chosen, found.model.rejected, found.rewards.chosen,
                                    found.rewards.rejected};
  for (at::Tensor& column : columns) column = column.cpu().contiguous();
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const TokenSample sample = corpus().sample(batch.split, batch.ids[i]);
    std::vector<std::string> row{question(sample).text, chosen_of(sample).turns.back().text,
                                 rejected_of(sample).turns.back().text};
    for (const at::Tensor& column : columns) row.push_back(concat(column.const_data_ptr<double>()[i]));
    sink.row(batch.ids[i], row);
  }
}

text::Question Preference::question(const TokenSample& sample) const {
  const Conversation conversation = chosen_of(sample);
  const size_t turn = conversation::answered_turn(conversation);
  text::Question question{
      .name = conversation.id,
      .text = conversation.turns[turn > 0 ? turn - 1 : 0].text,
      .shown = {},
      .truth = turn < conversation.turns.size() ? conversation.turns[turn].text : "",
      .prompt = conversation::make_prompt(conversation, turn, *format_, config().chat.max_tokens,
                                          config().generate.max_tokens)};
  question.shown = common::one_line(question.text, longest_line());
  if (question.prompt.empty())
    fail_with(PL_ERROR_CONFIG, "pair ", common::one_line(conversation.id, longest_line()),
              ": its question does not fit beside an answer of ", config().generate.max_tokens,
              " tokens: raise task.chat.max_tokens (", config().chat.max_tokens, ") or shorten it");
  return question;
}

}  // namespace pipeline::tasks::preference

PIPELINE_TASK(
    pipeline::tasks::preference::Preference, "preference", "1.0.0",
    "A language model learns which of two answers is preferred: DPO, IPO, CPO, SimPO, ORPO. Weight decay: "
    "matrices and embeddings; not biases and norms")
