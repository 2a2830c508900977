#include "core/observe/event_file.hpp"

#include <bit>
#include <chrono>
#include <span>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/socket.hpp"
#include "core/safetensors/crc32c.hpp"

namespace pipeline::observe {
namespace {

static_assert(std::endian::native == std::endian::little, "both formats are little-endian");

using WallClock = std::chrono::system_clock;

// Protocol buffers: a message is a sequence of fields, each its number and wire type, then its value.
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class T>
void put_fixed(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_key(std::string& out, unsigned field, WireType type) { put_varint(out, field << 3 | type); }

void put_bytes(std::string& out, unsigned field, std::string_view value) {
  put_key(out, field, kBytes);
  put_varint(out, value.size());
  out += value;
}

// An Event's time and step; one more field says what it is.
std::string event_at(uint64_t step) {
  std::string event;
  put_key(event, 1, kFixed64);
  put_fixed(event, std::chrono::duration<double>(WallClock::now().time_since_epoch()).count());
  put_key(event, 2, kVarint);
  put_varint(event, step);
  return event;
}

// Summary.Value with a tag and a simple_value.
std::string scalar(std::string_view tag, float value) {
  std::string out;
  put_bytes(out, 1, tag);
  put_key(out, 2, kFixed32);
  put_fixed(out, value);
  return out;
}

// TensorFlow masks a checksum, so that data that holds checksums has a good one itself.
void put_checksum(std::string& out, std::string_view data) {
  const uint32_t crc = safetensors::crc32c(0, std::as_bytes(std::span(data)));
  put_fixed(out, std::rotr(crc, 15) + 0xa282ead8U);
}

std::string as_record(std::string_view event) {
  std::string record;
  put_fixed(record, static_cast<uint64_t>(event.size()));
  put_checksum(record, std::string(record));
  record += event;
  put_checksum(record, event);
  return record;
}

// TensorBoard reads a folder's files in the order of their names.
std::string file_name() {
  const auto now = std::chrono::nanoseconds(WallClock::now().time_since_epoch()).count();
  return fmt::format("events.out.tfevents.{:010}.{:09}.{}", now / 1'000'000'000, now % 1'000'000'000,
                     host_name());
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, uint64_t first_step) : file_(folder / file_name()) {
  std::string version = event_at(0);
  put_bytes(version, 3, "brain.Event:2");
  file_.append(as_record(version));
  std::string start;  // SessionLog with the status START
  put_key(start, 1, kVarint);
  put_varint(start, 1);
  std::string restart = event_at(first_step);
  put_bytes(restart, 7, start);
  file_.append(as_record(restart));
}

bool EventFile::append(std::string_view group, const nlohmann::ordered_json& line) {
  std::string summary;
  for (const auto& [name, value] : line.items())
    if (name != "step" && (value.is_number() || value.is_boolean()))
      put_bytes(summary, 1,
                scalar(fmt::format("{}/{}", group, name),
                       value.is_boolean() ? static_cast<float>(value.get<bool>()) : value.get<float>()));
  std::string event = event_at(line.at("step").get<uint64_t>());
  put_bytes(event, 5, summary);
  return file_.append(as_record(event));
}

}  // namespace pipeline::observe
