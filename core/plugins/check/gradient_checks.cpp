// Gradients are those of the loss, by finite differences, and follow the rules of pl_train_args.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/plugins/check/open_task.hpp"

namespace pipeline::plugins {
namespace {

using Indices = std::vector<size_t>;  // of parameters

float largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

double root_mean_square(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

// Those that the loss trains.
Indices trainable(OpenTask& open, uint32_t loss) {
  Indices indices;
  const std::vector<pl_parameter>& parameters = open.task().parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].flags & PL_PARAMETER_TRAINABLE && parameters[i].loss == loss &&
        element_count(parameters[i]) > 0)
      indices.push_back(i);
  return indices;
}

// Moves weights along their gradients, which shows a wrong one best, and at random, which shows one that is
// lost; each parameter in proportion to its size. What the loss changes by is held against what the gradients
// say, with steps of several lengths: where they are long the loss curves or, as of max(0, x), has a kink,
// and where they are short it has too few digits. So a gradient is wrong only if steps of two lengths agree
// with each other and not with it.
class FiniteDifferences {
 public:
  FiniteDifferences(OpenTask& open, const Batch& batch, uint64_t idle_losses)
      : open_(open), batch_(batch), how_{.idle_losses = idle_losses} {
    const auto begin = std::chrono::steady_clock::now();
    open_.train(batch_, how_);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    noise_ = 8 * 0x1p-24 * std::abs(open_.loss());
    for (size_t i = 0; i < open_.task().parameters().size(); ++i) {
      const std::span<const float> gradient = open_.gradient(i);
      gradients_.emplace_back(gradient.begin(), gradient.end());
    }
  }

  double seconds() const { return seconds_; }  // of a training pass
  bool is_zero(size_t index) const { return largest(gradients_[index]) == 0; }

  // "" or what is wrong with the gradients of these parameters, moved together.
  std::string problem(const Indices& moved) {
    constexpr double kTolerance = 0.01;
    double before = NAN;  // what the last step was off by
    for (const double length : {0.1, 0.025, 0.00625, 0.0015625}) {
      const auto [changed, said] = along(moved, length);
      const double off = changed - said, size = std::max(std::abs(changed), std::abs(said));
      // Where it has too few digits, shorter steps have fewer.
      if (size < 50 * noise_ || std::abs(off) <= kTolerance * size) return {};
      if (std::abs(before / 4 - off) < 0.2 * std::abs(off) - noise_)
        return fmt::format("along a step the loss changes by {:.4g}, by the gradient it would by {:.4g}",
                           changed, said);
      before = off;
    }
    return {};
  }

 private:
  // What the loss changes by from one end of a step to the other, and what it would by the gradients.
  std::pair<double, double> along(const Indices& moved, double length) {
    std::vector<std::vector<float>> home(moved.size()), there(moved.size());
    const auto keep = [&](std::vector<std::vector<float>>& values) {
      for (size_t k = 0; k < moved.size(); ++k) {
        const std::span<const float> value = open_.value(moved[k]);
        values[k].assign(value.begin(), value.end());
      }
    };
    const auto move = [&](double by) {
      for (size_t k = 0; k < moved.size(); ++k) step(moved[k], home[k], by);
      open_.train(batch_, how_);
      return open_.loss();
    };
    keep(home);
    const double up = move(length);
    keep(there);
    const double changed = up - move(-length);
    double said = 0;
    for (size_t k = 0; k < moved.size(); ++k) {
      const std::span<float> value = open_.value(moved[k]);
      const std::vector<float>& gradient = gradients_[moved[k]];
      for (size_t i = 0; i < value.size(); ++i)  // what rounding left of the step
        said += double{gradient[i]} * (double{there[k][i]} - double{value[i]});
      std::ranges::copy(home[k], value.begin());
    }
    return {changed, said};
  }

  void step(size_t index, const std::vector<float>& home, double length) {
    const std::vector<float>& gradient = gradients_[index];
    const double size = root_mean_square(home), steepness = root_mean_square(gradient);
    const double far = length * (size > 0 ? size : 0.1);
    const std::span<float> value = open_.value(index);
    for (size_t i = 0; i < value.size(); ++i) {
      const double random = mix(index * 0x9e3779b97f4a7c15u + i) & 1 ? 0.5 : -0.5;
      const double along = steepness > 0 ? double{gradient[i]} / steepness : 0;
      value[i] = home[i] + static_cast<float>(far * (along + random));
    }
  }

  OpenTask& open_;
  const Batch& batch_;
  const OpenTask::TrainHow how_;
  double seconds_ = 0, noise_ = 0;
  std::vector<std::vector<float>> gradients_;
};

// The parameters in as many parts as there is time for; neighbours, as in one layer, stay together.
std::vector<Indices> parts_of(const Indices& all, double seconds_each) {
  constexpr double kSeconds = 2, kPasses = 4;  // in all; of each part, where it is right
  const auto fit = static_cast<size_t>(std::min(1e6, kSeconds / (kPasses * std::max(seconds_each, 1e-6))));
  const size_t count = std::min(all.size(), std::max<size_t>(fit, 4));
  std::vector<Indices> parts(count);
  for (size_t k = 0; k < all.size(); ++k) parts[k * count / all.size()].push_back(all[k]);
  return parts;
}

void check_gradients(OpenTask& open, FiniteDifferences& differences, uint32_t loss) {
  Indices lost, given;
  for (const size_t index : trainable(open, loss))
    (differences.is_zero(index) ? lost : given).push_back(index);
  std::vector<Indices> parts = parts_of(given, differences.seconds());
  if (!lost.empty()) parts.push_back(lost);
  for (const Indices& part : parts) {
    const std::string together = differences.problem(part);
    if (together.empty()) continue;
    std::string name = fmt::format("{} parameters", part.size()), problem = together;
    for (const size_t index : part) {
      const std::string alone = differences.problem({index});
      if (alone.empty()) continue;
      name = fmt::format("'{}'", view(open.task().parameters()[index].name));
      problem = alone;
      break;
    }
    fail(
        "the gradient of {} is not that of the loss: {} (one that is stopped on purpose, as by detach(), "
        "shows here, too)",
        name, problem);
  }
}

// A parameter has the gradient of its own loss, whichever others have a turn.
void losses_keep_to_their_parameters(OpenTask& open, const Batch& batch) {
  const std::vector<Loss>& losses = open.task().losses();
  const std::vector<float> together = open.train(batch);
  for (size_t loss = 0; loss < losses.size(); ++loss) {
    const std::vector<float> alone = open.train(batch, {.idle_losses = ~(uint64_t{1} << loss)});
    size_t at = 1;  // behind the loss
    for (const pl_parameter& parameter : open.task().parameters()) {
      const size_t count = element_count(parameter);
      const size_t begin = std::exchange(at, at + count);
      const auto of = [&](const std::vector<float>& all) { return std::span(all).subspan(begin, count); };
      if ((parameter.flags & PL_PARAMETER_TRAINABLE) == 0) continue;
      const bool is_own = parameter.loss == loss;
      const float tolerance = is_own ? 0.01f * largest(of(together)) : 0;
      for (size_t i = 0; i < count; ++i) {
        const float expected = is_own ? of(together)[i] : 0;
        if (!(std::abs(of(alone)[i] - expected) <= tolerance))
          fail(
              "the gradient of '{}', which is of the loss '{}', is {} in element {} where '{}' alone has a "
              "turn, must be {}",
              view(parameter.name), losses[parameter.loss].name, of(alone)[i], i, losses[loss].name,
              expected);
      }
    }
  }
}

void gradients_are_those_of_the_loss(const CheckArgs& args) {
  OpenTask open(args);
  const Batch batch = open.load(open.some_ids());
  const uint64_t losses = std::max<uint64_t>(open.task().losses().size(), 1);
  for (uint32_t loss = 0; loss < losses; ++loss) {
    // By itself, since other losses may depend on its parameters, too.
    const uint64_t others = losses == 1 ? 0 : ~(uint64_t{1} << loss);
    FiniteDifferences differences(open, batch, others);
    check_gradients(open, differences, loss);
  }
  if (losses > 1) losses_keep_to_their_parameters(open, batch);
}

// Holds each parameter against a tolerance of its own, since sizes differ.
void require_scaled(OpenTask& open, const std::vector<float>& expected, const std::vector<float>& seen,
                    float factor, const std::string& what) {
  const float all = largest(std::span(expected).subspan(1));
  size_t at = 1;
  for (const pl_parameter& parameter : open.task().parameters()) {
    const size_t count = element_count(parameter);
    const std::span<const float> right = std::span(expected).subspan(at, count);
    const float tolerance = std::abs(factor) * (0.01f * largest(right) + 1e-6f * all);
    for (size_t i = 0; i < count; ++i)
      if (!(std::abs(seen[at + i] - factor * right[i]) <= tolerance))
        fail("{}, element {} of the gradient of '{}' is {}, must be {}", what, i, view(parameter.name),
             seen[at + i], factor * right[i]);
    at += count;
  }
}

void gradients_are_scaled_and_added(const CheckArgs& args) {
  OpenTask open(args);
  const Batch batch = open.load(open.some_ids());
  const std::vector<float> once = open.train(batch);
  const std::vector<float> twice = open.train(batch, {.clear = false});
  require_scaled(open, once, twice, 2, "trained twice without clearing the gradients between");
  for (const float scale : {0.25f, 0.0f}) {
    const std::vector<float> scaled = open.train(batch, {.scale = static_cast<double>(scale)});
    if (scaled[0] != once[0])
      fail("the loss is {} with scale {}, and {} with scale 1: it must be the unscaled sum", scaled[0], scale,
           once[0]);
    require_scaled(open, once, scaled, scale, fmt::format("with scale {}", scale));
  }
}

}  // namespace

std::vector<Promise> gradient_promises() {
  return {
      {"gradients are those of the loss", gradients_are_those_of_the_loss, kSame},
      {"gradients follow the scale, and are added to the bound ones", gradients_are_scaled_and_added, kSame}};
}

}  // namespace pipeline::plugins
