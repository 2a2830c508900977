#include "plugins/tasks/text/evaluation.hpp"

#include <pipeline/error.hpp>

#include "core/base/utf8.hpp"

namespace pipeline::tasks::text {

std::string one_line(std::string text, size_t most) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  text.resize(text.find_last_not_of(' ') + 1);
  if (text.size() > most) text = std::string(utf8_prefix(text, most)) + " ...";
  return text.empty() ? "(nothing)" : text;
}

std::string sample_text(const Answered& one, size_t most) {
  return concat("  ", one_line(one.question.name, most), ": ", one.question.shown,
                "\n    real:    ", one_line(one.question.truth, most),
                "\n    written: ", one_line(one.answer, most));
}

std::vector<Metric> loss_metrics() {
  return {{.name = "loss", .help = "cross-entropy per target token, in nats"},
          {.name = "perplexity", .help = "exp(loss)", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN}};
}

}  // namespace pipeline::tasks::text
