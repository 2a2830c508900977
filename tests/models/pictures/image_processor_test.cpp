// What transformers writes of how pictures are prepared, as it writes it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pipeline/error.hpp>

#include <iterator>
#include <set>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "plugins/models/pictures/picture_options.hpp"
#include "plugins/models/vision/vision_tower.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::pictures {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json kClip =
    json::parse(R"({"do_convert_rgb": true, "do_resize": true, "resample": 3, "do_rescale": true,
  "rescale_factor": 0.00392156862745098, "do_normalize": true, "do_center_crop": true,
  "size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224},
  "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
  "image_processor_type": "CLIPImageProcessor"})");
const json kSiglip2 = json::parse(R"({"do_convert_rgb": null, "do_normalize": true, "do_rescale": true,
  "do_resize": true, "image_mean": [0.5, 0.5, 0.5], "image_processor_type": "SiglipImageProcessor",
  "image_std": [0.5, 0.5, 0.5], "processor_class": "SiglipProcessor", "resample": 2,
  "rescale_factor": 0.00392156862745098, "size": {"height": 224, "width": 224}})");
// The file of openai/clip-vit-base-patch32, of 2021.
const json kOldClip = json::parse(R"({"crop_size": 224, "do_center_crop": true, "do_normalize": true,
  "do_resize": true, "feature_extractor_type": "CLIPFeatureExtractor",
  "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
  "resample": 3, "size": 224})");

json with(json processor, const char* key, json value) {
  processor[key] = std::move(value);
  return processor;
}

// Otherwise features that are kept would be those of other pixels or of another encoder.
TEST(PictureOptions, TheKeyHasEachThatDecidesFeatures) {
  using Change = void (*)(PictureOptions & options);
  constexpr Change kChanges[] = {[](PictureOptions& o) { o.vision.kind = "siglip"; },
                                 [](PictureOptions& o) { o.vision.image_size = 448; },
                                 [](PictureOptions& o) { o.vision.crop_size = 196; },
                                 [](PictureOptions& o) { o.vision.patch_size = 16; },
                                 [](PictureOptions& o) { o.vision.hidden_size = 384; },
                                 [](PictureOptions& o) { o.vision.num_hidden_layers = 6; },
                                 [](PictureOptions& o) { o.vision.num_attention_heads = 6; },
                                 [](PictureOptions& o) { o.vision.intermediate_size = 100; },
                                 [](PictureOptions& o) { o.vision.num_register_tokens = 4; },
                                 [](PictureOptions& o) { o.vision.layer_norm_eps = 1e-6; },
                                 [](PictureOptions& o) { o.vision.hidden_act = "gelu"; },
                                 [](PictureOptions& o) { o.resize = "pad"; },
                                 [](PictureOptions& o) { o.resample = "bilinear"; },
                                 [](PictureOptions& o) { o.shortest_edge = 256; },
                                 [](PictureOptions& o) { o.longest_edge = 512; },
                                 [](PictureOptions& o) { o.max_patches = 512; },
                                 [](PictureOptions& o) { o.split = false; },
                                 [](PictureOptions& o) { o.grids = {"1x2"}; }};
  std::set<std::string> keys{PictureOptions().key()};
  for (const Change change : kChanges) {
    PictureOptions options;
    change(options);
    keys.insert(options.key());
  }
  EXPECT_EQ(keys.size(), 1 + std::size(kChanges));
  PictureOptions same;
  same.lr_multiplier = 0.1;
  same.vision.initializer_range = 0.01;
  EXPECT_EQ(same.key(), PictureOptions().key());
}

images::TileOptions options_of(bool is_clip, int64_t size = 224, std::vector<images::Grid> grids = {}) {
  images::TileOptions options{.square = {.size = size}, .grids = std::move(grids)};
  if (!is_clip) options.square.mean = options.square.deviation = {0.5, 0.5, 0.5};
  return options;
}

std::string read(const json& processor, bool is_clip = true, int64_t size = 224) {
  const tests::FilesFolder folder;
  folder.write("preprocessor_config.json", processor.dump());
  const auto found =
      read_image_processor(folder.path(), options_of(is_clip, size), is_clip ? "clip" : "siglip");
  return found->resize + " " + found->resample;
}

TEST(ImageProcessor, WhatTransformersWritesIsFollowed) {
  EXPECT_EQ(read(kClip), "crop bicubic");
  EXPECT_EQ(read(kOldClip), "crop bicubic");
  EXPECT_EQ(read(kSiglip2, false), "squash bilinear");
  EXPECT_EQ(read(with(kSiglip2, "resample", 3), false), "squash bicubic");
  json llava = with(kClip, "image_processor_type", "LlavaImageProcessorFast");
  EXPECT_EQ(read(with(llava, "do_pad", false)), "crop bicubic");
  EXPECT_EQ(read(with(llava, "do_pad", true)), "pad bicubic");
  EXPECT_EQ(read(with(kClip, "size", {{"height", 224}, {"width", 224}})), "squash bicubic");
  EXPECT_EQ(read(json::object()), "crop bicubic") << "the defaults of the class";
  EXPECT_EQ(read(json::object(), false), "squash bicubic");
}

TEST(ImageProcessor, GridsAreThoseOfTheModel) {
  const auto read_next = [](const json& processor, std::vector<images::Grid> grids) {
    const tests::FilesFolder folder;
    folder.write("preprocessor_config.json", processor.dump());
    return read_image_processor(folder.path(), options_of(true, 224, std::move(grids)), "clip")->resize;
  };
  json next = with(kClip, "image_processor_type", "LlavaNextImageProcessorFast");
  next["do_pad"] = true;
  next["image_grid_pinpoints"] = {{224, 448}, {448, 448}};
  EXPECT_EQ(read_next(next, {{1, 2}, {2, 2}}), "squash");
  EXPECT_EQ(read_next(next, {}), "squash") << "of an encoder alone";
  EXPECT_THAT(
      tests::message_of<Error>([&] {
        read_next(next, {{1, 2}});
      }),
      HasSubstr("image_grid_pinpoints = [[224,448],[448,448]]: must be [[224,448]], as config.json has it"));
  next.erase("image_grid_pinpoints");
  EXPECT_THAT(tests::message_of<Error>([&] {
                read_next(next, {{1, 2}});
              }),
              HasSubstr("image_grid_pinpoints is missing: must be [[224,448]]"));
  EXPECT_THAT(tests::message_of<Error>([&] {
                read_next(kClip, {{1, 2}});
              }),
              HasSubstr("must be LlavaNextImageProcessor"));
}

// The file of HuggingFaceTB/SmolVLM-Instruct, but for the sizes.
TEST(ImageProcessor, Idefics3AndSmolVlmScaleByTheLongestEdge) {
  json smol = {{"do_convert_rgb", true},
               {"do_image_splitting", true},
               {"do_normalize", true},
               {"do_pad", true},
               {"do_rescale", true},
               {"do_resize", true},
               {"image_mean", {0.5, 0.5, 0.5}},
               {"image_processor_type", "SmolVLMImageProcessor"},
               {"image_std", {0.5, 0.5, 0.5}},
               {"max_image_size", {{"longest_edge", 224}}},
               {"processor_class", "SmolVLMProcessor"},
               {"resample", 1},
               {"rescale_factor", 0.00392156862745098},
               {"size", {{"longest_edge", 896}}}};
  const auto found = [](const json& processor) {
    const tests::FilesFolder folder;
    folder.write("preprocessor_config.json", processor.dump());
    return *read_image_processor(folder.path(), options_of(false), "idefics3");
  };
  const ImageProcessor read = found(smol);
  EXPECT_EQ(read.resize + " " + read.resample, "squash lanczos");
  EXPECT_EQ(read.longest_edge, 896);
  EXPECT_TRUE(read.split);
  EXPECT_FALSE(found(with(smol, "do_image_splitting", false)).split);
  EXPECT_EQ(found(with(smol, "image_processor_type", "Idefics3ImageProcessorFast")).longest_edge, 896);
  EXPECT_THAT(tests::message_of<Error>([&] {
                found(with(smol, "max_image_size", {{"longest_edge", 364}}));
              }),
              HasSubstr("max_image_size = {\"longest_edge\":364}: must have the 224 pixels of image_size"));
  EXPECT_THAT(tests::message_of<Error>([&] {
                found(with(smol, "size", {{"shortest_edge", 364}}));
              }),
              HasSubstr("must be {\"longest_edge\": pixels}, up to 4096"));
}

ImageProcessor read_whole(const json& processor, const images::TileOptions& ours, const std::string& kind) {
  const tests::FilesFolder folder;
  folder.write("preprocessor_config.json", processor.dump());
  return *read_image_processor(folder.path(), ours, kind);
}

// The file of google/siglip2-base-patch16-naflex.
TEST(ImageProcessor, NaFlexSaysHowManyPatches) {
  const json naflex = {{"do_convert_rgb", nullptr},
                       {"do_normalize", true},
                       {"do_rescale", true},
                       {"do_resize", true},
                       {"image_mean", {0.5, 0.5, 0.5}},
                       {"image_processor_type", "Siglip2ImageProcessor"},
                       {"image_std", {0.5, 0.5, 0.5}},
                       {"max_num_patches", 256},
                       {"patch_size", 16},
                       {"processor_class", "Siglip2Processor"},
                       {"resample", 2},
                       {"rescale_factor", 0.00392156862745098}};
  images::TileOptions ours = options_of(false, 16);
  ours.max_patches = 1;
  const ImageProcessor found = read_whole(with(naflex, "max_num_patches", 1024), ours, "siglip2");
  EXPECT_EQ(found.resample, "bilinear");
  EXPECT_EQ(found.max_patches, 1024);
  EXPECT_EQ(read_whole(json::object(), ours, "siglip2").max_patches, 256) << "the default of the class";
  EXPECT_THAT(tests::message_of<Error>([&] { read_whole(with(naflex, "patch_size", 14), ours, "siglip2"); }),
              HasSubstr("patch_size = 14: must be the 16 pixels of config.json"));
  EXPECT_THAT(tests::message_of<Error>([&] { read_whole(naflex, options_of(false), "siglip"); }),
              HasSubstr("must be Siglip2ImageProcessor for a siglip2, and for no other: this is a siglip"));
  EXPECT_THAT(tests::message_of<Error>([&] { read_whole(kSiglip2, ours, "siglip2"); }),
              HasSubstr("must be Siglip2ImageProcessor for a siglip2"));
}

// The file of facebook/dinov2-base, whose positions are those of 518 pixels.
TEST(ImageProcessor, DinoCutsAnotherSquareThanItHasPositionsFor) {
  const json dino = {{"crop_size", {{"height", 224}, {"width", 224}}},
                     {"do_center_crop", true},
                     {"do_convert_rgb", true},
                     {"do_normalize", true},
                     {"do_rescale", true},
                     {"do_resize", true},
                     {"image_mean", {0.485, 0.456, 0.406}},
                     {"image_processor_type", "BitImageProcessor"},
                     {"image_std", {0.229, 0.224, 0.225}},
                     {"resample", 3},
                     {"rescale_factor", 0.00392156862745098},
                     {"size", {{"shortest_edge", 256}}}};
  images::TileOptions ours{.square = {.size = 518}};
  ours.square.mean = {0.485, 0.456, 0.406};
  ours.square.deviation = {0.229, 0.224, 0.225};
  const auto found = [&](const json& processor) { return read_whole(processor, ours, "dinov2"); };
  EXPECT_EQ(found(dino).resize, "crop");
  EXPECT_EQ(found(dino).crop_size, 224);
  EXPECT_EQ(found(dino).shortest_edge, 256);
  EXPECT_EQ(found(with(dino, "size", {{"shortest_edge", 224}})).shortest_edge, 0);
  EXPECT_EQ(found(with(dino, "crop_size", 518)).crop_size, 0) << "what it has positions for";
  json squashed = with(dino, "size", {{"height", 98}, {"width", 98}});
  EXPECT_THAT(tests::message_of<Error>([&] { found(squashed); }),
              HasSubstr("size = {\"height\":98,\"width\":98}: must be {\"shortest_edge\": pixels}"));
  squashed["do_center_crop"] = false;
  EXPECT_EQ(found(squashed).resize, "squash");
  EXPECT_EQ(found(squashed).crop_size, 98);
  EXPECT_THAT(tests::message_of<Error>([&] {
                found(with(dino, "crop_size", {{"height", 9}, {"width", 8}}));
              }),
              HasSubstr("must be a square"));
  squashed = dino;
  squashed.erase("image_mean");
  EXPECT_THAT(tests::message_of<Error>([&] { found(squashed); }),
              HasSubstr("image_mean is missing: only [0.485,0.456,0.406]"))
      << "a BitImageProcessor's are CLIP's";
}

TEST(ImageProcessor, TheNewerFormIsReadFirst) {
  const tests::FilesFolder folder;
  EXPECT_FALSE(read_image_processor(folder.path(), options_of(true), "clip"));
  folder.write("preprocessor_config.json", kClip.dump());
  folder.write("processor_config.json", R"({"patch_size": 14})");
  EXPECT_EQ(read_image_processor(folder.path(), options_of(true), "clip")->file.filename(),
            "preprocessor_config.json");
  folder.write("processor_config.json", json{{"image_processor", with(kClip, "do_normalize", false)}}.dump());
  EXPECT_EQ(tests::message_of<Error>([&] { read_image_processor(folder.path(), options_of(true), "clip"); }),
            folder / "processor_config.json: image_processor: do_normalize = false: only true is supported");
}

TEST(ImageProcessor, WhatWouldBeOtherNumbersIsRefusedByName) {
  const auto problem = [](const json& processor, bool is_clip = true, int64_t size = 224) {
    const std::string text = tests::message_of<Error>([&] { read(processor, is_clip, size); });
    return text.substr(std::min(text.find("preprocessor_config.json"), text.size()));
  };
  EXPECT_EQ(problem(with(kClip, "image_mean", {0.5, 0.5, 0.5})),
            "preprocessor_config.json: image_mean = [0.5,0.5,0.5]: only [0.48145466,0.4578275,0.40821073] is "
            "supported for this kind of encoder");
  EXPECT_THAT(problem(kClip, false),
              HasSubstr("image_mean = [0.48145466,0.4578275,0.40821073]: only [0.5,0.5,0.5]"));
  EXPECT_THAT(problem({{"image_processor_type", "SiglipImageProcessor"}}),
              HasSubstr("image_mean is missing: only [0.48145466,0.4578275,0.40821073]"));
  EXPECT_THAT(problem(with(kClip, "image_std", 1)), HasSubstr("image_std = 1: only [0.26862954"));
  EXPECT_THAT(problem(kClip, true, 336), HasSubstr("size = {\"shortest_edge\":224}: must be the 336 pixels"));
  EXPECT_THAT(problem(json::object(), true, 336), HasSubstr("size is missing: must be the 336 pixels"));
  EXPECT_THAT(problem(with(kClip, "size", {{"shortest_edge", 256}})),
              HasSubstr("size = {\"shortest_edge\":256}: must be the 224"));
  EXPECT_THAT(problem(with(kClip, "crop_size", 192)), HasSubstr("crop_size = 192: must be the 224 pixels"));
  EXPECT_THAT(problem(with(kClip, "do_center_crop", false)),
              HasSubstr("do_center_crop = false: must be true"));
  EXPECT_THAT(problem(with(kClip, "do_pad", true)), HasSubstr("do_pad = true: only false"));
  EXPECT_THAT(problem(with(with(kClip, "do_resize", false), "do_normalize", false)),
              AllOf(HasSubstr("do_resize = false: only true"), HasSubstr("do_normalize = false: only true")))
      << "all that is wrong, at once";
  EXPECT_THAT(problem(with(kClip, "resample", 0)),
              HasSubstr("resample = 0: only 1 (lanczos), 2 (bilinear) and 3 (bicubic)"));
  EXPECT_THAT(problem(with(kClip, "rescale_factor", 1)), HasSubstr("rescale_factor = 1: only 1/255"));
  for (const char* key : {"do_resize", "do_rescale", "do_normalize"})
    EXPECT_THAT(problem(with(kClip, key, false)), HasSubstr(key + std::string(" = false: only true")));
  EXPECT_THAT(problem(with(kClip, "crop_pct", 0.9)),
              HasSubstr("crop_pct = 0.9: is no field of a CLIPImageProcessor"));
  EXPECT_THAT(problem(with(kClip, "image_processor_type", "ViTImageProcessor")),
              HasSubstr("image_processor_type = \"ViTImageProcessor\": must be CLIPImageProcessor"));
}

// Positions that are fitted to another grid, against torch's own interpolation.

at::Tensor torchs(const at::Tensor& positions, const vision::PatchGrid& grid, vision::Interpolation how) {
  const at::Tensor square = positions.view({1, 5, 5, -1}).permute({0, 3, 1, 2});
  const std::vector<int64_t> size{grid.rows, grid.columns};
  const at::Tensor made = how == vision::Interpolation::kBicubic ? at::upsample_bicubic2d(square, size, false)
                          : how == vision::Interpolation::kSmoothBicubic
                              ? at::_upsample_bicubic2d_aa(square, size, false)
                              : at::_upsample_bilinear2d_aa(square, size, false);
  return made.permute({0, 2, 3, 1}).reshape({grid.patches(), -1});
}

TEST(PositionGrid, IsWhatTorchInterpolates) {
  at::manual_seed(3);
  const at::Tensor positions = at::randn({25, 7});
  for (const vision::Interpolation how :
       {vision::Interpolation::kBicubic, vision::Interpolation::kSmoothBicubic,
        vision::Interpolation::kSmoothBilinear})
    for (const vision::PatchGrid& grid :
         {vision::PatchGrid{3, 3}, {7, 7}, {1, 20}, {9, 2}, {4, 5}, {1, 1}, {12, 11}}) {
      const double difference =
          (vision::fitted(positions, grid, how) - torchs(positions, grid, how)).abs().max().item<double>();
      EXPECT_LT(difference, 3e-6) << static_cast<int>(how) << ", " << grid.rows << "x" << grid.columns;
    }
  EXPECT_TRUE(vision::fitted(positions, {5, 5}, vision::Interpolation::kBicubic).is_same(positions));
}

// For one column torch 2.11 gives all rows what the first one has.
TEST(PositionGrid, OneColumnHasTheMeanOfEachRow) {
  const at::Tensor positions = at::arange(25, at::kFloat).view({25, 1});
  const at::Tensor column =
      vision::fitted(positions, {5, 1}, vision::Interpolation::kSmoothBilinear).flatten();
  EXPECT_TRUE(at::allclose(column, at::arange(5, at::kFloat) * 5 + 2)) << column;
}

}  // namespace
}  // namespace pipeline::pictures
