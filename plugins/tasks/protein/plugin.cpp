#include "plugins/tasks/protein/task.hpp"

PIPELINE_TASK(pipeline::tasks::protein::ProteinTask, "protein", "1.0.0",
              "Masked protein models on PDB structures: an encoder-decoder, ESM-2 and ESM C. Weight decay: "
              "matrices; not embeddings, biases or norms")
