// These functions read merge lists as text. The header is private to the tokenizer folder.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/model/bpe.h"

namespace quire {

// Parses "left right"; the concatenation of both must be a piece.
Result<BpeModel::Merge> parse_merge_line(std::string_view line, uint32_t rank, const Vocab& vocab);

// Parses one merge per line. Empty lines, and a first line that starts with "#version", are
// skipped.
Result<std::vector<BpeModel::Merge>> parse_merge_lines(std::string_view text, const Vocab& vocab);

}  // namespace quire
