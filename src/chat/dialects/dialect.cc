#include "chat/dialects/dialect.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "chat/dialects/dialect_table.h"
#include "chat/reply/mark_table.h"

namespace quire {
namespace {

using Visit = std::function<void(std::string&)>;

void each_pattern(JsonCallStyle& s, const Visit& visit) {
  visit(s.close);
  visit(s.filler);
}

void each_pattern(HeadedCallStyle& s, const Visit& visit) {
  for (std::string& header : s.headers) visit(header);
  for (std::string& filler : s.fillers) visit(filler);
  visit(s.call_begin);
  visit(s.close);
}

void each_pattern(TaggedCallStyle& s, const Visit& visit) {
  for (std::string* text :
       {&s.call_begin, &s.name_end, &s.parameter_begin, &s.parameter_name_end, &s.value_begin,
        &s.value_end, &s.call_end, &s.close, &s.quote_begin, &s.quote_end}) {
    visit(*text);
  }
}

void each_pattern(PythonCallStyle& s, const Visit& visit) { visit(s.close); }

void each_pattern(GemmaCallStyle& s, const Visit& visit) {
  for (std::string* text : {&s.call_begin, &s.quote, &s.close}) visit(*text);
}

void each_pattern(HarmonyStyle& s, const Visit& visit) {
  for (std::string* text :
       {&s.start, &s.channel, &s.constrain, &s.message, &s.end, &s.call, &s.end_of_reply}) {
    visit(*text);
  }
}

void each_pattern(Dialect& dialect, const Visit& visit) {
  for (std::string& opening : dialect.openings) visit(opening);
  std::visit([&](auto& style) { each_pattern(style, visit); }, dialect.style);
}

}  // namespace

std::span<const Dialect> dialects() {
  static const std::vector<Dialect> kDialects = make_dialects();
  return kDialects;
}

const Dialect* find_dialect(std::string_view name) {
  for (const Dialect& dialect : dialects()) {
    const auto& aliases = dialect.aliases;
    if (dialect.name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
      return &dialect;
    }
  }
  return nullptr;
}

std::vector<std::string> patterns_of(const Dialect& dialect) {
  std::vector<std::string> all;
  Dialect copy = dialect;
  each_pattern(copy, [&](std::string& pattern) {
    if (!pattern.empty()) all.push_back(pattern);
  });
  return all;
}

Dialect encoded(const Dialect& dialect, const MarkTable& marks) {
  Dialect copy = dialect;
  each_pattern(copy, [&](std::string& pattern) { pattern = marks.encode(pattern); });
  return copy;
}

}  // namespace quire
