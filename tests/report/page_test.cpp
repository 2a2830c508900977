// The page in a real browser, without a network.
#include "core/report/page.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "core/report/live_page.hpp"
#include "plugins/scores/answers/answer_page.hpp"
#include "tests/report/run_folder.hpp"

namespace pipeline::report {
namespace {

using testing::HasSubstr;
using testing::Not;

// Says in the frame of a telephone's size, in which a page is looked at, how many of its parts are wider, and
// whether its verdict, or what stands in for it, is in sight.
constexpr const char* kMeasure = R"(<script>setInterval(() => {
  const parts = [document.documentElement, ...document.querySelectorAll(".wide")],
        verdict = document.getElementById("verdict") || document.querySelector("p");
  const isWide = (part) => part.scrollWidth > Math.min(part.clientWidth, innerWidth);
  frameElement.dataset.wide = parts.filter(isWide).length;
  frameElement.dataset.sight = verdict.getBoundingClientRect().bottom < innerHeight / 2;
}, 100);</script>)";

// The window of a browser cannot be made so narrow.
std::string in_telephone(const std::string& name, const std::string& page) {
  std::string text;
  for (const char c : page + kMeasure) text += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return "<iframe width=\"390\" height=\"800\" style=\"border: 0\" srcdoc=\"" + text + "\" name=\"" + name +
         "\"></iframe>";
}

class Page : public testing::Test {
 protected:
  // The document as it stands once its scripts have run, at a width.
  std::string open(const std::string& page, int width) {
    return open_url("file://" + folder_.write("page.html", page), width);
  }
  std::string open_url(const std::string& url, int width) {
    const std::string command = "chromium --headless --no-sandbox --disable-gpu --user-data-dir='" +
                                folder_ / "profile" + "' --window-size=" + std::to_string(width) +
                                ",900 --virtual-time-budget=5000 --dump-dom '" + url + "' 2>/dev/null";
    std::string dom;
    FILE* const pipe = ::popen(command.c_str(), "r");
    char block[4096];
    for (size_t count = 0; (count = std::fread(block, 1, sizeof block, pipe)) > 0;) dom.append(block, count);
    EXPECT_EQ(::pclose(pipe), 0) << command;
    return dom;
  }
  static bool has_browser() { return std::system("command -v chromium >/dev/null") == 0; }

  tests::FilesFolder folder_;
};

TEST_F(Page, ShowsRunsCurvesCostsAndDifferences) {
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  const std::string options = "[strategy]\nplugin = ";
  const Comparison comparison =
      compare({tests::record_of("one</script><b>", {2, 1}, 1, 1, options + "\"single\"\n"),
               tests::record_of("two", {2, 1.5}, 0.5, 2, options + "\"ddp\"\n")},
              1e-3);
  const std::string text = page(comparison, "one & two", true);
  for (const int width : {390, 1200}) {
    const std::string dom = open(text, width);
    EXPECT_THAT(dom, HasSubstr(">one &amp; two</h1>"));
    EXPECT_THAT(dom, HasSubstr("one&lt;/script&gt;&lt;b&gt;")) << "names are text";
    EXPECT_THAT(dom, HasSubstr("DIFFERS: by 5.0e-01 at step 2, beyond the tolerance from step 2</td>"))
        << width;
    EXPECT_THAT(dom, HasSubstr("<canvas")) << "the curves are drawn";
    EXPECT_THAT(dom, HasSubstr("forward and backward: 3.00 s, 75.0%"));
    EXPECT_THAT(
        dom,
        HasSubstr("<td>strategy.plugin</td><td data-head=\"one&lt;/script&gt;&lt;b&gt;\">\"single\"</td>"));
    EXPECT_THAT(dom, HasSubstr("data-done=\"yes\"")) << "the script came to its end";
  }
}

TEST_F(Page, OfOneRunHasItsEvaluations) {
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  RunRecord run = tests::record_of("run", {2, 1});
  run.path = folder_.path();
  folder_.write("evaluation-test.json", R"({"step": 2, "figures": {"f1": 0.25}})");
  std::filesystem::create_directories(folder_ / "evaluation-test-files");
  folder_.write("evaluation-test-files/answers.html", "<p>an answer</p>");
  folder_.write("evaluation-test-files/confusion.csv", "a,\"b, c\"\n1,\"say \"\"x\"\"\"\n");
  folder_.write("evaluation-test-files/sums.json", "{}");
  Comparison one;
  one.runs.push_back(std::move(run));
  one.verdicts.emplace_back();
  const std::string dom = open(page(one, "run", false), 800);
  EXPECT_THAT(dom, HasSubstr("<td>f1</td><td data-head=\"value\">0.25</td>"));
  EXPECT_THAT(dom, HasSubstr("&lt;p&gt;an answer&lt;/p&gt;")) << "in a frame of its own";
  EXPECT_THAT(dom, HasSubstr("<th>b, c</th>"));
  EXPECT_THAT(dom, HasSubstr("<td data-head=\"b, c\">say \"x\"</td>"));
  EXPECT_THAT(dom, Not(HasSubstr("The losses are")));
  EXPECT_THAT(dom, HasSubstr("data-done=\"yes\""));
}

TEST_F(Page, OfOneRunSaysWhatIsWrongWithIt) {
  const auto verdict = [&](RunRecord run) {
    run.path = folder_.path();
    Comparison one;
    one.runs.push_back(std::move(run));
    one.verdicts.emplace_back();
    return page_data(one, "run", false)["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict(tests::record_of("run", {2, 1})), "");
  RunRecord bad = tests::record_of("run", {2, std::nan(""), 1});
  EXPECT_EQ(verdict(bad), "the loss is not finite in 1 of 3 steps, first in step 2");
  bad.training.figures["drift"] = {missing(), 1, INFINITY};
  bad.evaluations = {.steps = {2, 4}, .figures = {{"f1", {0.5, std::nan("")}}, {"late", {missing(), 1}}}};
  EXPECT_EQ(verdict(bad),
            "drift is not finite in 1 of 2 steps, first in step 3; the loss is not finite in 1 of 3 steps, "
            "first in step 2; f1 is not finite in 1 of 2 evaluations, first after step 4");
  RunRecord narrow = tests::record_of("run", {2, 1});
  narrow.training.figures["grad_norm"] = {INFINITY, 1};
  EXPECT_EQ(verdict(narrow), "grad_norm is not finite in 1 of 2 steps, first in step 1");
  narrow.training.figures["loss_scale"] = {65536, 32768};  // a loss scale finds its value so
  EXPECT_EQ(verdict(narrow), "");
  folder_.write("diverged.txt", "the run has diverged: why\n  what to do\n");
  EXPECT_EQ(verdict(tests::record_of("run", {2, 1})), "the run has diverged: why");
}

TEST_F(Page, OverAnotherAxisHasNoTableOfRuns) {
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  RunRecord run = tests::record_of("find-lr", {2, 1});
  run.training.figures["learning_rate"] = {1e-3, 1e-2};
  run.training.figures["smoothed"] = {2, 1.5};
  const std::string dom =
      open(page_over(run, "learning_rate", "rates", "verdict", {{"suggestion", "smoothed", 1e-2}}), 800);
  EXPECT_THAT(dom, HasSubstr("<section id=\"runs\" hidden"));
  EXPECT_THAT(dom, HasSubstr("verdict"));
  EXPECT_THAT(dom, testing::ContainsRegex("<div[^>]*dygraph-annotation[^>]*>suggestion</div>"));
  for (const char* const curve : {"loss", "smoothed"})  // both are in one chart
    EXPECT_THAT(dom, HasSubstr("</div> " + std::string(curve) + "</span>"));
  EXPECT_THAT(dom, HasSubstr("data-done=\"yes\""));
}

TEST_F(Page, OfEachKindFitsATelephone) {
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  const std::string name = "a/folder_" + std::string(100, 'x'),
                    options = "[task]\nplugin = \"x\"\n" + name.substr(2) + " = ";
  RunRecord run = tests::record_of(name, {2, 1}, 1, 2, options + "\"" + name + "\"");
  run.path = folder_.path();
  run.summary["device"] = name;
  run.training.figures["learning_rate"] = {1e-3, 1e-2};
  std::filesystem::create_directories(folder_ / "evaluation-test-files");
  folder_.write("evaluation-test.json", R"({"figures": {")" + name + R"(": 1}})");
  std::string columns = name;
  for (int i = 0; i < 30; ++i) columns += ",column";
  folder_.write("evaluation-test-files/wide.csv", columns + "\n" + columns + "\n");
  const Comparison all =
      compare({run, tests::record_of("b", {2, 1.5}, 1, 1, options + "1"), run, run, run, run}, 0);
  nlohmann::ordered_json live = page_data(compare({run}, 0), name, false);
  live["live"] = {{"stage", name}, {"state", "training"}, {"checkpoint", "step-00000002"}, {"step", 2}};
  const std::string dom = open(
      in_telephone("compare", page(all, name + ", " + name + ", " + name, true)) +
          in_telephone("report", page(compare({run}, 0), name, false)) +
          in_telephone("find-lr",
                       page_over(run, "learning_rate", name, "suggestion: " + name, {{name, "loss", 1e-2}})) +
          in_telephone("live", page_with(live.dump(), name)) +
          in_telephone("answers", answers::answer_page({{name, {}, {{"answer", name}}, true}}, name)) +
          in_telephone("compared",
                       answers::answer_page({{name, {}, {{"question", name}, {"model", name}}}}, name)),
      1200);
  for (const char* const kind : {"compare", "report", "find-lr", "live", "answers", "compared"})
    EXPECT_THAT(
        dom, HasSubstr(" name=\"" + std::string(kind) + "\" data-wide=\"0\" data-sight=\"true\"></iframe>"));
}

TEST_F(Page, OfARunThatGoesOnRenewsItself) {
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  const auto data = [](const std::vector<double>& losses) {
    nlohmann::ordered_json all =
        page_data(compare({tests::record_of("align", losses)}, 0), "runs/vlm", false);
    all["live"] = {{"stage", "align"},      {"state", "training"}, {"checkpoint", "step-00000002"},
                   {"step", losses.size()}, {"steps", 1000},       {"rate", 8412.5},
                   {"unit", "tokens"},      {"left", 3700.2}};
    return all.dump();
  };
  const PageServer server({"127.0.0.1", 0}, [&](std::string_view path) {
    return path == "/data"
               ? PageServer::Text{"application/json", std::make_shared<std::string>(data({2, 1, 0.5}))}
               : PageServer::Text{"text/html", std::make_shared<std::string>(page_with(data({2}), "t"))};
  });
  const std::string dom = open_url(server.url(), 390);
  EXPECT_THAT(dom, HasSubstr("align: training · step 3 of 1,000 · 8.41K tokens a second · 1:01:40 left · "
                             "checkpoint after step 2<"));
  EXPECT_THAT(dom, HasSubstr("<td class=\"number\" data-head=\"last loss\">0.5</td>")) << "the last loss";
  EXPECT_THAT(dom, HasSubstr("data-done=\"yes\""));
}

// The rows that a curve is drawn from: what is no number is a gap of every figure's, and what is not there is
// none.
TEST_F(Page, ACurveHasGapsWhereAFigureIsNoNumber) {
  RunRecord run = tests::record_of("run", {2, 1.5, 1});
  run.training.figures["drift"] = {1, std::nan(""), missing()};
  run.evaluations = {.steps = {1, 2, 3}, .figures = {{"f1", {0.5, -INFINITY, 1}}}};
  const nlohmann::ordered_json data = page_data(compare({run}, 0), "run", false)["runs"][0];
  EXPECT_EQ(data["figures"]["drift"].dump(), R"([1.0,"nan",null])");
  EXPECT_EQ(data["evaluations"]["figures"]["f1"].dump(), R"([0.5,"-inf",1.0])");
  if (!has_browser()) GTEST_SKIP() << "chromium is not installed";
  // What the page hands to the chart.
  std::string text = page(compare({run}, 0), "run", false);
  const std::string chart = "new Dygraph(by(id), rows, options)";
  ASSERT_NE(text.find(chart), std::string::npos);
  text.replace(text.find(chart), chart.size(),
               "(document.body.dataset.rows = JSON.stringify(rows, (key, value) => Number.isNaN(value) ? "
               "\"gap\" : value), " +
                   chart + ")");
  for (const auto& [figure, rows] : {std::pair("train drift", "[[1,1],[2,\"gap\"],[3,null]]"),
                                     {"eval f1", "[[1,0.5],[2,\"gap\"],[3,1]]"}}) {
    const std::string choice =
        std::string("</script><script>document.getElementById(\"figure\").value = \"") + figure +
        "\"; document.getElementById(\"figure\").onchange();";
    std::string chosen = text;
    chosen.insert(chosen.rfind("</script>"), choice);
    std::string expected(rows);
    for (size_t at = 0; (at = expected.find('"', at)) != std::string::npos;)
      expected.replace(at, 1, "&quot;");
    EXPECT_THAT(open(chosen, 800), HasSubstr("data-rows=\"" + expected + "\"")) << figure;
  }
}

TEST(Pages, CurvesOfManyStepsAreThinned) {
  const Comparison comparison =
      compare({tests::record_of("long", std::vector<double>(3 * kMostPoints, 1.0))}, 0);
  const std::string text = page(comparison, "t", false);
  const size_t begin = text.find("\"steps\":["), end = text.find(']', begin);
  EXPECT_LE(std::count(text.begin() + static_cast<std::ptrdiff_t>(begin),
                       text.begin() + static_cast<std::ptrdiff_t>(end), ','),
            static_cast<std::ptrdiff_t>(kMostPoints));
  EXPECT_THAT(text.substr(begin, end - begin), testing::EndsWith(std::to_string(3 * kMostPoints)));
}

}  // namespace
}  // namespace pipeline::report
