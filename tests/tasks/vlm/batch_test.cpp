// Samples of several pictures, of one square or more, as one batch.
#include "plugins/models/llava/batch.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <pipeline/error.hpp>

#include "tests/support/test_files.hpp"

namespace pipeline::llava {
namespace {

using testing::ElementsAre;

constexpr int64_t kPatch = chat::ChatTokens::kPatch;

std::vector<int64_t> values(const at::Tensor& tensor) {
  const int64_t* const first = tensor.const_data_ptr<int64_t>();
  return {first, first + tensor.numel()};
}

PictureLayout layout(std::vector<images::Grid> grids, int64_t patches = 2) {
  return {{.square = {.size = 2 * patches, .mode = images::ResizeMode::kSquash}, .grids = std::move(grids)},
          patches};
}

// A picture whose numbers all are `number`.
SamplePicture picture(const PictureShape& shape, float number, int64_t side) {
  return {.shape = shape,
          .key = {},
          .features = {},
          .pixels = std::vector<float>(static_cast<size_t>(shape.squares * 3 * side * side), number)};
}

chat::Sequence sequence_of(std::vector<int64_t> tokens) {
  const size_t size = tokens.size();
  return {.tokens = std::move(tokens), .targets = std::vector<int64_t>(size, -1)};
}

TEST(PictureLayout, OneSquareIsItsPatches) {
  const PictureShape shape = layout({}).of(100, 20);
  EXPECT_EQ(shape.squares, 1);
  EXPECT_THAT(shape.tokens, ElementsAre(kPatch, kPatch, kPatch, kPatch));
  EXPECT_TRUE(shape.arranged.empty());
  EXPECT_EQ(layout({}).most_rows(), 4);
}

// The whole has patches 0 to 3, then come 1x2 tiles with 4 to 11, whose lines go across.
TEST(PictureLayout, LinesGoAcrossTheTilesAndEndWithTheNewline) {
  const PictureShape full = layout({{1, 2}}).of(8, 4);
  EXPECT_EQ(full.squares, 3);
  EXPECT_THAT(full.arranged, ElementsAre(0, 1, 2, 3, 4, 5, 8, 9, kNewline, 6, 7, 10, 11, kNewline));
  EXPECT_EQ(full.tokens.size(), 14u);
  EXPECT_EQ(layout({{1, 2}}).most_rows(), 14);
  // A picture as high as wide has two of the four columns.
  EXPECT_THAT(layout({{1, 2}}).of(8, 8).arranged, ElementsAre(0, 1, 2, 3, 5, 8, kNewline, 7, 10, kNewline));
  // A strip fills no whole line; what is left on both ends is equal, as transformers rounds it.
  EXPECT_THAT(layout({{1, 2}}).of(100, 1).arranged, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(layout({{1, 2}, {2, 2}}).most_rows(), 4 + 4 * 5);
}

// Words as Idefics3's processor writes them; each letter is a token here, and 1 stands for each <image>.
TEST(PictureLayout, WordsSayWhereASquareIs) {
  std::string said;
  images::TileOptions tiles{.square = {.size = 4, .mode = images::ResizeMode::kSquash}, .grids = {}};
  const auto words = [&](const std::string& text) {
    said = text;
    std::vector<int64_t> tokens{7};
    for (size_t at = 0; (at = text.find("<image>", at)) != text.npos; ++at) tokens.push_back(kPatch);
    return tokens;
  };
  const PictureShape one = PictureLayout(tiles, 2, words).of(3, 3);
  EXPECT_EQ(said, "<fake_token_around_image><global-img><image><fake_token_around_image>");
  EXPECT_THAT(one.tokens, ElementsAre(7, kPatch, kPatch, kPatch, kPatch));
  tiles.longest_edge = 8;
  const PictureShape cut = PictureLayout(tiles, 1, words).of(8, 3);
  EXPECT_EQ(said,
            "<fake_token_around_image><row_1_col_1><image><fake_token_around_image><row_1_col_2><image>\n\n"
            "<fake_token_around_image><global-img><image><fake_token_around_image>");
  EXPECT_EQ(cut.squares, 3);
  EXPECT_THAT(cut.tokens, ElementsAre(7, kPatch, kPatch, kPatch));
  EXPECT_TRUE(cut.arranged.empty());
  EXPECT_EQ(PictureLayout(tiles, 2, words).most_rows(), 5 * 4);
}

// Each square is a patch, and pictures differ in how many they have.
TEST(BatchBuilder, PicturesOfNaFlexAreGridsOfPatches) {
  const PictureLayout flexible({.square = {.size = 4}, .grids = {}, .max_patches = 6}, 1);
  const PictureShape wide = flexible.of(12, 8), tall = flexible.of(5, 200);
  EXPECT_EQ(wide.patches, (vision::PatchGrid{.rows = 2, .columns = 3}));
  EXPECT_EQ(tall.patches, (vision::PatchGrid{.rows = 6, .columns = 1}));
  EXPECT_EQ(wide.squares, 6);
  EXPECT_EQ(wide.tokens.size(), 6u);
  EXPECT_EQ(flexible.most_rows(), 6);
  BatchBuilder builder(4, 1, /*has_cache=*/true, false);
  std::vector<int64_t> tokens = wide.tokens;
  tokens.insert(tokens.end(), tall.tokens.begin(), tall.tokens.end());
  SamplePicture known = picture(wide, 0, 4);
  known.features = {.squares = at::full({6, 1, 5}, 3.0f), .width = 12, .height = 8};
  known.pixels.clear();
  builder.add(sequence_of(tokens), {known, picture(tall, 2, 4)}, false);
  VlmBatch batch;
  PicturesOfBatch pictures;
  builder.finish(batch, pictures);
  EXPECT_THAT(batch.pixels.sizes().vec(), ElementsAre(6, 3, 4, 4));
  EXPECT_THAT(batch.known.sizes().vec(), ElementsAre(6, 1, 5));
  EXPECT_THAT(batch.patches, ElementsAre(wide.patches, tall.patches));
  EXPECT_EQ(batch.cached[0].place, -1);
  EXPECT_EQ(batch.cached[1].place, 0);
  EXPECT_EQ(batch.cached[1].squares, 6);
}

// DINOv2's registers, which the language model sees before the patches.
TEST(PictureLayout, RegistersAreRowsToo) {
  const PictureLayout layout({.square = {.size = 4}, .grids = {}}, 2, nullptr, 3);
  EXPECT_EQ(layout.of(9, 9).tokens.size(), 7u);
  EXPECT_EQ(layout.most_rows(), 7);
}

TEST(BatchBuilder, RowsOfFeaturesStandWhereTheirTokensDo) {
  const PictureShape one = layout({}).of(4, 4);
  BatchBuilder builder(4, 4, false, false);
  builder.add(
      sequence_of({7, kPatch, kPatch, kPatch, kPatch, 8, kPatch, kPatch, kPatch, kPatch}),
      [&] {
        std::vector<SamplePicture> two;
        two.push_back(picture(one, 1, 4));
        two.push_back(picture(one, 2, 4));
        return two;
      }(),
      false);
  builder.add(sequence_of({9}), {}, false);
  builder.add(sequence_of({kPatch, kPatch, kPatch, kPatch, 5}), {picture(one, 3, 4)}, false);
  VlmBatch batch;
  PicturesOfBatch pictures;
  builder.finish(batch, pictures);
  EXPECT_THAT(values(batch.packed.tokens), ElementsAre(7, 0, 0, 0, 0, 8, 0, 0, 0, 0, 9, 0, 0, 0, 0, 5));
  EXPECT_THAT(values(batch.picture_rows), ElementsAre(1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14));
  EXPECT_FALSE(batch.shown.defined() || batch.arranged.defined()) << "all, in order";
  ASSERT_THAT(batch.pixels.sizes().vec(), ElementsAre(3, 3, 4, 4));
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(batch.pixels[i].eq(i + 1).all().item<bool>());
  EXPECT_EQ(pictures.samples[0].pictures, 2u);
  EXPECT_EQ(pictures.samples[2].first, 2u);
  std::vector<int64_t> rows;
  pictures.append_rows(2, 1, rows);
  pictures.append_rows(0, 1, rows);
  EXPECT_THAT(rows, ElementsAre(8, 9, 10, 11, 0, 1, 2, 3));
}

TEST(BatchBuilder, PicturesOfSeveralSquaresAndOneAreArrangedTogether) {
  const PictureShape strip = layout({{1, 2}}).of(100, 1), tall = layout({{1, 2}}).of(8, 8);
  BatchBuilder builder(4, 4, false, false);
  std::vector<int64_t> tokens = strip.tokens;
  tokens.insert(tokens.end(), tall.tokens.begin(), tall.tokens.end());
  builder.add(sequence_of(tokens), {picture(strip, 1, 4), picture(tall, 2, 4)}, false);
  VlmBatch batch;
  PicturesOfBatch pictures;
  builder.finish(batch, pictures);
  EXPECT_EQ(batch.pixels.size(0), 6);
  EXPECT_EQ(batch.newlines, 2);
  EXPECT_THAT(values(batch.arranged), ElementsAre(0, 1, 2, 3, 12, 13, 14, 15, 17, 20, 24, 19, 22, 25));
}

// In training a picture behind a cut is not computed; a prompt may need it.
TEST(BatchBuilder, PicturesBehindACutAreLeftOutUnlessTheyAreAskedFor) {
  const PictureShape one = layout({}).of(4, 4);
  for (const bool keeps_all : {false, true}) {
    BatchBuilder builder(4, 4, false, keeps_all);
    builder.add(sequence_of({kPatch, kPatch, kPatch, kPatch, 5}), {picture(one, 1, 4), picture(one, 2, 4)},
                false);
    builder.add(sequence_of({kPatch, kPatch, kPatch, kPatch, 6}), {picture(one, 3, 4)}, false);
    VlmBatch batch;
    PicturesOfBatch pictures;
    builder.finish(batch, pictures);
    EXPECT_EQ(batch.pixels.size(0), keeps_all ? 3 : 2);
    EXPECT_EQ(pictures.samples[0].pictures, keeps_all ? 2u : 1u);
    ASSERT_EQ(batch.shown.defined(), keeps_all);
    if (keeps_all) {
      EXPECT_THAT(values(batch.shown), ElementsAre(0, 1, 2, 3, 8, 9, 10, 11));
    }
  }
}

TEST(BatchBuilder, ASequenceThatEndsWithinAPictureIsAnError) {
  BatchBuilder builder(4, 4, false, false);
  EXPECT_THAT(tests::message_of<Error>([&] {
                builder.add(sequence_of({1, kPatch, kPatch}), {picture(layout({}).of(4, 4), 1, 4)}, false);
              }),
              testing::HasSubstr("it is cut within one"));
}

}  // namespace
}  // namespace pipeline::llava
