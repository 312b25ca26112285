#include "quire/bench/speculation_work.h"

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <random>

#include "base/rng.h"

namespace quire::bench {
namespace {

// Allows exactly one token at each position. Unlike a grammar's masks it keeps all drafts: wrong
// ones are computed and rejected, as they would be without it.
class OneTokenMasks : public TokenMaskSource {
 public:
  Status accept(std::span<const TokenId> token_ids) override {
    num_accepted_ += token_ids.size();
    return {};
  }
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override {
    return static_cast<int32_t>(drafts.size());
  }
  Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) override {
    const size_t num_words = masks.size() / (drafts.size() + 1);
    for (size_t i = 0; i <= drafts.size(); ++i) {
      const auto id = static_cast<size_t>(token(drafts, i, num_accepted_ + i));
      masks[i * num_words + id / 32] |= 1u << (id % 32);
    }
    return true;
  }

 private:
  // Returns the token at `position` of the answer, which follows the first `i` drafts.
  virtual TokenId token(std::span<const TokenId> drafts, size_t i, size_t position) const = 0;

  size_t num_accepted_ = 0;
};

// Forces one given text, whatever is drafted.
class ForcedText final : public OneTokenMasks {
 public:
  explicit ForcedText(const std::vector<TokenId>& text) : text_(text) {}

 private:
  TokenId token(std::span<const TokenId> /*drafts*/, size_t /*i*/, size_t position) const override {
    return text_[std::min(position, text_.size() - 1)];
  }

  const std::vector<TokenId> text_;
};

// Accepts each draft with a fixed probability, by a draw of its own, and forces other tokens
// elsewhere.
class StatedAcceptance final : public OneTokenMasks {
 public:
  StatedAcceptance(double acceptance, uint64_t seed, int32_t vocab_size)
      : acceptance_(acceptance), seed_(seed), vocab_size_(vocab_size) {}

 private:
  TokenId token(std::span<const TokenId> drafts, size_t i, size_t position) const override {
    const float coin = uniform_open(seed_, position, 0);
    if (i < drafts.size()) return coin < acceptance_ ? drafts[i] : (drafts[i] + 1) % vocab_size_;
    return static_cast<TokenId>(uniform_open(seed_, position, 1) * static_cast<float>(vocab_size_));
  }

  const double acceptance_;
  const uint64_t seed_;
  const int32_t vocab_size_;
};

std::vector<TokenId> random_ids(std::mt19937_64& rng, int32_t vocab_size, int32_t num_tokens) {
  std::uniform_int_distribution<TokenId> id(0, vocab_size - 1);
  std::vector<TokenId> ids(static_cast<size_t>(num_tokens));
  for (TokenId& token : ids) token = id(rng);
  return ids;
}

// Returns the text with a change of one to four tokens about every 40 tokens: a token is replaced,
// left out or added.
std::vector<TokenId> edited(std::mt19937_64& rng, int32_t vocab_size,
                            const std::vector<TokenId>& text) {
  std::vector<TokenId> out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (rng() % 40 != 0) {
      out.push_back(text[i]);
      continue;
    }
    const std::vector<TokenId> added =
        random_ids(rng, vocab_size, static_cast<int32_t>(1 + rng() % 4));
    out.insert(out.end(), added.begin(), added.end());
    i += rng() % 3;
  }
  return out;
}

Result<std::vector<TokenId>> tokens_of(const boost::json::object& line, std::string_view key,
                                       const Tokenizer& tokenizer) {
  const boost::json::value* text = line.if_contains(key);
  if (text == nullptr) return std::vector<TokenId>();
  if (!text->is_string()) return invalid_argument("{}: expected a string", key);
  const std::string_view words = text->get_string();
  return tokenizer.encode(words);
}

}  // namespace

std::vector<SpeculationWork> made_up_work(int32_t vocab_size, int32_t num_tokens,
                                          int32_t num_streams, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<SpeculationWork> works;
  for (const int32_t n : {1, num_streams}) {
    if (n == num_streams && n == 1 && !works.empty()) break;
    SpeculationWork edit{.name = "edit", .num_streams = n, .prompts = {}, .answers = {}};
    SpeculationWork random{.name = "random", .num_streams = n, .prompts = {}, .answers = {}};
    for (int32_t i = 0; i < n; ++i) {
      edit.prompts.push_back(random_ids(rng, vocab_size, num_tokens));
      edit.answers.push_back(edited(rng, vocab_size, edit.prompts.back()));
      random.prompts.push_back(random_ids(rng, vocab_size, num_tokens));
      random.answers.push_back(random_ids(rng, vocab_size, num_tokens));
    }
    works.push_back(std::move(edit));
    works.push_back(std::move(random));
  }
  return works;
}

std::vector<SpeculationWork> work_of_acceptance(double acceptance, int32_t vocab_size,
                                                int32_t num_tokens, int32_t num_streams,
                                                uint64_t seed) {
  std::vector<SpeculationWork> works;
  for (SpeculationWork& work : made_up_work(vocab_size, num_tokens, num_streams, seed)) {
    if (work.name != "random") continue;
    work.name = "stated";
    work.acceptance = acceptance;
    works.push_back(std::move(work));
  }
  return works;
}

Result<std::vector<SpeculationWork>> read_work(const std::string& path, const Tokenizer& tokenizer,
                                               int32_t max_tokens) {
  std::ifstream file(path);
  if (!file) return not_found("{}: cannot be opened", path);
  std::vector<SpeculationWork> works;
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    boost::system::error_code ec;
    const boost::json::value line = boost::json::parse(text, ec);
    const boost::json::value* name =
        ec || !line.is_object() ? nullptr : line.get_object().if_contains("name");
    if (name == nullptr || !name->is_string() || !line.get_object().contains("prompt")) {
      return invalid_argument("{}: line {}: expected {{\"name\": …, \"prompt\": …, \"answer\": …}}",
                              path, number);
    }
    QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> prompt,
                           tokens_of(line.get_object(), "prompt", tokenizer));
    QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> answer,
                           tokens_of(line.get_object(), "answer", tokenizer));
    if (prompt.empty()) return invalid_argument("{}: line {}: the prompt is empty", path, number);
    prompt.resize(std::min(prompt.size(), static_cast<size_t>(max_tokens)));
    const std::string_view wanted(name->get_string());
    auto work = std::find_if(works.begin(), works.end(),
                             [&](const SpeculationWork& w) { return w.name == wanted; });
    if (work == works.end()) {
      work = works.insert(
          works.end(), SpeculationWork{.name = std::string(wanted), .prompts = {}, .answers = {}});
    }
    work->prompts.push_back(std::move(prompt));
    work->answers.push_back(std::move(answer));
  }
  return works;
}

GenerationRequest work_request(const SpeculationWork& work, size_t stream, bool drafts,
                               int32_t vocab_size, int32_t max_tokens, const Clock& clock) {
  GenerationRequest request;
  request.external_id = "bench";
  request.prompt_token_ids = work.prompts[stream];
  request.params.max_tokens = max_tokens;
  request.params.temperature = 0;
  request.params.ignore_eos = true;
  if (!drafts) request.params.num_speculative_tokens = 0;
  request.arrival_us = clock.now_us();
  if (work.acceptance >= 0) {
    request.make_mask_source = [a = work.acceptance, stream, vocab_size] {
      return std::make_unique<StatedAcceptance>(a, stream, vocab_size);
    };
    return request;
  }
  if (work.answers[stream].empty()) return request;
  std::vector<TokenId> answer = work.answers[stream];
  answer.resize(std::min(answer.size(), static_cast<size_t>(max_tokens)));
  for (TokenId& id : answer) id = std::clamp(id, 0, vocab_size - 1);
  request.params.max_tokens = static_cast<int32_t>(answer.size());
  request.make_mask_source = [answer = std::move(answer)] {
    return std::make_unique<ForcedText>(answer);
  };
  return request;
}

}  // namespace quire::bench
