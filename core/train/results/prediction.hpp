// Writes submission.csv: one or more rows a sample, in input order, as they come. An interrupted prediction
// goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// Bytes at the end of files, by name, in the order of their samples.
using Growth = std::vector<std::pair<std::string, std::string>>;

// A table under construction and the files that grow with it:
// <output>.part and <folder of its side files>/NAME.part, and in <output>.progress how far they are known to
// be good: after a kill, what is behind is dropped, and made again. Throws Error with path and cause.
class PartialResult {
 public:
  // identity: what the rows depend on; what another one has begun goes.
  PartialResult(std::filesystem::path output, std::string identity);

  uint64_t samples() const { return samples_; }
  bool empty() const { return table_.bytes == 0; }

  void append(std::string_view rows, const Growth& growth, uint64_t samples_done);
  // Brings all to the disk, and gives the files that grew their names. What was there under them goes.
  void finish_files();
  // Gives the table its name.
  void finish();

 private:
  struct File {
    std::filesystem::path part;
    Descriptor file{};
    uint64_t bytes = 0;

    void open();  // and drops what is behind `bytes`
    void append(std::string_view text);
    void sync() const;
  };
  File& grown(const std::string& name);
  bool continues(const std::string& identity);
  void save_progress() const;

  std::filesystem::path output_, folder_, progress_;
  std::string identity_;
  File table_;
  std::map<std::string, File> grown_;
  uint64_t samples_ = 0;
};

struct PredictionRequest {
  uint32_t split = PL_SPLIT_TEST;
  std::filesystem::path output;  // the CSV, in a folder that is there; files that the task adds go into
                                 // <output stem>-files beside it
  uint64_t samples = 0;          // the first so many; 0: all
  std::string identity;          // what the rows depend on (checkpoint, config): another one starts over
};

struct Prediction {
  bool complete = false;   // false: cancelled, and can go on later
  uint64_t samples = 0;    // done, those of earlier processes included
  uint64_t continued = 0;  // samples done by earlier processes
  double seconds = 0;
};

Prediction predict(Session& session, const PredictionRequest& request);

}  // namespace pipeline::train
