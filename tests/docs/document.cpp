#include "tests/docs/document.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iomanip>
#include <iterator>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "scripts/pipeline";

// What documents show was printed on the CPU: it must be, on a machine with a device, too.
[[maybe_unused]] const bool kDevicesAreHidden = ::setenv("CUDA_VISIBLE_DEVICES", "", /*overwrite=*/1) == 0;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Words words_of(const std::string& line) {
  std::istringstream text(line);
  Words words;
  for (std::string word; text >> std::ws && text >> std::quoted(word, text.peek() == '\'' ? '\'' : '"');)
    words.push_back(word);
  return words;
}

}  // namespace

Words guides() {
  Words files;
  for (const auto& entry : fs::directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") files.push_back("docs/" + entry.path().filename().string());
  std::ranges::sort(files);
  return files;
}

Words blocks(const std::string& markdown, const std::string& language) {
  Words found;
  const std::string open = "\n```" + language + "\n", close = "\n```\n";
  for (size_t at = markdown.find(open); at != std::string::npos; at = markdown.find(open, at)) {
    at += open.size();
    const size_t end = markdown.find(close, at - 1);
    if (end == std::string::npos) throw std::runtime_error("a block of code does not end");
    found.push_back(markdown.substr(at, end + 1 - at));
    at = end;
  }
  return found;
}

Words matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  Words found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

Words anchors(const std::string& markdown) {
  Words found;
  for (const std::string& heading : matches(markdown, R"(\n#+ ([^\n]+))")) {
    std::string anchor;
    for (const char c : heading) {
      if (c == ' ')
        anchor += '-';
      else if (c < 0 || std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
        anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    found.push_back(anchor);
  }
  return found;
}

std::vector<Row> table_rows(const std::string& markdown) {
  std::vector<Row> rows;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    const size_t end = line.find(" | ");
    rows.push_back({matches(line.substr(0, end), "`([^`]+)`"), matches(line.substr(end), "`([^`]+)`")});
  }
  return rows;
}

std::vector<Words> commands(const std::string& markdown) {
  static const std::regex kVariables(R"(^(\s*[A-Z_]+=("[^"]*"|\S*))+\s)");
  static const std::regex kContinued(R"(\\\n)");
  std::vector<Words> found;
  for (const std::string& block : blocks(markdown, "sh")) {
    std::istringstream lines(std::regex_replace(block, kContinued, " "));
    for (std::string line; std::getline(lines, line);) {
      const Words words = words_of(std::regex_replace(line.substr(0, line.find('#')), kVariables, ""));
      const auto script =
          std::ranges::find_if(words, [](const auto& word) { return word.starts_with("scripts/"); });
      if (script == words.end()) continue;
      if (!fs::exists(kRoot / *script)) throw std::runtime_error(line + ": there is no " + *script);
      Words arguments(script + 1, words.end());
      if (script->starts_with("scripts/launch/") && !arguments.empty())
        arguments.insert(arguments.begin(), "run");
      else if (*script != kProgram)
        continue;
      found.push_back(std::move(arguments));
    }
  }
  return found;
}

void write_model(const fs::path& folder, const std::string& config) {
  write_text(folder / "config.json", config);
  fs::copy_file(kRoot / "tests/models/tokenizer/fixtures/tokenizer.json", folder / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  write_text(folder / "model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
}

Checkout::Checkout(const std::string& markdown) {
  ::unsetenv("PIPELINE_PLUGIN_PATH");
  ::setenv("XDG_CACHE_HOME", (path() / "cache").c_str(), 1);
  for (const char* name : {"configs", "plugins", "core", "tests"})
    fs::create_directory_symlink(kRoot / name, path() / name);
  write_text(path() / kProgram, "#!/bin/sh\nexec " PIPELINE_EXECUTABLE " \"$@\"\n");
  fs::permissions(path() / kProgram, fs::perms::owner_all);
  // What a reader has made or downloaded, as far as `check` looks at it.
  fs::create_directories(path() / "runs/summarization/checkpoints");
  fs::create_directories(path() / "runs/stable/checkpoints");
  for (const auto& [name, config] : {
           std::pair("gpt2", R"({"model_type": "gpt2"})"),
           std::pair("qwen", R"({"model_type": "qwen2"})"),
           {"qwen-large", R"({"model_type": "qwen2"})"},
           std::pair("esm2-35M",
                     R"({"model_type": "esm", "position_embedding_type": "rotary", "vocab_size": 33,
                                     "mask_token_id": 32})"),
           std::pair("llava", R"({"model_type": "llava", "vision_config": {"model_type": "clip_vision_model"},
                                  "text_config": {"model_type": "llama"}})"),
       }) {
    write_model(path() / "models" / name, config);
  }
  for (const std::string& block : blocks(markdown, "toml")) {
    const Words name = matches(first_line(block), R"(^# ([\w-]+\.toml))");
    if (!name.empty()) write_text(path() / name.front(), block);
  }
  write_data(markdown);
  write_data("train = \"train.jsonl\" pdb_path = \"structures\"");  // of those who have a model alone
  for (const auto& entry : fs::directory_iterator(kRoot / "configs"))
    if (entry.path().extension() == ".toml") write_data(read_text(entry.path()));
}

void Checkout::write_data(const std::string& text) const {
  constexpr const char* kNamed =
      R"re(\b(?:train|val|test|images|sequences|pdb_path|test_path)\s*=\s*"?([\w-][\w./-]*))re";
  for (const std::string& name : matches(text, kNamed))
    if (fs::path(name).has_extension()) {
      write_text(path() / name, "");
    } else {
      fs::create_directories(path() / name);
      write_text(path() / name / "a.txt", "");
    }
}

Result Checkout::run(Words arguments) const {
  arguments.insert(arguments.begin(), PIPELINE_EXECUTABLE);
  return Process(arguments, path()).wait();
}

Result Checkout::run_script(const std::string& script) const {
  return Process({"/bin/bash", "-euc", script}, path()).wait();
}

}  // namespace pipeline::tests
