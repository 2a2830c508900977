#include "plugins/data/proteins/learnt.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <array>
#include <iterator>

#include <nlohmann/json.hpp>

#include "plugins/data/files/appended_file.hpp"
#include "plugins/data/files/data_errors.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::proteins {
namespace {

using files::bytes_of;

constexpr const char* kLearntFile = "learnt-from.json";

nlohmann::json to_json(const Learnt& learnt) {
  nlohmann::json json{{"training", learnt.training.keys()}, {"validation", learnt.validation.keys()}};
  if (learnt.training.bound() != UINT64_MAX) json["training_up_to"] = learnt.training.bound();
  if (learnt.validation.bound() != UINT64_MAX) json["validation_up_to"] = learnt.validation.bound();
  return json;
}

Learnt learnt_from(const nlohmann::json& json, const std::string& where) {
  const auto keys = [&](const char* name) {
    const bool right =
        json.is_object() && json.contains(name) && json[name].is_array() &&
        std::ranges::all_of(json[name], [](const auto& key) { return key.is_number_unsigned(); });
    if (!right)
      fail_with(PL_ERROR_FAILED, where, " cannot be read: '", name,
                "' must be an array with a number for each chain of the training's data");
    const std::string up_to = std::string(name) + "_up_to";
    const bool has_bound = json.contains(up_to) && json[up_to].is_number_unsigned();
    return ContentKeys(json[name].get<std::vector<uint64_t>>(),
                       has_bound ? json[up_to].get<uint64_t>() : UINT64_MAX);
  };
  return {.training = keys("training"), .validation = keys("validation")};
}

}  // namespace

uint64_t content_key(std::span<const residues::Residue> chain) {
  files::Hasher128 hasher;
  for (const residues::Residue& residue : chain) {
    hasher.update(bytes_of(residue.amino_acid));
    hasher.update(bytes_of(residue.n)).update(bytes_of(residue.ca)).update(bytes_of(residue.c));
  }
  return hasher.finish().low;
}

uint64_t content_key(std::span<const uint8_t> codes) {
  constexpr std::array<residues::Vec3, 3> kNowhere{};
  files::Hasher128 hasher;
  for (const uint8_t code : codes) hasher.update(bytes_of(code)).update(bytes_of(kNowhere));
  return hasher.finish().low;
}

uint64_t content_key(std::span<const uint64_t> chains) {
  if (chains.size() == 1) return chains.front();
  files::Hasher128 hasher;
  for (const uint64_t chain : chains) hasher.update(bytes_of(chain));
  return hasher.finish().low;
}

void ContentKeys::add(std::vector<uint64_t> keys) {
  std::ranges::sort(keys);
  std::vector<uint64_t> all;
  std::ranges::set_union(keys_, keys, std::back_inserter(all));
  all.erase(std::unique(all.begin(), all.end()), all.end());
  all.erase(std::ranges::upper_bound(all, bound_), all.end());
  if (all.size() > kMost) {
    all.resize(kMost);
    bound_ = all.back();
  }
  keys_ = std::move(all);
}

void ContentKeys::add(const ContentKeys& other) {
  bound_ = std::min(bound_, other.bound_);
  add(other.keys_);
}

bool ContentKeys::has_any(std::span<const uint64_t> keys) const {
  return std::ranges::any_of(keys, [&](uint64_t key) { return std::ranges::binary_search(keys_, key); });
}

void Learnt::add(const Learnt& other) {
  training.add(other.training);
  validation.add(other.validation);
}

std::string to_text(const TaskState& state) {
  nlohmann::json json{
      {"frequencies", state.frequencies}, {"model", state.model}, {"learnt", to_json(state.learnt)}};
  if (state.labels) json["labels"] = *state.labels;
  return json.dump();
}

TaskState state_from(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  TaskState state;
  const auto is_number = [](const nlohmann::json& value) { return value.is_number(); };
  if (!json.is_object() || !json.contains("frequencies") ||
      json["frequencies"].size() != residues::kAminoAcidCount ||
      !std::ranges::all_of(json["frequencies"], is_number) ||
      (json.contains("model") && !json["model"].is_string()))
    fail_with(PL_ERROR_FAILED, "the checkpoint's state of the protein task cannot be read: it has ",
              text.size(), " bytes, and must be JSON with 'frequencies', ", residues::kAminoAcidCount,
              " numbers, and 'model', a text if any");
  for (size_t a = 0; a < residues::kAminoAcidCount; ++a) state.frequencies[a] = json["frequencies"][a];
  state.model = json.value("model", "");
  state.learnt =
      learnt_from(json.value("learnt", nlohmann::json()), "the checkpoint's state of the protein task");
  if (json.contains("labels")) try {
      state.labels = json["labels"].get<records::LabelScale>();
    } catch (const nlohmann::json::exception& error) {
      fail_with(PL_ERROR_FAILED,
                "the checkpoint's state of the protein task cannot be read: 'labels': ", error.what());
    }
  return state;
}

void write_learnt(const std::filesystem::path& folder, const Learnt& learnt) {
  files::with_data_errors([&] {
    files::AppendedFile file((folder / kLearntFile).string());
    file.append(to_json(learnt).dump() + "\n");
    file.replace();
  });
}

std::optional<Learnt> read_learnt(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kLearntFile;
  if (!std::filesystem::exists(file)) return std::nullopt;
  const std::string text = files::read_regular(file.string(), files::kMostSettings);
  return learnt_from(nlohmann::json::parse(text, nullptr, false), file.string());
}

}  // namespace pipeline::proteins
