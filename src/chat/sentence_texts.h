// SentenceTexts are the texts that sentence-transformers' files define for an embedder or a
// reranker.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct SentenceTexts {
  // The prompts that go before a text, by the text's purpose: "query", "document" …
  std::vector<std::pair<std::string, std::string>> prompts = {};
  std::string default_prompt = {};  // name of the prompt for texts without a purpose
  // The chat template that writes a pair of texts is rendered with a generation prompt.
  bool pairs_begin_answers = false;

  // Returns null when there is no prompt of this name.
  const std::string* find(std::string_view name) const {
    for (const auto& [known, text] : prompts) {
      if (known == name) return &text;
    }
    return nullptr;
  }
  // Return the prompt for a text that is searched with or searched for, or else the default prompt.
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
