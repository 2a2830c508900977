#include "plugins/tasks/preference/task.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "plugins/data/files/hash128.hpp"
#include "plugins/scores/intervals/interval.hpp"

namespace pipeline::tasks::preference {
namespace {

constexpr const char* kReference = "reference.";  // what its parameters' names begin with

// For each row with a target, the sequence that it is of: (T) int64.
at::Tensor owners_of(const language::PackedBatch& batch) {
  std::vector<int64_t> owners;
  int64_t sequence = 0;
  for (const int64_t row : batch.target_rows) {
    while (row >= batch.sequences.start(sequence + 1)) ++sequence;
    owners.push_back(sequence);
  }
  return at::tensor(owners, at::kLong);
}

// Sums over the rows of each answer, (answers) float64.
at::Tensor sums(const at::Tensor& of_rows, const Answers& answers) {
  return at::zeros({answers.packed.sequences.sequences()}, of_rows.options().dtype(at::kDouble))
      .index_add(0, answers.owners, of_rows.to(at::kDouble));
}

// Of answers that come in pairs: the chosen ones and the rejected ones.
LogProbabilities in_pairs(const at::Tensor& answers) {
  if (!answers.defined()) return {};
  const at::Tensor all = answers.view({-1, 2});
  return {all.select(1, 0), all.select(1, 1)};
}

}  // namespace

std::shared_ptr<language::LanguageModel> Preference::build_model() {
  auto model = TextTask::build_model();
  if (!config().has_second_model()) return model;
  ParameterRegistry& registry = model->parameters();
  const size_t first = registry.size();
  second_ = language::make_frozen(*model, model->config(), kReference, /*is_droppable=*/false);
  // A run that goes on has the values, and does not need the folder.
  const std::filesystem::path& folder = config().preference.reference;
  std::error_code ignored;
  if (!folder.empty() && std::filesystem::is_directory(folder, ignored)) {
    language::import_model(folder.string(), *second_);
    return model;
  }
  const auto refuse = [this, folder](at::Tensor& /*out*/, uint64_t /*seed*/) {
    if (!folder.empty()) config_error("preference.reference", concat("there is no folder ", folder.string()));
    config_error(
        "preference.reference",
        concat("is needed, the folder of the reference model: loss \"", config().preference.loss,
               "\" compares with it, and train.init_from names no folder of Hugging Face's; `pipeline "
               "export` makes one of a run; or train LoRA, whose reference is the model without it"));
  };
  for (size_t i = first; i < registry.size(); ++i) registry.start_from(i, refuse);
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
  return conversation::texts_of(
      corpus(), config().data,
      [this](const sources::SourceFiles& files) {
        return chosen_source(files, config().data, is_unpaired());
      },
      run(), config().tokenizer.vocab_size, errors());
}

std::string Preference::asked_sample() const {
  const Conversation asked{
      .id = "prompt", .images = {}, .turns = {{.role = "user", .text = config().ask.prompt}}};
  if (const std::string problem = conversation::problem_of(asked, false); !problem.empty())
    config_error("ask.prompt", problem);
  return recipe().asked_sample(asked);
}

std::optional<int64_t> Preference::last_token() const {
  const Conversation any{.id = "any",
                         .images = {},
                         .turns = {{.role = "user", .text = "a"}, {.role = "assistant", .text = "b"}}};
  return recipe().scored(conversation::tokens_of(any, *format_).tokens).back();
}

PreferenceBatch Preference::make_batch(const LoadRequest& request) const {
  PreferenceBatch batch = TextTask::make_batch(request);
  batch.owners = owners_of(batch.packed);
  if (!is_unpaired() || is_asked()) return batch;
  // The answer is that of a sample half the data away, which is to another question, whatever the order.
  const uint64_t size = corpus().size(request.split);
  std::vector<std::vector<int64_t>> tokens, targets;
  for (const uint64_t id : request.ids) {
    const TokenSample own = corpus().sample(request.split, id, request.epoch);
    batch.wanted.push_back(is_wanted(own) ? 1 : 0);
    text::Sequence one = crossed(
        sequences_of(own)[0],
        sequences_of(corpus().sample(request.split, (id + size / 2) % size, request.epoch))[0], max_tokens());
    tokens.push_back(std::move(one.tokens));
    targets.push_back(std::move(one.targets));
  }
  batch.crossed = transformer::pack(tokens, targets);
  batch.crossed_owners = owners_of(batch.crossed);
  batch.is_wanted = at::tensor(batch.wanted, at::kDouble);
  return batch;
}

BatchInfo Preference::batch_info(const PreferenceBatch& batch) const {
  return common::info_of(batch.packed, static_cast<double>(batch.ids.size()), batch.ids.size());
}

at::Tensor Preference::reference_of(const Answers& answers) {
  const at::NoGradGuard no_grad;
  const ForwardPass pass{.compute = this->pass().compute, .units = this->pass().units};
  return by_reference([&](const language::LanguageModel& reference) {
    return sums(-reference.row_losses(answers.packed, pass), answers);
  });
}

at::Tensor Preference::crossed_ratios(const PreferenceBatch& batch) {
  const at::NoGradGuard no_grad;
  const Answers answers{batch.crossed, batch.crossed_owners};
  const at::Tensor reference = reference_of(answers),
                   own = sums(-model().row_losses(answers.packed, pass()), answers);
  return (own - reference).to(at::kFloat).unsqueeze(1);
}

pl_tensor Preference::make_room(uint64_t rows) {
  room_ = at::empty({static_cast<int64_t>(rows), is_unpaired() ? 1 : 0},
                    at::TensorOptions(device()).dtype(at::kFloat));
  return to_pl(room_);
}

void Preference::write_outputs(const PreferenceBatch& batch, const OutputsArgs& args) {
  without_backward(batch, args.seed, [&](const PreferenceBatch& there) {
    const at::Tensor own = crossed_ratios(there);
    room_.narrow(0, static_cast<int64_t>(args.first_row), own.size(0)).copy_(own);
  });
}

// Over all samples of the step, so that it is the same in any micro-batches. An evaluation has none, and
// takes 0.
at::Tensor Preference::reference_point(const PreferenceBatch& batch) {
  if (!is_training()) return at::zeros({}, at::TensorOptions(device()).dtype(at::kDouble));
  return (is_whole_step_ ? crossed_ratios(batch) : room_).to(at::kDouble).mean().clamp_min(0);
}

Preference::Scores Preference::scores(const PreferenceBatch& batch) {
  const Answers answers{batch.packed, batch.owners};
  const PreferenceOptions& wanted = config().preference;
  Scores found;
  if (wanted.has_reference()) found.reference = reference_of(answers);
  if (is_reward()) {
    found.model = model()
                      .with_labels(batch.packed, pass(), [](const at::Tensor& outputs) { return outputs; })
                      .view({-1})
                      .to(at::kDouble);
    found.losses = pair_losses(wanted, in_pairs(found.model), {}, {});
    found.rewards = found.model.detach();
    return found;
  }
  const at::Tensor point = is_unpaired() ? reference_point(batch) : at::Tensor();
  const at::Tensor rows = model().row_losses(batch.packed, pass());
  found.model = sums(-rows, answers);
  found.lengths = sums(at::ones_like(rows), answers);
  found.losses = is_unpaired() ? kto_losses(wanted, found.model - found.reference, point, batch.is_wanted)
                               : pair_losses(wanted, in_pairs(found.model), in_pairs(found.reference),
                                             in_pairs(found.lengths));
  const at::NoGradGuard no_grad;
  found.rewards = rewards(wanted, found.model, found.reference, found.lengths);
  return found;
}

std::vector<Preference::Figure> Preference::figures(const PreferenceBatch& batch, const Scores& found) const {
  const at::NoGradGuard no_grad;
  const std::vector<double> all(batch.ids.size(), 1);
  if (!is_unpaired()) {
    const LogProbabilities reward = in_pairs(found.rewards), logp = in_pairs(found.model.detach());
    const at::Tensor margin = reward.chosen - reward.rejected;
    std::vector<Figure> figures{{"accuracy", margin.gt(0).to(at::kDouble), all},
                                {"margin", margin, all},
                                {"reward_chosen", reward.chosen, all},
                                {"reward_rejected", reward.rejected, all},
                                {"logp_chosen", logp.chosen, all},
                                {"logp_rejected", logp.rejected, all}};
    if (is_reward()) figures.resize(4);  // no log-probabilities
    return figures;
  }
  std::vector<double> unwanted;
  for (const double wanted : batch.wanted) unwanted.push_back(1 - wanted);
  const at::Tensor &yes = batch.is_wanted, no = 1 - yes, logp = found.model.detach();
  return {{"accuracy", found.rewards.gt(0).eq(yes.gt(0)).to(at::kDouble), all},
          {"reward_chosen", found.rewards * yes, batch.wanted},
          {"reward_rejected", found.rewards * no, unwanted},
          {"logp_chosen", logp * yes, batch.wanted},
          {"logp_rejected", logp * no, unwanted}};
}

LossSum Preference::train_batch(const PreferenceBatch& batch, const TrainArgs& args) {
  is_first_step_ = args.step == 0;
  is_whole_step_ = args.outputs == nullptr;
  return TextTask::train_batch(batch, args);
}

// LoRA adds nothing at first, unless it comes from another run. Then the model without it is not what this
// one begins with.
void Preference::warn_of_other_start(const Scores& found) const {
  const language::LanguageOptions& model = config().language;
  if (!is_first_step_ || second_ || !found.reference.defined() || model.residual_dropout > 0 ||
      model.attention_dropout > 0 || model.embedding_dropout > 0)
    return;
  const at::Tensor apart = (found.model - found.reference).abs() / (1 + found.reference.abs());
  if (constexpr double kRounding = 1e-3; apart.max().item<double>() > kRounding)
    context().warn(
        "the reference is not what training begins with: the weights have a LoRA that has learnt already, "
        "and the reference is the model without it. To compare with the start, `pipeline export` that run "
        "with task.language.lora.merge = true, and begin with the folder; or name it as "
        "task.preference.reference");
}

LossSum Preference::loss(const PreferenceBatch& batch) {
  const Scores found = scores(batch);
  const at::Tensor sum = found.losses.sum();
  const at::NoGradGuard no_grad;
  warn_of_other_start(found);
  for (const Figure& one : figures(batch, found))
    if (one.weight() > 0) context().metric(one.name, to_pl(one.values.sum()), one.weight());
  common::add_source_metrics(context(), found.losses.detach(), batch.sources, batch.sources, source_names());
  return LossSum(sum);
}

// A reference takes one pass forward, and KTO's point one of both models.
double Preference::flops(const PreferenceBatch& batch) {
  return TextTask::flops(batch) * (is_unpaired() ? 2 : config().preference.has_reference() ? 4.0 / 3 : 1);
}

std::vector<Metric> Preference::metrics() {
  std::vector<Metric> all{
      {.name = "loss", .help = "mean loss"},
      {.name = "accuracy",
       .help = is_unpaired()
                   ? "share of answers whose reward is above 0 where they are wanted, and not otherwise"
                   : "share of pairs whose chosen answer has the higher reward",
       .better = PL_BETTER_HIGHER}};
  if (!is_unpaired())
    all.push_back({.name = "margin", .help = "by how much its reward is higher", .better = PL_BETTER_HIGHER});
  all.push_back(
      {.name = "reward_chosen", .help = "mean reward of the chosen answers", .better = PL_BETTER_HIGHER});
  all.push_back({.name = "reward_rejected", .help = "that of the rejected answers"});
  if (is_reward()) return all;
  all.push_back({.name = "logp_chosen",
                 .help = "mean log-probability of the chosen answers",
                 .better = PL_BETTER_HIGHER});
  all.push_back({.name = "logp_rejected", .help = "that of the rejected answers"});
  return all;
}

void Preference::evaluate(const PreferenceBatch& batch, EvaluationSink& sink) {
  const Scores found = scores(batch);
  sink.value("loss", found.losses.sum().item<double>(), static_cast<double>(batch.ids.size()));
  std::vector<std::string> groups;  // answers to the same question are alike
  if (sink.purpose() == Purpose::kEvaluate)
    for (const uint64_t id : batch.ids)
      groups.push_back(
          files::hash128(conversation::first_question(conversation_of(corpus().sample(batch.split, id))))
              .hex());
  for (const Figure& one : figures(batch, found)) {
    const at::Tensor values = one.values.cpu().contiguous();
    if (one.weight() > 0) sink.value(one.name, values.sum().item<double>(), one.weight());
    for (size_t i = 0; i < groups.size(); ++i)
      if (one.weights[i] > 0)
        sink.value_of(groups[i], one.name, values.const_data_ptr<double>()[i], one.weights[i]);
  }
  if (!is_reward()) return evaluate_answers(batch, sink);
  const at::Tensor rewards = found.rewards.cpu();
  for (size_t i = 0; i < batch.ids.size() && sink.samples_left() > 0; ++i)
    sink.sample(batch.ids[i], scored_text(batch, i, rewards));
}

std::string Preference::scored_text(const PreferenceBatch& batch, size_t i, const at::Tensor& rewards) const {
  const TokenSample sample = corpus().sample(batch.split, batch.ids[i]);
  const Conversation chosen = conversation_of(sample);
  const auto answer = [&](const char* which, const Conversation& one, size_t row) {
    return concat("\n    ", which, rewards.const_data_ptr<double>()[row], "  ",
                  common::one_line(one.turns.back().text, longest_line()));
  };
  return concat("  ", common::one_line(conversation::question_text(chosen), longest_line()),
                answer("chosen:   ", chosen, 2 * i), answer("rejected: ", rejected_of(sample), 2 * i + 1));
}

std::vector<Answered> Preference::answer(Split split, Purpose purpose, const std::vector<uint64_t>& ids) {
  std::vector<Answered> all = TextTask::answer(split, purpose, ids);
  if (purpose == Purpose::kPredict || !config().preference.has_reference()) return all;
  std::vector<Answered> theirs = by_reference(
      [&](const language::LanguageModel& reference) { return answer_by(reference, split, purpose, ids); });
  for (size_t i = 0; i < all.size(); ++i) all[i].reference = std::move(theirs[i].answer);
  return all;
}

void Preference::score(const Answered& one, EvaluationSink& sink) const {
  const TokenSample sample = corpus().sample(one.split, one.id);
  answers::ShownAnswer shown{.id = one.question.name,
                             .pictures = {},
                             .texts = {{"question", one.question.text}, {"model", one.answer}}};
  if (one.reference) shown.texts.emplace_back("reference", *one.reference);
  const char* const given = !is_unpaired() ? "chosen" : is_wanted(sample) ? "wanted" : "not wanted";
  shown.texts.emplace_back(given, one.question.truth);
  if (!is_unpaired()) shown.texts.emplace_back("rejected", rejected_of(sample).turns.back().text);
  answers::show(one.id, shown, sink);
}

// 95% intervals over the questions, and the page.
void Preference::report(const Report& report, const ReportSink& sink) {
  answers::report_shown(report, "Answers beside the preferred ones", sink);
  std::map<std::string, std::vector<intervals::ClusterSum>> parts;
  for (const EvaluationValue& value : report.values)
    if (!value.group.empty()) parts[std::string(value.name)].push_back({value.sum, value.weight});
  for (const auto& [name, of] : parts) {
    auto interval = intervals::interval_of_mean(of);
    if (!interval) continue;
    if (name == "accuracy") interval = {std::max(interval->low, 0.0), std::min(interval->high, 1.0)};
    const uint32_t better = name.ends_with("_rejected") ? PL_BETTER_LOWER : PL_BETTER_HIGHER;
    sink.figure(name + "_low", interval->low, better);
    sink.figure(name + "_high", interval->high, better);
  }
}

std::vector<std::string> Preference::prediction_columns() {
  if (is_asked()) return {"question", "answer"};
  if (is_unpaired()) return {"question", "answer", "wanted", "logp", "reward"};
  if (is_reward()) return {"question", "chosen", "rejected", "reward_chosen", "reward_rejected"};
  return {"question",      "chosen",        "rejected",       "logp_chosen",
          "logp_rejected", "reward_chosen", "reward_rejected"};
}

void Preference::predict(const PreferenceBatch& batch, const PredictionSink& sink) {
  if (is_asked()) return TextTask::predict(batch, sink);
  const Scores found = scores(batch);
  const at::Tensor logp = found.model.cpu(), reward = found.rewards.cpu();
  const size_t each = is_unpaired() ? 1 : 2;  // answers
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const TokenSample sample = corpus().sample(batch.split, batch.ids[i]);
    const Conversation first = conversation_of(sample);
    std::vector<std::string> row{
        conversation::question_text(first), first.turns.back().text,
        is_unpaired() ? concat(is_wanted(sample)) : rejected_of(sample).turns.back().text};
    for (const at::Tensor& values : is_reward() ? std::vector{reward} : std::vector{logp, reward})
      for (size_t of = 0; of < each; ++of)
        row.push_back(concat(values.const_data_ptr<double>()[each * i + of]));
    sink.row(batch.ids[i], row);
  }
}

text::Question Preference::question(const TokenSample& sample) const {
  return conversation::last_question(conversation_of(sample), *format_, config().chat.max_tokens,
                                     config().generate.max_tokens, longest_line());
}

}  // namespace pipeline::tasks::preference

PIPELINE_TASK(
    pipeline::tasks::preference::Preference, "preference", "1.0.0",
    "A language model learns which of two answers is preferred: DPO, IPO, KTO, CPO, SimPO, ORPO, rewards. "
    "Weight decay: matrices and embeddings; not biases and norms")
