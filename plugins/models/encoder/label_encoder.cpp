#include "plugins/models/encoder/label_encoder.hpp"

#include <algorithm>

#include <ATen/core/Tensor.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include "heads/label_folder.hpp"
#include "transformer/dropout.hpp"

namespace pipeline::encoder {

namespace fs = std::filesystem;

constexpr const char* kOut = "classifier.";

LabelEncoder::LabelEncoder(const std::string& kind, const Config& config)
    : row_(text_encoder(kind)), config_(config) {
  registry_->set_rule([&row = row_](Parameter& parameter) {
    const bool is_of_head = !parameter.name.starts_with(row.names.in_folder) ||
                            parameter.name.starts_with(concat(row.names.label_dense, "."));
    parameter.droppable = parameter.is_new = is_of_head;
  });
  encoder_.emplace(row_, config_, *registry_, row_.names.in_folder);
  const auto add = [&](const char* name, int64_t outputs) {
    return transformer::add_linear(*registry_, name, config_.hidden_size, outputs, 0,
                                   config_.initializer_range);
  };
  const bool is_of_texts = config_.label->of == heads::LabelForm::Of::kSamples;
  if (is_of_texts) dense_ = add(row_.names.label_dense, config_.hidden_size);
  out_ = add(is_of_texts ? row_.names.label_out : "classifier", config_.label->outputs());
}

at::Tensor LabelEncoder::with_labels(const transformer::PackedBatch& batch, const at::Tensor& types,
                                     const ForwardPass& pass,
                                     const std::function<at::Tensor(const at::Tensor& outputs)>& then) const {
  constexpr uint64_t kFirst = uint64_t{1} << 34;  // beside those of the encoder
  const auto dropped = [&](const at::Tensor& x, uint64_t place) {
    if (!pass.training || config_.hidden_dropout == 0) return x;
    return transformer::dropped(
        x, {config_.hidden_dropout, transformer::dropout_key(pass.dropout_seed, kFirst + place)});
  };
  const at::Tensor x = transformer::run_layers(
      encoder_->layers(), encoder_->embedded(batch.tokens, batch.positions, pass, {}, types),
      encoder_->layer_pass(batch.sequences), pass, *registry_, batch.target_rows);
  return pass.run_once(
      0,
      [&](const Tensors& in) {
        at::Tensor h = in[0];
        if (dense_.weight.defined()) {
          if (row_.drops_before_label_dense) h = dropped(h, 0);
          h = transformer::linear(h.to(pass.compute), dense_);
          h = row_.label_is_relu ? at::relu(h) : at::tanh(h);
        }
        return Tensors{then(transformer::linear(dropped(h, 1).to(pass.compute), out_).to(at::kFloat))};
      },
      {x})[0];
}

double LabelEncoder::flops(const transformer::PackedBatch& batch) const {
  const auto width = static_cast<double>(config_.hidden_size),
             outputs = static_cast<double>(config_.label->outputs());
  const double dense = dense_.weight.defined() ? width : 0;
  return encoder_->flops(batch.sequences) +
         6 * static_cast<double>(batch.target_rows.size()) * width * (dense + outputs);
}

Head LabelEncoder::head() const {
  Head all{.parts = {kOut}, .label = config_.label};
  if (const std::string dense = row_.names.label_dense; dense_.weight.defined() && !dense.starts_with(kOut))
    all.parts.push_back(dense + ".");
  return all;
}

std::vector<std::string> LabelEncoder::import(const fs::path& folder, const EncoderFolder& theirs) {
  require_same_encoder("task.encoder.", row_, config_, theirs, folder.string());
  Head read = head();
  std::vector<std::string> lacks;
  if (!theirs.config.label || theirs.config.label->of != config_.label->of) {
    const std::vector<std::string> there = parts_in(folder, row_, read);
    std::erase_if(read.parts, [&](const std::string& part) {
      const bool is_new = part == kOut || std::ranges::find(there, part) == there.end();
      if (is_new) lacks.push_back(part.substr(0, part.size() - 1));
      return is_new;
    });
  }
  import_encoder(folder, row_, read, *registry_, theirs.config.vocab_size - config_.vocab_size);
  return lacks;
}

std::string LabelEncoder::kept_weights(const fs::path& folder) const {
  return encoder::kept_weights(folder, row_, head(), *registry_);
}

std::vector<std::string> LabelEncoder::write(const fs::path& folder,
                                             const hugging_face::FolderTexts& came) const {
  return export_encoder(folder, row_, config_, head(), *registry_,
                        heads::label_values(*config_.label, row_.classes), came);
}

}  // namespace pipeline::encoder
