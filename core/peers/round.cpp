#include "core/peers/server.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/base/fail.hpp"
#include "core/peers/frame.hpp"

namespace pipeline::peers {
namespace {

std::string label(Collective kind, const std::string& channel) {
  return fmt::format("{} of '{}'", name_of(kind), channel);
}

}  // namespace

const char* name_of(Collective kind) {
  switch (kind) {
    case Collective::all_gather:
      return "all_gather";
    case Collective::gather:
      return "gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::barrier:
      return "barrier";
  }
  return "unknown exchange";
}

std::string pack(const std::vector<std::string>& parts) {
  std::size_t size = parts.size() * sizeof(uint64_t);
  for (const std::string& part : parts) size += part.size();
  std::string packed;
  packed.reserve(size);
  for (const std::string& part : parts) {
    const uint64_t length = part.size();
    packed.append(reinterpret_cast<const char*>(&length), sizeof length);
  }
  for (const std::string& part : parts) packed += part;
  return packed;
}

std::vector<std::string> unpack(std::string_view packed, std::size_t count) {
  const auto damaged = [] { return Error(PL_ERROR_CORRUPT, "an exchange's reply is damaged"); };
  if (packed.size() / sizeof(uint64_t) < count) throw damaged();
  std::string_view data = packed.substr(count * sizeof(uint64_t));
  std::vector<std::string> parts(count);
  for (std::size_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, packed.data() + i * sizeof length, sizeof length);
    if (length > data.size()) throw damaged();
    parts[i] = data.substr(0, length);
    data.remove_prefix(length);
  }
  if (!data.empty()) throw damaged();
  return parts;
}

std::optional<std::vector<Bytes>> Rounds::add(int32_t rank, Collective kind, const std::string& channel,
                                              std::string part) {
  auto [entry, is_new] = open_.try_emplace(channel, Round{kind, rank, {}, 0});
  Round& round = entry->second;
  if (is_new) round.parts.resize(static_cast<std::size_t>(ranks_));
  if (round.kind != kind)
    fail(
        "it calls {} where rank {} calls {}: all ranks have to call the same exchanges of a channel in the "
        "same order",
        label(kind, channel), round.first, name_of(round.kind));
  std::optional<std::string>& mine = round.parts[static_cast<std::size_t>(rank)];
  if (mine) fail("it calls {} from two threads at once", label(kind, channel));
  mine = std::move(part);
  if (++round.count < ranks_) return std::nullopt;
  std::vector<Bytes> result = replies(round);
  open_.erase(entry);
  return result;
}

std::vector<Bytes> Rounds::replies(Round& round) const {
  static const Bytes kEmpty = std::make_shared<const std::string>();
  std::vector<Bytes> result(static_cast<std::size_t>(ranks_), kEmpty);
  if (round.kind == Collective::barrier) return result;
  if (round.kind == Collective::broadcast) {
    const auto given = std::make_shared<const std::string>(std::move(*round.parts[0]));
    for (std::size_t rank = 1; rank < result.size(); ++rank) result[rank] = given;
    return result;
  }
  std::vector<std::string> parts;
  for (auto& part : round.parts) parts.push_back(std::move(*part));
  const auto all = std::make_shared<const std::string>(pack(parts));
  if (all->size() > kMaxBody)
    fail("the ranks' parts of {} are {} bytes together, at most {} can be exchanged at once",
         name_of(round.kind), all->size(), kMaxBody);
  if (round.kind == Collective::gather)
    result[0] = all;
  else
    result.assign(result.size(), all);
  return result;
}

std::string Rounds::waits_in(int32_t rank) const {
  for (const auto& [channel, round] : open_)
    if (round.parts[static_cast<std::size_t>(rank)]) return label(round.kind, channel);
  return {};
}

std::string Rounds::waits_for(int32_t rank) const {
  for (const auto& [channel, round] : open_)
    if (!round.parts[static_cast<std::size_t>(rank)]) return label(round.kind, channel);
  return {};
}

}  // namespace pipeline::peers
