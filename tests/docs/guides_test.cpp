// The guides in docs/: their snippets are accepted, their small job runs as it is written, the messages and
// options that they name exist.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/docs/document.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

std::string guide(const std::string& name) { return read_text(kRoot / "docs" / name); }

TEST(Guides, AreAllInTheirIndex) {
  const std::string index = guide("README.md");
  ASSERT_GT(guides().size(), 10u);
  for (const std::string& file : guides()) {
    const std::string name = fs::path(file).filename();
    EXPECT_TRUE(name == "README.md" || index.find("](" + name + ")") != std::string::npos) << name;
  }
}

// The folders that snippets begin with.
void write_models(const fs::path& folder) {
  const auto write = [&](const char* name, const std::string& config) { write_model(folder / name, config); };
  write("gpt2", R"({"model_type": "gpt2"})");
  write("llava", R"({"model_type": "llava", "text_config": {"model_type": "llama"}, "vision_config":
    {"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14, "hidden_size": 1024,
     "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}})");
  write("minilm", R"({"model_type": "bert"})");
  write("clip",
        R"({"model_type": "clip", "text_config": {}, "vision_config": {"model_type": "clip_vision_model"}})");
  write("esm2-35M", R"({"model_type": "esm", "vocab_size": 33, "mask_token_id": 32,
    "position_embedding_type": "rotary"})");
}

TEST(Guides, SnippetsPassTheCheck) {
  for (const std::string& file : guides()) {
    const std::string text = read_text(kRoot / file);
    const Checkout checkout(text);
    write_models(checkout.path() / "models");
    for (const std::string& block : blocks(text, "toml")) {
      const Words name = matches(block.substr(0, block.find('\n')), R"(^# ([\w-]+\.toml)$)");
      ASSERT_EQ(name.size(), 1u) << file << ": a snippet without its file's name:\n" << block;
      const Result result = checkout.run({"check", name.front()});
      EXPECT_EQ(result.code, 0) << file << ": " << result.err;
    }
    for (const std::string& block : blocks(text, "json"))
      EXPECT_TRUE(nlohmann::json::accept(block)) << file << ":\n" << block;
  }
}

TEST(Guides, OptionsThatTheyNameExist) {
  const std::string options = read_text(kRoot / "configs/README.md");
  for (const std::string& file : guides())
    for (const std::string& key :
         matches(read_text(kRoot / file),
                 "`((?:run|plugins|task|strategy|backend|optimizer|schedule|loader|train|evaluate|checkpoint|"
                 "launch|observe)\\.[a-z0-9_.]*[a-z0-9_])[` ]")) {
      const bool is_file = key.ends_with(".log");
      EXPECT_TRUE(is_file || options.find("| `" + key + "`") != std::string::npos) << file << ": " << key;
    }
}

TEST(OwnTextGuide, ItsSmallJobRunsAsWritten) {
  const std::string text = guide("own-text.md");
  const size_t begin = text.find("## A complete small job"), end = text.find("## With real data");
  ASSERT_TRUE(begin < end && end != std::string::npos);
  std::string script;
  for (const std::string& block : blocks(text.substr(begin, end - begin), "sh")) script += block;
  const Checkout checkout(text);
  EXPECT_THAT(checkout.run_script(script).ended(0).out, HasSubstr("40 training, 8 validation"));
  EXPECT_TRUE(fs::exists(checkout.path() / "my-text-gpt2/model.safetensors"));
}

// String literals as one reads them: joined where the source breaks them, quotes without backslash.
std::string without_breaks(const std::string& source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\' && i + 1 < source.size() && source[i + 1] == '"') {
      text += source[++i];
      continue;
    }
    const size_t next = source[i] == '"' ? source.find_first_not_of(" \n", i + 1) : std::string::npos;
    if (next != std::string::npos && next > i + 1 && source[next] == '"')
      i = next;
    else
      text += source[i];
  }
  return text;
}

// Whether all parts are there, one soon after the other.
bool holds(const std::string& text, const Words& parts) {
  constexpr size_t kSoon = 800;
  for (size_t start = text.find(parts[0]); start != std::string::npos;
       start = text.find(parts[0], start + 1)) {
    size_t at = start;
    for (const std::string& part : parts) {
      const size_t next = text.find(part, at);
      if (next == std::string::npos || next - at > kSoon) {
        at = std::string::npos;
        break;
      }
      at = next + part.size();
    }
    if (at != std::string::npos) return true;
  }
  return false;
}

TEST(TroubleshootingGuide, QuotesMessagesOfTheSources) {
  Words sources;
  for (const char* folder : {"core", "plugins", "backends"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
      if (entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp")
        sources.push_back(without_breaks(read_text(entry.path())));
  size_t count = 0;
  for (const Row& row : table_rows(guide("troubleshooting.md")))
    for (const std::string& message : row.first) {
      ++count;
      const Words parts = matches(message, R"(\s*((?:(?!\.\.\.).)*[^\s.])(?:\s*\.\.\.|$))");
      ASSERT_FALSE(parts.empty()) << message;
      EXPECT_TRUE(std::ranges::any_of(sources, [&](const auto& text) { return holds(text, parts); }))
          << "no source says: " << message;
    }
  EXPECT_GT(count, 30u);
}

TEST(TroubleshootingGuide, ARunThatDivergesSaysSo) {
  const Checkout checkout("");
  const Result result = checkout
                            .run({"run", "configs/template.toml", "--set", "optimizer.lr=1e30", "--set",
                                  "optimizer.kind=sgd", "--set", "train.max_nonfinite_steps=2"})
                            .ended(2);
  EXPECT_THAT(result.out + result.err,
              HasSubstr("the gradient is not finite; the update was skipped. Samples: "));
  EXPECT_THAT(result.err, HasSubstr("the run has diverged: the gradient was not finite"));
}

// A key of another tool, in our file, is answered with what the table says.
TEST(ComingFromGuide, TheProgramNamesTheSameKeys) {
  const Checkout checkout("");
  std::string config = "[task]\nplugin = \"template\"\n[train]\n";
  std::set<std::string> keys;
  const std::vector<Row> rows = table_rows(guide("coming-from.md"));
  for (const Row& row : rows)
    for (const std::string& key : row.others)
      if (keys.insert(key).second) config += key + " = 1\n";
  ASSERT_GT(keys.size(), 40u);
  write_text(checkout.path() / "theirs.toml", config);
  const std::string answers = checkout.run({"check", "theirs.toml"}).err;
  for (const Row& row : rows)
    for (const std::string& key : row.others) {
      const Words answer = matches(answers, ("train\\." + key + " = 1: (.*)").c_str());
      const bool same = std::ranges::find(row.first, "train." + key) != row.first.end();
      if (same && answer.empty()) continue;  // it is our name, too
      ASSERT_EQ(answer.size(), 1u) << key << "\n" << answers;
      EXPECT_THAT(answer[0], Not(HasSubstr("lists all keys"))) << key;
      const auto named = [&](const std::string& ours) { return answer[0].find(ours) != std::string::npos; };
      EXPECT_TRUE(row.first.empty() || std::ranges::any_of(row.first, named)) << key << ": " << answer[0];
    }
}

}  // namespace
}  // namespace pipeline::tests
