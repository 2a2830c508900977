// The task's own part of a checkpoint, and what is said of one that is damaged.
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/residues/alphabet.hpp"

#include <gmock/gmock.h>

#include <pipeline/error.hpp>

namespace pipeline::tasks::protein {
namespace {

using ::testing::HasSubstr;

proteins::TaskState some_state() {
  proteins::TaskState state;
  for (size_t a = 0; a < residues::kAminoAcidCount; ++a) state.frequencies[a] = 0.01 * static_cast<double>(a);
  state.model = "words of the model";
  const std::vector<uint64_t> training{0, 255, UINT64_MAX}, validation{3};
  state.learnt = proteins::Learnt{.training = proteins::ContentKeys(training),
                                  .validation = proteins::ContentKeys(validation, 99)};
  return state;
}

TEST(TaskState, IsReadAsItWasWritten) {
  const proteins::TaskState state = proteins::state_from(proteins::to_text(some_state()));
  EXPECT_EQ(state.frequencies, some_state().frequencies);
  EXPECT_EQ(state.model, "words of the model");
  EXPECT_EQ(state.learnt.training.keys(), some_state().learnt.training.keys());
  EXPECT_EQ(state.learnt.validation.keys(), some_state().learnt.validation.keys());
  EXPECT_EQ(state.learnt.training.bound(), UINT64_MAX);
  EXPECT_EQ(state.learnt.validation.bound(), 99u);
}

TEST(TaskState, ThatIsDamagedIsAnErrorThatSaysSo) {
  const std::string whole = proteins::to_text(some_state());
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = whole;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), instead);
  };
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), whole.substr(0, whole.size() / 2),
        with("0.01", "\"x\""), with("[0.0,", "["), with("\"words of the model\"", "7"),
        with("18446744073709551615", "-1"), with("[3]", "3")}) {
    try {
      proteins::state_from(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("the checkpoint's state of the protein task cannot be read")) << text;
    }
  }
}

}  // namespace
}  // namespace pipeline::tasks::protein
