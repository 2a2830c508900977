#include "core/cli/embedding.h"

int main(int argc, char** argv) {
  const int code = pipeline_main(argc, argv, nullptr);
  pipeline_end();
  return code;
}
