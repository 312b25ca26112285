// TextMaker makes random texts that exercise tokenizers: words of many scripts, white space of all
// kinds, emoji, digits, specials.
#pragma once

#include <random>
#include <string>

namespace quire::test {

// The texts depend on the seed alone.
class TextMaker {
 public:
  explicit TextMaker(unsigned seed) : rng_(seed) {}
  std::string next();

 private:
  std::mt19937 rng_;
};

}  // namespace quire::test
