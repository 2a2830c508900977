#pragma once

namespace pipeline::transformer {

// The activation of Hendrycks and Gimpel (arXiv:1606.08415), x times the normal distribution function of x.
enum class Gelu {
  kTanh,   // approximated by tanh, as in GPT-2
  kExact,  // by erf, as in BERT and ESM-2
  kQuick   // approximated by x sigmoid(1.702 x), as in CLIP
};

// The activation of a gated unit's gate (Shazeer, arXiv:2002.05202): SiLU, g sigmoid(g), of SwiGLU, or GELU,
// of GeGLU, in its tanh form or by erf.
enum class Gate { kSilu, kGelu, kExactGelu };

// What a training loss has besides the cross entropy, of each target; x are its row of logits.
struct LossTerms {
  double z_loss = 0;           // + z_loss logsumexp(x)^2 (PaLM, arXiv:2204.02311, section 5)
  double label_smoothing = 0;  // the target is (1 - label_smoothing) one hot + label_smoothing / classes

  bool any() const { return z_loss != 0 || label_smoothing != 0; }
  bool operator==(const LossTerms&) const = default;
};

}  // namespace pipeline::transformer
