#include "plugins/data/messages/conversation_store.hpp"

#include <filesystem>
#include <regex>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/record_store/record_writer.hpp"

namespace pipeline::messages {
namespace {

using files::Hash128;

// The conversations in order, each under its number. The last record has the key of the whole and, as its
// payload, this and the report.
constexpr records::Kind kConversations{.name = "PLVLCONV", .version = 4, .remedy = "read the file again"};
struct Head {
  uint64_t conversations;
  Hash128 content;
};

const std::regex& cache_names() {
  static const std::regex names(R"(.+-[0-9a-f]{32}\.conversations(\.part)?|asked-[0-9a-f]{32}\.json)");
  return names;
}

Hash128 number_key(uint64_t i) { return {i, ~uint64_t{0}}; }

std::string name_of(const std::filesystem::path& source) {  // of a folder also with a slash at its end
  const std::filesystem::path last = source.has_filename() ? source : source.parent_path();
  return std::filesystem::path(files::without_packing(last.native())).stem().string();
}

Hash128 key_of(const text_pairs::SourceFile& file, const std::string& options, const std::string& part) {
  files::Hasher128 hasher;
  const std::string name =
      std::filesystem::path(files::without_packing(file.path)).extension();  // the format
  for (const std::string& text : {name, options, part, file.hash.hex()})
    hasher.update(std::to_string(text.size()) + ":" + text);
  return hasher.finish();
}

}  // namespace

ConversationStore::ConversationStore(const std::string& folder, const Source& source,
                                     const files::Hooks& hooks, const files::Part& part) {
  const text_pairs::SourceFile file = source.look(source.path, [&](uint64_t done, uint64_t total) {
    hooks.throw_if_cancelled();
    hooks.report(done, 2 * total);
  });
  const Hash128 key = key_of(file, source.options, part.key());
  const std::string path =
      (std::filesystem::path(folder) / (name_of(source.path) + "-" + key.hex() + ".conversations")).string();
  if (open(path, key)) {
    files::mark_used(path);
    return;
  }
  const files::FileLock lock(
      path + ".lock", [&] { hooks.tell("waiting for another process that is reading " + source.path); },
      hooks.cancelled);
  if (open(path, key)) return;  // whoever held the lock has made it
  ReadReport report;
  files::Hasher128 content;
  Head head{};
  records::RecordWriter writer(path, kConversations);
  source.read(
      [&](Conversation&& conversation) {
        if (!part.takes(source.content(conversation))) return;
        const std::string packed = conversation.pack();
        content.update(files::bytes_of(files::hash128(packed)));
        writer.append(records::make_record(number_key(head.conversations++), packed));
      },
      report, {[&](uint64_t done) {
        hooks.throw_if_cancelled();
        hooks.report(file.bytes + done, 2 * file.bytes);
      }});
  head.content = content.finish();
  writer.append(records::make_record(
      key, std::string(files::bytes_of(head)) + report.notes + '\0' + report.table(source.path)));
  source.check_unchanged(file);
  writer.replace();
  hooks.tell(files::remove_unused(folder, cache_names()));
  if (!open(path, key)) throw DataError(path + ": was written and cannot be read: check the disk");
}

bool ConversationStore::open(const std::string& path, const Hash128& key) {
  records::RecordStore store(path, kConversations);
  const records::Record* const last = store.find(key);
  if (last == nullptr || !store.is_whole(*last)) return false;
  std::string_view payload = store.payload(*last);
  Head head{};
  if (!files::take(payload, head) || store.records().size() != head.conversations + 1) return false;
  size_ = head.conversations;
  fingerprint_ = head.content.hex();
  const size_t end = payload.find('\0');
  notes_ = payload.substr(0, end);
  report_ = payload.substr(end + 1);
  store_ = std::move(store);
  return true;
}

Conversation ConversationStore::operator[](uint64_t i) const {
  const records::Record& record = store_.records().at(i);
  store_.check(record);
  return Conversation::unpack(store_.payload(record));
}

}  // namespace pipeline::messages
