// A PrefixIndex estimates what replicas have cached, from the requests that were sent to them. It
// is for routers that cannot look into caches, or must not wait for that.
//
//   const std::vector<uint64_t> chain = prefix_chain(0, text, 256);
//   const int32_t known = index.match(chain, replica);  // pieces of 256 bytes
//   index.note(chain, replica);                         // the replica gets the request
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quire {

// Returns one number per whole piece of `piece_bytes` bytes. Each number stands for the text from
// its beginning to the end of that piece. Different seeds give unrelated numbers for equal texts.
// Only the first kMostPieces pieces are used.
inline constexpr size_t kMostPieces = 4096;
std::vector<uint64_t> prefix_chain(uint64_t seed, std::string_view text, size_t piece_bytes);
std::vector<uint64_t> prefix_chain(uint64_t seed, std::span<const int32_t> token_ids,
                                   size_t piece_tokens);

// One thread at a time may use it.
class PrefixIndex {
 public:
  // Keeps at most this many pieces of a replica: those that were noted last. Of one chain, the
  // first pieces are kept longest.
  explicit PrefixIndex(size_t max_pieces_per_replica) : max_pieces_(max_pieces_per_replica) {}

  // Returns how many pieces from the start of the chain the replica probably has.
  int32_t match(std::span<const uint64_t> chain, int32_t replica) const;
  void note(std::span<const uint64_t> chain, int32_t replica);
  // Called when the replica has lost its cache.
  void forget(int32_t replica);
  size_t num_pieces(int32_t replica) const;

 private:
  // Pieces in the order of their last use, as a ring of links through links[0].
  struct Link {
    uint64_t piece = 0;
    uint32_t newer = 0;
    uint32_t older = 0;
  };
  struct Replica {
    std::vector<Link> links = {Link{}};
    std::unordered_map<uint64_t, uint32_t> places;  // index of each piece in `links`
  };
  static void unlink(Replica& replica, uint32_t at);
  static void link_newest(Replica& replica, uint32_t at);

  size_t max_pieces_;
  std::unordered_map<int32_t, Replica> replicas_;
};

}  // namespace quire
