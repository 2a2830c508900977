#include "plugins/tasks/contrastive/task.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "adapters/lora_options.hpp"
#include "core/base/utf8.hpp"
#include "files/data_errors.hpp"
#include "hugging_face/weights.hpp"
#include "language/folder.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::tasks::contrastive {
namespace {

namespace fs = std::filesystem;

// The caption of a picture. Throws where there is more than a picture and what it shows.
const std::string& caption_of(const messages::Conversation& pair) {
  const bool is_caption =
      pair.images.size() == 1 && pair.turns.size() == 2 && pair.turns[0].text == messages::kImageMark;
  if (!is_caption)
    fail_with(PL_ERROR_CONFIG, "record ", printable(pair.id, ""), " is a conversation",
              pair.images.empty() ? " without a picture" : "",
              ": this task takes pictures with captions alone (task.data.image_column and caption_column)");
  return pair.turns[1].text;
}

}  // namespace

void ContrastiveTask::open_files() {
  files::with_data_errors([&] {
    sources_ = picture_texts::open_splits(
        context(), config().data,
        {.is_left_out = [&](Split) { return run().purpose == PL_PURPOSE_EXPORT && tokenizer().is_kept(); },
         .may_be_missing = run().purpose != PL_PURPOSE_TRAIN && tokenizer().is_kept(),
         .columns = [&](Split) { return config().data.columns(); },
         .tiles = config().pictures().tiles(),
         .config_error = [&](const char* key, const std::string& problem) { config_error(key, problem); }});
    tokenizer().open([&] {
      return common::training_texts(picture_texts::texts_of(sources_[static_cast<size_t>(Split::kTrain)]),
                                    config().tokenizer.vocab_size, "captions");
    });
  });
  is_open_ = true;
}

void ContrastiveTask::open_data() {
  if (!is_open_) open_files();  // another process has prepared
  tokenizer().require_end_of_text("which stands for it");
  if (!config().is_clip()) {
    rules_ = text_rules(*tokenizer());
    if (!rules_.problem.empty()) config_error("tokenizer.path", rules_.problem);
  }
  if (run().purpose == PL_PURPOSE_EXPORT) return;
  context().info("data       ", sample_count(Split::kTrain), " training, ", sample_count(Split::kVal),
                 " validation, ", sample_count(Split::kTest), " test pairs; ",
                 config().vision.vision.patches(), " patches a picture; ", tokenizer().size_text());
  for (const std::string& line : sources_[static_cast<size_t>(Split::kTrain)].lines()) context().info(line);
}

std::shared_ptr<two_towers::TwoTowers> ContrastiveTask::build_model() {
  adapters::Freeze is_frozen(config().freeze);
  const auto rule = [&](Parameter& parameter) {
    parameter.trainable = !is_frozen(parameter.name);
    if (parameter.name.starts_with("vision_model.") || parameter.name.starts_with("visual_"))
      parameter.lr_multiplier = config().vision.lr_multiplier;
    else if (parameter.name.starts_with("text_"))
      parameter.lr_multiplier = config().text.lr_multiplier;
  };
  auto model = std::make_shared<two_towers::TwoTowers>(config().model(tokenizer()->vocab_size()), rule);
  if (const std::string problem = is_frozen.problem(model->parameters()); !problem.empty())
    config_error("freeze", problem);
  return model;
}

two_towers::TextEnds ContrastiveTask::text_ends() const {
  const int64_t end = tokenizer()->eot();
  two_towers::TextEnds ends{.begin = std::nullopt,
                            .end = end,
                            .padding = config().is_clip() ? end : rules_.padding,
                            .last = tokenizer()->vocab_size() - 1};
  // One token for both would end a text where it begins. SigLIP's has none at the begin.
  if (const auto begin = tokenizer()->bos(); config().is_clip() && begin && *begin != end)
    ends.begin = *begin;
  return ends;
}

std::vector<int64_t> ContrastiveTask::tokens_of(const messages::Conversation& pair) const {
  const two_towers::TextEnds ends = text_ends();
  std::vector<int64_t> tokens;
  if (ends.begin) tokens.push_back(*ends.begin);
  const std::string& caption = caption_of(pair);
  for (const int32_t token : encode(*tokenizer(), rules_, caption)) tokens.push_back(token);
  const auto most = static_cast<size_t>(config().text.text.max_position_embeddings);
  if (tokens.size() + 1 > most) {
    if (!told_of_cut_->exchange(true))
      context().warn("the caption of ", printable(pair.id, ""), " has ", tokens.size() + 1,
                     " tokens, and is cut to task.text.max_position_embeddings = ", most,
                     "; others that are longer are cut, too");
    tokens.resize(most - 1);
  }
  tokens.push_back(ends.end);
  if (!config().is_clip())  // the last row of a SigLIP's text stands for it
    tokens.insert(rules_.is_padded_left ? tokens.begin() : tokens.end(), most - tokens.size(), ends.padding);
  return tokens;
}

ContrastiveBatch ContrastiveTask::make_batch(const LoadRequest& request) const {
  return files::with_data_errors([&] {
    const auto count = static_cast<int64_t>(request.ids.size());
    const int64_t side = config().vision.vision.image_size;
    ContrastiveBatch batch;
    batch.ids = {request.ids.begin(), request.ids.end()};
    batch.split = request.split;
    batch.pixels = at::zeros({count, 3, side, side}, at::kFloat);
    batch.valid = at::ones({count, 1}, at::kFloat);
    std::vector<std::vector<int64_t>> tokens, targets;
    for (int64_t i = 0; i < count; ++i) {
      const bool has = with(request.split, request.ids[static_cast<size_t>(i)], request.epoch,
                            [&](const PictureSource& source, uint64_t record) {
                              const messages::Conversation pair = source.conversations[record];
                              tokens.push_back(tokens_of(pair));
                              const auto loaded = source.pictures->load(pair.images.front());
                              if (loaded)
                                std::ranges::copy(loaded->pixels, batch.pixels[i].mutable_data_ptr<float>());
                              return loaded.has_value();
                            });
      if (has)
        ++batch.pairs;
      else
        batch.valid[i].zero_();
      targets.emplace_back(tokens.back().size(), -1);
    }
    batch.texts = transformer::pack(tokens, targets);
    require_ids(batch.texts.tokens, tokenizer()->vocab_size(), "token");
    return batch;
  });
}

at::Tensor ContrastiveTask::outputs(const ContrastiveBatch& batch) {
  return at::cat({model().scaled(batch, pass()), batch.valid}, 1);
}

void ContrastiveTask::import_model(const fs::path& folder) {
  tokenizer().require_path(folder);
  const int64_t more =
      tokenizer()->vocab_size() - two_towers::import_model(folder.string(), model()).text.vocab_size;
  if (const std::string note = language::note_of_vocabulary(folder.string(), tokenizer()->vocab_size(), more);
      !note.empty())
    context().info(note);
  tokenizer::Files files =
      files::with_data_errors([&] { return tokenizer::files_of(folder, tokenizer::kModelFiles); });
  files[hugging_face::kWeightsText] = two_towers::kept_weights(folder.string(), model());
  tokenizer().replace(tokenizer()->with(files));
  if (run().purpose != PL_PURPOSE_TRAIN) return;
  ParameterRegistry& parameters = model().parameters();
  for (const auto& [key, value] :
       {std::pair("logit_scale", config().logit_scale), std::pair("logit_bias", config().logit_bias)})
    for (size_t i = 0; i < parameters.size(); ++i)
      if (is_set(key) && parameters[i].name == key) parameters.start_from(i, constant(value));
}

void ContrastiveTask::export_model(const fs::path& folder) {
  model().limit_scale();
  const tokenizer::Files& files = tokenizer()->files();
  for (const std::string& note : two_towers::export_model(folder.string(), model(), text_ends(), files))
    context().info(note);
  for (const auto& [name, text] : pictures::image_processor_files(files, config().pictures()))
    hugging_face::write_text((folder / name).string(), text);
  tokenizer()->save(folder.string());
}

std::string ContrastiveTask::data_fingerprint() {
  return std::to_string(tokenizer()->fingerprint()) + picture_texts::fingerprint_of(context(), sources_);
}

}  // namespace pipeline::tasks::contrastive

PIPELINE_TASK(pipeline::tasks::contrastive::ContrastiveTask, "contrastive", "1.0.0",
              "Two towers learn which pictures and captions belong together (CLIP, SigLIP), over the global "
              "batch. Weight decay: matrices and embeddings; not biases, norms, scale and bias of the logits")
