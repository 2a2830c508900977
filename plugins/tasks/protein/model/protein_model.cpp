#include "plugins/tasks/protein/model/protein_model.hpp"

#include <ATen/ATen.h>

namespace pipeline::protein {

void PackedProteins::index() {
  const int64_t* const token = tokens.const_data_ptr<int64_t>();
  const int64_t* const chain = chains.const_data_ptr<int64_t>();
  visible_rows.clear();
  chain_rows = {};
  for (int64_t s = 0; s < sequences.sequences(); ++s) {
    int64_t length = 0;
    for (int64_t n = sequences.start(s); n < sequences.start(s + 1); ++n) {
      if (token[n] != kMaskToken) visible_rows.push_back(n);
      if (length > 0 && chain[n] != chain[n - 1]) chain_rows.append(std::exchange(length, 0));
      ++length;
    }
    if (length > 0) chain_rows.append(length);
  }
}

}  // namespace pipeline::protein
