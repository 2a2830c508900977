// How the time of each parser grows with its input: of n, 2n and 4n entries. A ratio of 4 in the last column
// is linear, one of 16 is a square.
//
//   bench_growth [NAME]     the parsers whose names begin so; default: all
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/strict_json.hpp"
#include "core/observe/json_lines.hpp"
#include "core/safetensors/header.hpp"
#include "plugins/data/files/packed_file.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/picture_texts/tar_archive.hpp"
#include "plugins/data/records/table.hpp"
#include "plugins/data/sequences/sequence_files.hpp"
#include "plugins/data/structures/file_content.hpp"
#include "plugins/data/structures/structure.hpp"
#include "plugins/models/chat/chat_format.hpp"
#include "plugins/models/tokenizer/added_tokens.hpp"
#include "plugins/models/tokenizer/bpe_trainer.hpp"

namespace {

using namespace pipeline;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

const fs::path kFolder = fs::temp_directory_path() / ("bench_growth-" + std::to_string(::getpid()));

std::string repeated(size_t n, const std::function<std::string(size_t)>& part) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += part(i);
  return all;
}
std::string number(size_t i) { return std::to_string(i); }

std::string written(const std::string& name, const std::string& text) {
  std::ofstream(kFolder / name, std::ios::binary) << text;
  return kFolder / name;
}

// What makes an input of n entries, and reads it.
using Case = std::function<std::function<void()>(size_t n)>;

Case table(const char* name, sources::Format format, const std::string& begin,
           const std::function<std::string(size_t)>& row) {
  return [=](size_t n) -> std::function<void()> {
    return [=, path = written(name, begin + repeated(n, row))] {
      records::RecordReport report;
      records::read_table(
          path, format, {{.name = "a", .required = true}, {.name = "b"}}, [](records::Row&&) {}, report);
    };
  };
}

const tokenizer::TokenizerPtr& tokenizer() {
  static const tokenizer::TokenizerPtr one = [] {
    tokenizer::BpeTrainer trainer;
    trainer.add("user: question assistant: answer");
    return std::make_shared<const tokenizer::ByteLevelBpe>(trainer.train({.vocab_size = 300}));
  }();
  return one;
}

// A conversation of n turns, or with other messages.
Case chat(const std::string& source, const std::function<ordered_json(size_t)>& messages) {
  return [=](size_t n) -> std::function<void()> {
    return [source, conversation = ordered_json{{"messages", messages(n)}}] {
      const chat::ChatFormat format(source.empty() ? chat::named_template("simple", *tokenizer()) : source,
                                    "t", tokenizer(), 0);
      static_cast<void>(format.tokens(conversation));
    };
  };
}
ordered_json turns(size_t n) {
  ordered_json all = ordered_json::array();
  for (size_t i = 0; i < n; ++i)
    all.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", " turn " + number(i)}});
  return all;
}
ordered_json one_message(const std::string& text) {
  return {{{"role", "user"}, {"content", text}}, {{"role", "assistant"}, {"content", "a"}}};
}

std::string tensors(size_t n) {
  std::string json = "{" + repeated(n, [](size_t i) {
                       return "\"layer." + number(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                              number(i) + "," + number(i + 1) + "]},";
                     });
  json.back() = '}';
  return json;
}

// A header of ustar, and a block of content.
std::string tar_member(size_t i) {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, number(i) + ".txt"), put(100, "0000644"), put(108, "0000000"), put(116, "0000000");
  put(124, "00000000001"), put(136, "00000000000"), put(148, "        "), put(156, "0"), put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  put(148, std::string(digits) + '\0' + ' ');
  return header + "x" + std::string(511, '\0');
}

std::string atom(size_t i, bool is_cif) {
  char line[160];
  const int chain = static_cast<int>(i / 9000) % 26;
  const double x = 3.8 * static_cast<double>(i % 200), y = 5.0 * static_cast<double>(i / 200 % 100),
               z = 5.0 * static_cast<double>(i / 20000);
  if (is_cif)
    std::snprintf(line, sizeof line, "ATOM %zu C CA . ALA A 1 %zu ? %.3f %.3f %.3f 1.0 20.0 A 1\n", i + 1,
                  i + 1, x, y, z);
  else
    std::snprintf(line, sizeof line,
                  "ATOM  %5zu  CA  ALA %c%4zu    %8.3f%8.3f%8.3f  1.00 20.00           C\n", i % 99999 + 1,
                  'A' + chain, i % 9000 + 1, x, y, z);
  return line;
}
constexpr const char* kCifStart =
    "data_x\nloop_\n_atom_site.group_PDB\n_atom_site.id\n_atom_site.type_symbol\n_atom_site.label_atom_id\n"
    "_atom_site.label_alt_id\n_atom_site.label_comp_id\n_atom_site.label_asym_id\n_atom_site.label_entity_"
    "id\n"
    "_atom_site.label_seq_id\n_atom_site.pdbx_PDB_ins_code\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n"
    "_atom_site.Cartn_z\n_atom_site.occupancy\n_atom_site.B_iso_or_equiv\n_atom_site.auth_asym_id\n"
    "_atom_site.pdbx_PDB_model_num\n";

struct Named {
  const char* name;
  size_t n;
  Case make;
};

std::vector<Named> cases() {
  const auto text_of = [](const char* name, const std::string& text, auto read) -> std::function<void()> {
    return [read, path = written(name, text)] { read(path); };
  };
  return {
      {"json, names of an object", 20000,
       [](size_t n) -> std::function<void()> {
         return [json = tensors(n)] { static_cast<void>(strict_json::parse(json, "json")); };
       }},
      {"json, the same in order", 20000,
       [](size_t n) -> std::function<void()> {
         return [json = tensors(n)] { static_cast<void>(strict_json::parse_ordered(json, "json")); };
       }},
      {"safetensors, tensors", 20000,
       [](size_t n) -> std::function<void()> {
         std::string image(8, '\0');
         const std::string json = tensors(n);
         for (size_t i = 0; i < 8; ++i) image[i] = static_cast<char>(json.size() >> (8 * i) & 0xff);
         return [image = image + json + std::string(n, 'x')] {
           static_cast<void>(safetensors::parse_header(std::as_bytes(std::span(image)), "file"));
         };
       }},
      {"jsonl, records", 50000,
       table("a.jsonl", sources::Format::kJson, "",
             [](size_t i) { return R"({"a": "text )" + number(i) + "\", \"b\": \"more\"}\n"; })},
      {"json, records of a list", 50000,
       table("a.json", sources::Format::kJson, "[",
             [](size_t i) { return R"({"a": "text )" + number(i) + "\", \"b\": \"more\"},\n"; })},
      {"csv, records", 50000,
       table("a.csv", sources::Format::kCsv, "a,b\n", [](size_t i) { return number(i) + ",\"b\"\n"; })},
      {"tsv, records", 50000,
       table("a.tsv", sources::Format::kTsv, "a\tb\n", [](size_t i) { return number(i) + "\tb\n"; })},
      {"parquet, rows", 20000,
       [](size_t n) -> std::function<void()> {
         const std::string path = kFolder / "a.parquet";
         parquet::ParquetWriter writer(path, {{.name = "a"}});
         for (size_t i = 0; i < n; ++i) writer.text(number(i)).end_row();
         std::ofstream(path) << writer.end_group() << writer.finish();
         return [path] {
           for (parquet::ParquetFile file(path); file.next();) {
           }
         };
       }},
      {"fasta, sequences", 50000,
       [=](size_t n) {
         return text_of("a.fasta", repeated(n, [](size_t i) { return ">s" + number(i) + "\nMKVLAW\n"; }),
                        [](const std::string& path) {
                          sequences::SourceReport report;
                          sequences::read_sequences(sources::find(path, sources::Content::kSequences), {},
                                                    [](const sequences::Sequence&) {}, report, {});
                        });
       }},
      {"pdb, atoms", 20000,
       [](size_t n) -> std::function<void()> {
         return [text = repeated(n, [](size_t i) { return atom(i, false); })] {
           static_cast<void>(structures::parse_text(text));
         };
       }},
      {"mmcif, atoms", 20000,
       [](size_t n) -> std::function<void()> {
         return [text = kCifStart + repeated(n, [](size_t i) { return atom(i, true); })] {
           static_cast<void>(structures::parse_text(text));
         };
       }},
      {"tar, files", 10000,
       [=](size_t n) {
         return text_of("a.tar", repeated(n, tar_member) + std::string(1024, '\0'),
                        [](const std::string& path) {
                          for (picture_texts::TarReader reader(path); reader.next();) {
                          }
                        });
       }},
      {"gzip, empty members", 20000,
       [=](size_t n) {
         const std::string empty("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20);
         return text_of("a.gz", repeated(n, [&](size_t) { return empty; }), [](const std::string& path) {
           char block[64];
           files::PackedFile file(path);
           static_cast<void>(file.read(block, sizeof block));
         });
       }},
      {"metrics.jsonl, lines", 20000,
       [=](size_t n) {
         return text_of(
             "m.jsonl", repeated(n, [](size_t i) { return "{\"step\":" + number(i) + ",\"loss\":0.5}\n"; }),
             [](const std::string& path) {
               static_cast<void>(observe::JsonLines::read(path, [](size_t, const ordered_json&) {}));
             });
       }},
      {"metrics.jsonl, figures of a line", 20000,
       [=](size_t n) {
         return text_of(
             "m.jsonl",
             "{" + repeated(n, [](size_t i) { return "\"f" + number(i) + "\":0.5,"; }) + "\"step\":1}\n",
             [](const std::string& path) {
               static_cast<void>(observe::JsonLines::read(path, [](size_t, const ordered_json&) {}));
             });
       }},
      {"chat, turns", 400, chat("", turns)},
      {"chat, turns that are trimmed", 400,
       chat("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ eos_token if m.role == "
            "'assistant' }}{% "
            "endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
            turns)},
      {"chat, special tokens of a message", 5000,
       chat("", [](size_t n) { return one_message(repeated(n, [](size_t) { return "<|endoftext|>"; })); })},
      {"chat, keys of a message", 5000,
       chat("",
            [](size_t n) {
              ordered_json messages = one_message("q");
              messages[0]["more"] = strict_json::parse_ordered(tensors(n), "keys");
              return messages;
            })},
      {"tokenizer, special tokens of a text", 20000,
       [](size_t n) -> std::function<void()> {
         return [text = repeated(n, [](size_t) { return "x<|endoftext|>"; })] {
           static_cast<void>(tokenizer()->encode(text, tokenizer::SpecialTokens::kRecognize));
         };
       }},
      {"tokenizer, letters of a word", 50000,
       [](size_t n) -> std::function<void()> {
         return [text = repeated(n, [](size_t) { return "question"; })] {
           static_cast<void>(tokenizer()->encode(text));
         };
       }},
      {"tokenizer, added tokens", 50000,
       [](size_t n) -> std::function<void()> {
         std::vector<std::string> texts;
         for (size_t i = 0; i < n; ++i) texts.push_back("<t" + number(i) + ">");
         return [texts, all = repeated(n, [&](size_t i) { return "x" + texts[i]; })] {
           std::vector<tokenizer::AddedTokens::Token> tokens;
           for (const std::string& token : texts)
             tokens.push_back({token, static_cast<int32_t>(tokens.size())});
           tokenizer::AddedTokens(std::move(tokens))
               .cut(
                   all, tokenizer::SpecialTokens::kRecognize, [](std::string_view) {}, [](int32_t) {});
         };
       }},
  };
}

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  fs::create_directories(kFolder);
  std::printf("%-38s %9s %9s %9s %9s  %s\n", "", "n", "ms", "2n", "4n", "4n over n");
  for (const auto& [name, n, make] : cases()) {
    if (!std::string_view(name).starts_with(wanted)) continue;
    double times[3];
    for (size_t i = 0; i < 3; ++i) {
      const std::function<void()> work = make(n << i);
      times[i] = std::min(milliseconds(work), milliseconds(work));
    }
    std::printf("%-38s %9zu %9.1f %9.1f %9.1f  %.1f\n", name, n, times[0], times[1], times[2],
                times[2] / times[0]);
    std::fflush(stdout);
  }
  fs::remove_all(kFolder);
}
