#pragma once

namespace pipeline::transformer {

// The activation of Hendrycks and Gimpel (arXiv:1606.08415), x times the normal distribution function of x.
enum class Gelu {
  kTanh,   // approximated by tanh, as in GPT-2
  kExact,  // by erf, as in BERT and ESM-2
  kQuick   // approximated by x sigmoid(1.702 x), as in CLIP
};

}  // namespace pipeline::transformer
