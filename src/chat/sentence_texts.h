// What sentence-transformers' files say of the texts that an embedder or a reranker reads.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct SentenceTexts {
  // What stands before a text, by what the text is for: "query", "document" …
  std::vector<std::pair<std::string, std::string>> prompts = {};
  std::string default_prompt = {};  // the name of the one that is used unless another is asked for
  // The chat template that writes a pair of texts is told to begin the answer, too.
  bool pairs_begin_answers = false;

  // Null: there is none of this name.
  const std::string* find(std::string_view name) const {
    for (const auto& [known, text] : prompts) {
      if (known == name) return &text;
    }
    return nullptr;
  }
  // What stands before a text that is searched with or searched for; else the default's.
  std::string_view of_query() const { return first_of({"query"}); }
  std::string_view of_document() const { return first_of({"document", "passage", "corpus"}); }
  std::string_view by_default() const { return first_of({}); }

 private:
  std::string_view first_of(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (const std::string* text = find(name)) return *text;
    }
    const std::string* const text = find(default_prompt);
    return text == nullptr ? std::string_view() : *text;
  }
};

}  // namespace quire
