#include "plugins/data/picture_texts/conversation.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "plugins/data/files/folder_search.hpp"
#include "plugins/data/files/regular_file.hpp"
#include "plugins/data/messages/message_records.hpp"
#include "plugins/data/picture_texts/tar_archive.hpp"
#include "plugins/data/records/pairs.hpp"

namespace pipeline::picture_texts {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr uint64_t kMostTextBytes = uint64_t{16} << 20;
constexpr std::string_view kPictures[] = {"jpg", "jpeg", "png", "webp", "gif"};
constexpr std::string_view kTexts[] = {"txt", "caption", "json"};

// The files of one sample.
struct Sample {
  std::string key = {}, text = {}, kind = {};  // kind: of kTexts
  std::map<int64_t, std::string> images = {};  // by number; kAlone: of one that has none
  std::string problem = {};                    // why it cannot be used
};
constexpr int64_t kAlone = -1;

// The conversation that a sample's text makes about its pictures.
Conversation conversation_of(Sample&& sample, const CaptionColumns& columns) {
  std::vector<messages::Picture> pictures;
  for (auto& [number, name] : sample.images) pictures.emplace_back(std::move(name));
  Conversation result;
  if (sample.kind == "json") {
    json object = messages::parse_record(sample.text);
    if (!object.is_object()) throw DataError("its text is not a JSON object");
    for (const char* key : {"image", "images"}) object.erase(key);  // the pictures are in the archive
    if (messages::has_turns(object)) {
      result = conversation_about_pictures(object, columns.answers);
      result.images = std::move(pictures);
    } else {
      CaptionColumns texts = columns;
      texts.answer_required = false;  // the collector asks for it
      result = caption_of(object, std::move(pictures), texts);
    }
  } else {
    if (sample.text.ends_with('\n')) sample.text.pop_back();
    if (records::is_blank(sample.text)) sample.text.clear();
    result.turns = turns_about_pictures("", std::max<size_t>(pictures.size(), 1), std::move(sample.text));
    result.images = std::move(pictures);
  }
  result.id = std::move(sample.key);
  return result;
}

bool is_one_of(const auto& kinds, std::string_view kind) {
  return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

// The number in a picture's kind: 0 for "0.jpg", kAlone for "jpg"; nothing for other kinds.
std::optional<int64_t> number_of_picture(std::string_view kind) {
  const size_t dot = kind.find('.');
  if (dot == std::string_view::npos) return is_one_of(kPictures, kind) ? std::optional(kAlone) : std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(kind.data(), kind.data() + dot, number);
  const bool is_number = error == std::errc() && end == kind.data() + dot && number >= 0;
  return is_number && is_one_of(kPictures, kind.substr(dot + 1)) ? std::optional(number) : std::nullopt;
}

// Makes a conversation of the sample, which the report calls `where`.
void add_sample(Sample&& sample, std::string where, const CaptionColumns& columns,
                messages::Collector& collector) {
  ++collector.report().records;
  const size_t size = sample.text.size();
  collector.add(
      [one = std::move(sample), columns]() mutable {
        if (!one.problem.empty()) throw DataError(one.problem);
        if (first_invalid_utf8(one.text) != std::string::npos) throw DataError("text that is not UTF-8");
        try {
          return conversation_of(std::move(one), columns);
        } catch (const DataError& error) {
          throw messages::RecordProblem("JSON of another form", error.what());
        }
      },
      std::move(where), size);
}

// Takes the file that the reader has come to into the sample; `kind` is what follows the first dot of its
// name.
void take_file(Sample& sample, TarReader& reader, std::string&& kind, const fs::path& shard) {
  if (const std::optional<int64_t> number = number_of_picture(kind)) {
    const bool is_new =
        sample.images.emplace(*number, shard.filename().string() + "/" + reader.name()).second;
    if (!is_new || (sample.images.size() > 1 && sample.images.contains(kAlone)))
      sample.problem = "two pictures in one sample, without numbers of their own, as in 0001.0.jpg";
    return;
  }
  if (!is_one_of(kTexts, kind)) return;
  // Beside a plain caption, JSON is what a downloader has noted.
  if (!sample.kind.empty() && kind == "json") return;
  if (!reader.problem().empty()) {
    sample.problem = "a text that is a link to no file of the archive: pack the file (tar --dereference)";
    return;
  }
  if (!sample.kind.empty() && sample.kind != "json") sample.problem = "two captions in one sample";
  if (reader.bytes() > kMostTextBytes)
    throw DataError(shard.string() + ": " + printable(reader.name(), "") + ": has " +
                    std::to_string(reader.bytes()) + " bytes: a text may have " +
                    std::to_string(kMostTextBytes));
  const std::vector<std::byte> text = reader.read();
  sample.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  sample.kind = std::move(kind);
}

}  // namespace

void read_shards(const sources::SourceFiles& source, const CaptionColumns& columns,
                 messages::Collector& collector, const ReadHooks& hooks) {
  uint64_t bytes = 0;
  for (const fs::path shard : source.paths) {
    const std::string archive = shard.filename().string();
    std::optional<Sample> sample;
    const auto finish = [&] {
      if (!sample) return;
      std::string where = archive + ": " + printable(sample->key, "");
      add_sample(std::move(*sample), std::move(where), columns, collector);
    };
    for (TarReader reader(shard); reader.next();) {
      const std::string& name = reader.name();
      const size_t base = name.rfind('/') + 1;  // npos + 1 is 0
      const size_t dot = name.find('.', base);
      if (dot == std::string::npos || dot == base) continue;  // no sample's, or hidden
      if (!sample || sample->key != name.substr(0, dot)) {
        finish();
        sample = Sample{.key = name.substr(0, dot), .text = {}, .kind = {}, .images = {}, .problem = {}};
      }
      take_file(*sample, reader, files::in_small_letters(name.substr(dot + 1)), shard);
      if (hooks.on_bytes) hooks.on_bytes(bytes + reader.position());
    }
    finish();
    bytes += fs::file_size(shard);
  }
  collector.finish();
}

void read_pictures_with_texts(const sources::SourceFiles& source, const CaptionColumns& columns,
                              messages::Collector& collector, const ReadHooks& hooks) {
  std::map<std::string, Sample> samples;
  uint64_t bytes = 0;
  for (const fs::path path : source.paths) {
    const std::string name = path.filename(), key = path.stem();
    std::string kind = files::in_small_letters(name.substr(std::min(key.size() + 1, name.size())));
    Sample& sample = samples.try_emplace(key, Sample{.key = key}).first->second;
    if (is_one_of(kPictures, kind)) {
      if (!sample.images.emplace(kAlone, name).second) sample.problem = "two pictures of one name";
      continue;
    }
    // Beside a plain caption, JSON is what a downloader has noted.
    if (sample.kind == "json" ? kind == "json" : !sample.kind.empty() && kind != "json")
      sample.problem = "two captions of one name";
    if (!sample.kind.empty() && kind == "json") continue;
    sample.text = files::read_regular(path, kMostTextBytes);
    sample.kind = std::move(kind);
    if (hooks.on_bytes) hooks.on_bytes(bytes += sample.text.size());
  }
  for (auto& [key, sample] : samples) {
    if (sample.kind.empty()) sample.problem = "no text of the picture's name beside it";
    add_sample(std::move(sample), printable(key, ""), columns, collector);
  }
  collector.finish();
}

}  // namespace pipeline::picture_texts
