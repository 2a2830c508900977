// The verbs that hand a model over to other programs. Python does the work, with the packages of those
// programs: core/handover/.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/cli/verb.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> script_command(const std::string& script,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> command{default_interpreter(),
                                   program().prefix / "lib/pipeline/handover" / script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace

void verify_export(const ConfigArgs& args, const train::VerbArgs& verb_args, uint64_t samples,
                   const std::string& gguf) {
  const config::Config config = args.load();
  std::vector<std::string> words{"--program",    program().prefix / "bin/pipeline",
                                 "--folder",     as_shown(train::export_folder(config, verb_args)),
                                 "--samples",    std::to_string(samples),
                                 "--checkpoint", verb_args.checkpoint};
  if (verb_args.ema)
    words.emplace_back("--ema");
  else if (verb_args.average > 1)
    words.insert(words.end(), {"--average", std::to_string(verb_args.average)});
  if (!gguf.empty()) words.insert(words.end(), {"--gguf", gguf});
  words.emplace_back("--");
  std::ranges::move(args.words(), std::back_inserter(words));
  if (!verb_args.split.empty()) words.insert(words.end(), {"--split", verb_args.split});
  become_python(script_command("verify.py", words));
}

void write_gguf(const std::string& folder, const std::string& type) {
  become_python(script_command("gguf_file.py", {folder, "--type", type}));
}

void add_gguf(CLI::App& app, Action& action) {
  struct Args {
    std::string folder, type = "f16", output, pre, base;
  };
  auto args = std::make_shared<Args>();
  CLI::App* verb = app.add_subcommand(
      "gguf", "Writes a language model's folder, or a LoRA adapter's, as a GGUF file for llama.cpp");
  verb->add_option("FOLDER", args->folder, "that `pipeline export` or transformers wrote")
      ->required()
      ->type_name("FOLDER");
  verb->add_option("--type", args->type, "of matrices; norms and biases stay in f32")
      ->type_name("TYPE")
      ->check(CLI::IsMember(kGgufTypes))
      ->capture_default_str();
  verb->add_option("--output", args->output, "default: NAME-TYPE.gguf in the folder")->type_name("FILE");
  verb->add_option(
          "--pre", args->pre,
          "how the tokenizer cuts texts, by llama.cpp's name, where it is not known from tokenizer.json")
      ->type_name("NAME");
  verb->add_option("--base", args->base,
                   "of an adapter: its model's folder, if it is not where the adapter says")
      ->type_name("FOLDER");
  verb->footer(
      "Example:\n  pipeline gguf runs/chat/export --type q8_0\n\nIt runs in Python (PIPELINE_PYTHON, the "
      "active environment's, or python3), with the package gguf. Other\ntypes, such as q4_k_m, are made of "
      "f16 "
      "by llama.cpp's own llama-quantize.");
  when_chosen(*verb, action, [=]() -> int {
    std::vector<std::string> words{args->folder, "--type", args->type};
    for (const auto& [option, value] :
         {std::pair("--output", args->output), {"--pre", args->pre}, {"--base", args->base}})
      if (!value.empty()) words.insert(words.end(), {option, value});
    become_python(script_command("gguf_file.py", words));
  });
}

void add_verify(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto verb_args = std::make_shared<train::VerbArgs>();
  auto output = std::make_shared<std::string>();
  auto samples = std::make_shared<uint64_t>(4);
  CLI::App* verb = app.add_subcommand(
      "verify", "Compares an exported language model with the run's, in the programs that load it");
  args->add_to(*verb);
  add_checkpoint(*verb, *verb_args);
  add_means(*verb, *verb_args);
  verb->add_option("--split", verb_args->split, "val or test; default: evaluate.split")
      ->type_name("val|test")
      ->check(CLI::IsMember({"val", "test"}));
  verb->add_option("--export", *output, "what was exported; default: export in the run folder")
      ->type_name("FOLDER");
  verb->add_option("--samples", *samples, "of the split, that are compared")
      ->type_name("N")
      ->check(at_least(1))
      ->capture_default_str();
  verb->footer(
      "Example:\n  pipeline export configs/chat.toml\n  pipeline verify configs/chat.toml\n  pipeline verify "
      "runs/chat/export\n\nCompared are log-probabilities, greedy answers, where they end, and the tokens of "
      "the chat template: with\n"
      "transformers or peft, and for each .gguf file in the folder with gguf and llama-cpp-python, as far as "
      "Python\nhas them (PIPELINE_PYTHON, the active environment's, or python3). Exit codes: 0 the same, 1 "
      "not.");
  when_chosen(*verb, action, [=]() -> int {
    verb_args->output = *output;
    if (fs::is_directory(args->file)) {  // RUN/export, whose run is not far
      const fs::path export_folder = from_start(args->file),
                     config = export_folder.parent_path() / "config.toml";
      if (!fs::exists(config))
        fail(PL_ERROR_CONFIG,
             "{}: there is no config.toml beside it: give the run's configuration, and this folder with "
             "--export",
             args->file);
      verb_args->output = export_folder;
      args->file = config;
    }
    verify_export(*args, *verb_args, *samples);
  });
}

}  // namespace pipeline::cli
