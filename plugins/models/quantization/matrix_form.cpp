#include "quantization/matrix_form.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace pipeline::quantization {
namespace {

// Where the parts of a row of NF4 begin, in bytes.
struct Nf4Row {
  int64_t blocks, groups;  // that it may be in, wherever it begins
  int64_t mean, phase, scales, sizes, end;

  explicit Nf4Row(int64_t columns)
      : blocks(columns / kBlock),
        groups((blocks + kBlocksAGroup - 2) / kBlocksAGroup + 1),
        mean(columns / 2),
        phase(mean + 4),
        scales(phase + 4),
        sizes(scales + 4 * groups),
        end((sizes + blocks + 31) / 32 * 32) {}
};

template <class T>
T at(const uint8_t* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}
template <class T>
void put(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

// How many of the ascending bounds are below x: which of the values that they lie between is nearest, and of
// two that are equally near the lower one.
template <size_t N>
uint8_t nearest(const std::array<float, N>& bounds, float x) {
  return static_cast<uint8_t>(std::lower_bound(bounds.begin(), bounds.end(), x) - bounds.begin());
}

// The same for a block, whose values are first multiplied by `by` and limited to 1: a bound at a time, as the
// compiler makes vectors of that.
void nearest_of_block(const std::array<float, 15>& bounds, const float* values, float by, int32_t* codes) {
  std::array<float, kBlock> x;
  for (size_t i = 0; i < kBlock; ++i) x[i] = std::clamp(values[i] * by, -1.0f, 1.0f), codes[i] = 0;
  for (const float bound : bounds)
    for (size_t i = 0; i < kBlock; ++i) codes[i] += bound < x[i];
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

// The sizes of a matrix's blocks in 8 bits.
struct Sizes {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  float mean = 0;

  explicit Sizes(std::vector<float> all) : codes(all.size()) {
    static const auto bounds = middles(dynamic_map());
    double sum = 0;
    for (const float size : all) sum += size;
    mean = all.empty() ? 0 : static_cast<float>(sum / static_cast<double>(all.size()));
    for (float& size : all) size -= mean;
    for (size_t first = 0; first < all.size(); first += kBlocksAGroup) {
      const size_t count = std::min<size_t>(kBlocksAGroup, all.size() - first);
      scales.push_back(largest(&all[first], static_cast<int64_t>(count)));
      const float by = scales.back() > 0 ? 1 / scales.back() : 0;
      for (size_t i = first; i < first + count; ++i) codes[i] = nearest(bounds, all[i] * by);
    }
  }
};

}  // namespace

const float kNf4Levels[16] = {-1.0f,
                              -0.6961928009986877f,
                              -0.5250730514526367f,
                              -0.39491748809814453f,
                              -0.28444138169288635f,
                              -0.18477343022823334f,
                              -0.09105003625154495f,
                              0.0f,
                              0.07958029955625534f,
                              0.16093020141124725f,
                              0.24611230194568634f,
                              0.33791524171829224f,
                              0.44070982933044434f,
                              0.5626170039176941f,
                              0.7229568362236023f,
                              1.0f};

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

int64_t Row::bytes(Form form, int64_t columns) {
  return form == Form::kInt8 ? columns + 32 : Nf4Row(columns).end;
}

int64_t Row::columns(Form form, int64_t bytes) {
  // NF4: 33 bytes a block and some more, so that with each block there are at least 32 more.
  const int64_t most = form == Form::kInt8 ? bytes - 32 : bytes / 33 * kBlock;
  for (int64_t columns = most; columns > 0 && Row::bytes(form, columns) >= bytes; columns -= kBlock)
    if (takes(columns) && Row::bytes(form, columns) == bytes) return columns;
  return -1;
}

Row::Row(Form form, int64_t columns, const uint8_t* data) : form_(form), columns_(columns), data_(data) {}

float Row::scale() const { return at<float>(data_ + columns_); }

void Row::sizes(int64_t first, int64_t count, float* out) const {
  const Nf4Row row(columns_);
  const std::array<float, 256>& map = dynamic_map();
  const auto mean = at<float>(data_ + row.mean);
  const int64_t phase = at<uint32_t>(data_ + row.phase) + first;
  for (int64_t i = 0; i < count; ++i) {
    const auto scale = at<float>(data_ + row.scales + 4 * ((phase + i) / kBlocksAGroup));
    out[i] = map[data_[row.sizes + first + i]] * scale + mean;
  }
}

void Row::decode(int64_t begin, std::span<float> out) const {
  if (form_ == Form::kInt8) {
    const float by = scale();
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(static_cast<int8_t>(data_[begin + static_cast<int64_t>(i)])) * by;
    return;
  }
  for (size_t i = 0; i < out.size(); i += kBlock) {
    const int64_t column = begin + static_cast<int64_t>(i);
    float size = 0;
    sizes(column / kBlock, 1, &size);
    const uint8_t* const pairs = data_ + column / 2;
    for (size_t j = 0; j < kBlock; ++j)
      out[i + j] = kNf4Levels[j % 2 == 0 ? pairs[j / 2] >> 4 : pairs[j / 2] & 15] * size;
  }
}

void arrange(Form form, int64_t rows, int64_t columns, const Codes& from, std::byte* out) {
  const int64_t each = Row::bytes(form, columns);
  std::memset(out, 0, static_cast<size_t>(rows * each));
  if (form == Form::kInt8) {
    for (int64_t row = 0; row < rows; ++row, out += each) {
      std::memcpy(out, from.codes + row * columns, static_cast<size_t>(columns));
      put(out + columns, from.scales[row]);
    }
    return;
  }
  const Nf4Row parts(columns);
  const int64_t groups = (rows * parts.blocks + kBlocksAGroup - 1) / kBlocksAGroup;
  for (int64_t row = 0; row < rows; ++row, out += each) {
    const int64_t block = row * parts.blocks, group = block / kBlocksAGroup;
    std::memcpy(out, from.codes + row * columns / 2, static_cast<size_t>(columns / 2));
    put(out + parts.mean, from.mean);
    put(out + parts.phase, static_cast<uint32_t>(block % kBlocksAGroup));
    std::memcpy(out + parts.scales, from.scales + group,
                static_cast<size_t>(std::min(parts.groups, groups - group)) * sizeof(float));
    std::memcpy(out + parts.sizes, from.sizes + block, static_cast<size_t>(parts.blocks));
  }
}

void encode(Form form, int64_t rows, int64_t columns, const float* values, std::byte* out,
            const Divide& divide) {
  if (form == Form::kInt8) {
    divide(rows, [&](int64_t begin, int64_t end) {
      std::vector<uint8_t> codes(static_cast<size_t>(columns));
      for (int64_t row = begin; row < end; ++row) {
        const float* const own = values + row * columns;
        const float most = largest(own, columns), by = most > 0 ? 127 / most : 0, scale = most / 127;
        for (int64_t i = 0; i < columns; ++i)
          codes[static_cast<size_t>(i)] =
              static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(own[i] * by)));
        arrange(form, 1, columns, {codes.data(), &scale}, out + row * Row::bytes(form, columns));
      }
    });
    return;
  }
  static const auto bounds = middles(std::to_array(kNf4Levels));
  std::vector<uint8_t> codes(static_cast<size_t>(rows * columns / 2));
  std::vector<float> all(static_cast<size_t>(rows * columns / kBlock));
  divide(rows * columns / kBlock, [&](int64_t begin, int64_t end) {
    for (auto block = static_cast<size_t>(begin); block < static_cast<size_t>(end); ++block) {
      const float* const own = values + block * kBlock;
      all[block] = largest(own, kBlock);
      const float by = 1 / std::max(all[block], 1e-38f);
      std::array<int32_t, kBlock> nearest;
      nearest_of_block(bounds, own, by, nearest.data());
      for (size_t i = 0; i < kBlock; i += 2)
        codes[(block * kBlock + i) / 2] = static_cast<uint8_t>(nearest[i] << 4 | nearest[i + 1]);
    }
  });
  const Sizes sizes(std::move(all));
  arrange(form, rows, columns, {codes.data(), sizes.scales.data(), sizes.codes.data(), sizes.mean}, out);
}

}  // namespace pipeline::quantization
