// The options of the chat task.
#pragma once

#include <pipeline/model_options.hpp>
#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "generation/generate.hpp"
#include "language/options.hpp"
#include "language/teacher.hpp"
#include "plugins/data/messages/message_records.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/sources/source_options.hpp"
#include "plugins/tasks/conversation/format.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::chat {

struct DataOptions : sources::SplitOptions {
  std::string question_column, answer_column, quotes = "auto";

  void describe(Options& o) {
    o("train", train,
      "conversations to learn from, in JSON and Parquet (messages, ShareGPT's conversations) or JSON, "
      "Parquet, CSV and TSV with columns such as prompt and completion, instruction, input and output, or "
      "text; a file, a folder, or a pattern such as data/train-*.parquet");
    o.group("source", source);
    describe_others(o,
                    "in place of val: this share of train is evaluated and not learnt from; chosen by a hash "
                    "of the first "
                    "questions, so that equal ones stay together",
                    "the same, to evaluate or predict at the end; empty: none");
    o("question_column", question_column, "column of the question, if it has another name than those");
    o("answer_column", answer_column,
      "column of its answer; empty with question_column: texts by themselves");
    o("quotes", quotes, records::kQuotesHelp).choices({"auto", "csv", "text"});
  }
  void validate(const ConfigErrors& errors) const {
    SplitOptions::validate(errors);
    if (question_column.empty() && !answer_column.empty())
      errors("answer_column", "needs task.data.question_column, too");
  }
};

struct ChatOptions : conversation::TemplateOptions {
  std::string learn = "answers";

  void describe(Options& o) {
    TemplateOptions::describe(o);
    o("learn", learn, "loss over the assistant's answers, the last one alone, or the whole text")
        .choices({"answers", "last", "all"});
  }
};

struct GenerateOptions : generation::DecodingOptions, generation::ScoredSamples {
  void describe(Options& o) {
    DecodingOptions::describe(o, "answer");
    ScoredSamples::describe(o, "last questions answered");
  }
};

struct AskOptions {
  std::string prompt, system, show = "answers";

  void describe(Options& o) {
    o("prompt", prompt, "predict: a question to answer, instead of the test file").may_change();
    o("system", system, "predict: the system turn before it").may_change();
    o("show", show,
      "predict: answers; or mask: each conversation's tokens, and which of them are learnt; or logits: "
      "what the model says behind each token, for pipeline verify")
        .choices({"answers", "mask", "logits"})
        .may_change();
  }
  void validate(const ConfigErrors& errors) const {
    if (!system.empty() && prompt.empty()) errors("system", "goes before task.ask.prompt, which is empty");
  }
};

struct ChatConfig {
  DataOptions data;
  tokenizer::TokenizerOptions tokenizer;
  language::LanguageOptions language;
  ChatOptions chat;
  language::LossOptions loss;
  language::TeacherOptions teacher;
  GenerateOptions generate;
  AskOptions ask;

  void describe(Options& o) {
    o.group("data", data);
    o.group("tokenizer", tokenizer);
    o.group("language", language);
    o.group("chat", chat);
    o.group("loss", loss);
    o.group("teacher", teacher);
    o.group("generate", generate);
    o.group("ask", ask);
  }
  void validate(const ConfigErrors& errors) const {
    chat.require_room(errors, language, generate.max_tokens);
  }

  static void read_model(const ChatConfig& config, const std::filesystem::path& init_from,
                         const ModelOptions& say) {
    conversation::read_folder(config.chat, config.tokenizer, config.language, config.generate.max_tokens,
                              init_from, say);
  }
};

}  // namespace pipeline::tasks::chat
