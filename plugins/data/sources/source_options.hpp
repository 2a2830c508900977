// For tasks: the sources of a split as options.
#pragma once

#include <pipeline/options.hpp>
#include <pipeline/task_types.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "files/part.hpp"
#include "sources/mixture.hpp"
#include "sources/source_files.hpp"

namespace pipeline::sources {

// [[task.data.source]], as lists with a value of each.
struct SourceOptions {
  std::vector<std::filesystem::path> path;
  std::vector<std::string> name;
  std::vector<double> weight, repeat;

  void describe(Options& o) {
    o("path", path,
      "in place of data.train, several sources, each a table [[task.data.source]] with its path; what is "
      "said of data.train goes for each");
    o("name", name, "what the log calls it: loss/NAME, samples/NAME; default: the file's name");
    o("weight", weight, "its share of the samples of an epoch, which has as many as all sources have records")
        .above(0);
    o("repeat", repeat, "in place of weight: how often an epoch has each of its records; default 1")
        .above(0)
        .max(1e6);
  }
  void validate(const ConfigErrors& errors) const {
    const auto check = [&](const char* key, size_t count) {
      if (count > 0 && count != path.size())
        errors(key, concat("has ", count, " values, must have one for each path (", path.size(), ")"));
    };
    check("name", name.size());
    check("weight", weight.size());
    check("repeat", repeat.size());
    if (!weight.empty() && !repeat.empty())
      errors("repeat", "weight says the same: leave one of the two out");
    if (path.size() == 1 && !weight.empty())
      errors("weight", "there is one source, which is all of an epoch: leave it out, or use repeat");
    if (path.size() == 1 && !name.empty())
      errors("name",
             "there is one source, and no figures of its own: leave it out, or name the file in data.train");
    for (const std::string& one : name)
      if (one.empty() || std::ranges::any_of(one, [](unsigned char c) { return c < ' ' || c == '/'; }))
        errors("name", concat("\"", one, "\" must be a word for figures such as loss/NAME, without \"/\""));
    std::vector<std::string> names = all_names();
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
      errors("name", concat("two sources are called \"", *twice, "\": give each a name"));
  }

  std::vector<std::string> all_names() const {
    std::vector<std::string> names = name;
    for (size_t i = names.size(); i < path.size(); ++i) names.push_back(name_of(path[i]));
    return names;
  }
};

// The files of each split.
struct SplitOptions {
  std::filesystem::path train, val, test;
  double validation_share = 0;          // in place of val: of what is for training
  SourceOptions source;                 // in place of train
  Content content = Content::kRecords;  // what the task reads of a folder

  struct Sources {
    std::vector<std::string> named, names;
    Shares shares;  // of those for training
    files::SplitPart part;
    const char* key;  // of the option that names them
  };
  // The options behind `train` and its sources, which each task describes in its own words.
  void describe_others(Options& o, const char* share_help, const char* test_help,
                       const char* val_help = "the same, to evaluate during training; empty: none") {
    o("val", val, val_help);
    o("validation_share", validation_share, share_help).min(0).max(0.9);
    o("test", test, test_help).may_change();
  }

  // What validation data is held out of, for people.
  std::string named_for_training() const {
    std::string all = train.string();
    for (const std::filesystem::path& path : source.path) all += (all.empty() ? "" : ", ") + path.string();
    return all;
  }
  Sources of(Split split) const {
    const bool is_train = split == Split::kTrain,
               shares_train = is_train || (split == Split::kVal && validation_share > 0);
    Sources result{.key = is_train ? "data.train" : split == Split::kVal ? "data.val" : "data.test"};
    if (shares_train) result.part = {.held_out = validation_share, .is_validation = !is_train};
    if (shares_train && !source.path.empty()) {
      for (const std::filesystem::path& path : source.path) result.named.push_back(path.string());
      result.names = source.all_names();
      result.key = "data.source.path";
      if (is_train) result.shares = {source.weight, source.repeat};
      return result;
    }
    const std::filesystem::path& path = shares_train ? train : split == Split::kVal ? val : test;
    if (!path.empty()) result = {{path.string()}, {name_of(path)}, {}, result.part, result.key};
    return result;
  }

  void validate(const ConfigErrors& errors) const {
    if (validation_share > 0 && !val.empty())
      errors("validation_share", "task.data.val names a file for the same: leave one of the two out");
    if (!train.empty() && !source.path.empty())
      errors("train", "[[task.data.source]] names files for the same: leave one of the two out");
    if (errors.trains() && train.empty() && source.path.empty())
      errors("train", "must be given: a file to learn from, or several as [[task.data.source]]");
    if (errors.trains()) check_files(errors);
  }

 private:
  // Training needs the files of all splits; a model may be used where they are not.
  void check_files(const ConfigErrors& errors) const {
    constexpr std::string_view kTable = "data.";
    for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
      const Sources wanted = of(split);
      for (const std::string& named : wanted.named)
        if (const std::string problem = problem_of(named, content); !problem.empty())
          errors(std::string_view(wanted.key).substr(kTable.size()),
                 wanted.named.size() > 1 ? named + ": " + problem : problem);
    }
  }
};

}  // namespace pipeline::sources
