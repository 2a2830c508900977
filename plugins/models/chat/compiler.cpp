#include "plugins/models/chat/compiler.hpp"

#include <charconv>
#include <initializer_list>
#include <memory>

namespace pipeline::chat {

struct Macro {
  std::function<Value(Frame& frame, const Arguments& arguments)> call;
};

namespace {

using Expression = std::function<Value(Frame&)>;
using Step = std::function<Value(Frame&, const Value&)>;  // from one value to the next
using Target = std::function<void(Frame&, const Value&)>;

struct Nesting {
  explicit Nesting(int& of) : depth(of) {
    if (++depth > 60) throw Problem("the template is nested too deeply");
  }
  ~Nesting() { --depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  int& depth;
};

// Python's whole numbers have no limit; here those that would need more than 64 bits are refused.
Value arithmetic(char how, const Value& a, const Value& b) {
  const bool are_integers = a.is_integer() && b.is_integer();
  if (!a.is_number() || !b.is_number() || (how == '%' && (!are_integers || b.integer <= 0)))
    unread("{} {} {}", a.name_of_type(), how, b.name_of_type());
  if (how == '%') return (a.integer % b.integer + b.integer) % b.integer;
  if (!are_integers)
    return how == '+' ? a.number + b.number : how == '-' ? a.number - b.number : a.number * b.number;
  int64_t result = 0;
  if (how == '+'   ? __builtin_add_overflow(a.integer, b.integer, &result)
      : how == '-' ? __builtin_sub_overflow(a.integer, b.integer, &result)
                   : __builtin_mul_overflow(a.integer, b.integer, &result))
    throw Problem("a number is too large");
  return result;
}

// A text as it becomes when a safe text is added to it.
std::string escaped(const std::string& text) {
  constexpr std::string_view kSpecial = "&<>'\"";
  constexpr const char* kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  std::string out;
  for (const char c : text) {
    const size_t i = kSpecial.find(c);
    out += i < kSpecial.size() ? kEntities[i] : std::string(1, c);
  }
  return out;
}

Value add(Rendering& rendering, const Value& a, const Value& b) {
  if (a.type == kString && b.type == kString) {
    const auto side = [&](const Value& own, const Value& other) {
      return other.is_safe && !own.is_safe ? escaped(text(rendering, own)) : text(rendering, own);
    };
    Value sum = side(a, b) + side(b, a);
    sum.is_safe = a.is_safe || b.is_safe;
    return sum;
  }
  if (a.type != kList || b.type != kList) return arithmetic('+', a, b);
  Members sum = *a.members;
  sum.insert(sum.end(), b.members->begin(), b.members->end());
  rendering.spend(sum.size());
  return Value(kList, std::move(sum));
}

Value multiply(Rendering& rendering, const Value& a, const Value& b) {
  if (a.type != kString || a.is_safe || !b.is_integer()) return arithmetic('*', a, b);
  std::string product;
  for (int64_t i = 0; i < b.integer; ++i) {
    rendering.spend(1);
    product += text(rendering, a);
  }
  return product;
}

// The operators by how tightly they bind; behind a value `not` is that of `not in`.
enum Level { kOr = 1, kAnd, kNot, kComparison, kSum, kConcatenation, kProduct };
constexpr std::string_view kOperators[] = {"",      " or ", " and ",        "", " == != < > <= >= in not ",
                                           " + - ", " ~ ",  " * % / // ** "};

int level_of(std::string_view name) {
  for (int level = kOr; level <= kProduct; ++level)
    if (kOperators[level].find(fmt::format(" {} ", name)) != std::string_view::npos) return level;
  return 0;
}

Value applied(Rendering& rendering, std::string_view how, const Value& a, const Value& b) {
  if (how == "==") return equal(rendering, a, b);
  if (how == "!=") return !equal(rendering, a, b);
  if (how == "in") return contains(rendering, b, a);
  if (how == "not") return !contains(rendering, b, a);
  if (how == "<") return less(a, b);
  if (how == ">") return less(b, a);
  if (how == "<=") return !less(b, a);
  if (how == ">=") return !less(a, b);
  if (how == "~") return text(rendering, a) + text(rendering, b);
  if (how == "+") return add(rendering, a, b);
  return how == "*" ? multiply(rendering, a, b) : arithmetic(how[0], a, b);
}

// value[begin:end:step] of a list, or of the characters of a string.
Value sliced(Rendering& rendering, const Value& value, const Value& begin, const Value& end,
             const Value& step) {
  const bool is_whole = begin.type == kNone && end.type == kNone;
  if ((value.type != kString && !value.is_list()) ||
      (step.type != kNone && !(is_whole && step.integer_of("a step") == -1)))
    unread("this slice of {}", value.name_of_type());
  std::vector<Value> items = items_of(rendering, value);
  const auto count = static_cast<int64_t>(items.size());
  const auto bound = [&](const Value& given, int64_t otherwise) {
    const int64_t at = given.type == kNone ? otherwise : given.integer_of("the bound of a slice");
    return std::clamp(at < 0 ? at + count : at, int64_t{0}, count);
  };
  const int64_t first = bound(begin, 0), last = std::max(first, bound(end, count));
  if (step.type != kNone) std::ranges::reverse(items);
  items = {items.begin() + first, items.begin() + last};
  if (value.is_list()) return list_of(items, value.type);
  std::string characters;
  for (const Value& character : items) characters += *character.string;
  return characters;
}

// The value of `loop` in a turn.
Value loop_at(const std::vector<Value>& all, size_t i) {
  return Value(kNamespace,
               {{"index", i + 1},
                {"index0", i},
                {"revindex", all.size() - i},
                {"revindex0", all.size() - i - 1},
                {"first", i == 0},
                {"last", i + 1 == all.size()},
                {"length", all.size()},
                {"previtem", i > 0 ? all[i - 1] : Value::undefined("loop.previtem")},
                {"nextitem", i + 1 < all.size() ? all[i + 1] : Value::undefined("loop.nextitem")}});
}

// Reads tokens by the grammar of jinja2/parser.py.
class Compiler {
 public:
  explicit Compiler(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Statement run() {
    try {
      return body({});
    } catch (const Problem& problem) {
      throw problem.line > 0 ? problem : Problem(problem.what(), now().line);
    }
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  const Token& next() { return tokens_[now().kind == Token::kEnd ? at_ : at_++]; }
  bool is(std::string_view text) const {
    return (now().kind == Token::kName || now().kind == Token::kSymbol) && now().text == text;
  }
  bool skip(std::string_view text) { return is(text) && ++at_ > 0; }
  [[noreturn]] void fail_for(std::string_view wanted) const {
    const bool is_shown = now().kind != Token::kQuoted && now().kind != Token::kText;
    throw Problem(fmt::format("{} stands where {} must", is_shown ? now().text : "text", wanted));
  }
  void expect(std::string_view text) {
    if (!skip(text)) fail_for(text);
  }
  std::string name() {
    if (now().kind != Token::kName) fail_for("a name");
    return next().text;
  }
  // Calls `read` for each part of a list with commas, up to `end` and over it.
  template <class Read>
  void separated(std::string_view end, const Read& read) {
    while (!skip(end)) {
      read();
      if (!is(end)) expect(",");
    }
  }

  // ------------------------------------------------------------------------------------------- statements

  // Reads up to a tag of one of these names, which is next.
  Statement body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(depth_);
    std::vector<std::pair<int, Statement>> all;
    for (bool ended = false; !ended;) {
      const Token token = next();
      if (token.kind == Token::kText)
        all.emplace_back(token.line, output(constant(token.text)));
      else if (token.text == "{{")
        all.emplace_back(token.line, output(tuple()));
      else if (token.kind == Token::kEnd && ends.size() > 0)
        throw Problem(fmt::format("the template ends where {{% {} %}} must stand", *ends.begin()));
      else if (token.kind == Token::kEnd || std::ranges::find(ends, now().text) != ends.end())
        ended = true;
      else
        all.emplace_back(token.line, statement());
      if (token.text == "{{") expect("}}");
    }
    return [all](Frame& frame) {
      for (const auto& [line, statement] : all) {
        frame.rendering.spend(1);
        try {
          if (const Flow flow = statement(frame); flow != Flow::kNext) return flow;
        } catch (Problem& problem) {
          if (problem.line == 0) problem.line = line;
          throw;
        }
      }
      return Flow::kNext;
    };
  }

  static Statement output(const Expression& value) {
    return [value](Frame& frame) {
      frame.out += text(frame.rendering, value(frame));
      return Flow::kNext;
    };
  }

  // Reads over the tag that began before, and up to and over the tag of this name.
  Statement block(std::string_view end) {
    expect("%}");
    Statement inner = body({end});
    expect(end);
    expect("%}");
    return inner;
  }

  // A block whose variables end with it.
  Statement scope(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    ++scopes_, ++captures_;
    Statement inner = block(end);
    --scopes_, --captures_, loops_ = loops;
    return inner;
  }

  Statement statement() {
    const std::string kind = name();
    if (kind == "if") return if_statement();
    if (kind == "for") return for_statement();
    if (kind == "set") return set_statement();
    if (kind == "macro") return macro_statement();
    if (kind == "generation") return generation_statement();
    if (kind != "break" && kind != "continue") unread("{{% {} %}}", kind);
    if (loops_ == 0) throw Problem(fmt::format("{{% {} %}} stands outside of a loop", kind));
    expect("%}");
    return [flow = kind == "break" ? Flow::kBreak : Flow::kContinue](Frame&) { return flow; };
  }

  // Reads what follows the body of an if or a loop.
  Statement otherwise(std::string_view end) {
    if (skip("else")) return end == "endfor" ? scope(end) : block(end);
    expect(end);
    expect("%}");
    return [](Frame&) { return Flow::kNext; };
  }

  Statement if_statement() {
    std::vector<std::pair<Expression, Statement>> branches;
    do {
      Expression condition = tuple(false);
      expect("%}");
      branches.emplace_back(std::move(condition), body({"endif", "elif", "else"}));
    } while (skip("elif"));
    return [branches, otherwise = otherwise("endif")](Frame& frame) {
      for (const auto& [condition, inner] : branches)
        if (truth(condition(frame))) return inner(frame);
      return otherwise(frame);
    };
  }

  Statement for_statement() {
    const Target target = target_of(name());
    expect("in");
    const Expression items = tuple(false);
    const Expression condition = skip("if") ? expression() : nullptr;
    if (is("recursive")) throw Problem("recursive loops are not read here");
    expect("%}");
    ++loops_, ++scopes_;
    const Statement inner = body({"endfor", "else"});
    --loops_, --scopes_;
    return [=, otherwise = otherwise("endfor")](Frame& frame) {
      std::vector<Value> all = items_of(frame.rendering, items(frame));
      std::erase_if(all, [&](const Value& item) {
        if (!condition) return false;
        Frame turn = frame.inner();
        target(turn, item);
        return !truth(condition(turn));
      });
      if (all.empty()) {
        Frame none = frame.inner();
        return otherwise(none);
      }
      for (size_t i = 0; i < all.size(); ++i) {
        Frame turn = frame.inner({{"loop", loop_at(all, i)}});
        frame.rendering.spend(1);
        if (frame.rendered && all[i].message > 0)
          frame.rendered->turns[all[i].message - 1] = frame.out.size();
        target(turn, all[i]);
        if (inner(turn) == Flow::kBreak) break;
      }
      return Flow::kNext;
    };
  }

  // Sets one name, or several.
  Target target_of(std::string first) {
    std::vector<std::string> names{std::move(first)};
    while (skip(",")) names.push_back(name());
    if (std::ranges::find(names, "loop") != names.end()) unread("a variable loop");
    if (names.size() == 1)
      return [of = names[0]](Frame& frame, const Value& value) {
        set_in(frame.rendering, frame.variables, of, value);
      };
    return [names](Frame& frame, const Value& value) {
      const std::vector<Value> items = items_of(frame.rendering, value);
      if (items.size() != names.size())
        throw Problem(fmt::format("{} values cannot be given to {} names", items.size(), names.size()));
      for (size_t i = 0; i < names.size(); ++i) set_in(frame.rendering, frame.variables, names[i], items[i]);
    };
  }

  static Target attribute_target(const std::string& of, const std::string& attribute_name) {
    return [=](Frame& frame, const Value& value) {
      const Value* found = frame.find(of);
      if (found == nullptr || found->type != kNamespace || of == "loop")
        throw Problem(fmt::format("{} is no namespace: its attributes cannot be set", of));
      list_of({value});  // throws where the value cannot be held
      set_in(frame.rendering, *found->members, attribute_name, value);
    };
  }

  Statement set_statement() {
    const std::string first = name();
    const Target target = skip(".") ? attribute_target(first, name()) : target_of(first);
    if (is("|")) unread("{{% set %}} with a filter");
    if (skip("=")) {
      const Expression value = tuple();
      expect("%}");
      return [=](Frame& frame) { return target(frame, value(frame)), Flow::kNext; };
    }
    const size_t begin = at_;
    const Statement inner = scope("endset");
    const auto is_first = [&](const Token& token) {
      return token.kind == Token::kName && token.text == first;
    };
    if (scopes_ == 0 && std::any_of(tokens_.begin() + begin, tokens_.begin() + at_, is_first))
      unread("a {{% set {} %}} that reads {}", first, first);
    return [=](Frame& frame) {
      target(frame, written(frame, inner));
      return Flow::kNext;
    };
  }

  // The text of a block that is not written into the output.
  static std::string written(const Frame& outer, const Statement& inner) {
    std::string out;
    Frame frame{outer.rendering, out, nullptr, &outer};
    inner(frame);
    return out;
  }

  Statement generation_statement() {
    if (captures_ > 0) unread("{{% generation %}} within a macro, a set or another");
    return [inner = scope("endgeneration")](Frame& frame) {
      const size_t begin = frame.out.size();
      frame.out += written(frame, inner);
      if (frame.rendered && frame.out.size() > begin)
        frame.rendered->generated.emplace_back(begin, frame.out.size());
      return Flow::kNext;
    };
  }

  Statement macro_statement() {
    if (scopes_ > 0)
      throw Problem(
          "a macro stands within a loop, a set or another macro: it is read at the top level alone");
    const std::string own = name();
    std::vector<std::string> parameters;
    std::vector<Expression> defaults;
    expect("(");
    separated(")", [&] {
      parameters.push_back(name());
      defaults.push_back(skip("=") ? expression() : constant(Value::undefined(parameters.back())));
    });
    const Statement inner = scope("endmacro");
    const auto call = [=](Frame& frame, const Arguments& arguments) {
      const Nesting nesting(frame.rendering.depth);
      const Frame* global = &frame;
      while (global->outer != nullptr) global = global->outer;
      Frame called = global->inner();
      const std::vector<Value> given = in_order_of(parameters, arguments, own);
      for (size_t i = 0; i < given.size(); ++i)
        called.variables.emplace_back(parameters[i], given[i].is_given() ? given[i] : defaults[i](called));
      return written(called, inner);
    };
    return [own, macro = std::make_shared<const Macro>(Macro{call})](Frame& frame) {
      Value value;
      value.type = kCallable;
      value.macro = macro.get();
      set_in(frame.rendering, frame.variables, own, value);
      return Flow::kNext;
    };
  }

  // ------------------------------------------------------------------------------------------ expressions

  static Expression constant(Value value) {
    return [value = std::move(value)](Frame&) { return value; };
  }

  // One expression, or several with commas between: a tuple.
  Expression tuple(bool with_condition = true) {
    const auto read = [&] { return with_condition ? expression() : binary(kOr); };
    std::vector<Expression> items{read()};
    if (!is(",")) return items[0];
    while (skip(",") && !is("%}") && !is("}}") && !is(")")) items.push_back(read());
    return members(kTuple, items);
  }

  static Expression members(Value::Type type, std::vector<Expression> items) {
    return [type, items = std::move(items)](Frame& frame) {
      std::vector<Value> all;
      for (const Expression& item : items) all.push_back(item(frame));
      return list_of(all, type);
    };
  }

  Expression expression() {
    const Nesting nesting(depth_);
    Expression value = binary(kOr);
    if (!skip("if")) return value;
    const Expression condition = binary(kOr);
    const Expression other = skip("else") ? expression() : constant(Value::undefined("an if without else"));
    return [=](Frame& frame) { return truth(condition(frame)) ? value(frame) : other(frame); };
  }

  // Operators of this level, and in their operands those that bind more tightly. However many there are in a
  // row, they are not nested in each other; nor are the steps of unary().
  Expression binary(int level) {
    if (level == kNot && skip("not")) {
      const Nesting nesting(depth_);
      return [of = binary(kNot)](Frame& frame) -> Value { return !truth(of(frame)); };
    }
    if (level > kProduct) return unary(true);
    Expression first = binary(level + 1);
    std::vector<std::pair<std::string, Expression>> others;
    while ((now().kind == Token::kName || now().kind == Token::kSymbol) && level_of(now().text) == level) {
      const std::string how = next().text;
      if (how == "not") expect("in");
      if (how == "/" || how == "//" || how == "**") unread("the operator {}", how);
      if (level == kComparison && !others.empty()) unread("a chain of comparisons");
      others.emplace_back(how, binary(level + 1));
    }
    if (others.empty()) return first;
    return [=](Frame& frame) {
      Value value = first(frame);
      for (const auto& [how, other] : others) {
        if (level <= kAnd && truth(value) == (level == kOr)) break;
        value = level <= kAnd ? other(frame) : applied(frame.rendering, how, value, other(frame));
      }
      return value;
    };
  }

  Expression unary(bool with_filters) {
    const Nesting nesting(depth_);
    if (is("+")) unread("the operator + before a value");
    Expression first;
    if (skip("-"))
      first = [of = unary(false)](Frame& frame) { return arithmetic('-', 0, of(frame)); };
    else
      first = primary();
    std::vector<Step> steps;
    while (Step step = postfix()) steps.push_back(std::move(step));
    while (Step step = with_filters ? filter() : nullptr) steps.push_back(std::move(step));
    if (steps.empty()) return first;
    return [=](Frame& frame) {
      Value value = first(frame);
      for (const Step& step : steps) value = step(frame, value);
      return value;
    };
  }

  Expression primary() {
    const Token token = now();
    std::vector<Expression> items;
    if (skip("(")) {
      if (skip(")")) return members(kTuple, {});
      Expression inner = tuple();
      expect(")");
      return inner;
    }
    if (skip("[")) {
      separated("]", [&] { items.push_back(expression()); });
      return members(kList, std::move(items));
    }
    if (skip("{")) {
      separated("}", [&] {
        items.push_back(expression());
        expect(":");
        items.push_back(expression());
      });
      return [items](Frame& frame) {
        Members all;
        for (size_t i = 0; i < items.size(); i += 2) {
          const Value key = items[i](frame);
          if (key.type != kString) unread("{} as a dict's key", key.name_of_type());
          set_in(frame.rendering, all, *key.string, items[i + 1](frame));
        }
        return Value(kDict, std::move(all));
      };
    }
    if (token.kind != Token::kQuoted && token.kind != Token::kDigits && token.kind != Token::kName)
      fail_for("a value");
    ++at_;
    if (token.kind == Token::kQuoted) {
      std::string text = token.text;
      while (now().kind == Token::kQuoted) text += next().text;
      return constant(text);
    }
    if (token.kind == Token::kDigits) return constant(integer_from(token.text));
    if (token.text == "true" || token.text == "True") return constant(true);
    if (token.text == "false" || token.text == "False") return constant(false);
    if (token.text == "none" || token.text == "None") return constant(nullptr);
    return [of = token.text](Frame& frame) {
      const Value* found = frame.find(of);
      return found != nullptr ? *found : function_named(of);
    };
  }

  // The step that follows a value; empty: none does.
  Step postfix() {
    if (skip("[")) return subscript();
    if (is("("))
      return [given = arguments()](Frame& frame, const Value& value) {
        return call(frame, value, {}, given(frame));
      };
    if (!skip(".")) return nullptr;
    if (now().kind == Token::kDigits) unread(".{}", now().text);
    const std::string of = name();
    if (!is("("))
      return [of](Frame& frame, const Value& value) { return attribute(frame.rendering, value, of); };
    return [of, given = arguments()](Frame& frame, const Value& value) {
      return call(frame, attribute(frame.rendering, value, of), value, given(frame));
    };
  }

  static Value call(Frame& frame, const Value& called, const Value& object, const Arguments& arguments) {
    frame.rendering.spend(1);
    if (called.macro != nullptr) return called.macro->call(frame, arguments);
    if (called.builtin != nullptr) return called.builtin->call(frame.rendering, object, arguments);
    if (called.type == kUndefined) throw Problem(fmt::format("{} is not defined", *called.string));
    throw Problem(fmt::format("{} cannot be called", called.name_of_type()));
  }

  Step subscript() {
    std::vector<Expression> parts;
    do {
      parts.push_back(is(":") || is("]") ? constant(nullptr) : expression());
    } while (skip(":"));
    expect("]");
    if (parts.size() == 1)
      return [key = parts[0]](Frame& frame, const Value& value) {
        return item(frame.rendering, value, key(frame));
      };
    if (parts.size() > 3) throw Problem("a slice has at most three parts");
    parts.resize(3, constant(nullptr));
    return [parts](Frame& frame, const Value& value) {
      return sliced(frame.rendering, value, parts[0](frame), parts[1](frame), parts[2](frame));
    };
  }

  static int64_t integer_from(const std::string& digits) {
    int64_t number = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc())
      throw Problem("a number is too large");
    return number;
  }

  // "(a, b=c)", or nothing.
  std::function<Arguments(Frame&)> arguments() {
    std::vector<std::pair<std::string, Expression>> all;
    if (skip("("))
      separated(")", [&] {
        if (is("*") || is("**")) unread("a call with arguments from a list or dict");
        const bool is_named = tokens_[at_ + 1].text == "=" && tokens_[at_ + 1].kind == Token::kSymbol;
        std::string of = is_named ? name() : "";
        if (is_named) expect("=");
        const auto has_name = [&](const auto& other) { return is_named && other.first == of; };
        if (std::ranges::any_of(all, has_name))
          throw Problem(fmt::format("the argument {} stands twice", of));
        all.emplace_back(std::move(of), expression());
      });
    return [all](Frame& frame) {
      Arguments arguments;
      for (const auto& [of, value] : all) arguments.emplace_back(of, value(frame));
      return arguments;
    };
  }

  // A filter or a test; empty: none follows.
  Step filter() {
    if (skip("|")) {
      const std::string of = name();
      const Builtin* found = builtin_named(of, Builtin::kFilter);
      if (found == nullptr) unread("the filter {}", of);
      return [found, given = arguments()](Frame& frame, const Value& value) {
        return found->call(frame.rendering, value, given(frame));
      };
    }
    if (!skip("is")) return nullptr;
    const bool is_negated = skip("not");
    const std::string of = name();
    const Test test = test_named(of);
    if (test == nullptr) unread("the test {}", of);
    const bool has_argument = now().kind == Token::kQuoted || now().kind == Token::kDigits || is("(") ||
                              is("[") || is("{") ||
                              (now().kind == Token::kName && !is("or") && !is("and") && !is("else"));
    if (has_argument) unread("an argument of the test {}", of);
    return [test, is_negated](Frame&, const Value& value) -> Value { return test(value) != is_negated; };
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  int scopes_ = 0;    // open scopes that end before the rendering does
  int captures_ = 0;  // open scopes whose text goes elsewhere first
};

}  // namespace

Statement compile(std::string_view source) { return Compiler(tokens_of(source)).run(); }

}  // namespace pipeline::chat
