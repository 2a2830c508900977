// The tokenizer for other programs: the parity test and the benchmark talk to it. Texts and lists of ids are
// frames of a little-endian u32 count and that many bytes or int32 ids; one answer for each, until the input
// ends.
//
//   tokenizer_tool encode PATH          texts -> ids; encode-special: special tokens are recognized
//   tokenizer_tool decode PATH          ids -> texts
//   tokenizer_tool pieces KIND          texts -> the sizes in bytes of the pieces that are encoded each for
//                                       itself; gpt2, smol_lm or llama3
//   tokenizer_tool train VOCAB_SIZE MIN_FREQUENCY FOLDER   texts -> saved files
//   tokenizer_tool save PATH FOLDER     files -> saved files
//   tokenizer_tool time PATH CORPUS     for each line of input: encodes every text of the corpus, a file of
//                                       such frames; prints seconds and tokens

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tokenizer/bpe_trainer.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace {

using pipeline::tokenizer::ByteLevelBpe;
using pipeline::tokenizer::load_tokenizer;
using pipeline::tokenizer::SpecialTokens;
using pipeline::tokenizer::Tokenizer;

template <class Sequence>
bool read_frame(Sequence& items, std::FILE* file = stdin) {
  uint32_t count;
  if (std::fread(&count, sizeof count, 1, file) != 1) return false;
  items.resize(count);
  return std::fread(items.data(), sizeof items[0], count, file) == count;
}

template <class Sequence>
void write_frame(const Sequence& items) {
  const auto count = static_cast<uint32_t>(items.size());
  std::fwrite(&count, sizeof count, 1, stdout);
  std::fwrite(items.data(), sizeof items[0], count, stdout);
}

void encode(const Tokenizer& tokenizer, SpecialTokens special) {
  for (std::string text; read_frame(text);) write_frame(tokenizer.encode(text, special));
}

void pieces(const std::string& kind) {
  using pipeline::tokenizer::PreTokenizer;
  const PreTokenizer rules = kind == "llama3"    ? PreTokenizer::kLlama3
                             : kind == "qwen2"   ? PreTokenizer::kQwen2
                             : kind == "smol_lm" ? PreTokenizer::kSmolLm
                                                 : PreTokenizer::kGpt2;
  for (std::string text; read_frame(text);) {
    std::vector<int32_t> sizes;
    for (pipeline::tokenizer::PieceScanner scanner(text, rules); scanner.next();) {
      sizes.push_back(static_cast<int32_t>(scanner.piece().size()));
    }
    write_frame(sizes);
  }
}

void decode(const Tokenizer& tokenizer) {
  for (std::vector<int32_t> ids; read_frame(ids);) write_frame(tokenizer.decode(ids));
}

void train(int32_t vocab_size, int64_t min_frequency, const std::string& folder) {
  pipeline::tokenizer::BpeTrainer trainer;
  for (std::string text; read_frame(text);) trainer.add(text);
  trainer.train({.vocab_size = vocab_size, .min_frequency = min_frequency}).save(folder);
}

void time(const ByteLevelBpe& tokenizer, const char* corpus_path) {
  std::vector<std::string> corpus;
  std::FILE* file = std::fopen(corpus_path, "rb");
  if (file == nullptr) throw std::runtime_error(std::string(corpus_path) + ": cannot be opened");
  for (std::string text; read_frame(text, file);) corpus.push_back(text);
  std::fclose(file);
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    size_t tokens = 0;
    for (const std::string& text : corpus) tokens += tokenizer.encode(text).size();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << seconds.count() << " " << tokens << std::endl;
  }
}

int run(const std::vector<std::string>& arguments) {
  const auto is = [&](const char* verb, size_t count) {
    return arguments.size() == count && arguments[0] == verb;
  };
  if (is("encode", 2)) {
    encode(*load_tokenizer(arguments[1]), SpecialTokens::kAsText);
  } else if (is("encode-special", 2)) {
    encode(*load_tokenizer(arguments[1]), SpecialTokens::kRecognize);
  } else if (is("decode", 2)) {
    decode(*load_tokenizer(arguments[1]));
  } else if (is("pieces", 2)) {
    pieces(arguments[1]);
  } else if (is("train", 4)) {
    train(std::stoi(arguments[1]), std::stoi(arguments[2]), arguments[3]);
  } else if (is("save", 3)) {
    load_tokenizer(arguments[1])->save(arguments[2]);
  } else if (is("time", 3)) {
    time(ByteLevelBpe::load(arguments[1]), arguments[2].c_str());
  } else {
    std::fprintf(stderr, "usage: see the top of tokenizer_tool.cpp\n");
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_tool: %s\n", error.what());
    return 1;
  }
}
