// What a template is rendered with, and what it calls by name.
#pragma once

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "plugins/models/chat/value.hpp"

namespace pipeline::chat {

// Of one rendering. Everything that takes time or memory is spent here first; throws Problem when it is used
// up.
class Budget {
 public:
  // `values`: what is gone through.
  template <class... Values>
  void spend(const Values&... values) {
    spend_weight((1 + ... + values.weight()));
  }
  void spend_weight(size_t weight) {
    spent_ += weight;
    if (spent_ > kMost) throw Problem("the template takes too many steps, or writes too much");
  }
  struct Level {
    explicit Level(Budget& of) : budget(of) {
      if (++budget.depth_ > kDeepest) throw Problem("the template is nested too deeply");
    }
    ~Level() { --budget.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Budget& budget;
  };

 private:
  static constexpr size_t kMost = 2'000'000, kDeepest = 200;
  size_t spent_ = 0, depth_ = 0;
};

// Variables, the innermost first.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  const Value* find(std::string_view name) const {
    const Value* found = own_.find(name);
    return found != nullptr || outer_ == nullptr ? found : outer_->find(name);
  }
  void set(std::string name, Value value) { own_.set(std::move(name), std::move(value)); }

 private:
  const Scope* outer_;
  Dict own_;
};

// range(), namespace(), raise_exception(), strftime_now(), dict().
void add_functions(Scope& scope, Budget& budget, std::time_t now);

// nullptr: there is none of this name. They throw Problem.
using Filter = Value (*)(Budget& budget, const Value& value, const Arguments& arguments);
Filter filter_named(std::string_view name);
using Test = bool (*)(const Value& value, const Arguments& arguments);
Test test_named(std::string_view name);
// What value.name is where it is a method; undefined: it has none.
Value method_of(Budget& budget, const Value& value, const std::string& name);

// value.name and value[key]; undefined where there is none.
Value attribute(Budget& budget, const Value& value, const std::string& name);
Value item(Budget& budget, const Value& value, const Value& key);

}  // namespace pipeline::chat
