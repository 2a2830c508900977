// What the model of a text task writes, beside what people wrote.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::tasks::text {

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
};

// A text for the log: one line of so many bytes at most, whatever an untrained model writes.
std::string one_line(std::string text, size_t most = std::string::npos);

// A sample of an evaluation, for the log.
std::string sample_text(const Answered& one, size_t most = std::string::npos);

// "loss" and "perplexity".
std::vector<Metric> loss_metrics();

}  // namespace pipeline::tasks::text
