// html_page() makes the frame of a report page: one file that needs no other, light and dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire::sim {

using LabelledValues = std::vector<std::pair<std::string, std::string>>;

// `body` is HTML; the other arguments are plain text.
std::string html_page(const std::string& title, const LabelledValues& facts,
                      const std::string& body);
// Returns large figures with small labels.
std::string html_cards(const LabelledValues& cards);

}  // namespace quire::sim
