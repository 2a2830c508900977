#include "plugins/tasks/labels/task.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <nlohmann/json.hpp>

#include "files/data_errors.hpp"
#include "plugins/data/files/hash128.hpp"
#include "transformer/gemm.hpp"

namespace pipeline::tasks::labels {
namespace {

constexpr std::string_view kState = "labels/1\n";

}  // namespace

std::string Labels::extra_state() {
  std::string state(kState);
  files::put_text(state, nlohmann::json(*scale_).dump());
  return state + Base::extra_state();
}

void Labels::set_extra_state(std::string_view state) {
  std::string text;
  if (!state.starts_with(kState)) fail("what the weights have learnt of labels is of another version");
  state.remove_prefix(kState.size());
  if (!files::take_text(state, text)) fail("what the weights have learnt of labels is cut off");
  scale_ = nlohmann::json::parse(text).get<records::LabelScale>();
  if (scale_->kind != config().objective)
    config_error("objective", concat("= \"", config().objective, "\": the weights have learnt \"",
                                     scale_->kind, "\"; begin with a language model to learn another"));
  const std::vector<std::string>& named = config().label.classes;
  if (!named.empty() && named != scale_->classes)
    config_error("label.classes", concat("are ", records::quoted(named), ": the weights have learnt ",
                                         records::quoted(scale_->classes), ", in this order"));
  Base::set_extra_state(state);
}

Reader Labels::reader() const {
  return {.kind = config().are_numbers()   ? Kind::kNumber
                  : config().are_several() ? Kind::kSeveral
                  : config().are_tags()    ? Kind::kTags
                                           : Kind::kClass,
          .column = config().label.column,
          .missing = config().label.missing,
          .classes = config().label.classes};
}

records::PairSource Labels::source_of(const sources::SourceFiles& files, Split split,
                                      const files::SplitPart& part) const {
  const DataOptions& data = config().data;
  return {
      .files = files,
      .columns = {.first = data.text_column,
                  .second = config().label.column,
                  .id = data.id_column.empty() ? "id" : data.id_column,
                  .extra = data.pair_column,
                  .second_required = split != Split::kTest,
                  .extra_required = !data.pair_column.empty(),
                  .first_takes = config().are_tags() ? records::Column::kWords : records::Column::kText,
                  .second_takes = config().are_several() || config().are_tags() ? records::Column::kWords
                                                                                : records::Column::kValues,
                  .id_required = !data.id_column.empty()},
      .max_record_bytes = static_cast<uint64_t>(data.max_record_bytes),
      .quotes = records::quotes_named(data.quotes),
      .part = part};
}

void Labels::open_corpus() {
  corpus_.emplace(
      config().data, context(), tokenizer(),
      [this](const sources::SourceFiles& files, Split split, const files::SplitPart& part) {
        const records::PairSource source = source_of(files, split, part);
        return text::Reading{
            .options = concat(reader().key(), "\n", source.options()),
            .read = [this, source](const stores::TokenSink& add, const files::Hooks& hooks) {
              return read_samples(
                  source, reader(),
                  {.encode = [this](std::string_view text) { return tokenizer()->encode(text); },
                   .encode_within =
                       [this](std::string_view text) {
                         return tokenizer()->encode(text, tokenizer::SpecialTokens::kAsText,
                                                    tokenizer::TextPlace::kWithin);
                       },
                   .vocabulary_size = static_cast<uint32_t>(tokenizer()->vocab_size())},
                  hooks, add);
            }};
      },
      errors());
  files::with_data_errors([&] {
    tokenizer().open([&] {
      tokenizer::TrainingTexts texts = corpus_->training_texts(
          [this](const auto& files, const auto& part) {
            records::PairSource source = source_of(files, Split::kTrain, part);
            records::Columns& columns = source.columns;  // a label is no text
            columns.second = std::exchange(columns.extra, "");
            columns.second_required = columns.extra_required = false;
            columns.second_takes = records::Column::kText;
            return source;
          },
          config().tokenizer.vocab_size);
      if (config().are_tags())  // words are tokens as in a text
        texts.each = [each = std::move(texts.each)](const auto& take, const auto& read) {
          each(
              [&](std::string_view words) {
                std::string text;
                for (const std::string& word : parts_of(words, true))
                  text += (text.empty() ? "" : " ") + word;
                take(text);
              },
              read);
        };
      return texts;
    });
    corpus_->prepare();
  });
}

void Labels::open_data() {
  if (!corpus_) open_corpus();  // another process has prepared
  tokenizer().require_end_of_text("which the model's folder names");
  tokenizer().set_end(tokenizer()->eot());
  if (run().purpose == PL_PURPOSE_EVALUATE) corpus_->leave_out_unanswered("have no label");
  learn_scale();
  form_ = {.of = config().are_tags() ? heads::LabelForm::Of::kParts : heads::LabelForm::Of::kSamples,
           .are_numbers = config().are_numbers(),
           .are_several = config().are_several(),
           .classes = scale_->classes,
           .deviation = scale_->deviation};  // without the mean: a language model's head has no bias for it
  if (run().purpose != PL_PURPOSE_TRAIN) return;
  corpus_->log_held_out("usable records");
  corpus_->log_sizes("texts");
}

std::vector<std::string> Labels::names_in(const std::string& label) const {
  return config().are_several() ? parts_of(label, false) : std::vector<std::string>{label};
}

void Labels::learn_scale() {
  const bool trains = run().purpose == PL_PURPOSE_TRAIN;
  if (!scale_ && !trains && !config().label.classes.empty())  // a folder's
    scale_ = records::LabelScale{.classes = config().label.classes, .kind = config().objective};
  records::LabelCounts counts;
  if (trains || !scale_) counts = training_counts();
  if (!scale_) {
    scale_ = counts.scale(config().label.classes);
    scale_->kind = config().objective;
  }
  scale_->where = config().label.column;
  if (config().are_numbers()) {
    constexpr double kFar = 10;
    scale_->classes.clear();
    context().info("labels     numbers, learnt as number / ", scale_->deviation);
    if (trains && config().is_language() && std::abs(scale_->mean) > kFar * scale_->deviation)
      context().warn("labels     their mean, ", scale_->mean, ", is far from 0 beside their deviation, ",
                     scale_->deviation,
                     ", and the head has no bias: it learns long to give it. Subtract it from the labels");
    return;
  }
  require_classes(counts);
  counts.check_classes(*scale_, context(), errors());
  names_ = ClassNames(scale_->classes);
  if (trains && config().label.class_weights == "balanced") weights_ = balanced(counts);
  context().info("labels     ", scale_->classes.size(), " classes: ", records::quoted(scale_->classes));
  if (!trains) return;
  if (const std::string unknown = unknown_in(Split::kTest); !unknown.empty())
    context().warn("labels     the test data has classes that are not learnt: ", unknown);
  if (const std::string unknown = unknown_in(Split::kVal); !unknown.empty())
    config_error("data.val", concat("has classes that are not in the training data: ", unknown,
                                    ": leave their texts out, or name all classes in task.label.classes"));
}

records::LabelCounts Labels::training_counts() const {
  records::LabelCounts counts;
  uint64_t cut = 0;
  const Reader labels = reader();
  const std::vector<std::string>& named = config().label.classes;
  const ClassNames known(named.empty() && scale_ ? scale_->classes : named);
  files::with_data_errors([&] {
    for (const stores::TokenStore& store : corpus_->training().stores())
      for (uint64_t i = 0; i < store.size(); ++i) {
        context().throw_if_cancelled();
        const TokenSample sample = store[i];
        cut += is_cut(sample, frame(), config().sequence.max_tokens) ? 1 : 0;
        if (config().are_numbers()) {
          counts.add(*records::label_number(required_label(sample)), true);
          continue;
        }
        for (const std::string& one : labels_of(sample))
          if (!labels.is_none(one))
            for (const std::string& name : names_in(one)) counts.add(known.meant(name), true);
      }
  });
  if (cut > 0)
    context().info("texts      ", cut, " cut to task.sequence.max_tokens = ", config().sequence.max_tokens);
  return counts;
}

// What looks like classes, and is none.
void Labels::require_classes(const records::LabelCounts& counts) const {
  if (!config().label.classes.empty()) return;
  const auto is_number = [](const std::string& name) { return records::label_number(name).has_value(); };
  const auto has_fraction = [](const std::string& name) { return name.find('.') != std::string::npos; };
  if (!config().are_several() && std::ranges::all_of(scale_->classes, is_number) &&
      std::ranges::any_of(scale_->classes, has_fraction))
    config_error(
        "objective",
        concat("= \"", config().objective, "\": the labels are numbers, such as ", scale_->classes.front(),
               ": set task.objective = \"regression\", or name them in task.label.classes"));
  const auto texts = corpus_->training().records();
  if (config().are_several() && scale_->classes == std::vector<std::string>{"0", "1"} &&
      std::ranges::all_of(counts.classes(), [&](const auto& one) { return one.second == texts; }))
    config_error(
        "label.column",
        "has a 0 and a 1 in each list: name the classes that are there, not a 1 or 0 for each of all");
}

std::string Labels::unknown_in(Split split) const {
  std::set<std::string> unknown;
  const Reader labels = reader();
  files::with_data_errors([&] {
    for (uint64_t id = 0; id < corpus_->size(split); ++id) {
      const TokenSample sample = corpus_->sample(split, id);
      if (!sample.has_target()) continue;
      for (const std::string& one : labels_of(sample))
        if (!labels.is_none(one))
          for (const std::string& name : names_in(one))
            if (!names_.number_of(name)) unknown.insert(name);
    }
  });
  return unknown.empty() ? "" : records::quoted({unknown.begin(), unknown.end()});
}

// Of one class each: n / (classes x n of the class), so that their mean over the training data is 1. Of
// several: n without the class / n with it.
at::Tensor Labels::balanced(const records::LabelCounts& counts) const {
  const std::vector<std::string>& classes = scale_->classes;
  double all = 0;
  for (const auto& [name, count] : counts.classes()) all += static_cast<double>(count);
  if (config().are_several()) all = static_cast<double>(corpus_->training().records());
  std::vector<float> weights;
  for (const std::string& name : classes) {
    const auto found = counts.classes().find(name);
    const double own = found == counts.classes().end() ? 0 : static_cast<double>(found->second);
    weights.push_back(static_cast<float>(own == 0 ? 0
                                         : config().are_several()
                                             ? (all - own) / own
                                             : all / (static_cast<double>(classes.size()) * own)));
  }
  return at::tensor(weights, at::kFloat);
}

// An encoder's text is framed as its tokenizer frames it.
Frame Labels::frame() const {
  Frame frame{.begin = tokenizer()->adds_bos() ? tokenizer()->bos() : std::nullopt};
  if (config().is_language()) return frame;
  frame.end = tokenizer()->eot();
  frame.parts_twice = encoder::text_encoder(config().encoder.kind).first_position > 0;
  return frame;
}

std::shared_ptr<LabelModel> Labels::build_model() {
  const int64_t tokens = tokenizer()->vocab_size();
  if (!config().is_language()) {
    common::require_padding(config().encoder.padding(), tokenizer(), errors(), "encoder.kind");
    encoder::Config sizes = config().encoder.of(tokens);
    sizes.label = form_;
    return std::make_shared<LabelModel>(
        std::make_shared<encoder::LabelEncoder>(config().encoder.kind, sizes, config().encoder.lora));
  }
  language::Config sizes =
      config().language.model({tokens, tokenizer().own_tokens().begin, tokenizer()->eot()});
  sizes.label = form_;
  return std::make_shared<LabelModel>(language::make_adapted(sizes, config().language.lora));
}

void Labels::import_model(const std::filesystem::path& folder) {
  if (auto* const language = model().language())
    return common::import_language_model(folder, context(), config().language.lora, *language, tokenizer());
  tokenizer().require_path(folder);
  const encoder::EncoderFolder theirs = encoder::read_encoder_folder(folder);
  const std::vector<std::string> lacks = model().encoder()->import(folder, theirs);
  const std::string adapter = config().encoder.lora.init_from.string();
  if (!lacks.empty() && (adapter.empty() || !heads::adapter_predicts_labels(adapter))) {
    if (run().purpose != PL_PURPOSE_TRAIN)
      fail_with(PL_ERROR_CONFIG, folder.string(),
                ": has no head for labels: train one with train.init_from, which names it");
    context().info("weights    of ", folder.string(),
                   "; of the head for labels are new: ", records::quoted(lacks));
  }
  common::take_encoder_texts(folder, context(), theirs.config.vocab_size,
                             model().encoder()->kept_weights(folder), tokenizer());
}

void Labels::export_model(const std::filesystem::path& folder) {
  if (auto* const language = model().language()) {
    const adapters::LoraOptions& lora = config().language.lora;
    common::export_language_model(folder, context(), lora, *language, tokenizer());
    if (!lora.exports_adapter()) common::choose_padding(folder, tokenizer(), std::nullopt, context());
    return;
  }
  for (const std::string& note : model().encoder()->write(folder, tokenizer()->files())) context().info(note);
  tokenizer()->save(folder.string());
  if (config().encoder.lora.exports_adapter()) return;  // the rest is the base model's
  common::frame_exported_texts(folder, tokenizer());
  if (!tokenizer()->adds_bos() && model().encoder()->row().names.types != nullptr)
    hugging_face::set_text_types(folder.string());
}

std::string Labels::required_label(const TokenSample& sample) const {
  if (auto label = label_of(sample)) return *std::move(label);
  fail_with(PL_ERROR_CONFIG, "the test data has no labels (task.label.column = \"", config().label.column,
            "\"): nothing can be judged by them");
}

at::Tensor Labels::right_of(const std::vector<std::string>& labels) const {
  const auto outputs = static_cast<size_t>(form_.outputs());
  std::vector<float> numbers(config().are_several() ? labels.size() * outputs : 0);
  std::vector<int64_t> classes;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (config().are_numbers()) {
      numbers.push_back(static_cast<float>(*records::label_number(labels[i]) / form_.deviation));
      continue;
    }
    for (const std::string& name : names_in(labels[i])) {
      const auto number = names_.number_of(name);
      if (!number)
        fail_with(PL_ERROR_CONFIG, "task.label: the data has a class \"", name, "\", and the model has ",
                  records::quoted(scale_->classes), ": leave out what is of another class");
      if (config().are_several())
        numbers[i * outputs + *number] = 1;
      else
        classes.push_back(static_cast<int64_t>(*number));
    }
  }
  if (config().are_several()) return at::tensor(numbers, at::kFloat).view({-1, form_.outputs()});
  return config().are_numbers() ? at::tensor(numbers, at::kFloat) : at::tensor(classes, at::kLong);
}

std::vector<std::string> Labels::words_of(const TokenSample& sample) const {
  return config().are_tags() ? parts_of(text_of(sample), true) : std::vector{text_of(sample)};
}

std::vector<std::string> Labels::labels_of(const TokenSample& sample) const {
  std::string label = required_label(sample);
  return config().are_tags() ? parts_of(label, true) : std::vector{std::move(label)};
}

LabelsBatch Labels::make_batch(const LoadRequest& request) const {
  const bool is_judged = request.purpose != Purpose::kPredict;
  const Reader reader = this->reader();
  std::vector<std::vector<int64_t>> all, none;
  std::vector<std::string> labels;
  std::vector<int64_t> rows, types;
  const Frame frame = this->frame();
  // RoBERTa has the table, too, and one kind.
  const bool has_types = encoder::text_encoder(config().encoder.kind).names.types != nullptr &&
                         !frame.parts_twice && config().encoder.encoder.type_vocab_size > 1;
  LabelsBatch batch;
  int64_t begin_of_text = 0;
  for (const uint64_t id : request.ids) {
    const TokenSample sample = corpus_->sample(request.split, id, request.epoch);
    Framed text = framed(sample);
    const auto size = static_cast<int64_t>(text.tokens.size());
    for (int64_t row = 0; row < size && !config().is_language(); ++row)
      types.push_back(has_types && row >= text.second ? 1 : 0);
    none.emplace_back(all.emplace_back(std::move(text.tokens)).size(), -1);
    const std::vector<int64_t> own = config().are_tags()
                                         ? word_rows(sample, frame, config().sequence.max_tokens)
                                         : std::vector{frame.end ? int64_t{0} : size - 1};
    const std::vector<std::string> right = is_judged ? labels_of(sample) : std::vector<std::string>();
    const size_t before = rows.size();
    for (size_t i = 0; i < own.size(); ++i) {
      if (is_judged && config().are_tags() && reader.is_none(right.at(i))) continue;
      rows.push_back(begin_of_text + own[i]);
      if (is_judged) labels.push_back(right.at(i));
    }
    batch.rows.push_back(rows.size() - before);
    begin_of_text += size;
  }
  batch.packed = transformer::pack(all, none);
  batch.packed.target_rows = std::move(rows);
  batch.packed.targets = at::zeros({static_cast<int64_t>(batch.packed.target_rows.size())}, at::kLong);
  batch.packed.full_length = config().sequence.max_tokens;
  if (is_judged) batch.right = right_of(labels);
  if (!types.empty()) batch.types = at::tensor(types, at::kLong);
  batch.ids.assign(request.ids.begin(), request.ids.end());
  batch.split = request.split;
  if (request.split == Split::kTrain) batch.sources = corpus_->training().sources_of(request.ids);
  return batch;
}

LossSum Labels::loss(const LabelsBatch& batch) {
  at::Tensor rows;
  const at::Tensor sum =
      model().with_labels(batch.packed, batch.types, pass(), [&](const at::Tensor& outputs) {
        const at::Tensor weights = is_training() && weights_.defined()
                                       ? transformer::to_device(weights_, outputs.device())
                                       : at::Tensor();
        const at::Tensor losses = heads::row_losses(form_, outputs, batch.right, weights);
        rows = losses.detach();
        return transformer::total(losses, outputs.scalar_type());
      });
  std::vector<size_t> source_of;
  for (size_t i = 0; i < batch.sources.size(); ++i)
    source_of.insert(source_of.end(), batch.rows[i], batch.sources[i]);
  common::add_source_metrics(context(), rows, source_of, batch.sources, corpus_->training().names());
  return LossSum(sum);
}

}  // namespace pipeline::tasks::labels

PIPELINE_TASK(pipeline::tasks::labels::Labels, "labels", "1.0.0",
              "A language model or an encoder learns labels of texts: a class, several, a number, or tags of "
              "words. Weight decay: matrices and embeddings; not biases and norms")
