#pragma once

// What the two forms of a tokenizer's files have in common.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::text {

nlohmann::json parse_tokenizer_file(const NamedText& file);

// All of an object of ids by token, checked.
void add_vocab(const nlohmann::json& vocab, const std::string& place, VocabularyBuilder& builder);

// Of an unsigned number; too large ones stay too large.
int64_t id_of(const nlohmann::json& number);

// "left right".
void add_merge_text(std::string_view text, const std::function<std::string()>& place,
                    VocabularyBuilder& builder);

// Each token as files write it, by id.
std::vector<std::string> token_texts(const Vocabulary& vocabulary);

}  // namespace pipeline::text
