#include "core/train/plan/plan.hpp"

#include <system_error>

#include <stdlib.h>

#include "core/base/fail.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/weights.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

config::Config trial_stage(const config::Config& whole) {
  for (const config::Config& stage : stages_of(whole))
    if (!whole.has_stages() || stage.options().stage.kind == "train") return stage;
  throw whole.error("stage", "none of the stages trains: name one with --stage that does");
}

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "pipeline-trial-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    fail("{}: no folder can be made in it: set TMPDIR to another one", fs::temp_directory_path().string());
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // it lies in the folder for temporary files
  fs::remove_all(path_, ignored);
}

void open_for_trial(Session& session, const config::Config& whole, const config::Config& stage,
                    const ScratchFolder& scratch) {
  const RunFolder folder(scratch.path(), false);
  const Origin origin = find_origin(session.config(), session.log(), folder, init_from(whole, stage));
  session.open_task(origin.checkpoint());
  session.create_strategy();
  const observe::Elapsed elapsed(session.log().console(), "loading weights");
  load_weights(session, origin);
  session.bind();
}

}  // namespace pipeline::train
