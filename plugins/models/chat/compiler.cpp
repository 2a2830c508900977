#include "plugins/models/chat/compiler.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <memory>

#include <fmt/format.h>

namespace pipeline::chat {
namespace {

using Expression = std::function<Value(Frame&)>;
using Target = std::function<void(Frame&, Value)>;

int64_t whole(const Value& value) { return value.integer("an operand"); }

// Python's have no end, and these are refused where they would need more than 64 bits.
int64_t exact(char operation, int64_t a, int64_t b) {
  int64_t result = 0;
  if (operation == '+'   ? __builtin_add_overflow(a, b, &result)
      : operation == '-' ? __builtin_sub_overflow(a, b, &result)
                         : __builtin_mul_overflow(a, b, &result))
    throw Problem("a number is too large");
  return result;
}

Value add(Budget& budget, const Value& a, const Value& b) {
  if (a.string() && b.string()) {
    budget.spend(a, b);
    return *a.string() + *b.string();
  }
  if (a.list() && b.list()) {
    List sum = *a.list();
    budget.spend(a, b);
    sum.items.insert(sum.items.end(), b.list()->items.begin(), b.list()->items.end());
    return sum;
  }
  if (a.is_integer() && b.is_integer()) return exact('+', whole(a), whole(b));
  if (a.is_number() && b.is_number()) return a.number() + b.number();
  throw Problem(fmt::format("{} + {}", a.type(), b.type()));
}

Value multiply(Budget& budget, const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return exact('*', whole(a), whole(b));
  if (a.is_number() && b.is_number()) return a.number() * b.number();
  if (b.string() || b.list()) return multiply(budget, b, a);
  if (!a.string() && !a.list()) throw Problem(fmt::format("{} * {}", a.type(), b.type()));
  Value product = a.string() ? Value("") : Value(List{});
  for (int64_t i = 0; i < whole(b); ++i) product = add(budget, product, a);
  return product;
}

Value divide(const Value& a, const Value& b, char what) {
  if (b.number() == 0) throw Problem("a division by zero");
  if (what == '/') return a.number() / b.number();
  if (!a.is_integer() || !b.is_integer()) {
    const double quotient = std::floor(a.number() / b.number());
    return what == 'f' ? quotient : a.number() - quotient * b.number();
  }
  const int64_t x = whole(a), y = whole(b);
  if (y == -1) return what == 'f' ? Value(exact('-', 0, x)) : Value(int64_t{0});
  const int64_t remainder = (x % y + y) % y;  // has the sign of y
  return what == 'f' ? (x - remainder) / y : remainder;
}

bool compare(const std::string& how, const Value& a, const Value& b) {
  if (how == "==") return equal(a, b);
  if (how == "!=") return !equal(a, b);
  if (how == "in") return contains(b, a);
  if (how == "not in") return !contains(b, a);
  return how == "<" ? less(a, b) : how == ">" ? less(b, a) : how == "<=" ? !less(b, a) : !less(a, b);
}

// value[begin:end:step] of a list, or of the characters of a string.
Value sliced(Budget& budget, const Value& value, const Value& begin, const Value& end, const Value& by) {
  if (!value.string() && !value.list()) throw Problem(fmt::format("{} has no slices", value.type()));
  budget.spend(value);
  const std::vector<Value> items = items_of(value);
  const auto count = static_cast<int64_t>(items.size());
  const int64_t step = by.is_none() ? 1 : by.integer("the step of a slice");
  if (step == 0) throw Problem("the step of a slice is 0");
  const auto bound = [&](const Value& given, int64_t otherwise) {
    if (given.is_none()) return otherwise;
    int64_t at = given.integer("the bound of a slice");
    if (at < 0) at = std::max(at, -count - 1) + count;
    return std::clamp(at, step > 0 ? int64_t{0} : int64_t{-1}, step > 0 ? count : count - 1);
  };
  const int64_t first = bound(begin, step > 0 ? 0 : count - 1), last = bound(end, step > 0 ? count : -1);
  List chosen{.items = {}, .is_tuple = value.list() && value.list()->is_tuple};
  for (int64_t i = first; step > 0 ? i < last : i > last; i += std::clamp(step, -count - 1, count + 1))
    chosen.items.push_back(items[static_cast<size_t>(i)]);
  if (value.list()) return chosen;
  std::string text;
  for (const Value& character : chosen.items) text += *character.string();
  return text;
}

Value call(Frame& frame, const Value& called, const Arguments& arguments) {
  const Budget::Level level(frame.budget);
  frame.budget.spend(called);
  for (const Value& given : arguments.positional) frame.budget.spend(given);
  if (const Function* function = called.function()) return (*function)(arguments);
  if (const auto* undefined = called.get<Undefined>())
    throw Problem(fmt::format("{} is not defined", undefined->name));
  throw Problem(fmt::format("{} cannot be called", called.type()));
}

// Reads tokens by the grammar of jinja2/parser.py.
class Compiler {
 public:
  explicit Compiler(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Statement run() { return body({}); }

 private:
  using Call = std::function<Arguments(Frame&)>;

  [[noreturn]] void fail(const std::string& what) const { throw LineProblem(now().line, what); }
  const Token& now() const { return tokens_[at_]; }
  Token next() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool is(Token::Kind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool is_operator(std::string_view text) const { return is(Token::kOperator, text); }
  bool is_name(std::string_view text) const { return is(Token::kName, text); }
  bool skip(std::string_view text) {
    if (!is_operator(text) && !is_name(text)) return false;
    ++at_;
    return true;
  }
  std::string shown() const {
    constexpr const char* kKinds[] = {"text", "{%", "%}", "{{", "}}", "", "", "", "a string", "", "the end"};
    return now().text.empty() || now().kind == Token::kString || now().kind == Token::kText
               ? kKinds[now().kind]
               : "'" + now().text + "'";
  }
  void expect(std::string_view text) {
    if (!skip(text)) fail(fmt::format("{} stands where '{}' must", shown(), text));
  }
  std::string name() {
    if (now().kind != Token::kName) fail(fmt::format("{} stands where a name must", shown()));
    return next().text;
  }
  void end_of(Token::Kind kind) {
    if (now().kind != kind) fail(fmt::format("{} stands where the tag must end", shown()));
    ++at_;
  }

  // Says the line of what goes wrong in it.
  Statement at_line(int line, Statement statement) {
    return [line, statement = std::move(statement)](Frame& frame) {
      try {
        frame.budget.spend();
        return statement(frame);
      } catch (const Problem& problem) {
        throw LineProblem(line, problem.what());
      }
    };
  }

  // Statements up to a tag of one of these names, which is next.
  Statement body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    std::vector<Statement> all;
    for (;;) {
      const Token token = now();
      if (token.kind == Token::kEnd) {
        if (ends.size() > 0)
          fail(fmt::format("the template ends where {{% {} %}} must stand", *ends.begin()));
        break;
      }
      ++at_;
      if (token.kind == Token::kText) {
        all.push_back(at_line(token.line, [text = token.text](Frame& frame) { return write(frame, text); }));
      } else if (token.kind == Token::kOutput) {
        Expression value = tuple();
        end_of(Token::kOutputEnd);
        all.push_back(at_line(token.line, [value](Frame& frame) {
          const Value shown = value(frame);
          frame.budget.spend(shown);
          return write(frame, text(shown));
        }));
      } else if (std::ranges::find(ends, now().text) != ends.end()) {
        break;
      } else {
        all.push_back(at_line(token.line, statement(name())));
      }
    }
    return [all](Frame& frame) {
      for (const Statement& statement : all)
        if (const Flow flow = statement(frame); flow != Flow::kNext) return flow;
      return Flow::kNext;
    };
  }

  static Flow write(Frame& frame, const std::string& text) {
    frame.budget.spend_weight(1 + text.size() / 16);
    frame.out += text;
    return Flow::kNext;
  }

  Statement statement(const std::string& kind) {
    if (kind == "if") return if_statement();
    if (kind == "for") return for_statement();
    if (kind == "set") return set_statement();
    if (kind == "macro") return macro_statement();
    if (kind == "generation") {
      end_of(Token::kBlockEnd);
      Statement inner = block("endgeneration");
      return [inner](Frame& frame) {
        const size_t begin = frame.out.size();
        const Flow flow = inner(frame);
        if (frame.generated && frame.out.size() > begin)
          frame.generated->emplace_back(begin, frame.out.size());
        return flow;
      };
    }
    if (kind == "break" || kind == "continue") {
      if (loops_ == 0) fail(fmt::format("{{% {} %}} stands outside of a loop", kind));
      end_of(Token::kBlockEnd);
      return [flow = kind == "break" ? Flow::kBreak : Flow::kContinue](Frame&) { return flow; };
    }
    fail(fmt::format("{{% {} %}} is not read here", kind));
  }

  // Up to the tag of this name, and over it.
  Statement block(std::string_view end) {
    Statement inner = body({end});
    ++at_;
    end_of(Token::kBlockEnd);
    return inner;
  }

  Statement if_statement() {
    std::vector<std::pair<Expression, Statement>> branches;
    std::string end = "if";
    while (end == "if" || end == "elif") {
      Expression condition = tuple(false);
      end_of(Token::kBlockEnd);
      branches.emplace_back(std::move(condition), body({"endif", "elif", "else"}));
      end = next().text;
    }
    Statement otherwise;
    end_of(Token::kBlockEnd);
    if (end == "else") otherwise = block("endif");
    return [branches, otherwise](Frame& frame) {
      for (const auto& [condition, inner] : branches)
        if (truth(condition(frame))) return inner(frame);
      return otherwise ? otherwise(frame) : Flow::kNext;
    };
  }

  Statement for_statement() {
    Target target = target_of(false);
    expect("in");
    Expression items = tuple(false);
    Expression wanted;
    if (skip("if")) wanted = expression();
    if (is_name("recursive")) fail("recursive loops are not read here");
    end_of(Token::kBlockEnd);
    ++loops_, ++scopes_;
    Statement inner = body({"endfor", "else"});
    --loops_, --scopes_;
    Statement otherwise;
    const bool has_else = next().text == "else";
    end_of(Token::kBlockEnd);
    if (has_else) otherwise = block("endfor");
    return [=](Frame& frame) {
      const Value looped = items(frame);
      frame.budget.spend(looped);
      std::vector<Value> all = items_of(looped);
      if (wanted)
        std::erase_if(all, [&](const Value& item) {
          Scope scope(&frame.scope);
          Frame filter{frame.budget, scope, frame.out, nullptr};
          target(filter, item);
          return !truth(wanted(filter));
        });
      if (all.empty()) return otherwise ? otherwise(frame) : Flow::kNext;
      const auto seen = std::make_shared<Value>();  // by loop.changed() last
      for (size_t i = 0; i < all.size(); ++i) {
        frame.budget.spend();
        Scope scope(&frame.scope);
        Frame turn{frame.budget, scope, frame.out, frame.generated};
        scope.set("loop", loop(all, i, seen));
        target(turn, all[i]);
        if (inner(turn) == Flow::kBreak) break;
      }
      return Flow::kNext;
    };
  }

  static Value loop(const std::vector<Value>& all, size_t at, const std::shared_ptr<Value>& seen) {
    const auto i = static_cast<int64_t>(at), count = static_cast<int64_t>(all.size());
    Dict loop{.items = {{"index", i + 1},
                        {"index0", i},
                        {"revindex", count - i},
                        {"revindex0", count - i - 1},
                        {"first", i == 0},
                        {"last", i + 1 == count},
                        {"length", count},
                        {"depth", int64_t{1}},
                        {"depth0", int64_t{0}},
                        {"previtem", at > 0 ? all[at - 1] : Value(Undefined{"loop.previtem"})},
                        {"nextitem", at + 1 < all.size() ? all[at + 1] : Value(Undefined{"loop.nextitem"})}}};
    loop.set("cycle", Function([at](const Arguments& given) -> Value {
               if (given.positional.empty()) throw Problem("loop.cycle() of nothing");
               return given.positional[at % given.positional.size()];
             }));
    loop.set("changed", Function([seen, at](const Arguments& given) -> Value {
               const Value now = List{given.positional, true};
               const bool changed = at == 0 || !equal(*seen, now);
               *seen = now;
               return changed;
             }));
    return loop;
  }

  Statement set_statement() {
    Target target = target_of(true);
    if (skip("=")) {
      Expression value = tuple();
      end_of(Token::kBlockEnd);
      return [target, value](Frame& frame) { return target(frame, value(frame)), Flow::kNext; };
    }
    Expression filtered = filters([](Frame& frame) { return *frame.scope.find(" block"); });
    end_of(Token::kBlockEnd);
    ++scopes_;
    Statement inner = block("endset");
    --scopes_;
    return [=](Frame& frame) {
      std::string out;
      Scope scope(&frame.scope);
      Frame captured{frame.budget, scope, out, nullptr};
      inner(captured);
      scope.set(" block", out);
      target(frame, filtered(captured));
      return Flow::kNext;
    };
  }

  // The names before `in` or `=`.
  Target target_of(bool may_be_attribute) {
    std::vector<std::string> names;
    const bool in_parentheses = skip("(");
    do {
      names.push_back(name());
      if (may_be_attribute && names.size() == 1 && skip(".")) {
        return [of = names[0], attribute = name()](Frame& frame, Value value) {
          const Value* found = frame.scope.find(of);
          Dict* dict = found ? found->dict() : nullptr;
          if (dict == nullptr || !dict->is_namespace)
            throw Problem(fmt::format("{} is no namespace: its attributes cannot be set", of));
          if (value.holds_namespace()) throw Problem("a namespace holds no other");
          dict->set(attribute, std::move(value));
        };
      }
    } while (skip(",") && now().kind == Token::kName && !is_name("in"));
    if (in_parentheses) expect(")");
    if (names.size() == 1)
      return [of = names[0]](Frame& frame, Value value) { frame.scope.set(of, std::move(value)); };
    return [names](Frame& frame, const Value& value) {
      const std::vector<Value> items = items_of(value);
      if (items.size() != names.size())
        throw Problem(fmt::format("{} values cannot be given to {} names", items.size(), names.size()));
      for (size_t i = 0; i < names.size(); ++i) frame.scope.set(names[i], items[i]);
    };
  }

  Statement macro_statement() {
    if (scopes_ > 0)
      fail("a macro stands within a loop, a set or another macro: it is read at the top level alone");
    const std::string own = name();
    std::vector<std::pair<std::string, Expression>> parameters;
    expect("(");
    while (!skip(")")) {
      if (!parameters.empty()) expect(",");
      parameters.emplace_back(name(), nullptr);
      if (skip("=")) parameters.back().second = expression();
    }
    end_of(Token::kBlockEnd);
    ++scopes_;
    Statement inner = block("endmacro");
    --scopes_;
    return [=](Frame& frame) {
      Scope* outer = &frame.scope;
      Budget* budget = &frame.budget;
      frame.scope.set(
          own, Function([=](const Arguments& given) -> Value {
            std::string out;
            Scope scope(outer);
            Frame called{*budget, scope, out, nullptr};
            if (given.positional.size() > parameters.size())
              throw Problem(fmt::format("{}() takes {} arguments", own, parameters.size()));
            for (const auto& item : given.named.items)
              if (std::ranges::none_of(parameters, [&](const auto& p) { return p.first == item.first; }))
                throw Problem(fmt::format("{}() has no parameter {}", own, item.first));
            for (size_t i = 0; i < parameters.size(); ++i) {
              const auto& [parameter, otherwise] = parameters[i];
              const Value* value = given.find(i, parameter);
              scope.set(parameter, value != nullptr ? *value
                                   : otherwise      ? otherwise(called)
                                                    : Value(Undefined{parameter}));
            }
            inner(called);
            return out;
          }));
      return Flow::kNext;
    };
  }

  // ------------------------------------------------------------------------------------------ expressions

  struct Nesting {
    explicit Nesting(Compiler& of) : compiler(of) {
      if (++compiler.depth_ > 100) compiler.fail("the template is nested too deeply");
    }
    ~Nesting() { --compiler.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Compiler& compiler;
  };

  // One expression, or several with commas between: a tuple.
  Expression tuple(bool with_condition = true) {
    std::vector<Expression> items{with_condition ? expression() : disjunction()};
    if (!is_operator(",")) return items[0];
    while (skip(",")) {
      if (now().kind == Token::kBlockEnd || now().kind == Token::kOutputEnd || is_operator(")")) break;
      items.push_back(with_condition ? expression() : disjunction());
    }
    return list_of(std::move(items), true);
  }

  static Expression list_of(std::vector<Expression> items, bool is_tuple) {
    return [items = std::move(items), is_tuple](Frame& frame) -> Value {
      List list{.items = {}, .is_tuple = is_tuple};
      for (const Expression& item : items) list.items.push_back(item(frame));
      frame.budget.spend_weight(items.size());
      return list;
    };
  }

  Expression expression() {
    const Nesting nesting(*this);
    Expression value = disjunction();
    while (skip("if")) {
      Expression condition = disjunction(), otherwise;
      if (skip("else")) otherwise = expression();
      value = [value, condition, otherwise](Frame& frame) {
        if (truth(condition(frame))) return value(frame);
        return otherwise ? otherwise(frame) : Value(Undefined{"an if without else"});
      };
    }
    return value;
  }

  Expression disjunction() {
    Expression left = conjunction();
    while (skip("or"))
      left = [left, right = conjunction()](Frame& frame) {
        Value value = left(frame);
        return truth(value) ? value : right(frame);
      };
    return left;
  }

  Expression conjunction() {
    Expression left = negation();
    while (skip("and"))
      left = [left, right = negation()](Frame& frame) {
        Value value = left(frame);
        return truth(value) ? right(frame) : value;
      };
    return left;
  }

  Expression negation() {
    const Nesting nesting(*this);
    if (skip("not")) return [of = negation()](Frame& frame) -> Value { return !truth(of(frame)); };
    return comparison();
  }

  Expression comparison() {
    Expression first = sum();
    std::vector<std::pair<std::string, Expression>> others;
    for (;;) {
      std::string how;
      for (const char* one : {"==", "!=", "<=", ">=", "<", ">"})
        if (how.empty() && is_operator(one)) how = next().text;
      if (how.empty() && skip("in")) how = "in";
      if (how.empty() && is_name("not") && tokens_[at_ + 1].text == "in") how = "not in", at_ += 2;
      if (how.empty()) break;
      others.emplace_back(how, sum());
    }
    if (others.empty()) return first;
    return [first, others](Frame& frame) -> Value {
      Value left = first(frame);
      for (const auto& [how, other] : others) {
        Value right = other(frame);
        frame.budget.spend(left, right);
        if (!compare(how, left, right)) return false;
        left = std::move(right);
      }
      return true;
    };
  }

  Expression sum() {
    Expression left = concatenation();
    while (is_operator("+") || is_operator("-")) {
      const bool adds = next().text == "+";
      left = [left, adds, right = concatenation()](Frame& frame) -> Value {
        const Value a = left(frame), b = right(frame);
        if (adds) return add(frame.budget, a, b);
        if (!a.is_integer() || !b.is_integer()) return a.number() - b.number();
        return exact('-', whole(a), whole(b));
      };
    }
    return left;
  }

  Expression concatenation() {
    std::vector<Expression> parts{product()};
    while (skip("~")) parts.push_back(product());
    if (parts.size() == 1) return parts[0];
    return [parts](Frame& frame) -> Value {
      std::string all;
      for (const Expression& part : parts) {
        const Value value = part(frame);
        frame.budget.spend(value);
        all += text(value);
      }
      return all;
    };
  }

  Expression product() {
    Expression left = power();
    while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
      const std::string how = next().text;
      left = [left, how, right = power()](Frame& frame) -> Value {
        const Value a = left(frame), b = right(frame);
        if (how == "%" && a.string()) throw Problem("formatting by % is not read here");
        return how == "*" ? multiply(frame.budget, a, b) : divide(a, b, how == "//" ? 'f' : how[0]);
      };
    }
    return left;
  }

  Expression power() {
    Expression left = unary(true);
    while (skip("**"))
      left = [left, right = unary(true)](Frame& frame) -> Value {
        const Value a = left(frame), b = right(frame);
        const double result = std::pow(a.number(), b.number());
        if (!a.is_integer() || !b.is_integer() || whole(b) < 0) return result;
        if (std::abs(result) > 9e15) throw Problem("a number is too large");
        return static_cast<int64_t>(result);
      };
    return left;
  }

  Expression unary(bool with_filter) {
    const Nesting nesting(*this);
    Expression value;
    if (is_operator("-") || is_operator("+")) {
      const bool negates = next().text == "-";
      value = [negates, of = unary(false)](Frame& frame) -> Value {
        const Value number = of(frame);
        if (!number.is_integer()) return negates ? -number.number() : number.number();
        return negates ? exact('-', 0, whole(number)) : whole(number);
      };
    } else {
      value = primary();
    }
    value = postfix(std::move(value));
    return with_filter ? filters(std::move(value)) : value;
  }

  Expression constant(Value value) {
    return [value = std::move(value)](Frame&) { return value; };
  }

  Expression primary() {
    const Token token = next();
    if (token.kind == Token::kName) {
      const std::string& word = token.text;
      if (word == "true" || word == "True" || word == "false" || word == "False")
        return constant(word == "true" || word == "True");
      if (word == "none" || word == "None") return constant(nullptr);
      return [word](Frame& frame) -> Value {
        const Value* value = frame.scope.find(word);
        return value != nullptr ? *value : Value(Undefined{word});
      };
    }
    if (token.kind == Token::kString) {
      std::string value = token.text;
      while (now().kind == Token::kString) value += next().text;
      return constant(value);
    }
    if (token.kind == Token::kFloat) return constant(std::strtod(token.text.c_str(), nullptr));
    if (token.kind == Token::kInteger) {
      int64_t number = 0;
      if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), number).ec != std::errc())
        fail("a number is too large");
      return constant(number);
    }
    if (token.kind == Token::kOperator && token.text == "(") {
      if (skip(")")) return list_of({}, true);
      Expression inner = tuple();
      expect(")");
      return inner;
    }
    if (token.kind == Token::kOperator && token.text == "[") return list_of(items_until("]"), false);
    if (token.kind == Token::kOperator && token.text == "{") return dictionary();
    --at_;
    fail(fmt::format("{} stands where a value must", shown()));
  }

  std::vector<Expression> items_until(std::string_view end) {
    std::vector<Expression> items;
    while (!skip(end)) {
      if (!items.empty()) expect(",");
      if (skip(end)) break;
      items.push_back(expression());
    }
    return items;
  }

  Expression dictionary() {
    std::vector<std::pair<Expression, Expression>> items;
    while (!skip("}")) {
      if (!items.empty()) expect(",");
      if (skip("}")) break;
      Expression key = expression();
      expect(":");
      items.emplace_back(std::move(key), expression());
    }
    return [items](Frame& frame) -> Value {
      Dict dict;
      for (const auto& [key, value] : items) dict.set(key(frame).text_of("a dict's key"), value(frame));
      frame.budget.spend_weight(items.size());
      return dict;
    };
  }

  Expression postfix(Expression value) {
    for (;;) {
      if (skip(".")) {
        if (now().kind == Token::kInteger) {
          value = [value, key = primary()](Frame& frame) {
            return item(frame.budget, value(frame), key(frame));
          };
          continue;
        }
        value = [value, of = name()](Frame& frame) { return attribute(frame.budget, value(frame), of); };
      } else if (skip("[")) {
        value = subscript(value);
      } else if (is_operator("(")) {
        value = [value, arguments = arguments()](Frame& frame) {
          return call(frame, value(frame), arguments(frame));
        };
      } else {
        return value;
      }
    }
  }

  Expression subscript(const Expression& value) {
    std::vector<Expression> parts;
    bool is_slice = false;
    for (;; is_slice = true) {
      parts.push_back(is_operator(":") || is_operator("]") ? constant(nullptr) : expression());
      if (!skip(":")) break;
    }
    expect("]");
    if (!is_slice)
      return [value, key = parts[0]](Frame& frame) { return item(frame.budget, value(frame), key(frame)); };
    if (parts.size() > 3) fail("a slice has at most three parts");
    parts.resize(3, constant(nullptr));
    return [value, parts](Frame& frame) {
      return sliced(frame.budget, value(frame), parts[0](frame), parts[1](frame), parts[2](frame));
    };
  }

  // "(a, b=c)"; from the parenthesis on.
  Call arguments() {
    std::vector<std::pair<std::string, Expression>> all;
    expect("(");
    while (!skip(")")) {
      if (!all.empty()) expect(",");
      if (skip(")")) break;
      if (is_operator("*") || is_operator("**")) fail("arguments from a list or dict are not read here");
      std::string key;
      if (now().kind == Token::kName && tokens_[at_ + 1].kind == Token::kOperator &&
          tokens_[at_ + 1].text == "=") {
        key = name();
        ++at_;
      }
      all.emplace_back(std::move(key), expression());
    }
    return [all](Frame& frame) {
      Arguments arguments;
      for (const auto& [key, value] : all)
        if (key.empty())
          arguments.positional.push_back(value(frame));
        else
          arguments.named.set(key, value(frame));
      return arguments;
    };
  }

  Expression filters(Expression value) {
    for (;;) {
      if (skip("|")) {
        const std::string of = name();
        const Filter filter = filter_named(of);
        if (filter == nullptr) fail(fmt::format("the filter {} is not read here", of));
        Call given = is_operator("(") ? arguments() : [](Frame&) { return Arguments(); };
        value = [value, filter, given](Frame& frame) {
          const Value filtered = value(frame);
          frame.budget.spend(filtered);
          return filter(frame.budget, filtered, given(frame));
        };
      } else if (skip("is")) {
        value = test(value);
      } else if (is_operator("(")) {
        value = [value, arguments = arguments()](Frame& frame) {
          return call(frame, value(frame), arguments(frame));
        };
      } else {
        return value;
      }
    }
  }

  Expression test(const Expression& value) {
    const bool negated = skip("not");
    const std::string of = name();
    const Test found = test_named(of);
    if (found == nullptr) fail(fmt::format("the test {} is not read here", of));
    Call given = [](Frame&) { return Arguments(); };
    const bool is_word = now().kind == Token::kName;
    if (is_operator("(")) {
      given = arguments();
    } else if ((is_word && !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if") &&
                !is_name("is") && !is_name("not") && !is_name("in")) ||
               now().kind == Token::kString || now().kind == Token::kInteger || now().kind == Token::kFloat ||
               is_operator("[") || is_operator("{")) {
      given = [argument = postfix(primary())](Frame& frame) {
        return Arguments{.positional = {argument(frame)}, .named = {}};
      };
    }
    return [value, found, given, negated](Frame& frame) -> Value {
      const Value tested = value(frame);
      frame.budget.spend(tested);
      return found(tested, given(frame)) != negated;
    };
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int loops_ = 0, depth_ = 0;
  int scopes_ = 0;  // that end before the rendering does
};

}  // namespace

Statement compile(std::vector<Token> tokens) { return Compiler(std::move(tokens)).run(); }

}  // namespace pipeline::chat
