// SharedSuffixes stores the outputs of requests that have ended, and finds what followed the end of
// a text in them.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "draft/suffix_automaton.h"

namespace quire {

// Outputs are stored by cache salt. A client never gets drafts from the outputs of another salt,
// because the time of an answer would reveal them. The limit on bytes is for all salts together;
// beyond it, the outputs that have not been added to for the longest time are removed. One thread
// may use it.
class SharedSuffixes {
 public:
  explicit SharedSuffixes(int64_t max_bytes) : max_bytes_(max_bytes) {}

  void add(const std::string& salt, std::span<const TokenId> output);

  // A request's position in a volume. Its text grows from one call to the next.
  struct Place {
    uint64_t volume = 0;
    int32_t volume_tokens = 0;  // size of the volume at that time
    SuffixAutomaton::Cursor cursor;
    int32_t num_read = 0;  // tokens of the text that were read
  };
  struct Reader {
    std::vector<Place> places;
  };

  struct Match {
    // The length of the longest end of the text that occurred in an output, which is found at least
    // up to kReach tokens.
    int32_t length = 0;
    std::span<const TokenId> continuation = {};  // the tokens after it; valid until the next add()
  };
  static constexpr int32_t kReach = 64;
  Match find(const std::string& salt, std::span<const TokenId> text, Reader& reader) const;

  int64_t memory_bytes() const { return memory_bytes_; }
  size_t num_volumes() const { return volumes_.size(); }

 private:
  // Some outputs of a salt, one after the other.
  struct Volume {
    uint64_t id = 0;
    std::string salt;
    SuffixAutomaton automaton;
    int64_t bytes() const {
      return static_cast<int64_t>(sizeof(Volume) + salt.size()) + automaton.memory_bytes();
    }
  };
  static constexpr int64_t kVolumes = 4;  // the bytes are shared among this many

  Volume& open_volume(const std::string& salt);

  const int64_t max_bytes_;
  std::list<Volume> volumes_;  // least recently extended first
  uint64_t next_id_ = 1;
  int64_t memory_bytes_ = 0;
};

}  // namespace quire
