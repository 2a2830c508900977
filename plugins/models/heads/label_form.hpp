// Labels as a model predicts them in place of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace pipeline::heads {

struct LabelForm {
  // What has a label: a sample, such as a text or a chain; each of its parts, such as words or residues; or
  // each pair of these.
  enum class Of { kSamples, kParts, kPairs } of = Of::kSamples;
  bool are_numbers = false;
  bool are_several = false;               // each class is there or not, whatever the others are
  std::vector<std::string> classes = {};  // of classification, by number
  double mean = 0, deviation = 1;         // of numbers: the head's output is (number - mean) / deviation

  bool operator==(const LabelForm&) const = default;
  // The number that `learnt` stands for, in double: float32 would lose what is small beside the mean.
  double number(float learnt) const { return static_cast<double>(learnt) * deviation + mean; }
  int64_t outputs() const { return classes.empty() ? 1 : static_cast<int64_t>(classes.size()); }
};

// The loss of each row, (R) float32: the cross-entropy in nats, the mean over classes of their binary ones
// where several may be there, or the squared error in units of deviation^2. outputs: (R, form.outputs())
// fp32. right: (R) int64, the classes; (R, classes) float32, 1 where one is there; or (R) float32, numbers as
// they are learnt. Differentiable. For samples and parts. weights: (classes), what the losses of a class are
// multiplied by, of several those where it is there; undefined: nothing.
at::Tensor row_losses(const LabelForm& form, const at::Tensor& outputs, const at::Tensor& right,
                      const at::Tensor& weights = {});

// Outputs as they are reported: log-probabilities of classes, log-odds of several, numbers as they are
// learnt. Not differentiable.
at::Tensor told(const LabelForm& form, const at::Tensor& outputs);

}  // namespace pipeline::heads
