#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace pipeline::tokenizer {

// Texts of a Hugging Face folder by the names of their files: what a tokenizer is read from, and what lies
// beside it and beside a model's weights. They go from the folder that a run starts from, through its
// checkpoints, to the one that it exports, as they are.
using Files = std::map<std::string, std::string>;

// The files that save_pretrained() writes beside a tokenizer's tokens: tokenizer_config.json, chat templates,
// ...; and beside a model's weights.
Files files_beside_tokenizer(const std::filesystem::path& folder);
inline constexpr std::initializer_list<const char*> kLanguageModelFiles{"config.json",
                                                                        "generation_config.json"};
inline constexpr std::initializer_list<const char*> kVisionModelFiles{"preprocessor_config.json",
                                                                      "processor_config.json"};
inline constexpr std::initializer_list<const char*> kModelFiles{
    "config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"};
// No file of the folder, but what is kept of its weights (hugging_face/export_form.hpp).
inline constexpr const char* kWeightsText = "weights.kept";
// Those of these names that are there. Throws Error where one cannot be read, is no UTF-8, is no JSON
// although its name says so, or has more than 4 MiB.
Files files_of(const std::filesystem::path& folder, std::initializer_list<const char*> names);

// Whether a tokenizer with these files is the folder's, which may have none of its own.
bool is_of_folder(const Files& tokenizer, const std::filesystem::path& folder);

// Whether a folder's file of this name can be among these.
bool is_folder_file(const std::string& name);

// Files as one text for checkpoints, and back. unpack() throws Error for any other text, and for names that
// is_folder_file() refuses; `name` stands for the text then.
std::string pack(const Files& files);
bool is_packed(std::string_view text);
Files unpack(std::string_view text, const std::string& name);

// Writes a tokenizer's files; a model's are written by who exports it. Waits until they are on the disk.
void write_tokenizer_files(const Files& files, const std::filesystem::path& folder);

}  // namespace pipeline::tokenizer
