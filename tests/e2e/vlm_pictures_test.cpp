// Several pictures, pictures of several squares, and talk about them, as a user runs it.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/vlm_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class VlmPictures : public testing::Test, public SmallVlmJob {};

// Conversations with two pictures in a turn and one in a later one, beside some without.
TEST_F(VlmPictures, SeveralPicturesAreLearntEvaluatedAndAskedAbout) {
  const auto conversations = [](int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      if (first == 0 && i % 4 == 3) {
        text += R"({"messages":[{"role":"user","content":"none?"},{"role":"assistant","content":"no"}]})"
                "\n";
        continue;
      }
      const auto picture = [&](int k) {
        return "\"drawings/" + std::to_string(first + (i + k) % count) + ".png\"";
      };
      text += R"({"id":"s)" + std::to_string(i) + R"(","images":[)" + picture(0) + "," + picture(1) + "," +
              picture(2) + R"(],"messages":[{"role":"user","content":[{"type":"image"},{"type":"image"},)" +
              R"({"type":"text","text":"Same?"}]},{"role":"assistant","content":"no"},)" +
              R"({"role":"user","content":"<image> this?"},{"role":"assistant","content":")" + colour_of(i) +
              "\"}]}\n";
    }
    return text;
  };
  write_text(path("several.jsonl"), conversations(0, 40));
  write_text(path("several-val.jsonl"), conversations(100, 8));
  const Words data{"task.data.train=several.jsonl", "task.data.val=several-val.jsonl",
                   "task.data.test=several-val.jsonl"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), data.begin(), data.end());
    return more;
  };
  const Result run = call("run", with({})).ended(0);
  call("run", with({"run.dir=again", "task.vision.cache_bytes=0"})).ended(0);
  EXPECT_EQ(curve("again"), curve("run")) << "features that are kept change nothing";
  const Result sharded = call("run", with({"run.dir=sharded", "strategy.plugin=sharded",
                                           "strategy.zero_stage=3", "launch.processes=2"}))
                             .ended(0);
  EXPECT_EQ(curve("sharded"), curve("run"));

  call("evaluate", with({})).ended(0);
  const std::string page = read_text(path("run/evaluation-test-files/answers.html"));
  size_t pictures = 0, answers = 0;
  for (size_t at = 0; (at = page.find("<img ", at)) != page.npos; ++at) ++pictures;
  for (size_t at = 0; (at = page.find("<article", at)) != page.npos; ++at) ++answers;
  EXPECT_EQ(answers, 8u);
  EXPECT_EQ(pictures, 16u) << "all of the first question's";

  // What people quote, with intervals: of questions that several people answered, and of captions.
  write_text(path("quoted.jsonl"),
             R"({"image":"drawings/100.png","question":"Same?","answers":["no","no","no","no","yes"]})"
             "\n"
             R"({"image":"drawings/101.png","question":"Same?","answers":["yes","no"]})"
             "\n"
             R"({"image":"drawings/102.png","caption":["a blue square","blue"]})"
             "\n"
             R"({"image":"drawings/103.png","caption":["a black square"]})"
             "\n");
  const Result quoted =
      call("evaluate", with({"task.data.test=quoted.jsonl", "--output", "quoted.json"})).ended(0);
  EXPECT_THAT(quoted.out, HasSubstr("95% interval, over pictures"));
  const auto figures = read_json(path("quoted.json"))["figures"];
  for (const char* name : {"exact", "f1", "vqa", "chrf", "cider_d"})
    for (const char* end : {"", "_low", "_high"}) {
      ASSERT_TRUE(figures.contains(std::string(name) + end)) << name << end << figures;
      EXPECT_LE(figures[name + std::string("_low")].get<double>(), figures[name].get<double>());
      EXPECT_GE(figures[name + std::string("_high")].get<double>(), figures[name].get<double>());
    }
  // Wilson's of four pictures: for a share p the middle is (p + z/2) / (1 + z), and z = 1.96^2 / 4.
  const double z = 1.959964 * 1.959964 / 4, middle = (figures["exact"].get<double>() + z / 2) / (1 + z);
  EXPECT_NEAR((figures["exact_low"].get<double>() + figures["exact_high"].get<double>()) / 2, middle, 1e-9);
  EXPECT_GT(figures["exact_high"].get<double>() - figures["exact_low"].get<double>(), 0.4)
      << "also where none or all are right";

  const Result asked = call("predict", with({"--image", "drawings/100.png", "--image", "drawings/101.png",
                                             "--question", "Is <image> as <image>?"}))
                           .ended(0);
  EXPECT_THAT(read_lines(path("run/asked.csv")).at(1), testing::StartsWith("100.png,Is  as ?,"));
  call("predict", with({"--image", "drawings/100.png", "--image", "drawings/101.png"})).ended(0);
  EXPECT_THAT(call("predict", with({"--image", "drawings/100.png", "--image", "drawings/101.png",
                                    "--question", "<image>?"}))
                  .err,
              HasSubstr("has <image> 1 times for 2 pictures"));
  write_text(path("ask.jsonl"), R"({"image":["drawings/100.png","drawings/101.png"],"question":"Same?"})"
                                "\n");
  call("predict", with({"task.data.test=ask.jsonl", "--output", "several.csv"})).ended(0);
  EXPECT_THAT(read_lines(path("several.csv")).at(1), testing::StartsWith("1,Same?,"));

  // A limit cuts at a turn, and says so.
  const Result cut = call("run", with({"run.dir=cut", "task.chat.max_tokens=36"})).ended(0);
  EXPECT_THAT(cut.out + cut.err,
              AllOf(testing::ContainsRegex("conversation s[0-9]+ is longer than task.chat.max_tokens = 36: "
                                           "it is cut at a turn, with the pictures behind that"),
                    testing::ContainsRegex("times a conversation was longer than task.chat.max_tokens = 36: "
                                           "[0-9]+ times it was cut at a turn, 0 times")));
}

TEST_F(VlmPictures, PicturesAreTalkedAbout) {
  call("run").ended(0);
  const auto talk = [&](const std::string& lines, const std::string& with = "train.toml") {
    write_text(path("lines"), lines);
    std::string command = "cd '" + folder().string() + "' && ";
    for (const std::string& word : pipeline_command({"chat", with, "observe.console=off"}))
      command += "'" + word + "' ";
    EXPECT_EQ(std::system((command + "< lines > said 2> error").c_str()), 0) << read_text(path("error"));
    return std::pair(read_lines(path("said")), read_text(path("error")));
  };
  const auto [said, error] = talk(
      "/image drawings/203.png\nWhat colour?\nWhat shape?\n/image drawings/201.png\n/image "
      "drawings/202.png\nSame?\n"
      "/new\nWhat is 3?\n");
  EXPECT_EQ(said.size(), 4u) << "an answer a line";
  EXPECT_EQ(error, "");
  const auto [none, problem] = talk("/image none.png\nWhat?\nWhat <image>?\nWhat is 3?\n");
  EXPECT_EQ(none.size(), 1u);
  EXPECT_THAT(problem,
              AllOf(HasSubstr("none.png: No such file"), HasSubstr("<image> in the text, and no picture")));

  // A model's folder says itself that it is one with pictures.
  call("export").ended(0);
  const auto [of_folder, nothing] = talk("/image drawings/203.png\nWhat colour?\n", "run/export");
  EXPECT_THAT(of_folder, testing::SizeIs(1)) << nothing;
}

// LLaVA-NeXT: the whole of a picture and, larger, a grid of squares.
TEST_F(VlmPictures, PicturesInGridsAreLearntKeptAndExported) {
  const auto with = [](Words more) {
    more.insert(more.end(), {R"(task.vision.grids=["1x2", "2x1", "2x2"])", "task.vision.resize=squash"});
    return more;
  };
  EXPECT_THAT(call("run", {R"(task.vision.grids=["1x2"])"}).err,
              HasSubstr("must be \"squash\" with task.vision.grids"));
  EXPECT_THAT(call("run", {R"(task.vision.grids=["1*2"])"}).err,
              HasSubstr("\"1*2\" is no grid: must be rows x columns, such as 2x3"));
  const Result run = call("run", with({})).ended(0);
  EXPECT_THAT(run.out, HasSubstr("8 test samples; up to 24 rows a picture"));
  EXPECT_THAT(run.out, HasSubstr(" 34 times from the cache of features, 24 times encoded;"));
  const Result plain = call("run", with({"run.dir=plain", "task.vision.cache_bytes=0"})).ended(0);
  EXPECT_EQ(curve("plain"), curve("run")) << "features that are kept change nothing";
  const Result sharded = call("run", with({"run.dir=sharded", "task.freeze=[]", "strategy.plugin=sharded",
                                           "strategy.zero_stage=3", "launch.processes=2"}))
                             .ended(0);
  call("run", with({"run.dir=single", "task.freeze=[]"})).ended(0);
  EXPECT_EQ(curve("sharded"), curve("single"));
  call("predict", with({"--image", "drawings/203.png", "--question", "What?"})).ended(0);
  call("evaluate", with({"--split", "val", "--checkpoint", "last"})).ended(0);
  EXPECT_THAT(read_text(path("run/evaluation-val-files/answers.html")), HasSubstr("<img "));

  call("export", with({"--checkpoint", "last"})).ended(0);
  const auto config_json = read_json(path("run/export/config.json"));
  EXPECT_EQ(config_json["model_type"], "llava_next");
  EXPECT_EQ(config_json["image_grid_pinpoints"], nlohmann::json::parse("[[16,32],[32,16],[32,32]]"));
  EXPECT_EQ(read_json(path("run/export/preprocessor_config.json"))["image_processor_type"],
            "LlavaNextImageProcessor");
  // The folder is a start that brings its grids.
  const double loss = read_json(path("run/evaluation-val.json"))["figures"]["loss"];
  const Result again =
      call("run", {"run.dir=again", "train.init_from=run/export", "task.tokenizer.path=run/export",
                   "optimizer.lr=0.0", "train.max_steps=1", "task.vision.resize=squash"})
          .ended(0);
  EXPECT_NEAR(read_json_lines(path("again/eval.jsonl")).back()["loss"].get<double>(), loss, 1e-5);
}

// Idefics3 and SmolVLM: parts of a picture with words that say where they are, the whole, and patches joined.
TEST_F(VlmPictures, PicturesThatAreCutAreLearntKeptAndExported) {
  const auto with = [](const Words& more) {
    return more + Words{"task.vision.kind=idefics3",    "task.vision.resize=squash",
                        "task.vision.resample=lanczos", "task.vision.hidden_act=gelu_pytorch_tanh",
                        "task.vision.longest_edge=32",  "task.projector.layers=1",
                        "task.projector.bias=false",    "task.projector.scale_factor=2",
                        "task.chat.max_tokens=900",     "task.language.max_position_embeddings=900"};
  };
  const Result run = call("run", with({})).ended(0);
  EXPECT_THAT(run.out, HasSubstr("8 test samples; up to 5 rows a picture"));
  EXPECT_THAT(run.out, HasSubstr(" 34 times from the cache of features, 24 times encoded;"));
  const Result plain = call("run", with({"run.dir=plain", "task.vision.cache_bytes=0"})).ended(0);
  EXPECT_EQ(curve("plain"), curve("run")) << "features that are kept change nothing";
  const Result sharded = call("run", with({"run.dir=sharded", "task.freeze=[]", "strategy.plugin=sharded",
                                           "strategy.zero_stage=3", "launch.processes=2"}))
                             .ended(0);
  call("run", with({"run.dir=single", "task.freeze=[]"})).ended(0);
  EXPECT_EQ(curve("sharded"), curve("single"));
  call("predict", with({"--image", "drawings/203.png", "--question", "What?"})).ended(0);
  call("evaluate", with({"--split", "val", "--checkpoint", "last"})).ended(0);

  call("export", with({"--checkpoint", "last"})).ended(0);
  EXPECT_EQ(read_json(path("run/export/config.json"))["model_type"], "idefics3");
  EXPECT_EQ(read_json(path("run/export/preprocessor_config.json"))["size"]["longest_edge"], 32);
  // The folder is a start that brings all this.
  const double loss = read_json(path("run/evaluation-val.json"))["figures"]["loss"];
  const Words sets{"run.dir=again",
                   "train.init_from=run/export",
                   "task.tokenizer.path=run/export",
                   "optimizer.lr=0.0",
                   "train.max_steps=1",
                   "task.vision.resize=squash",
                   "task.chat.max_tokens=900",
                   "task.language.max_position_embeddings=900"};
  const Result again = call("run", sets).ended(0);
  EXPECT_NEAR(read_json_lines(path("again/eval.jsonl")).back()["loss"].get<double>(), loss, 1e-5);
  // The next run's export has as many tokens.
  Words last = sets;
  last.insert(last.end(), {"--checkpoint", "last"});
  call("export", last).ended(0);
  const auto first = read_json(path("run/export/config.json")),
             second = read_json(path("again/export/config.json"));
  EXPECT_EQ(second["image_token_id"], first["image_token_id"]);
  EXPECT_EQ(second["text_config"]["vocab_size"], first["text_config"]["vocab_size"]);
}

// NaFlex, whose pictures have their own shapes, and DINOv2, which cuts squares of another size than it has
// positions for: trained they have the same bits under every strategy, frozen each way of preparing its
// features.
TEST_F(VlmPictures, EncodersThatPrepareOtherwiseAreLearntAndKept) {
  const Words flexible{"task.vision.kind=siglip2", "task.vision.max_patches=6"},
      dino{"task.vision.kind=dinov2", "task.vision.image_size=24", "task.vision.crop_size=16",
           "task.vision.resize=crop", "task.vision.shortest_edge=20"};
  for (const auto& [options, other] :
       {std::pair(flexible, "task.vision.max_patches=5"), {dino, "task.vision.shortest_edge=18"}}) {
    const Words& sets = options;
    const std::string name = sets == dino ? "dino" : "flexible";
    const auto run = [&](const std::string& dir, const Words& more) {
      return call("run", sets + more + Words{"run.dir=" + dir}).ended(0).out;
    };
    run(name, {"task.freeze=[]"});
    run(name + "-sharded",
        {"task.freeze=[]", "strategy.plugin=sharded", "strategy.zero_stage=3", "launch.processes=2"});
    EXPECT_EQ(curve(name + "-sharded"), curve(name));
    EXPECT_THAT(run(name + "-frozen", {}), HasSubstr(" 24 times encoded;"));
    EXPECT_THAT(run(name + "-again", {"train.init_from=" + name + "-frozen"}),
                HasSubstr(" 2 times encoded;"));
    EXPECT_THAT(run(name + "-other", {other}), HasSubstr(" 24 times encoded;"));
  }
}

}  // namespace
}  // namespace pipeline::tests
