#include <cstdio>

#include "core/cli/completion.hpp"
#include "core/cli/verb.hpp"

// The verbs that make the program known to a shell and to man.
// What `pipeline completion` prints. The scripts know nothing of verbs and options: they ask the program, by
// `pipeline complete WORD...`, which prints a candidate a line, and behind a tab its help.

namespace pipeline::cli {
namespace {

constexpr const char* kBash =
    R"(# Completion of pipeline for bash. For this shell: source <(pipeline completion bash)
# Sets `plain` to what bash would make of a word, with or without its last quote.
_pipeline_unquote() {
  local rest=$1 quote= character
  plain=
  while [[ $rest ]]; do
    character=${rest:0:1} rest=${rest:1}
    case $quote$character in
      \\ | \"\\) plain+=${rest:0:1} rest=${rest:1} ;;
      \' | \") quote=$character ;;
      \'\' | \"\") quote= ;;
      *) plain+=$character ;;
    esac
  done
}
_pipeline() {
  # bash splits words at = and : as well, which are part of an argument here: those with no space between are one.
  local rest=${COMP_LINE:0:COMP_POINT} words=() word stripped
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    stripped=${rest#"${rest%%[![:space:]]*}"}
    [[ $stripped == "$word"* ]] || word=$stripped  # the cursor is inside it
    if ((${#words[@]})) && [[ $stripped == "$rest" ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    rest=${stripped#"$word"}
  done
  # What bash will replace is its own last word.
  [[ $word != [=:] ]] || word=
  local text help plain i
  _pipeline_unquote "${words[-1]%"$word"}"
  local before=$plain
  for i in "${!words[@]}"; do
    _pipeline_unquote "${words[i]}"
    words[i]=$plain
  done
  COMPREPLY=()
  while IFS=$'\t' read -r text help; do
    COMPREPLY+=("${text#"$before"}")
  done < <("${words[0]/#\~/$HOME}" complete "${words[@]:1}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *[/.=] ]] || compopt -o nospace
  # Files are quoted, and folders get their slash by bash; a verb that a folder is called like is none.
  word=${COMPREPLY[0]-}
  word=${word/#\~\//$HOME/}
  [[ -e $word && ! (-d $word && $word != */) ]] || return 0
  compopt -o filenames
  COMPREPLY=("${COMPREPLY[@]%/}")
}
complete -F _pipeline pipeline
)";

constexpr const char* kZsh = R"(#compdef pipeline
# Completion of pipeline for zsh. For this shell: source <(pipeline completion zsh)
_pipeline() {
  local -a whole whole_shown begun begun_shown
  local text help shown
  while IFS=$'\t' read -r text help; do
    shown=$text
    [[ -z $help ]] || shown="$text -- $help"
    if [[ $text == *[/.=] ]]; then
      begun+=("$text") begun_shown+=("$shown")
    else
      whole+=("$text") whole_shown+=("$shown")
    fi
  done < <("${(Q)words[1]}" complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
  compadd -l -d begun_shown -S '' -a begun
  compadd -l -d whole_shown -a whole
}
# Loaded from a folder of functions it is the function's body; else it is only made known.
if [[ ${funcstack[1]-} == _pipeline ]]; then
  _pipeline "$@"
else
  compdef _pipeline pipeline
fi
)";

constexpr const char* kFish =
    R"(# Completion of pipeline for fish. For this shell: pipeline completion fish | source
function __pipeline_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -l last (commandline -ct | string unescape)
    command $program complete $words "$last" 2>/dev/null
end
complete -c pipeline -f -a '(__pipeline_complete)'
)";

}  // namespace

std::string completion_script(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

void add_completion(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("completion", "Prints a script that completes this program's arguments");
  verb->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->footer(
      "Examples, for the shell that runs:\n  source <(pipeline completion bash)\n  source <(pipeline "
      "completion "
      "zsh)\n  pipeline completion fish | source\n\nVerbs, options, files, the keys and values of --set, "
      "stages "
      "and plugins are completed.");
  when_chosen(*verb, action, [=] {
    std::fputs(completion_script(*shell).c_str(), stdout);
    return kDone;
  });
}

void add_man(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("man", "Prints the manual page");
  verb->footer("Example:\n  pipeline man | man -l -");
  when_chosen(*verb, action, [&app] {
    std::fputs(manual(app).c_str(), stdout);
    return kDone;
  });
}

}  // namespace pipeline::cli
