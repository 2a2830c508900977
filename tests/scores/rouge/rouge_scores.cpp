// rouge_scores: reads {"target", "prediction"} or {"word"} objects, one a line, and prints for each one line
// of JSON: per stemming (off, on), per type (rouge1, rouge2, rouge3, rougeL, rougeLsum) precision, recall and
// f; or the word's stem.
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "plugins/scores/rouge/rouge.hpp"

int main() {
  using pipeline::rouge::Scorer;
  const std::vector<std::string> types = {"rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"};
  const Scorer scorers[] = {Scorer(types, false), Scorer(types, true)};
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto request = nlohmann::json::parse(line);
    nlohmann::json answer;
    if (request.contains("word")) {
      answer = pipeline::rouge::porter_stem(request["word"]);
    } else {
      for (const auto& scorer : scorers) {
        auto& scores = answer.emplace_back(nlohmann::json::array());
        for (const auto& s :
             scorer.score(request["target"].get<std::string>(), request["prediction"].get<std::string>())) {
          scores.push_back({s.precision, s.recall, s.f});
        }
      }
    }
    std::cout << answer.dump() << '\n';
  }
}
