#include "plugins/data/picture_texts/conversation.hpp"

#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/records/input.hpp"

namespace pipeline::picture_texts {
namespace {

using json = nlohmann::ordered_json;
using Fields = std::map<std::string, std::string>;

// The bytes of a file for a parser.
class Bytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Bytes() = default;
  explicit Bytes(records::Input& input) : input_(&input) {}
  char operator*() const { return static_cast<char>(input_->peek()); }
  Bytes& operator++() {
    input_->advance(1);
    return *this;
  }
  bool operator==(const Bytes&) const { return input_ == nullptr || input_->peek() < 0; }  // with the end

 private:
  records::Input* input_ = nullptr;
};

// The records of the lists that an object has: {"images": [{"id": 1, "file_name": "a.jpg"}]}. What lies
// deeper in them, such as outlines, is passed over.
class Lists : public nlohmann::json_sax<json> {
 public:
  // Returns false to end the reading.
  using OnRecord = std::function<bool(const std::string& list, Fields&& record)>;
  explicit Lists(OnRecord on_record) : on_record_(std::move(on_record)) {}

  // What is wrong with the text where it is not JSON.
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t value) override { return scalar(std::to_string(value)); }
  bool number_unsigned(uint64_t value) override { return scalar(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return scalar(text); }
  bool string(std::string& text) override { return scalar(std::move(text)); }
  bool binary(json::binary_t&) override { return false; }
  bool key(std::string& name) override {
    if (depth_ == 1) list_ = name;
    if (depth_ == 3) field_ = name;
    return true;
  }
  bool start_object(size_t) override {
    if (++depth_ == 3) record_.clear();
    return true;
  }
  bool end_object() override { return depth_-- != 3 || on_record_(list_, std::move(record_)); }
  bool start_array(size_t) override { return depth_++ > 0; }
  bool end_array() override { return --depth_ > 0; }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    problem_ = "it is no JSON after its byte " + std::to_string(at);
    return false;
  }

 private:
  bool scalar(std::string text) {
    if (depth_ == 3) record_[field_] = std::move(text);
    return true;
  }

  OnRecord on_record_;
  size_t depth_ = 0;
  std::string list_, field_, problem_;
  Fields record_;
};

bool is_picture(const std::string& list, const Fields& record) {
  return list == "images" && record.contains("id") && record.contains("file_name");
}

bool is_annotation(const std::string& list, const Fields& record) {
  return list == "annotations" && record.contains("image_id");
}

struct Annotation {
  std::string id, image, caption;
};

}  // namespace

bool is_coco(const std::string& path, const ReadHooks& hooks) {
  bool found = false;
  Lists lists([&](const std::string& list, Fields&& record) {
    found = is_picture(list, record) || is_annotation(list, record);
    return !found && list != "images" && list != "annotations";
  });
  records::Input input(path, [&](uint64_t) {
    if (hooks.on_bytes) hooks.on_bytes(0);  // only looked at: no progress, but it may be stopped
  });
  json::sax_parse(Bytes(input), Bytes(), &lists, json::input_format_t::json, false);
  return found;
}

void read_coco(const sources::SourceFiles& source, const CaptionColumns& columns,
               messages::Collector& collector, const ReadHooks& hooks) {
  uint64_t before = 0;
  for (size_t i = 0; i < source.paths.size(); ++i) {
    std::unordered_map<std::string, std::string> names;  // of pictures, by id
    std::vector<Annotation> annotations;
    Lists lists([&](const std::string& list, Fields&& record) {
      if (is_picture(list, record)) names[record["id"]] = std::move(record["file_name"]);
      if (is_annotation(list, record))
        annotations.push_back({record["id"], record["image_id"], std::move(record[columns.caption])});
      return true;
    });
    uint64_t done = 0;
    records::Input input(source.paths[i], [&](uint64_t bytes) {
      done = bytes;
      if (hooks.on_bytes) hooks.on_bytes(before + bytes);
    });
    if (!json::sax_parse(Bytes(input), Bytes(), &lists))
      throw DataError(source.paths[i] + ": begins as COCO's annotations do, and " +
                      (lists.problem().empty() ? "is another object then" : lists.problem()));
    before += done;
    const std::string& file = source.name_of(i);
    for (Annotation& one : annotations) {
      ++collector.report().records;
      const auto name = names.find(one.image);
      const size_t size = one.caption.size();
      std::string where = (file.empty() ? "" : file + ", ") + "annotation " + one.id;
      collector.add(
          [one = std::move(one), columns, name = name == names.end() ? "" : name->second]() {
            if (name.empty()) throw DataError("an \"image_id\" that no picture of the file has");
            json object;
            object[columns.caption] = one.caption;
            Conversation result = caption_of(object, {name}, columns);
            result.id = one.id;
            return result;
          },
          std::move(where), size);
    }
  }
  collector.finish();
}

}  // namespace pipeline::picture_texts
