// Times our decoding and resizing of pictures, on one thread, for scripts/bench/images.
//
//   bench_images FILE... : for each line of input, a step: decode, square (decode, and resize to 224 x 224),
//   numbers (the same, normalised) or tiles (LLaVA-NeXT's, of 336 x 336, normalised): the seconds for all
//   files, and a sum over the last one's result
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "plugins/data/images/image.hpp"
#include "plugins/data/images/resize.hpp"
#include "plugins/data/images/tiles.hpp"

namespace {

using namespace pipeline::images;

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The tiles as llava-v1.6 has them.
const TileOptions kTiles{.square = {.size = 336, .mode = ResizeMode::kSquash},
                         .grids = {{1, 2}, {2, 1}, {2, 2}, {1, 3}, {3, 1}}};

// The last step's result lies in `numbers`, and its pixels are returned otherwise.
Image run(const std::string& step, const std::string& file, std::vector<float>& numbers) {
  // Pillow's convert("RGB") drops alpha.
  Image image = decode_image(std::as_bytes(std::span(file)), {.background = std::nullopt});
  if (step == "square") return squared(image, {});
  if (step == "numbers") resize_image(image, {}, numbers.data());
  if (step == "tiles") numbers = numbers_of(image, kTiles);
  return image;
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) files.push_back(read_file(argv[i]));
  std::vector<float> numbers(3 * 224 * 224);
  for (std::string step; std::getline(std::cin, step);) {
    const auto begin = std::chrono::steady_clock::now();
    Image last;
    for (const std::string& file : files) last = run(step, file, numbers);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const int64_t sum = step == "numbers" || step == "tiles"
                            ? std::lround(std::accumulate(numbers.begin(), numbers.end(), 0.0))
                            : std::accumulate(last.pixels.begin(), last.pixels.end(), int64_t{0});
    std::printf("%.9f %lld\n", seconds, static_cast<long long>(sum));
    std::fflush(stdout);  // the other side waits for it
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_images: %s\n", error.what());
  return 1;
}
