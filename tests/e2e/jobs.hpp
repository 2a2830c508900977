// The jobs that every promise about runs is tried with.
#pragma once

#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "tests/e2e/contrastive_job.hpp"
#include "tests/e2e/protein_job.hpp"
#include "tests/e2e/small_job.hpp"
#include "tests/e2e/vlm_job.hpp"

namespace pipeline::tests {

using Jobs =
    testing::Types<SmallJob, SmallProteinJob, SmallEsm2Job, SmallEsmcJob, SmallVlmJob, SmallContrastiveJob>;

struct JobNames {
  template <class JobT>
  static std::string GetName(int) {
    if (std::is_same_v<JobT, SmallJob>) return "Summarization";
    if (std::is_same_v<JobT, SmallVlmJob>) return "Vlm";
    if (std::is_same_v<JobT, SmallContrastiveJob>) return "Contrastive";
    if (std::is_same_v<JobT, SmallEsmcJob>) return "Esmc";
    return std::is_same_v<JobT, SmallProteinJob> ? "Protein" : "Esm2";
  }
};

}  // namespace pipeline::tests
