#include "plugins/models/encoder/masked_encoder.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

namespace pipeline::encoder {

namespace fs = std::filesystem;

static Head head_of(const Architecture& row) {
  const Names& names = row.names;
  return {.prefix = names.in_folder,
          .parts = {names.head_dense, names.head_norm, names.head_bias},
          .by_token = names.head_bias,
          .tied = names.tied_head};
}

adapters::AdaptedModel MaskedEncoder::adapted(const Architecture& row, const Config& config) {
  return adapted_encoder(row, config, head_of(row), "");
}

MaskedEncoder::MaskedEncoder(const std::string& kind, const Config& config, const adapters::LoraOptions& lora)
    : row_(text_encoder(kind)), config_(config), lora_(lora) {
  // What an encoder is trained with and what it is then used for need not be the same.
  registry_->set_rule([this](Parameter& parameter) {
    const auto begins = [&](const char* part) { return parameter.name.starts_with(part); };
    parameter.droppable = !begins(row_.names.in_folder) && !begins("lora.");
    parameter.trainable = adapters::is_trained(parameter, lora_);
  });
  encoder_.emplace(row_, config_, *registry_, row_.names.in_folder);
  head_ = TokenHead(row_, config_, *registry_, encoder_->words());
  encoder_->add_lora(lora_);
  registry_->set_rule(nullptr);
  lora_.start(*registry_, adapted(row_, config_));
}

at::Tensor MaskedEncoder::body(const transformer::PackedBatch& batch, const ForwardPass& pass) const {
  return encoder_->output(batch, batch.target_rows, pass);
}

LossSum MaskedEncoder::loss(const transformer::PackedBatch& batch, const ForwardPass& pass,
                            const at::Tensor& row_losses) const {
  const Tensors out = pass.run_once(0,
                                    [&](const Tensors& in) {
                                      const LossSum loss =
                                          head_.loss(in[0], {}, batch.targets, pass, row_losses);
                                      return Tensors{loss.sum, loss.scaled};
                                    },
                                    {body(batch, pass)});
  return {out[0], out[1]};
}

at::Tensor MaskedEncoder::logits(const transformer::PackedBatch& batch, const ForwardPass& pass) const {
  const at::NoGradGuard no_grad;
  return pass.run_once(0, [&](const Tensors& in) { return Tensors{head_.logits(in[0], {}, pass.compute)}; },
                       {body(batch, pass)})[0];
}

double MaskedEncoder::flops(const transformer::PackedBatch& batch) const {
  const auto width = static_cast<double>(config_.hidden_size);
  return encoder_->flops(batch.sequences) + 3 * 2 * static_cast<double>(batch.target_rows.size()) * width *
                                                (width + static_cast<double>(head_.tokens()));
}

bool MaskedEncoder::import(const fs::path& folder, const EncoderFolder& theirs) {
  require_same_encoder("task.model.", row_, config_, theirs, folder.string());
  Head read = head_of(row_);
  const bool has_head = !parts_in(folder, row_, read).empty();  // then the whole of it
  if (!has_head) read = {.prefix = read.prefix};
  import_encoder(folder, row_, read, *registry_, theirs.config.vocab_size - config_.vocab_size);
  lora_.start(*registry_, adapted(row_, config_));
  return has_head;
}

std::string MaskedEncoder::kept_weights(const fs::path& folder) const {
  return encoder::kept_weights(folder, row_, head_of(row_), *registry_);
}

std::vector<std::string> MaskedEncoder::write(const fs::path& folder,
                                              const hugging_face::FolderTexts& came) const {
  return export_encoder(folder, row_, config_, head_of(row_), *encoder_, *registry_,
                        {{"architectures", {std::string(row_.classes) + "ForMaskedLM"}}}, lora_,
                        adapted(row_, config_), came);
}

}  // namespace pipeline::encoder
