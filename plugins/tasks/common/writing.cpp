#include "plugins/tasks/common/writing.hpp"

#include <pipeline/error.hpp>
#include <pipeline/numbers.hpp>

#include "core/base/utf8.hpp"

namespace pipeline::tasks::common {

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
                "\n    written: ", one_line(one.answer, most),
                one.reference ? "\n    reference: " + one_line(*one.reference, most) : "");
}

std::vector<Metric> loss_metrics() {
  return {{.name = "loss", .help = "cross-entropy per target token, in nats"},
          {.name = "perplexity", .help = "exp(loss)", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN}};
}

generation::GenerationOptions Writing::options(Split split, Purpose purpose, const char* noun,
                                               std::function<std::string(size_t)> name_of) const {
  auto options = wanted.decoding(ends, context.seed("generate", static_cast<uint64_t>(split)), compute);
  options.on_step = [context = context] { context.throw_if_cancelled(); };
  options.on_nan = [purpose, noun, name_of = std::move(name_of)](size_t i) {
    // Between steps the run sees by its loss that it has diverged.
    if (purpose != Purpose::kValidate) fail_as_nan(name_of(i), noun);
  };
  return options;
}

}  // namespace pipeline::tasks::common
