// Scores that people quote, against what their authors' programs give.
#include <gmock/gmock.h>

#include "plugins/scores/answers/answer_page.hpp"
#include "plugins/scores/answers/answer_score.hpp"

namespace pipeline::answers {
namespace {

using testing::ElementsAre;

TEST(SeveralTruths, TheBestOneCounts) {
  const std::vector<std::string> truths{"a red cat", "dog"};
  EXPECT_EQ(score_answer(truths, "Dog!").exact, 1);
  EXPECT_NEAR(score_answer(truths, "cat").f1, 2.0 / 3, 1e-12);
}

// Forms that processPunctuation() and processDigitArticle() of vqaEval.py write.
TEST(VqaForm, IsThatOfTheChallenge) {
  const std::pair<const char*, const char*> kForms[] = {
      {"The cat.", "cat"},
      {"Dont know", "don't know"},
      {"1,000 dogs, and-cats", "1000 dogs andcats"},
      {"t-shirt", "t shirt"},
      {"red - blue", "red blue"},
      {"two men and a dog", "2 men and dog"},
      {"yes!", "yes"},
      {"3.5 miles.", "3.5 miles"},
      {"U.S.A.", "usa"},
      {"None", "0"},
      {"who's there? whos there", "who's there who's there"},
      {"couldnt've couldn'tve", "couldn't've couldn't've"},
      {"yall'll", "y'all'll"},
      {"Somebody'd", "somebodyd"},
      {"5 oclock", "5 o'clock"},
      {"a/b", "b"},
      {"(left)  side", "left side"},
      {"what?!", "what"},
      {"hes\tan \n actor", "he's actor"},
      {"'ows'at twas", "'ow's'at 'twas"},
      {"none of the above", "0 of above"},
      {"x_y@z.com", "x y zcom"},
      {"1,5,2", "152"},
      {".5", ".5"},
      {"a an the", ""},
  };
  for (const auto& [answer, form] : kForms) EXPECT_EQ(vqa_form(answer), form) << answer;
}

// Each of ten people is left out once; three of the others are enough.
TEST(VqaAccuracy, IsTheMeanOverAllButOne) {
  std::vector<std::string> truths(10, "net");
  EXPECT_EQ(vqa_accuracy(truths, "A net."), 1);
  for (const auto& [same, accuracy] : {std::pair{1, 0.3}, {2, 0.6}, {3, 0.9}, {4, 1.0}}) {
    for (int i = 0; i < 10; ++i)
      truths[static_cast<size_t>(i)] = i < same ? "2" : "other " + std::to_string(i);
    EXPECT_NEAR(vqa_accuracy(truths, "two"), accuracy, 1e-12) << same;
  }
  EXPECT_EQ(vqa_accuracy(truths, "three"), 0);
}

double chrf_of(const std::vector<std::string>& texts, const std::vector<std::string>& truths) {
  ChrfCounts sum;
  for (size_t i = 0; i < texts.size(); ++i) add(sum, chrf_counts(std::vector{truths[i]}, texts[i]));
  return 100 * chrf(sum);
}

// The values in sacrebleu's own tests, test/test_chrf.py. Those of whole sentences are with eps_smoothing,
// the mean of the lengths' own F-measures.
double smoothed_chrf(const char* text, const std::string& truth) {
  double sum = 0;
  for (const SharedGrams& grams : chrf_counts(std::vector{truth}, text)) {
    const double precision = grams.shared / grams.given, recall = grams.shared / grams.wanted;
    if (grams.shared > 0) sum += 5 * precision * recall / (4 * precision + recall);
  }
  return 100 * sum / 6;
}

TEST(Chrf, IsThatOfSacrebleu) {
  EXPECT_NEAR(
      smoothed_chrf("Co nás nejvíc trápí, protože lékaři si vybírají, kdo bude žít a kdo zemře.",
                    "Nejvíce smutní jsme z toho, že musíme rozhodovat o tom, kdo bude žít a kdo zemře."),
      39.14078509, 1e-7);
  EXPECT_NEAR(smoothed_chrf("Nebo prostě nemají vybavení, které by jim pomohlo, uvedli lékaři.",
                            "A někdy nemáme ani potřebný materiál, abychom jim pomohli, popsali lékaři."),
              31.22557079, 1e-7);
  EXPECT_NEAR(smoothed_chrf(
                  "Lapali po dechu, jejich životy skončily dřív, než skutečně začaly.",
                  "Lapali po dechu a pak jejich život skončil - dřív, než skutečně mohl začít, připomněli."),
              57.15704367, 1e-7);
  EXPECT_NEAR(chrf_of({"a"}, {"a"}), 100, 1e-9);
  EXPECT_EQ(chrf_of({""}, {"reference"}), 0);
  EXPECT_NEAR(chrf_of({"a b c"}, {"abc"}), 100, 1e-9);
  EXPECT_EQ(chrf_of({""}, {"c"}), 0);
  EXPECT_NEAR(chrf_of({"a", "b"}, {"a", "c"}), 50, 1e-9);
  EXPECT_NEAR(chrf_of({"aa"}, {"ab"}), 25, 1e-9);
  EXPECT_EQ(chrf_of({"abcdefg"}, {"hijklmnop"}), 0);
}

TEST(CaptionWords, AreInLowerCaseWithoutPunctuation) {
  EXPECT_THAT(caption_words("A dog's T-shirt, it isn't 1.5 m (wide)!"),
              ElementsAre("a", "dog", "'s", "t-shirt", "it", "is", "n't", "1.5", "m", "wide"));
  EXPECT_THAT(caption_words(" - . "), ElementsAre());
  EXPECT_THAT(caption_words("Übung 'quoted'"), ElementsAre("\xc3\x9c"
                                                           "bung",
                                                           "quoted"))
      << "letters beyond ASCII stay as they are";
}

// What cider_scorer.py of tylin/coco-caption gives for these words.
TEST(CiderD, IsThatOfCoco) {
  const std::vector<WrittenCaption> captions{
      {"A cat sits on the wall.", {"a cat sits on a wall", "the cat on the wall is grey"}},
      {"two dogs play in the snow", {"Two dogs run in the snow", "dogs play"}},
      {"a red car car car", {"a red car in the street", "a car"}}};
  const std::vector<double> scores = cider_d(captions);
  EXPECT_NEAR(scores[0], 4.5624409491, 1e-9);
  EXPECT_NEAR(scores[1], 3.0940320280, 1e-9);
  EXPECT_NEAR(scores[2], 1.6773588718, 1e-9);
  EXPECT_THAT(cider_d(std::vector{captions[0]}), ElementsAre(0)) << "no other picture to tell it from";
}

// Scores of answers, and the page that shows them.

TEST(AnswerScore, ComparesWordsAsSquadDoes) {
  EXPECT_EQ(score_answer("The cat.", "a Cat").exact, 1);
  EXPECT_EQ(score_answer("cat", "cats").exact, 0);
  EXPECT_EQ(score_answer("cat", "cats").f1, 0);
  EXPECT_NEAR(score_answer("red big cat", "big dog").f1, 2.0 / 5, 1e-12);  // one of two, one of three
  EXPECT_NEAR(score_answer("no no", "no").f1, 2.0 / 3, 1e-12) << "each as often as both have it";
  EXPECT_EQ(score_answer("", "x").f1, 0);
  EXPECT_EQ(score_answer("the", "").exact, 1) << "nothing is left of either";
}

TEST(AnswerPage, ShowsWhatItIsGiven) {
  const ShownAnswer shown{
      "a<b",
      {std::string("\x89PNG\0x", 6), "two"},
      {{"question", "What & why?"}, {"truth", "<t>"}, {"answer", ""}, {"unseen", "blind"}},
      true};
  const ShownAnswer again = ShownAnswer::unpack(shown.pack());
  EXPECT_EQ(again.pictures, shown.pictures);
  EXPECT_EQ(again.id, shown.id);
  EXPECT_EQ(again.texts, shown.texts);
  EXPECT_EQ(again.right, shown.right);
  const std::string page = answer_page({again}, "Title");
  for (const char* text : {"a&lt;b", "What &amp; why?", "&lt;t&gt;", "(nothing)", "blind", "class=\"right\"",
                           "src=\"data:image/png;base64,iVBORwB4\"", "src=\"data:image/png;base64,dHdv\""})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

TEST(AnswerPage, ComparesAnswersWithoutAVerdict) {
  const ShownAnswer again = ShownAnswer::unpack(ShownAnswer{"1", {}, {{"model", "a"}}}.pack());
  EXPECT_FALSE(again.right.has_value());
  const std::string page = answer_page({again}, "Title");
  EXPECT_NE(page.find("<main class=\"compared\">"), std::string::npos);
  EXPECT_EQ(page.find("are right"), std::string::npos);
}

}  // namespace
}  // namespace pipeline::answers
