#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include <ATen/core/Tensor.h>
#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include "language/language_model.hpp"
#include "plugins/models/encoder/label_encoder.hpp"

namespace pipeline::tasks::labels {

// A language model or an encoder with a head for labels.
class LabelModel {
 public:
  static constexpr bool kOwnPrecision = true;

  explicit LabelModel(std::shared_ptr<language::LanguageModel> model) : model_(std::move(model)) {}
  explicit LabelModel(std::shared_ptr<encoder::LabelEncoder> model) : model_(std::move(model)) {}

  ParameterRegistry& parameters() {
    return std::visit([](auto& model) -> ParameterRegistry& { return model->parameters(); }, model_);
  }
  const ParameterRegistry& parameters() const {
    return std::visit([](const auto& model) -> const ParameterRegistry& { return model->parameters(); },
                      model_);
  }

  // See LanguageModel and LabelEncoder. types: of an encoder.
  at::Tensor with_labels(const transformer::PackedBatch& batch, const at::Tensor& types,
                         const ForwardPass& pass,
                         const std::function<at::Tensor(const at::Tensor& outputs)>& then) const {
    if (const auto* const language = std::get_if<0>(&model_))
      return (*language)->with_labels(batch, pass, then);
    return std::get<1>(model_)->with_labels(batch, types, pass, then);
  }
  double flops(const transformer::PackedBatch& batch) const {
    return std::visit([&](const auto& model) { return model->flops(batch); }, model_);
  }

  // nullptr: it is the other one.
  language::LanguageModel* language() {
    return std::holds_alternative<Language>(model_) ? std::get<0>(model_).get() : nullptr;
  }
  encoder::LabelEncoder* encoder() {
    return std::holds_alternative<Encoder>(model_) ? std::get<1>(model_).get() : nullptr;
  }

 private:
  using Language = std::shared_ptr<language::LanguageModel>;
  using Encoder = std::shared_ptr<encoder::LabelEncoder>;
  std::variant<Language, Encoder> model_;
};

}  // namespace pipeline::tasks::labels
