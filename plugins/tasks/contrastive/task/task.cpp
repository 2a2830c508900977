#include "plugins/tasks/contrastive/task/task.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <sstream>

#include "adapters/freeze.hpp"
#include "core/base/utf8.hpp"
#include "files/data_errors.hpp"
#include "hugging_face/weights.hpp"
#include "language/folder.hpp"
#include "plugins/tasks/contrastive/task/processor_file.hpp"
#include "tokenizer/tokenizer_setup.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::contrastive {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSplits{Split::kTrain, Split::kVal, Split::kTest};

void say_lines(const std::string& text, const std::function<void(const std::string&)>& say) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) say(line);
}

// Throws where it is more than a picture and what it shows.
const std::string& caption_of(const vlm::Conversation& pair) {
  const bool is_caption =
      pair.images.size() == 1 && pair.turns.size() == 2 && pair.turns[0].text == vlm::kImageMark;
  if (!is_caption)
    fail_with(PL_ERROR_CONFIG, "record ", printable(pair.id, ""), " is a conversation",
              pair.images.empty() ? " without a picture" : "",
              ": this task takes pictures with captions alone (task.data.image_column and caption_column)");
  return pair.turns[1].text;
}

}  // namespace

void ContrastiveTask::set_extra_state(std::string_view state) {
  kept_tokenizer_ = text::tokenizer_of_checkpoint(
      state, is_set("tokenizer.path") ? config().tokenizer.path : fs::path(), context(),
      [&](const std::string& problem) { config_error("tokenizer.path", problem); });
}

CaptionSource ContrastiveTask::open_source(Split split, const std::string& named, const files::Part& part,
                                           const fs::path& images) const {
  const DataConfig& data = config().data;
  const std::string what = "reading " + fs::path(named).filename().string(), cache(view(run().cache_dir));
  const files::Hooks hooks{
      .threads = std::max(1u, run().threads),
      .progress = [&](uint64_t done, uint64_t total) { context().progress(what, done, total); },
      .note = [&](const std::string& line) { context().info(line); },
      .cancelled = [&] { return context().cancelled(); }};
  const sources::SourceFiles files = sources::find_and_hash(named, cache, hooks);
  CaptionSource source{
      .captions = vlm::ConversationStore(cache,
                                         vlm::source_of(files,
                                                        {.image = data.image_column,
                                                         .caption = data.caption_column,
                                                         .question = data.caption_column,  // there are none
                                                         .id = data.id_column,
                                                         .quotes = text_pairs::quotes_named(data.quotes)},
                                                        images),
                                         hooks, part),
      .images = images,
      .pictures = nullptr};
  // What training has said of its files is not said again.
  const bool is_known = split == Split::kTrain ? run().purpose != PL_PURPOSE_TRAIN : part.is_validation;
  if (!is_known) {
    say_lines(source.captions.report(), [&](const std::string& line) { context().warn(line); });
    say_lines(source.captions.notes(), [&](const std::string& line) { context().info(line); });
  }
  // Shards hold their pictures: what else lies beside them is none of theirs.
  std::vector<fs::path> archives = files.format == sources::Format::kTar
                                       ? std::vector<fs::path>(files.paths.begin(), files.paths.end())
                                       : vlm::tar_archives(images);
  source.pictures = std::make_shared<const vlm::Pictures>(
      vlm::Pictures::Options{.folder = images,
                             .archives = std::move(archives),
                             .decode = config().decode_options(),
                             .tiles = {.square = config().resize_options()},
                             .most_broken = static_cast<uint64_t>(
                                 data.max_broken_share * static_cast<double>(source.captions.size())),
                             .warn = [&](const std::string& line) { context().warn(line); }},
      hooks);
  return source;
}

void ContrastiveTask::open_files() {
  const DataConfig& data = config().data;
  const bool to_use = run().purpose != PL_PURPOSE_TRAIN && kept_tokenizer_;
  files::with_data_errors([&] {
    for (const Split split : kSplits) {
      const sources::SplitOptions::Sources wanted = data.of(split);
      if (run().purpose == PL_PURPOSE_EXPORT && kept_tokenizer_) continue;
      std::vector<CaptionSource> found;
      for (const std::string& named : wanted.named) {
        if (const std::string problem = sources::problem_of(named); !problem.empty()) {
          if (!to_use) config_error(wanted.key, problem);
          context().warn(named, " is not there: going on without it");
          continue;
        }
        const fs::path own = fs::is_directory(named) ? fs::path(named) : fs::path(named).parent_path();
        if (data.images.empty() && own.string().find_first_of("*?[") != std::string::npos && !fs::exists(own))
          config_error("data.images",
                       concat("must be given with ", named, ", whose files are in several folders"));
        found.push_back(open_source(split, named, wanted.part, data.images.empty() ? own : data.images));
      }
      if (found.size() == wanted.named.size())
        sources_[static_cast<size_t>(split)] = {std::move(found), wanted.names, wanted.shares,
                                                context().seed("mixture")};
    }
    const auto& training = sources_[static_cast<size_t>(Split::kTrain)];
    if (const uint64_t learnt = training.records(),
        held_out = sources_[static_cast<size_t>(Split::kVal)].records();
        data.validation_share > 0 && learnt + held_out > 0)
      context().info(
          files::held_out_text(data.named_for_training(), data.validation_share, learnt, held_out));
    const auto texts = [&] {
      std::vector<const vlm::ConversationStore*> stores;
      for (const CaptionSource& source : training.stores()) stores.push_back(&source.captions);
      const messages::StoredTexts all = messages::texts_of(std::move(stores));
      return text::TrainingTexts{
          .key = files::hash128(all.fingerprint + " " + std::to_string(config().tokenizer.vocab_size)).hex(),
          .bytes = all.conversations,
          .what = concat(all.conversations, " captions"),
          .each = all.each};
    };
    tokenizer_ =
        text::tokenizer_of_task(kept_tokenizer_, config().tokenizer, texts, context(),
                                [&](const std::string& problem) { config_error("tokenizer.path", problem); });
  });
  is_open_ = true;
}

void ContrastiveTask::open_data() {
  if (!is_open_) open_files();  // another process has prepared
  if (!tokenizer_->has_eot())
    fail_with(PL_ERROR_CONFIG,
              "the tokenizer names no token that ends a text (eos_token), which stands for it");
  if (run().purpose == PL_PURPOSE_EXPORT) return;
  context().info("data       ", sample_count(Split::kTrain), " training, ", sample_count(Split::kVal),
                 " validation, ", sample_count(Split::kTest), " test pairs; ",
                 config().vision.vision.patches(), " patches a picture; vocabulary of ",
                 tokenizer_->vocab_size(), kept_tokenizer_ ? ", as the weights have it" : "");
  for (const std::string& line : sources_[static_cast<size_t>(Split::kTrain)].lines()) context().info(line);
}

std::shared_ptr<TwoTowers> ContrastiveTask::build_model() {
  adapters::Freeze is_frozen(config().freeze);
  const auto rule = [&](Parameter& parameter) {
    parameter.trainable = !is_frozen(parameter.name);
    if (parameter.name.starts_with("vision_model.") || parameter.name.starts_with("visual_"))
      parameter.lr_multiplier = config().vision.lr_multiplier;
    else if (parameter.name.starts_with("text_"))
      parameter.lr_multiplier = config().text.lr_multiplier;
  };
  auto model = std::make_shared<TwoTowers>(config().model(tokenizer_->vocab_size()), rule);
  if (const std::string problem = is_frozen.problem(model->parameters()); !problem.empty())
    config_error("freeze", problem);
  return model;
}

TextEnds ContrastiveTask::text_ends() const {
  const int64_t end = tokenizer_->eot();
  TextEnds ends{.begin = std::nullopt, .end = end};
  // One token for both would end a text where it begins. SigLIP's has none at the begin.
  if (const auto begin = tokenizer_->bos(); config().is_clip() && begin && *begin != end) ends.begin = *begin;
  return ends;
}

std::vector<int64_t> ContrastiveTask::tokens_of(const vlm::Conversation& pair) const {
  const TextEnds ends = text_ends();
  std::vector<int64_t> tokens;
  if (ends.begin) tokens.push_back(*ends.begin);
  for (const int32_t token : tokenizer_->encode(caption_of(pair))) tokens.push_back(token);
  const auto most = static_cast<size_t>(config().text.text.max_position_embeddings);
  if (tokens.size() + 1 > most) {
    if (!told_of_cut_->exchange(true))
      context().warn("the caption of ", printable(pair.id, ""), " has ", tokens.size() + 1,
                     " tokens, and is cut to task.text.max_position_embeddings = ", most,
                     "; others that are longer are cut, too");
    tokens.resize(most - 1);
  }
  tokens.push_back(ends.end);
  if (!config().is_clip()) tokens.resize(most, ends.end);  // its last row stands for it
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
                            [&](const CaptionSource& source, uint64_t record) {
                              const vlm::Conversation pair = source.captions[record];
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
    require_ids(batch.texts.tokens, tokenizer_->vocab_size(), "token");
    return batch;
  });
}

BatchInfo ContrastiveTask::batch_info(const ContrastiveBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.texts.sequences.rows());
  return {.weight = batch.pairs, .samples = batch.ids.size(), .tokens = rows, .positions = rows};
}

at::Tensor ContrastiveTask::outputs(const ContrastiveBatch& batch) {
  return at::cat({model().scaled(batch, pass()), batch.valid}, 1);
}

void ContrastiveTask::import_model(const fs::path& folder) {
  if (config().tokenizer.path.empty() && !kept_tokenizer_)
    config_error("tokenizer.path",
                 concat("must be given with weights of ", folder.string(),
                        ", which know no tokens of a tokenizer that is trained here: name the folder's own"));
  const int64_t more = contrastive::import_model(folder.string(), model());
  if (const std::string note = language::note_of_vocabulary(folder.string(), tokenizer_->vocab_size(), more);
      !note.empty())
    context().info(note);
}

void ContrastiveTask::export_model(const fs::path& folder) {
  contrastive::export_model(folder.string(), model(), text_ends());
  hugging_face::write_text((folder / "preprocessor_config.json").string(), processor_file(config()));
  tokenizer_->save(folder.string());
}

// The test data may change in a continued run, and training does not see them.
std::string ContrastiveTask::data_fingerprint() {
  std::string result = std::to_string(tokenizer_->fingerprint());
  for (const Split split : kSplits)
    if (split != Split::kTest || run().purpose != PL_PURPOSE_TRAIN)
      result += " " + sources_[static_cast<size_t>(split)].fingerprint();
  return result;
}

}  // namespace pipeline::contrastive

PIPELINE_TASK(pipeline::contrastive::ContrastiveTask, "contrastive", "1.0.0",
              "Two towers learn which pictures and captions belong together (CLIP, SigLIP), over the global "
              "batch. Weight decay: matrices and embeddings; not biases, norms, scale and bias of the logits")
