// A conversation at the terminal.
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/program.hpp"
#include "core/base/utf8.hpp"
#include "core/cli/verb.hpp"
#include "core/train/processes/signals.hpp"

namespace pipeline::cli {
namespace {

using nlohmann::ordered_json;

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Lines of standard input.
class Lines {
 public:
  // False: the input has ended, or a signal came.
  bool next(std::string& line) {
    constexpr int kMilliseconds = 100;  // between looks for a signal
    while (read_.find('\n') == std::string::npos) {
      if (train::Signals::received() != 0) {
        train::Signals::hear();
        return false;
      }
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      if (::poll(&input, 1, kMilliseconds) <= 0) continue;
      char block[4096];
      const ssize_t bytes = ::read(STDIN_FILENO, block, sizeof block);
      if (bytes > 0) read_.append(block, static_cast<size_t>(bytes));
      if (bytes > 0 || (bytes < 0 && errno == EINTR)) continue;
      line = std::exchange(read_, {});
      return !line.empty();
    }
    const size_t end = read_.find('\n');
    line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return true;
  }

 private:
  std::string read_;
};

// Reads questions, a line each, and writes answers, until the input ends or a signal comes. Without a
// terminal nothing but the answers is written.
void talk(const train::Reply& reply, const std::string& system) {
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
  const auto begin = [&] {
    ordered_json messages = ordered_json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    return messages;
  };
  ordered_json messages = begin();
  if (is_terminal)
    put("Ask, a line each; /image FILE shows a picture with the next question, /new begins another "
        "conversation, Ctrl-D ends.\n");
  ordered_json pictures = ordered_json::array();  // parts of the next question
  Lines lines;
  for (std::string line;;) {
    if (is_terminal) put("> ");
    if (!lines.next(line)) break;
    if (line == "/new") {
      messages = begin();
      pictures.clear();
      continue;
    }
    constexpr std::string_view kImage = "/image ";
    if (line.starts_with(kImage)) {
      pictures.push_back({{"type", "image"}, {"path", from_start(line.substr(kImage.size())).string()}});
      continue;
    }
    line = replace_invalid_utf8(line);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!pictures.empty()) pictures.push_back({{"type", "text"}, {"text", line}});
    messages.push_back({{"role", "user"},
                        {"content", pictures.empty() ? ordered_json(line)
                                                     : std::exchange(pictures, ordered_json::array())}});
    std::string answer;
    try {
      reply(messages.dump(), [&](std::string_view piece) {
        answer += piece;
        put(printable(piece));
      });
    } catch (const Error& error) {  // a question that cannot be answered ends no conversation
      if (error.code() != PL_ERROR_CONFIG) throw;
      std::fprintf(stderr, "error: %s\n", printable(error.what()).c_str());
      messages.erase(messages.end() - 1);
      continue;
    }
    put("\n");
    messages.push_back({{"role", "assistant"}, {"content", answer}});
  }
  if (is_terminal) put("\n");
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto verb_args = std::make_shared<train::VerbArgs>();
  auto system = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("chat", "Talks with a language model: a run's, or one in a model folder");
  args->add_to(*verb, /*takes_model=*/true);
  add_checkpoint(*verb, *verb_args);
  verb->add_option("--system", *system, "what the conversation begins with")->type_name("TEXT");
  verb->footer(
      "Example:\n  pipeline chat runs/chat\n  pipeline chat my-qwen --set task.generate.method=sample\n  "
      "echo \"What is it?\" | pipeline chat my-qwen --set observe.console=off");
  when_chosen(*verb, action, [=] {
    take_model_folder(*args, *verb_args);
    return with_workspace(*args, true, [&](const train::Workspace& w) {
      return train::converse(w, *verb_args, [&](const train::Reply& reply) { talk(reply, *system); });
    });
  });
}

}  // namespace pipeline::cli
