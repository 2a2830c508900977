#include "plugins/data/picture_texts/shards.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "plugins/data/messages/message_records.hpp"
#include "plugins/data/picture_texts/tar_archive.hpp"
#include "plugins/data/text_pairs/pairs.hpp"

namespace pipeline::picture_texts {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr uint64_t kMostTextBytes = uint64_t{16} << 20;
constexpr std::string_view kPictures[] = {"jpg", "jpeg", "png", "webp", "gif"};
constexpr std::string_view kTexts[] = {"txt", "caption", "json"};

// The files of one sample.
struct Sample {
  std::string key, text, kind;            // kind: of kTexts
  std::map<int64_t, std::string> images;  // by number; kAlone: of one that has none
  std::string problem;                    // why it cannot be used
};
constexpr int64_t kAlone = -1;

// What the text says of the picture.
Conversation conversation_of(Sample&& sample, const CaptionColumns& columns) {
  std::vector<messages::Picture> pictures;
  for (auto& [number, name] : sample.images) pictures.emplace_back(std::move(name));
  Conversation result;
  if (sample.kind == "json") {
    json object = messages::parse_record(sample.text);
    if (!object.is_object()) throw DataError("its text is not a JSON object");
    for (const char* key : {"image", "images"}) object.erase(key);  // it is in the archive
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
    if (text_pairs::is_blank(sample.text)) sample.text.clear();
    result.turns = turns_about_pictures("", std::max<size_t>(pictures.size(), 1), std::move(sample.text));
    result.images = std::move(pictures);
  }
  result.id = std::move(sample.key);
  return result;
}

bool is_one_of(const auto& kinds, std::string_view kind) {
  return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

// Of a picture's kind, "jpg" or, with a number, "0.jpg"; nothing for other kinds.
std::optional<int64_t> number_of_picture(std::string_view kind) {
  const size_t dot = kind.find('.');
  if (dot == std::string_view::npos) return is_one_of(kPictures, kind) ? std::optional(kAlone) : std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(kind.data(), kind.data() + dot, number);
  const bool is_number = error == std::errc() && end == kind.data() + dot && number >= 0;
  return is_number && is_one_of(kPictures, kind.substr(dot + 1)) ? std::optional(number) : std::nullopt;
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
      ++collector.report().records;
      std::string where = archive + ": " + printable(sample->key, "");
      const size_t size = sample->text.size();
      collector.add(
          [one = std::move(*sample), columns]() mutable {
            if (!one.problem.empty()) throw DataError(one.problem);
            if (first_invalid_utf8(one.text) != std::string::npos) throw DataError("text that is not UTF-8");
            try {
              return conversation_of(std::move(one), columns);
            } catch (const DataError& error) {
              throw messages::RecordProblem("JSON of another form", error.what());
            }
          },
          std::move(where), size);
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
      std::string kind = name.substr(dot + 1);
      std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
      take_file(*sample, reader, std::move(kind), shard);
      if (hooks.on_bytes) hooks.on_bytes(bytes + reader.position());
    }
    finish();
    bytes += fs::file_size(shard);
  }
  collector.finish();
}

}  // namespace pipeline::picture_texts
