#include "plugins/data/messages/conversation_store.hpp"

#include <filesystem>
#include <regex>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/messages/content_groups.hpp"
#include "plugins/data/stores/sample_writer.hpp"

namespace pipeline::messages {
namespace {

using files::Hash128;

// The conversations in order. The summary is the notes, a zero and the report.
constexpr stores::SampleKind kConversations{.name = "PLCONVER", .version = 9};

const std::regex& cache_names() {
  static const std::regex names(
      R"(.+-[0-9a-f]{32}\.conversations(\.part|\.lock)?|asked-[0-9a-f]{32}\.json|source-[0-9a-f]{32}\.hash(\.lock)?)");
  return names;
}

Hash128 key_of(const Source& source, const std::string& part) {
  files::Hasher128 hasher;
  for (const std::string& text : {source.options, part, source.files.hash.hex()})
    hasher.update(std::to_string(text.size()) + ":" + text);
  return hasher.finish();
}

}  // namespace

ConversationStore::ConversationStore(const std::string& folder, const Source& source,
                                     const files::Hooks& hooks, const files::Part& part) {
  const Hash128 key = key_of(source, part.key());
  const auto path =
      std::filesystem::path(folder) / (source.files.stem() + "-" + key.hex() + ".conversations");
  bool is_new = false;
  store_ = stores::open_or_fill(
      path.string(), kConversations, key, "reading " + source.files.named, hooks,
      [&](stores::SampleWriter& writer) {
        is_new = true;
        const ReadHooks reading{.on_bytes =
                                    [&](uint64_t done) {
                                      hooks.throw_if_cancelled();
                                      hooks.report(done, source.files.bytes);
                                    },
                                .threads = hooks.threads};
        ReadReport report;
        ContentGroups groups;
        if (part.held_out > 0 && source.has_several)
          source.read([&](Conversation&& conversation) { groups.join(source.contents(conversation)); },
                      report, reading);
        source.read(
            [&](Conversation&& conversation) {
              if (part.held_out == 0 || part.takes(groups.of(source.contents(conversation).front())))
                writer.append(conversation.pack());
            },
            report, reading);
        sources::check_unchanged(source.files);
        return report.notes + '\0' + report.table(source.files.named);
      });
  if (is_new) hooks.tell(files::remove_unused(folder, cache_names()));
  const std::string& summary = store_.summary();
  const size_t end = summary.find('\0');
  if (end == std::string::npos)
    throw DataError(path.string() + ": what is in it does not fit together: remove it, and it is made again");
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
