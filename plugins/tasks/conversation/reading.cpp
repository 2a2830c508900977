#include "plugins/tasks/conversation/reading.hpp"

#include <utility>
#include <vector>

#include "plugins/tasks/conversation/sequence.hpp"

namespace pipeline::tasks::conversation {

stores::TokenReport read_samples(const sources::SourceFiles& files, const files::SplitPart& part,
                                 const stores::TokenSink& add, const files::Hooks& hooks,
                                 const SampleMaker& maker, const ReadConversations& read) {
  const auto pack = [&](const Conversation& conversation, std::string& sample) {
    std::string problem = maker.problem_of(conversation);
    if (!problem.empty() || (part.is_validation && !part.takes(first_question(conversation)))) return problem;
    try {
      sample = maker.sample_of(conversation);
    } catch (const Error& error) {
      problem = error.what();
    }
    return problem;
  };
  const auto take = [&](Conversation&& conversation, std::string&& sample) {
    if (part.takes(first_question(conversation))) add(std::move(sample));
  };
  messages::ReadReport report;
  messages::Collector collector(pack, take, report, hooks.threads);
  read(collector, {.on_bytes =
                       [&](uint64_t done) {
                         hooks.throw_if_cancelled();
                         hooks.report(done, files.bytes);
                       },
                   .threads = hooks.threads});
  report.require_used(files.named);
  sources::check_unchanged(files);
  return {.records = report.records,
          .used = report.used,
          .drops = report.table(files.named),
          .notes = report.notes};
}

messages::Source plain_source(const sources::SourceFiles& files, const std::string& options,
                              const ReadConversations& read) {
  const auto read_all = [files, read](const auto& sink, messages::ReadReport& report,
                                      const messages::ReadHooks& hooks) {
    messages::Collector collector([](const Conversation& one) { return problem_of(one, true); }, sink, report,
                                  hooks.threads);
    read(collector, hooks);
    report.require_used(files.named);
  };
  return {.files = files, .options = options, .read = read_all, .contents = [](const Conversation& one) {
            return std::vector{first_question(one)};
          }};
}

}  // namespace pipeline::tasks::conversation
