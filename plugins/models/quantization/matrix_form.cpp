#include "quantization/matrix_form.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace pipeline::quantization {
namespace {

// Where the parts of a matrix begin, in bytes.
struct Parts {
  uint64_t sizes = 0, scales = 0, offset = 0, end = 0;

  Parts(Form form, int64_t rows, int64_t columns) {
    const auto behind = [](uint64_t begin, int64_t count, uint64_t each) {
      return (begin + static_cast<uint64_t>(count) * each + 63) / 64 * 64;
    };
    const int64_t count = rows * columns, blocks = count / kBlock;
    const bool is_nf4 = form == Form::kNf4;
    sizes = behind(0, is_nf4 ? count / 2 : count, 1);
    scales = behind(sizes, is_nf4 ? blocks : 0, 1);
    offset = behind(scales, is_nf4 ? (blocks + kBlocksAGroup - 1) / kBlocksAGroup : rows, sizeof(float));
    end = behind(offset, is_nf4 ? 1 : 0, sizeof(float));
  }
};

// How many of the ascending bounds are below x: which of the values that they lie between is nearest, and of
// two that are equally near the lower one.
template <size_t N>
uint8_t nearest(const std::array<float, N>& bounds, float x) {
  return static_cast<uint8_t>(std::lower_bound(bounds.begin(), bounds.end(), x) - bounds.begin());
}

template <size_t N>
std::array<float, N - 1> middles(const std::array<float, N>& values) {
  std::array<float, N - 1> bounds;
  for (size_t i = 0; i + 1 < N; ++i) bounds[i] = (values[i] + values[i + 1]) / 2;
  return bounds;
}

float largest(const float* values, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(values[i]));
  return most;
}

void encode_sizes(std::vector<float> all, uint8_t* codes, float* scales, float& offset) {
  static const auto bounds = middles(dynamic_map());
  double sum = 0;
  for (const float size : all) sum += size;
  offset = all.empty() ? 0 : static_cast<float>(sum / static_cast<double>(all.size()));
  for (float& size : all) size -= offset;
  for (size_t first = 0; first < all.size(); first += kBlocksAGroup, ++scales) {
    const size_t count = std::min<size_t>(kBlocksAGroup, all.size() - first);
    *scales = largest(&all[first], static_cast<int64_t>(count));
    const float by = *scales > 0 ? 1 / *scales : 0;
    for (size_t i = first; i < first + count; ++i) codes[i] = nearest(bounds, all[i] * by);
  }
}

}  // namespace

const std::array<float, 16> kNf4Levels = {
    -1.0f,                 -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f,  0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f,  0.5626170039176941f,  0.7229568362236023f,  1.0f};

const std::array<float, 256>& dynamic_map() {
  static const std::array<float, 256> all = [] {
    std::array<float, 256> values{};
    size_t next = 0;
    // Seven powers of ten; each has twice as many fractions between 0.1 and 1 as the one below it. In
    // float32, and counted from both ends, as torch.linspace does.
    for (int i = 0; i < 7; ++i) {
      const int fractions = 1 << i;
      const auto power = static_cast<float>(std::pow(10.0, i - 6));
      const float step = (1.0f - 0.1f) / static_cast<float>(fractions);
      const auto boundary = [&](int j) {
        return j < (fractions + 1) / 2 ? std::fma(step, static_cast<float>(j), 0.1f)
                                       : std::fma(-step, static_cast<float>(fractions - j), 1.0f);
      };
      for (int j = 0; j < fractions; ++j) {
        values[next] = power * ((boundary(j) + boundary(j + 1)) / 2);
        values[next + 1] = -values[next];
        next += 2;
      }
    }
    values[next++] = 0;
    values[next++] = 1;
    std::ranges::sort(values);
    return values;
  }();
  return all;
}

uint64_t Matrix::bytes(Form form, int64_t rows, int64_t columns) { return Parts(form, rows, columns).end; }

Matrix::Matrix(Form form, int64_t rows, int64_t columns, const std::byte* data)
    : form_(form), rows_(rows), columns_(columns), codes_(reinterpret_cast<const uint8_t*>(data)) {
  const Parts parts(form, rows, columns);
  scales_ = reinterpret_cast<const float*>(data + parts.scales);
  if (form == Form::kInt8) return;
  sizes_ = codes_ + parts.sizes;
  offset_ = reinterpret_cast<const float*>(data + parts.offset);
}

void Matrix::encode(Form form, int64_t rows, int64_t columns, const float* values, std::byte* out) {
  const Parts parts(form, rows, columns);
  std::memset(out, 0, parts.end);
  auto* const codes = reinterpret_cast<uint8_t*>(out);
  auto* const scales = reinterpret_cast<float*>(out + parts.scales);
  if (form == Form::kInt8) {
    for (int64_t row = 0; row < rows; ++row, values += columns) {
      const float most = largest(values, columns), by = most > 0 ? 127 / most : 0;
      scales[row] = most / 127;
      for (int64_t i = 0; i < columns; ++i)
        codes[row * columns + i] =
            static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(values[i] * by)));
    }
    return;
  }
  static const auto bounds = middles(kNf4Levels);
  std::vector<float> sizes(static_cast<size_t>(rows * columns / kBlock));
  for (size_t block = 0; block < sizes.size(); ++block, values += kBlock) {
    sizes[block] = largest(values, kBlock);
    const float by = 1 / std::max(sizes[block], 1e-38f);
    const auto code = [&](int64_t i) { return nearest(bounds, std::clamp(values[i] * by, -1.0f, 1.0f)); };
    uint8_t* const pairs = codes + block * kBlock / 2;
    for (int64_t i = 0; i < kBlock; i += 2)
      pairs[i / 2] = static_cast<uint8_t>(code(i) << 4 | code(i + 1));
  }
  encode_sizes(std::move(sizes), codes + parts.sizes, scales, *reinterpret_cast<float*>(out + parts.offset));
}

float Matrix::block_size(int64_t block) const {
  return dynamic_map()[sizes_[block]] * scales_[block / kBlocksAGroup] + *offset_;
}

void Matrix::decode(int64_t row, int64_t begin, std::span<float> out) const {
  const int64_t first = row * columns_ + begin;
  if (form_ == Form::kInt8) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(static_cast<int8_t>(codes_[first + static_cast<int64_t>(i)])) * scales_[row];
    return;
  }
  for (size_t i = 0; i < out.size(); i += kBlock) {
    const int64_t block = (first + static_cast<int64_t>(i)) / kBlock;
    const float size = block_size(block);
    const uint8_t* const pairs = codes_ + block * kBlock / 2;
    for (size_t j = 0; j < kBlock; ++j)
      out[i + j] = kNf4Levels[j % 2 == 0 ? pairs[j / 2] >> 4 : pairs[j / 2] & 15] * size;
  }
}

}  // namespace pipeline::quantization
