// These functions read merge lists as text. The header is private to the tokenizer folder.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/model/bpe.h"

namespace quire {

// Reads "left right"; their join must be a piece.
Result<BpeModel::Merge> parse_merge_line(std::string_view line, uint32_t rank, const Vocab& vocab);

// Reads one merge a line. A first line that starts with "#version" and empty lines are passed over.
Result<std::vector<BpeModel::Merge>> parse_merge_lines(std::string_view text, const Vocab& vocab);

}  // namespace quire
