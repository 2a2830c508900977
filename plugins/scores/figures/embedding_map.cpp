#include "plugins/scores/figures/embedding_map.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_eigh.h>

#include "plugins/scores/figures/svg.hpp"

namespace pipeline::figures {
namespace {

constexpr double kSize = 560, kMargin = 48, kLegend = 180;
// Told apart by those who see few colours (Okabe and Ito 2008); the last is for groups beyond these.
constexpr std::array<const char*, 8> kGroupColors{"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                  "#56b4e9", "#d55e00", "#f0e442", "#999999"};

struct Components {
  at::Tensor places;             // (n, 2)
  std::array<double, 2> shares;  // of the variance
};

Components principal_components(const at::Tensor& embeddings) {
  const at::Tensor x = embeddings.to(at::kDouble), centred = x - x.mean(0, true);
  const auto [values, vectors] = at::linalg_eigh(centred.t().mm(centred));  // ascending
  const int64_t width = vectors.size(1), last = width - 1;
  at::Tensor axes = vectors.narrow(1, width - 2, 2).flip(1);
  // Either sign would do: the largest entry is positive.
  const at::Tensor largest = axes.abs().argmax(0, true);
  axes = axes * axes.gather(0, largest).sign();
  const double all = std::max(values.clamp_min(0).sum().item<double>(), 1e-300);
  return {centred.mm(axes).contiguous(),
          {values[last].item<double>() / all, values[last - 1].item<double>() / all}};
}

// The largest groups first.
std::map<std::string, size_t> colors_of(const std::vector<std::string>& groups) {
  std::map<std::string, size_t> counts, colors;
  for (const std::string& group : groups) ++counts[group];
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [group, count] : counts) order.emplace_back(count, group);
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; i < order.size(); ++i) colors[order[i].second] = std::min(i, kGroupColors.size() - 1);
  return colors;
}

}  // namespace

std::string draw(const EmbeddingMap& map) {
  const Components components = principal_components(map.embeddings);
  const auto* const places = components.places.const_data_ptr<double>();
  const auto count = static_cast<size_t>(components.places.size(0));
  std::array<double, 2> low{places[0], places[1]}, high = low;
  for (size_t i = 0; i < 2 * count; ++i) {
    low[i % 2] = std::min(low[i % 2], places[i]);
    high[i % 2] = std::max(high[i % 2], places[i]);
  }
  const auto at = [&](size_t point, size_t axis) {
    const double share = (places[2 * point + axis] - low[axis]) / std::max(high[axis] - low[axis], 1e-12);
    return decimal(kMargin + (axis == 0 ? share : 1 - share) * (kSize - 2 * kMargin), 1);
  };
  const std::map<std::string, size_t> colors = colors_of(map.groups);
  const double width = kSize + (colors.size() > 1 ? kLegend : 0);
  const auto text = [](double x, double y, const std::string& words, const std::string& more = "") {
    return svg_text(decimal(x, 0), decimal(y, 0), words, more);
  };
  const auto axis_title = [&](size_t axis) {
    return "principal component " + std::to_string(axis + 1) + " (" +
           decimal(100 * components.shares[axis], 1) + "% of the variance)";
  };
  std::string svg = svg_begin(decimal(width, 0), decimal(kSize, 0), "11");
  svg += text(kMargin, 24, map.title, "font-size=\"14\"");
  svg += "<rect x=\"" + decimal(kMargin - 8, 0) + "\" y=\"" + decimal(kMargin - 8, 0) + "\" width=\"" +
         decimal(kSize - 2 * kMargin + 16, 0) + "\" height=\"" + decimal(kSize - 2 * kMargin + 16, 0) +
         "\" fill=\"none\" stroke=\"#bbbbbb\"/>\n";
  svg += text(kSize / 2, kSize - 14, axis_title(0), "text-anchor=\"middle\"");
  svg += text(0, 0, axis_title(1),
              "text-anchor=\"middle\" transform=\"translate(20 " + decimal(kSize / 2, 0) + ") rotate(-90)\"");
  for (size_t i = 0; i < count; ++i) {
    const size_t color = map.groups.empty() ? 0 : colors.at(map.groups[i]);
    svg += "<circle cx=\"" + at(i, 0) + "\" cy=\"" + at(i, 1) + "\" r=\"3.5\" fill=\"" + kGroupColors[color] +
           "\" fill-opacity=\"0.75\"><title>" + xml_escaped(map.names[i]) +
           (map.groups.empty() ? "" : xml_escaped(", " + map.groups[i])) + "</title></circle>\n";
  }
  if (colors.size() > 1) {
    std::vector<std::string> labels(kGroupColors.size());
    size_t others = 0;
    for (const auto& [group, color] : colors) {
      labels[color] = group;
      others += color + 1 == kGroupColors.size() ? 1 : 0;
    }
    if (others > 1) labels.back() = std::to_string(others) + " other groups";
    for (size_t i = 0; i < labels.size() && !labels[i].empty(); ++i) {
      const double y = kMargin + 18 * static_cast<double>(i);
      svg += "<circle cx=\"" + decimal(kSize, 0) + "\" cy=\"" + decimal(y, 0) + "\" r=\"4\" fill=\"" +
             kGroupColors[i] + "\"/>\n" + text(kSize + 10, y + 4, labels[i].substr(0, 26));
    }
  }
  return svg + "</svg>\n";
}

}  // namespace pipeline::figures
