#include "tiny_model.hpp"
#include "plugins/data/residues/alphabet.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cctype>

namespace pipeline::encoder::testing {

Config tiny_config(const Architecture& row) {
  Config config = row.defaults;
  config.num_hidden_layers = 3;
  config.hidden_size = 24;
  config.num_attention_heads = 3;
  config.intermediate_size = 50;
  return config;
}

void fill_with_numbers(ProteinEncoder& model) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 0;
  for (const auto& [name, parameter] : named(model)) {
    const at::Tensor normal =
        at::randn(parameter.sizes(), at::make_generator<at::CPUGeneratorImpl>(++seed), at::kFloat);
    const bool norm_weight = parameter.dim() == 1 && name.ends_with(".weight");
    at::Tensor(parameter).copy_(norm_weight ? 1 + normal * 0.1 : normal * 0.2);
  }
}

protein::PackedProteins batch_of(const std::vector<Sample>& samples) {
  protein::PackedProteins batch;
  std::vector<int64_t> tokens, positions, chains, targets;
  for (const Sample& sample : samples) {
    const size_t before = tokens.size();
    for (size_t chain = 0; chain < sample.size(); ++chain) {
      int64_t position = 0;
      for (const char c : sample[chain]) {
        if (c != '-') {
          const auto row = static_cast<int64_t>(tokens.size());
          const auto number =
              static_cast<int64_t>(residues::kAminoAcids.find(static_cast<char>(std::toupper(c))));
          tokens.push_back(c == '#' ? residues::kMaskToken : c == 'X' ? int64_t{residues::kUnknown} : number);
          positions.push_back(position);
          chains.push_back(static_cast<int64_t>(chain));
          if (c == '#' || std::islower(c)) {
            targets.push_back(c == '#' ? position * 7 % residues::kAminoAcidCount : number);
            batch.target_rows.push_back(row);
          }
        }
        ++position;
      }
    }
    batch.sequences.append(static_cast<int64_t>(tokens.size() - before));
  }
  batch.tokens = at::tensor(tokens, at::kLong);
  batch.positions = at::tensor(positions, at::kLong);
  batch.chains = at::tensor(chains, at::kLong);
  batch.targets = at::tensor(targets, at::kLong);
  batch.index();
  return batch;
}

std::vector<Sample> tiny_samples() {
  return {{"MKT#YIaKQRQISFVKSHF#RQLEERLGL"},
          {"AC##", "GGG#XW---LLe", "#"},
          {"ACDEFGHIKLMNPQRSTVWYX"},
          {"##########"},
          {"w"}};
}

}  // namespace pipeline::encoder::testing
