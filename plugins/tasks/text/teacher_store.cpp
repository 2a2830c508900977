#include "plugins/tasks/text/teacher_store.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <pipeline/torch/batch.hpp>
#include <pipeline/torch/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "files/cache_folder.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/data/sources/source_files.hpp"

namespace pipeline::tasks::text {
namespace {

using Clock = std::chrono::steady_clock;
using transformer::LikeliestTokens;

constexpr stores::SampleKind kAnswers{.name = "PLTEACHR", .version = 1, .ending = "teacher"};
constexpr uint64_t kTokens = 4096;  // that the teacher reads at a time, with the rest of the last sample

// Behind the samples of a file.
struct Summary {
  double left_out = 0;  // the sum of the probabilities outside of the likeliest tokens
  uint64_t targets = 0;

  std::string share() const {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g%%",
                  targets > 0 ? 100 * left_out / static_cast<double>(targets) : 0);
    return text;
  }
};

std::string about(double seconds) {
  if (seconds < 60) return "less than a minute";
  if (seconds < 7200) return concat("about ", std::lround(seconds / 60), " min");
  return concat("about ", std::lround(seconds / 3600), " h");
}

// Asks a teacher about all samples of a source.
class Questioning {
 public:
  Questioning(const Asking& asking, const TeacherStore::Layout& layout, const stores::TokenStore& samples,
              const files::Hooks& hooks)
      : asking_(asking), layout_(layout), samples_(samples), hooks_(hooks) {
    for (uint64_t i = 0; i < samples_.size(); ++i) {
      hooks_.throw_if_cancelled();
      for (const Sequence& one : asking_.sequences(samples_[i])) {
        tokens_ += one.tokens.size();
        summary_.targets += targets_of(one);
      }
    }
  }

  std::string fill(stores::SampleWriter& writer) {
    const Context& context = asking_.context;
    apply_run_settings(context);
    device_ = open_device(context.run());
    compute_ = to_torch(context.run().compute_dtype);
    teacher_ = language::load_teacher(asking_.teacher, asking_.vocabulary, device_, compute_);
    uint64_t done = 0, next = 0;
    for (int question = 0; next < samples_.size(); ++question) {
      hooks_.throw_if_cancelled();
      const Clock::time_point begin = Clock::now();
      const uint64_t read = ask(next, question < 2 ? kTokens / 4 : kTokens, writer);
      const std::chrono::duration<double> seconds = Clock::now() - begin;
      // The first answer takes longer than all others, so the time is estimated by the second.
      if (question == 1 || (question == 0 && next == samples_.size()))
        announce(seconds.count() * static_cast<double>(tokens_) / static_cast<double>(read));
      hooks_.report(done += read, tokens_);
    }
    teacher_.reset();
    if (!device_.is_cpu())
      c10::getDeviceAllocator(device_.type())->emptyCache();  // which would keep its memory
    return std::string(files::bytes_of(summary_));
  }

 private:
  static uint64_t targets_of(const Sequence& one) {
    return static_cast<uint64_t>(
        std::ranges::count_if(one.targets, [](int64_t target) { return target >= 0; }));
  }

  void announce(double seconds) const {
    asking_.context.info(
        "teacher    ", language::name_of_teacher(asking_.teacher, *teacher_), ", is asked for its ",
        layout_.k, " likeliest tokens at ", summary_.targets,
        " targets: ", files::megabytes(summary_.targets * static_cast<uint64_t>(layout_.target_bytes())),
        " in run.cache_dir, ", about(seconds));
  }

  // About samples from `next` on, which then is the first that is left, until they have `most` tokens. How
  // many they have.
  uint64_t ask(uint64_t& next, uint64_t most, stores::SampleWriter& writer) {
    std::vector<std::vector<int64_t>> tokens, targets;
    std::vector<int64_t> rows;  // of each sample
    uint64_t read = 0;
    while (next < samples_.size() && (read == 0 || read < most)) {
      rows.push_back(0);
      for (Sequence& one : asking_.sequences(samples_[next++])) {
        read += one.tokens.size();
        rows.back() += static_cast<int64_t>(targets_of(one));
        tokens.push_back(std::move(one.tokens));
        targets.push_back(std::move(one.targets));
      }
    }
    transformer::PackedBatch batch = transformer::pack(tokens, targets);
    batch.full_length = asking_.max_tokens;
    LikeliestTokens all{at::empty({0, layout_.k}, at::kLong), at::empty({0, layout_.columns()})};
    if (!batch.target_rows.empty()) {
      all = teacher_->likeliest_tokens(batch_on(device_, batch), compute_, layout_.vocabulary, layout_.k,
                                       asking_.teacher.temperature);
      all = {all.ids.cpu(), all.log_p.cpu()};
    }
    if (layout_.k < layout_.vocabulary)
      summary_.left_out += all.log_p.select(1, layout_.k).to(at::kDouble).exp().sum().item<double>();
    int64_t begin = 0;
    for (const int64_t count : rows) {
      writer.append(layout_.packed(all.rows(begin, count)));
      begin += count;
    }
    return read;
  }

  const Asking& asking_;
  const TeacherStore::Layout& layout_;
  const stores::TokenStore& samples_;
  const files::Hooks& hooks_;
  uint64_t tokens_ = 0;
  Summary summary_;
  at::Device device_ = at::kCPU;
  at::ScalarType compute_ = at::kFloat;
  std::unique_ptr<const language::LanguageModel> teacher_;
};

template <class Token>
void append_tokens(std::string& bytes, const at::Tensor& ids) {
  const int64_t* const from = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) bytes += files::bytes_of(static_cast<Token>(from[i]));
}

template <class Token>
void copy_tokens(std::string_view bytes, const at::Tensor& ids) {
  int64_t* to = ids.mutable_data_ptr<int64_t>();
  for (Token token = 0; files::take(bytes, token);) *to++ = static_cast<int64_t>(token);
}

}  // namespace

std::string TeacherStore::Layout::packed(const LikeliestTokens& rows) const {
  const at::Tensor log_p = rows.log_p.contiguous(), ids = rows.ids.contiguous();
  std::string bytes(static_cast<const char*>(log_p.const_data_ptr()), log_p.nbytes());
  token_bytes() == 2 ? append_tokens<uint16_t>(bytes, ids) : append_tokens<uint32_t>(bytes, ids);
  return bytes;
}

void TeacherStore::Layout::unpack(std::string_view sample, const LikeliestTokens& rows) const {
  std::memcpy(rows.log_p.mutable_data_ptr(), sample.data(), rows.log_p.nbytes());
  sample.remove_prefix(rows.log_p.nbytes());
  token_bytes() == 2 ? copy_tokens<uint16_t>(sample, rows.ids) : copy_tokens<uint32_t>(sample, rows.ids);
}

TeacherStore::TeacherStore(const Asking& asking, const Corpus& corpus)
    : layout_{.vocabulary = asking.vocabulary, .k = asking.teacher.top_k} {
  if (layout_.k > layout_.vocabulary)
    fail_with(PL_ERROR_CONFIG, "task.teacher.top_k = ", layout_.k, ": must be at most ", layout_.vocabulary,
              ", the tokens of the model");
  const std::filesystem::path& folder = asking.teacher.init_from;
  std::vector<std::string> paths = hugging_face::weight_files(folder.string());
  paths.push_back((folder / "config.json").string());
  const pl_run_info& run = asking.context.run();
  const std::string cache(view(run.cache_dir));
  const files::Hash128 weights =
      sources::hash_of_files(paths, cache, corpus.hooks("reading the teacher's weights"));
  files::Hasher128 hasher;
  hasher.update_text(concat(weights.hex(), " ", layout_.k, " ", layout_.vocabulary, " ", asking.max_tokens));
  hasher.update(files::bytes_of(asking.teacher.temperature)).update_text(asking.rules);
  fingerprint_ = hasher.finish().hex();
  hasher.update_text(concat(run.device.type, " ", at::toString(to_torch(run.compute_dtype))));
  for (const stores::TokenStore& samples : corpus.training().stores()) {
    const std::string stem = std::filesystem::path(samples.path()).stem().string();
    const files::Hooks hooks = corpus.hooks("asking the teacher");
    bool is_asked = false;
    files_.push_back(
        stores::open_or_fill({.folder = cache,
                              .name = stem.substr(0, stem.rfind('-')),
                              .key = files::Hasher128(hasher).update_text(samples.fingerprint()).finish(),
                              .what = "asking the teacher"},
                             kAnswers, hooks, [&](stores::SampleWriter& writer) {
                               is_asked = true;
                               return Questioning(asking, layout_, samples, hooks).fill(writer);
                             }));
    std::string_view bytes = files_.back().summary();
    Summary summary;
    files::take(bytes, summary);
    asking.context.info(
        "teacher    ", is_asked ? "" : "not asked again: ", layout_.k, " likeliest tokens of ",
        summary.targets, " targets are in ", files_.back().path(), "; ", summary.share(),
        " of its probability is outside of them, and counts as one token; the teacher is not in memory");
  }
}

LikeliestTokens TeacherStore::of(const std::vector<sources::Mixture::Place>& samples) const {
  std::vector<stores::Sample> read;
  int64_t rows = 0;
  for (const sources::Mixture::Place& place : samples) {
    read.push_back(files_[place.source][place.record]);
    rows += layout_.targets(read.back().payload());
  }
  const LikeliestTokens all{at::empty({rows, layout_.k}, at::kLong), at::empty({rows, layout_.columns()})};
  int64_t begin = 0;
  for (const stores::Sample& sample : read) {
    const int64_t count = layout_.targets(sample.payload());
    layout_.unpack(sample.payload(), all.rows(begin, count));
    begin += count;
  }
  require_ids(all.ids, layout_.vocabulary, "a teacher's token");
  return all;
}

}  // namespace pipeline::tasks::text
