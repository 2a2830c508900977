// Runs a fuzz target, the function LLVMFuzzerTestOneInput that libFuzzer knows, without libFuzzer: mutates
// the files of a corpus in an order that its seed fixes, for a fixed number of runs. It needs no coverage
// feedback to be of use under the sanitizers, and it is the same on every compiler. The input in work is kept
// in a file, which is still there when the target ends the process.
//
//   NAME_fuzz --runs N [--seed S] CORPUS_FOLDER    mutate
//   NAME_fuzz FILE...                              run these inputs as they are
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::string;
constexpr size_t kMaxSize = size_t{1} << 16;

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  size_t below(size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(next() % limit); }

 private:
  uint64_t state_;
};

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// One edit: what parsers break on is damage to single bytes, lost ends, repeated and transplanted pieces, and
// numbers out of range.
void mutate(Bytes& input, const std::vector<Bytes>& corpus, SplitMix& random) {
  static constexpr std::string_view kPieces[] = {{"\0", 1},
                                                 "\xff",
                                                 "\xc0\x80",
                                                 "\xed\xa0\x80",
                                                 "\xef\xbb\xbf",
                                                 "\r\n",
                                                 "\"",
                                                 "\\u0000",
                                                 "\\ud800",
                                                 "[[[[[[[[",
                                                 "{\"a\":",
                                                 "-1",
                                                 "0",
                                                 "9223372036854775808",
                                                 "18446744073709551616",
                                                 "1e999",
                                                 "nan",
                                                 "=",
                                                 ",",
                                                 "#"};
  const size_t at = random.below(input.size() + 1);
  const size_t length = std::min(random.below(size_t{1} << random.below(8)) + 1, input.size() - at);
  switch (random.below(7)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(random.next());
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(at, input.substr(at, length));
      break;
    case 4: {
      const Bytes& other = corpus[random.below(corpus.size())];
      const size_t from = random.below(other.size() + 1);
      input.insert(at, other.substr(from, random.below(64) + 1));
      break;
    }
    case 5:
      input.insert(at, kPieces[random.below(std::size(kPieces))]);
      break;
    default:
      input.resize(at);
  }
  if (input.size() > kMaxSize) input.resize(kMaxSize);
}

// Keeps the input in work on disk, so that a crash leaves it behind.
class Witness {
 public:
  explicit Witness(std::string path)
      : path_(std::move(path)), file_(open(path_.c_str(), O_RDWR | O_CREAT, 0644)) {
    if (file_ < 0) {
      std::perror(path_.c_str());
      std::exit(2);
    }
  }
  ~Witness() {
    close(file_);
    unlink(path_.c_str());
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  void keep(const Bytes& input) {
    if (ftruncate(file_, 0) != 0 ||
        pwrite(file_, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
      std::perror(path_.c_str());
      std::exit(2);
    }
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_;
};

void run(const Bytes& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string program = argv[0];
  uint64_t runs = 0, seed = 1;
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if ((argument == "--runs" || argument == "--seed") && i + 1 < argc) {
      (argument == "--runs" ? runs : seed) = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(argument)) {
      std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(argument), {});
      std::sort(files.begin(), files.end());  // directory order differs between machines
      for (const auto& file : files) corpus.push_back(read_file(file));
    } else {
      corpus.push_back(read_file(argument));
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "usage: %s [--runs N] [--seed S] CORPUS_FOLDER|FILE...\n", program.c_str());
    return 2;
  }

  Witness witness(program + ".input");
  std::fprintf(stderr, "%zu inputs, %llu runs, seed %llu; a crash leaves its input in %s\n", corpus.size(),
               static_cast<unsigned long long>(runs), static_cast<unsigned long long>(seed),
               witness.path().c_str());
  for (const Bytes& input : corpus) {
    witness.keep(input);
    run(input);
  }
  SplitMix random(seed);
  for (uint64_t i = 0; i < runs; ++i) {
    Bytes input = corpus[random.below(corpus.size())];
    for (size_t edits = random.below(4) + 1; edits > 0; --edits) mutate(input, corpus, random);
    witness.keep(input);
    run(input);
  }
  return 0;
}
