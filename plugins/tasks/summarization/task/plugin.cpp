#include "plugins/tasks/summarization/task/task.hpp"

using pipeline::summarization::Summarization;

PIPELINE_TASK(
    Summarization, "summarization", "1.0.0",
    "GPT-2 learns to summarize pairs of document and summary. Weight decay: matrices and embeddings; not "
    "biases and norms")
