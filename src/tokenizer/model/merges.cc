#include "tokenizer/model/merges.h"

#include <algorithm>
#include <utility>

namespace quire {

Result<BpeModel::Merge> parse_merge_line(std::string_view line, uint32_t rank, const Vocab& vocab) {
  // The first character may be a space of the left piece, so it does not separate the two.
  const size_t space = line.find(' ', 1);
  if (space == line.npos || space + 1 == line.size()) {
    return invalid_argument("merge {}: expected \"left right\", got '{}'", rank, line);
  }
  const std::string_view left = line.substr(0, space);
  const std::string_view right = line.substr(space + 1);
  const auto left_id = vocab.find(left);
  const auto right_id = vocab.find(right);
  const auto result_id = vocab.find(std::string(left).append(right));
  if (!left_id || !right_id || !result_id) {
    return invalid_argument("merge {}: '{}' or its result is not in the vocabulary", rank, line);
  }
  return BpeModel::Merge{*left_id, *right_id, *result_id, rank};
}

Result<std::vector<BpeModel::Merge>> parse_merge_lines(std::string_view text, const Vocab& vocab) {
  std::vector<BpeModel::Merge> merges;
  bool is_first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_header = std::exchange(is_first, false) && line.starts_with("#version");
    if (line.empty() || is_header) continue;
    QUIRE_ASSIGN_OR_RETURN(const BpeModel::Merge merge,
                           parse_merge_line(line, static_cast<uint32_t>(merges.size()), vocab));
    merges.push_back(merge);
  }
  return merges;
}

}  // namespace quire
