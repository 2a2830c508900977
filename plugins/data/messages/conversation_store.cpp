#include "plugins/data/messages/conversation_store.hpp"

namespace pipeline::messages {
namespace {

using files::Hash128;

// The conversations in order. The summary is the notes, a zero and the report.
constexpr stores::SampleKind kConversations{
    .name = "PLCONVER", .version = 9, .ending = "conversations", .others = R"(asked-[0-9a-f]{32}\.json|)"};

Hash128 key_of(const Source& source, const std::string& part) {
  files::Hasher128 hasher;
  for (const std::string& text : {source.options, part, source.files.hash.hex()}) hasher.update_text(text);
  return hasher.finish();
}

}  // namespace

ConversationStore::ConversationStore(const std::string& folder, const Source& source,
                                     const files::Hooks& hooks, const files::SplitPart& part) {
  const stores::SampleSource file{.folder = folder,
                                  .name = source.files.stem(),
                                  .key = key_of(source, part.key()),
                                  .what = "reading " + source.files.named};
  store_ = stores::open_or_fill(file, kConversations, hooks, [&](stores::SampleWriter& writer) {
    const ReadHooks reading{.on_bytes =
                                [&](uint64_t done) {
                                  hooks.throw_if_cancelled();
                                  hooks.report(done, source.files.bytes);
                                },
                            .threads = hooks.threads};
    ReadReport report;
    files::ContentGroups groups;
    if (part.held_out > 0 && source.has_several)
      source.read([&](Conversation&& conversation) { groups.join(source.contents(conversation)); }, report,
                  reading);
    source.read(
        [&](Conversation&& conversation) {
          if (part.held_out == 0 || part.takes(groups.of(source.contents(conversation).front())))
            writer.append(conversation.pack());
        },
        report, reading);
    sources::check_unchanged(source.files);
    return report.notes + '\0' + report.table(source.files.named);
  });
  const std::string& summary = store_.summary();
  const size_t end = summary.find('\0');
  if (end == std::string::npos)
    throw DataError(store_.path() + ": what is in it does not fit together: remove it, and it is made again");
  notes_ = summary.substr(0, end);
  report_ = summary.substr(end + 1);
}

Conversation ConversationStore::operator[](uint64_t i) const {
  return Conversation::unpack(store_[i].payload());
}

StoredTexts texts_of(std::vector<const ConversationStore*> stores) {
  StoredTexts result;
  for (const ConversationStore* store : stores) {
    result.fingerprint += (result.fingerprint.empty() ? "" : " ") + store->fingerprint();
    result.conversations += store->size();
  }
  result.each = [stores = std::move(stores)](const auto& text, const auto& read) {
    uint64_t done = 0;
    for (const ConversationStore* store : stores)
      for (uint64_t i = 0; i < store->size(); ++i) {
        for (const Turn& turn : (*store)[i].turns) text(turn.text);
        if (++done % 256 == 0) read(done);
      }
  };
  return result;
}

}  // namespace pipeline::messages
