#include "plugins/models/encoder/label_encoder.hpp"

#include <algorithm>
#include <numeric>

#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include "heads/label_folder.hpp"
#include "plugins/models/encoder/token_head.hpp"
#include "transformer/dropout.hpp"

namespace pipeline::encoder {

namespace fs = std::filesystem;

constexpr const char* kOut = "classifier.";

static bool is_of_texts(const Config& config) { return config.label->of == heads::LabelForm::Of::kSamples; }

static bool has_dense(const Architecture& row, const Config& config) {
  return is_of_texts(config) || row.has_label_dense_of_words;
}

static Head head_of(const Architecture& row, const Config& config) {
  Head all{.prefix = row.names.in_folder, .parts = {kOut}, .label = config.label};
  for (const char* part : {row.names.label_dense, row.names.label_norm})
    if (const std::string name = part == nullptr ? kOut : part;
        has_dense(row, config) && !name.starts_with(kOut))
      all.parts.push_back(name + ".");
  return all;
}

adapters::AdaptedModel LabelEncoder::adapted(const Architecture& row, const Config& config) {
  return adapted_encoder(row, config, head_of(row, config), is_of_texts(config) ? "SEQ_CLS" : "TOKEN_CLS");
}

LabelEncoder::LabelEncoder(const std::string& kind, const Config& config, const adapters::LoraOptions& lora)
    : row_(text_encoder(kind)), config_(config), lora_(lora) {
  registry_->set_rule([this](Parameter& parameter) {
    const auto begins = [&](const std::string& part) { return parameter.name.starts_with(part); };
    if (!begins("lora.") && (!begins(row_.names.in_folder) || begins(concat(row_.names.label_dense, "."))))
      parameter.droppable = parameter.is_new = true;
    parameter.trainable = adapters::is_trained(parameter, lora_);
  });
  encoder_.emplace(row_, config_, *registry_, row_.names.in_folder);
  const int64_t width = config_.hidden_size;
  if (has_dense(row_, config_)) {
    dense_ = head_linear(row_, *registry_, row_.names.label_dense, width, width, config_.initializer_range);
    if (row_.names.label_norm != nullptr)
      norm_ = transformer::add_norm(*registry_, row_.names.label_norm, width, 0, config_.layer_norm_eps,
                                    row_.has_bias_in_head);
  }
  out_ = transformer::add_linear(*registry_, is_of_texts(config_) ? row_.names.label_out : "classifier",
                                 width, config_.label->outputs(), 0, config_.initializer_range);
  encoder_->add_lora(lora_);
  registry_->set_rule(nullptr);
  lora_.start(*registry_, adapted(row_, config_));
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
  const bool pools_mean = is_of_texts(config_) && config_.classifier_pooling == "mean";
  std::vector<int64_t> rows = batch.target_rows;
  if (pools_mean) {
    rows.resize(static_cast<size_t>(batch.sequences.rows()));
    std::iota(rows.begin(), rows.end(), 0);
  }
  at::Tensor x = encoder_->output(batch, rows, pass, types);
  if (pools_mean) x = text_means(x, batch.sequences);
  return pass.run_once(
      0,
      [&](const Tensors& in) {
        at::Tensor h = in[0];
        if (dense_.weight.defined()) {
          if (row_.drops_before_label_dense) h = dropped(h, 0);
          h = transformer::linear(h.to(pass.compute), dense_);
          h = row_.label_activation == Activation::kTanh   ? at::tanh(h)
              : row_.label_activation == Activation::kRelu ? at::relu(h)
                                                           : at::gelu(h);
          if (norm_.weight.defined()) h = transformer::norm_rows(h.to(in[0].scalar_type()), norm_);
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

std::vector<std::string> LabelEncoder::import(const fs::path& folder, const EncoderFolder& theirs) {
  require_same_encoder("task.encoder.", row_, config_, theirs, folder.string());
  Head read = head_of(row_, config_);
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
  lora_.start(*registry_, adapted(row_, config_));
  return lacks;
}

std::string LabelEncoder::kept_weights(const fs::path& folder) const {
  return encoder::kept_weights(folder, row_, head_of(row_, config_), *registry_);
}

std::vector<std::string> LabelEncoder::write(const fs::path& folder,
                                             const hugging_face::FolderTexts& came) const {
  return export_encoder(folder, row_, config_, head_of(row_, config_), *encoder_, *registry_,
                        heads::label_values(*config_.label, row_.classes), lora_, adapted(row_, config_),
                        came);
}

}  // namespace pipeline::encoder
