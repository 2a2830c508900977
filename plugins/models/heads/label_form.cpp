#include "heads/label_form.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/log_softmax.h>

namespace pipeline::heads {

at::Tensor row_losses(const LabelForm& form, const at::Tensor& outputs, const at::Tensor& right,
                      const at::Tensor& weights) {
  if (form.are_numbers) return (outputs.view({-1}) - right).square();
  if (form.are_several)
    return at::binary_cross_entropy_with_logits(outputs, right, {}, weights, at::Reduction::None).mean(1);
  return at::cross_entropy_loss(outputs, right, weights, at::Reduction::None);
}

at::Tensor told(const LabelForm& form, const at::Tensor& outputs) {
  const at::NoGradGuard no_grad;
  return form.classes.empty() || form.are_several ? outputs.detach() : at::log_softmax(outputs, 1);
}

}  // namespace pipeline::heads
