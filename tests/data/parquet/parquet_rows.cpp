// Prints the rows of a Parquet file as the tasks get them, a line of JSON each: for the live comparison with
// Python's readers.
#include <cstdio>

#include "plugins/data/files/error.hpp"
#include "plugins/data/parquet/parquet_file.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    pipeline::parquet::ParquetFile file(argv[1]);
    while (file.next()) std::printf("%.*s\n", static_cast<int>(file.text().size()), file.text().data());
    return 0;
  } catch (const pipeline::files::DataError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
