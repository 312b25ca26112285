// What the model has said in answers that have ended, to find what followed the end of a text there.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "draft/suffix_automaton.h"

namespace quire {

// Outputs are kept by cache salt: clients of one salt never draft from what others were told, which
// the time of an answer would let them see. Of all salts together there are at most so many bytes;
// then those that nothing was added to for longest go. One thread may use it.
class SharedSuffixes {
 public:
  explicit SharedSuffixes(int64_t max_bytes) : max_bytes_(max_bytes) {}

  void add(const std::string& salt, std::span<const TokenId> output);

  // Where a request stands in what was said. Its text grows from one call to the next.
  struct Place {
    uint64_t volume = 0;
    int32_t volume_tokens = 0;  // that it had
    SuffixAutomaton::Cursor cursor;
    int32_t num_read = 0;  // tokens of the text
  };
  struct Reader {
    std::vector<Place> places;
  };

  struct Match {
    int32_t length =
        0;  // of the text's longest end that was said, at least as far as the last kReach tokens
    std::span<const TokenId> continuation = {};  // that followed it; valid until the next add()
  };
  static constexpr int32_t kReach = 64;
  Match find(const std::string& salt, std::span<const TokenId> text, Reader& reader) const;

  int64_t memory_bytes() const { return memory_bytes_; }
  size_t num_volumes() const { return volumes_.size(); }

 private:
  // Some of a salt's outputs, one after the other.
  struct Volume {
    uint64_t id = 0;
    std::string salt;
    SuffixAutomaton automaton;
    int64_t bytes() const {
      return static_cast<int64_t>(sizeof(Volume) + salt.size()) + automaton.memory_bytes();
    }
  };
  static constexpr int64_t kVolumes = 4;  // among which the bytes are shared

  Volume& open_volume(const std::string& salt);

  const int64_t max_bytes_;
  std::list<Volume> volumes_;  // the one that was added to last is the last
  uint64_t next_id_ = 1;
  int64_t memory_bytes_ = 0;
};

}  // namespace quire
