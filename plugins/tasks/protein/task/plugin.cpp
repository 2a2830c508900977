#include "plugins/tasks/protein/task/task.hpp"

PIPELINE_TASK(pipeline::protein::ProteinTask, "protein", "1.0.0",
              "Masked models of proteins over PDB structures: an encoder-decoder, and ESM-2. Weight decay: "
              "matrices; not embeddings, biases and norms")
