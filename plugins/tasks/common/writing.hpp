// What a model writes: beside what people wrote, and to somebody who waits.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generation/generate.hpp"
#include "plugins/models/chat/sequence.hpp"

namespace pipeline::tasks::common {

// What the model is asked: a conversation's last question, or a document.
struct Question {
  std::string name;  // the sample's
  std::string text;
  std::string shown;  // the text for the log
  std::string truth;  // what people wrote; empty: nothing
  std::vector<int64_t> prompt;
};

struct Answered {
  uint64_t id = 0;  // the sample's
  Question question;
  std::string answer;
  std::optional<std::string> reference = std::nullopt;  // another model's, which the task compares with
  Split split = Split::kTrain;
};

// A text for the log: one line of so many bytes at most, whatever an untrained model writes.
std::string one_line(std::string text, size_t most = std::string::npos);

// A sample of an evaluation, for the log.
std::string sample_text(const Answered& one, size_t most = std::string::npos);

// "loss" and "perplexity".
std::vector<Metric> loss_metrics();

// How a task's model writes.
struct Writing {
  const Context& context;
  const generation::DecodingOptions& wanted;
  const std::vector<int64_t>& ends;
  at::ScalarType compute;

  // For samples of a split. name_of(i): of the i-th one, for the error where its `noun` would be NaN.
  generation::GenerationOptions options(Split split, Purpose purpose, const char* noun,
                                        std::function<std::string(size_t)> name_of) const;

  // Writes the answer to a conversation of so many turns as it comes.
  void reply(const generation::DecoderModel& model, generation::Prompt prompt, size_t turns,
             const pipeline::chat::ChatFormat& format, const ReplySink& sink) const {
    auto options = wanted.decoding(ends, context.seed("reply", turns), compute);
    options.beams = 1;
    pipeline::chat::AnswerStream stream(format, [&](std::string_view text) { sink.text(text); });
    options.on_token = [&](int64_t token) {
      stream.add(token);
      return !context.cancelled();
    };
    static_cast<void>(generation::generate(model, {std::move(prompt)}, options));
    stream.finish();
    if (stream.tokens() == wanted.max_tokens)
      context.info("\n(the answer is cut at task.generate.max_tokens = ", wanted.max_tokens, ")");
  }
};

}  // namespace pipeline::tasks::common
