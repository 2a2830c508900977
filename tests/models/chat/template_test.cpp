// Chat templates: what is refused, and what is bounded. What they write is compared with jinja2's by
// tests/parity/chat_template_parity.py.
#include "plugins/models/chat/template.hpp"

#include <gmock/gmock.h>

#include <string>

namespace pipeline::chat {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string written(const std::string& source, const ordered_json& variables = ordered_json::object()) {
  return Template(source, "chat.jinja").render(variables, 0).text;
}

// What a template is refused with, when it is read or rendered.
std::string problem_of(const std::string& source, const ordered_json& variables = ordered_json::object()) {
  try {
    return "no error, but: " + written(source, variables);
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(ChatTemplate, WritesAConversationAndSaysWhatTheAssistantWrote) {
  const Template made(
      "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}{{ m.content "
      "}}</s>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
      "chat.jinja");
  const Rendered rendered = made.render({{"messages",
                                          {{{"role", "user"}, {"content", "é?"}},
                                           {{"role", "assistant"}, {"content", "yes"}},
                                           {{"role", "assistant"}, {"content", "no"}}}}},
                                        0);
  EXPECT_EQ(rendered.text, "[user]é?[assistant]yes</s>[assistant]no</s>");
  EXPECT_THAT(rendered.generated, ElementsAre(Pair(20, 27), Pair(38, 44)));
}

TEST(ChatTemplate, NamesFileAndLineOfWhatIsNotRead) {
  EXPECT_EQ(problem_of("a\n{% if x %}\n{{ y|nofilter }}{% endif %}"),
            "chat.jinja, line 3 of its chat template: the filter nofilter is not read here");
  EXPECT_THAT(problem_of("{% include 'other' %}"),
              HasSubstr("line 1 of its chat template: {% include %} is not read"));
  EXPECT_THAT(problem_of("{% for a in b recursive %}{% endfor %}"),
              HasSubstr("recursive loops are not read"));
  EXPECT_THAT(problem_of("\n\n{% if a %}"),
              HasSubstr("line 3 of its chat template: the template ends where {% endif %}"));
  EXPECT_THAT(problem_of("\n{{ '\\d' }}"),
              HasSubstr("line 2 of its chat template: \\d in a string is not read"));
  EXPECT_THAT(problem_of("\n{{ 1.5 }}"),
              HasSubstr("line 2 of its chat template: the number 1.5 is not read"));
  EXPECT_THAT(problem_of("{{ 'é'|upper }}"), HasSubstr("letters that are not ASCII's"));
}

TEST(ChatTemplate, NamesTheLineOfWhatGoesWrongAndWhatItRefuses) {
  EXPECT_EQ(problem_of("a\n{{ messages[0].role + 1 }}", {{"messages", {{{"role", "user"}}}}}),
            "chat.jinja, line 2 of its chat template: a str + an int is not read here");
  EXPECT_EQ(problem_of("{{ raise_exception('roles must alternate') }}"),
            "chat.jinja, line 1 of its chat template: it refuses the conversation: roles must alternate");
  EXPECT_THAT(problem_of("{{ tools[0] }}"), HasSubstr("tools is not defined, and has no items"));
}

// What Python has and templates do not use is refused where it would be undefined otherwise.
TEST(ChatTemplate, NamesWhatOfPythonIsNotRead) {
  EXPECT_THAT(problem_of("{{ 'a'.zfill }}"), HasSubstr("the method zfill is not read here"));
  EXPECT_THAT(problem_of("{{ [].append(1) }}"), HasSubstr("the method append is not read here"));
  EXPECT_THAT(problem_of("{{ ''.__class__ }}"), HasSubstr("the method __class__ is not read here"));
  EXPECT_THAT(problem_of("{{ cycler }}"), HasSubstr("the function cycler is not read here"));
  EXPECT_THAT(problem_of("{% for a in [1] %}{{ loop.depth }}{% endfor %}"),
              HasSubstr("the method depth is not read here"));
  EXPECT_THAT(problem_of("{{ ('<'|safe)|upper }}"), HasSubstr("upper of what is safe is not read here"));
  EXPECT_THAT(problem_of("{{ {}.items() }}"), HasSubstr("the text of a view is not read here"));
  EXPECT_THAT(problem_of("{{ [1]|map('string') }}"), HasSubstr("the text of a generator is not read here"));
  EXPECT_THAT(problem_of("a \xff"), HasSubstr("chat.jinja: its chat template is not UTF-8"));
}

// A template is anybody's text.
TEST(ChatTemplate, EndsWhateverATemplateDoes) {
  const std::string too_much = "takes too many steps, or writes too much";
  EXPECT_THAT(problem_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
              HasSubstr(too_much));
  EXPECT_THAT(problem_of("{% set ns = namespace(s='abcdefghijklmnop') %}{% for i in range(90) %}{% set ns.s "
                         "= ns.s ~ ns.s %}{% endfor %}"),
              HasSubstr(too_much));
  const std::string long_text = "{% set s = 'abcdefgh' * 100000 %}";
  EXPECT_THAT(problem_of(long_text + "{{ (s ~ 'x').replace(s ~ 'y', '') }}"), HasSubstr(too_much));
  EXPECT_THAT(problem_of(long_text + "{{ s.strip(s) }}"), HasSubstr(too_much));
  EXPECT_THAT(
      problem_of(
          long_text +
          "{% for i in range(999) %}{{ [{'k': s}, {'k': s}]|sort(attribute='k')|length }}{% endfor %}"),
      HasSubstr(too_much));
  // A list that holds another twice, and so on, is small until it is written or compared.
  const std::string doubled =
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
  EXPECT_THAT(problem_of(doubled + "{{ ns.l }}"), HasSubstr(too_much));
  EXPECT_THAT(problem_of(doubled + "{{ ns.l|tojson }}"), HasSubstr(too_much));
  EXPECT_THAT(problem_of(doubled + "{{ ns.l == [ns.l[0], ns.l[1]] }}"), HasSubstr(too_much));
  EXPECT_THAT(
      problem_of(
          "{% set ns = namespace(l=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}"),
      HasSubstr("nested too deeply"));
  EXPECT_THAT(problem_of("{% set ns = namespace() %}{% set ns.a = [ns] %}"),
              HasSubstr("a namespace holds no other"));
  EXPECT_THAT(problem_of("{% set ns = namespace() %}{% set ns.f = {'a': ns}.items %}"),
              HasSubstr("a namespace holds no other"));
  EXPECT_THAT(problem_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(problem_of("{{ 'a' * 99999999999 }}"), HasSubstr(too_much));
  const std::string nested = std::string(50, '[') + "f()" + std::string(50, ']');
  EXPECT_THAT(problem_of("{% macro f() %}{{ " + nested + " }}{% endmacro %}{{ f() }}"),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(problem_of("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              HasSubstr("nested too deeply"));
  const auto repeated = [](const std::string& what) {
    std::string all;
    for (int i = 0; i < 20'000; ++i) all += what;
    return all;
  };
  EXPECT_EQ(written("{{ 1" + repeated(" and 1") + " }}"), "1");
  EXPECT_EQ(written("{{ 1" + repeated("|string") + " }}"), "1");
  EXPECT_EQ(written("{{ ''" + repeated(".strip()") + " }}"), "");
  for (const char* operation : {"not ", "- ", "1 if 1 else "})
    EXPECT_THAT(problem_of("{{ " + repeated(operation) + "1 }}"), HasSubstr("nested too deeply"));
  std::string blocks;
  for (int i = 0; i < 5000; ++i) blocks += "{% if 1 %}";
  EXPECT_THAT(problem_of(blocks), HasSubstr("nested too deeply"));
  EXPECT_THAT(problem_of("{{ 9223372036854775807 + 1 }}"), HasSubstr("too large"));
  EXPECT_THAT(problem_of("{% for i in [1] %}{% macro f() %}{{ i }}{% endmacro %}{% endfor %}"),
              HasSubstr("a macro stands within a loop"));
}

// Each look into a dict goes through its keys.
TEST(ChatTemplate, LooksIntoALargeDictAreSteps) {
  ordered_json large = ordered_json::object();
  for (int i = 0; i < 60000; ++i)
    static_cast<ordered_json::object_t::Container&>(large.get_ref<ordered_json::object_t&>())
        .emplace_back("k" + std::to_string(i), i);
  const ordered_json variables{{"d", large}};
  EXPECT_EQ(written("{{ d|length }}{{ d.k59999 }}{% for k, v in d|items %}{{ v if loop.last }}{% endfor %}",
                    variables),
            "600005999959999");
  for (const char* look : {"d[k]", "k in d", "d.get(k)"})
    EXPECT_THAT(
        problem_of(std::string("{% for k in d %}{% if ") + look + " %}{% endif %}{% endfor %}", variables),
        HasSubstr("takes too many steps"));
}

TEST(ChatTemplate, TellsTheTimeThatItIsGiven) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(written("{{ strftime_now('%d %b %Y') }}"), "01 Jan 1970");
}

}  // namespace
}  // namespace pipeline::chat
