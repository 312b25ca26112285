#include "draft/shared_suffixes.h"

#include <algorithm>

namespace quire {
namespace {

// Separates outputs. It is not a token, so that no match spans two outputs.
constexpr TokenId kEndOfOutput = -1;

}  // namespace

// Returns the salt's latest volume, or a new one if that is full.
SharedSuffixes::Volume& SharedSuffixes::open_volume(const std::string& salt) {
  for (auto it = volumes_.end(); it != volumes_.begin();) {
    if ((--it)->salt != salt) continue;
    if (it->bytes() >= max_bytes_ / kVolumes) break;
    volumes_.splice(volumes_.end(), volumes_, it);
    return volumes_.back();
  }
  Volume& volume = volumes_.emplace_back();
  volume.id = next_id_++;
  volume.salt = salt;
  memory_bytes_ += volume.bytes();
  return volume;
}

void SharedSuffixes::add(const std::string& salt, std::span<const TokenId> output) {
  // Includes the unused half of a vector that has just doubled.
  constexpr int64_t kMostBytesPerToken = 800;
  const auto most = static_cast<size_t>(max_bytes_ / kVolumes / kMostBytesPerToken);
  output = output.last(std::min(output.size(), most));
  if (output.empty()) return;
  Volume& volume = open_volume(salt);
  memory_bytes_ -= volume.bytes();
  for (const TokenId id : output) volume.automaton.append(id);
  volume.automaton.append(kEndOfOutput);
  memory_bytes_ += volume.bytes();
  while (memory_bytes_ > max_bytes_ && !volumes_.empty()) {
    memory_bytes_ -= volumes_.front().bytes();
    volumes_.pop_front();
  }
}

SharedSuffixes::Match SharedSuffixes::find(const std::string& salt, std::span<const TokenId> text,
                                           Reader& reader) const {
  Match best;
  const auto num_tokens = static_cast<int32_t>(text.size());
  std::vector<Place> places;
  for (const Volume& volume : volumes_) {
    if (volume.salt != salt) continue;
    const auto known = std::ranges::find(reader.places, volume.id, &Place::volume);
    Place place{.volume = volume.id};
    const int32_t volume_tokens = volume.automaton.num_tokens();
    // In a volume that has grown, a longer end of the text may occur.
    if (known != reader.places.end() && known->volume_tokens == volume_tokens &&
        known->num_read <= num_tokens) {
      place = *known;
    }
    place.volume_tokens = volume_tokens;
    for (int32_t i = std::max(place.num_read, num_tokens - kReach); i < num_tokens; ++i)
      volume.automaton.advance(place.cursor, text[static_cast<size_t>(i)]);
    place.num_read = num_tokens;
    places.push_back(place);
    if (place.cursor.length < std::max(best.length, 1)) continue;  // of equals, the latest
    const auto end = static_cast<size_t>(volume.automaton.end_of(place.cursor));
    const std::span<const TokenId> behind = volume.automaton.text().subspan(end);
    best = {.length = place.cursor.length,
            .continuation = behind.first(
                static_cast<size_t>(std::ranges::find(behind, kEndOfOutput) - behind.begin()))};
  }
  reader.places = std::move(places);
  return best;
}

}  // namespace quire
