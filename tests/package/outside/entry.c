/* Refuses every host: what is shown is that the header is installed and that pipeline_plugin() works outside
 * the project. */
#include "pipeline.h"

const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {
  (void)host;
  (void)error;
  return NULL;
}
