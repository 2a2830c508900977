// Made-up chains whose geometry is that of a peptide: enough for everything that looks at structures.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <span>
#include <vector>

#include "plugins/data/residues/residue.hpp"
#include "plugins/models/protein/geometry.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "plugins/tasks/protein/pack.hpp"
#include "tests/support/declared.hpp"

namespace pipeline::protein::testing {

// A winding chain; different for each phase.
inline std::vector<residues::Residue> chain(int64_t length, double phase = 0) {
  std::vector<residues::Residue> residues(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    residues::Residue& r = residues[static_cast<size_t>(i)];
    r.amino_acid =
        static_cast<uint8_t>((7 * i + static_cast<int64_t>(phase * 13)) % residues::kAminoAcidCount);
    r.number = r.position = static_cast<int32_t>(i);
    r.flags = residues::Residue::kHasCa | residues::Residue::kHasFrame;
    const auto at = [&](double t, double wobble) {
      const double a = 1.7 * t + phase;
      return residues::Vec3{static_cast<float>(2.3 * std::cos(a) + 6 * std::sin(0.11 * t + phase)),
                            static_cast<float>(2.3 * std::sin(a) + wobble),
                            static_cast<float>(1.5 * t + 3 * std::cos(0.23 * t))};
    };
    const auto t = static_cast<double>(i);
    r.n = at(t - 0.33, 0.2);
    r.ca = at(t, -0.3);
    r.c = at(t + 0.33, 0.4);
  }
  return residues;
}

// Everything turned by a rotation and shifted.
inline std::vector<residues::Residue> moved(std::vector<residues::Residue> residues) {
  const double a = 0.7, b = -1.1;
  const auto move = [&](residues::Vec3& v) {
    const double x = std::cos(a) * v.x - std::sin(a) * v.y, y = std::sin(a) * v.x + std::cos(a) * v.y;
    const double y2 = std::cos(b) * y - std::sin(b) * v.z, z = std::sin(b) * y + std::cos(b) * v.z;
    v = {static_cast<float>(x + 31), static_cast<float>(y2 - 12), static_cast<float>(z + 55)};
  };
  for (residues::Residue& r : residues) move(r.n), move(r.ca), move(r.c);
  return residues;
}

// Every `every`-th residue masked; the chains are samples of their own. hide: masked residues lose their
// coordinates as well.
inline PackedProteins pack(const std::vector<std::vector<residues::Residue>>& samples, int64_t every = 5,
                           bool hide = false) {
  tasks::protein::Packer packer(hide ? tasks::protein::Packing::kHide : tasks::protein::Packing::kShow);
  for (const std::vector<residues::Residue>& residues : samples) {
    const std::vector<std::span<const residues::Residue>> chains{residues};
    proteins::Masking masking;
    std::vector<int64_t> rows;
    for (const residues::Residue& residue : residues) {
      rows.push_back(static_cast<int64_t>(rows.size()));
      const bool masked = rows.back() % every == 0;
      masking.tokens.push_back(masked ? residues::kMaskToken : residue.amino_acid);
      masking.is_target.push_back(masked ? 1 : 0);
    }
    packer.add(proteins::make_sample(chains), rows, masking);
  }
  return packer.finish();
}

// Values before training, and those that start at zero too, so that nothing is switched off.
inline void initialize(const ProteinModel& model, uint64_t seed = 1) {
  const at::NoGradGuard no_grad;
  tests::initialize(model, seed);
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const at::Tensor value = model.parameters()[i].tensor;
    if (value.eq(0).all().item<bool>())
      value.copy_(at::sin(at::arange(value.numel(), at::kDouble) * 0.9 + static_cast<double>(i))
                      .mul(0.1)
                      .view(value.sizes()));
  }
}

inline at::Tensor log_probabilities(const ProteinModel& model, const PackedProteins& batch,
                                    at::ScalarType compute = at::kFloat) {
  return model.outputs(batch, {.compute = compute}).log_probabilities;
}

}  // namespace pipeline::protein::testing
