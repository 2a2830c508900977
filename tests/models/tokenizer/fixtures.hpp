#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <test_paths.hpp>

#include "tests/support/test_files.hpp"
#include "tokenizer/byte_level_bpe.hpp"

namespace pipeline::tests {

// What Hugging Face's `tokenizers` wrote and answered; see tests/parity/record_tokenizer.py.
inline std::string fixture(const std::string& name) {
  return PIPELINE_SOURCE_DIR "/tests/models/tokenizer/fixtures/" + name;
}

struct EncodeCase {
  std::string text;
  std::vector<std::string> pieces;
  std::vector<int32_t> ids;
};

struct DecodeCase {
  std::vector<int32_t> ids;
  std::string text;
};

inline const nlohmann::json& cases() {
  static const auto cases = nlohmann::json::parse(read_all(fixture("cases.json")));
  return cases;
}

inline std::vector<EncodeCase> encode_cases() {
  std::vector<EncodeCase> result;
  for (const auto& entry : cases().at("encode")) {
    result.push_back({entry.at("text"), entry.at("pieces"), entry.at("ids")});
  }
  return result;
}

inline std::vector<DecodeCase> decode_cases() {
  std::vector<DecodeCase> result;
  for (const auto& entry : cases().at("decode")) result.push_back({entry.at("ids"), entry.at("text")});
  return result;
}

inline const tokenizer::ByteLevelBpe& trained_tokenizer() {
  static const auto tokenizer = tokenizer::ByteLevelBpe::load(fixture("tokenizer.json"));
  return tokenizer;
}

}  // namespace pipeline::tests
