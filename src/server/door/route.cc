#include "server/door/route.h"

#include <algorithm>

namespace quire::server {

bool Route::matches(std::string_view asked) const {
  if (path.back() != '*') return path == asked;
  const std::string_view prefix = path.substr(0, path.size() - 1);
  return asked.size() > prefix.size() && asked.starts_with(prefix);
}

bool Route::has_method(std::string_view method) const {
  if (method == "HEAD") method = "GET";
  std::string_view rest = methods;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, space) == method) return true;
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return false;
}

std::string Route::allow() const {
  std::string allow;
  for (const std::string_view method : {"GET", "HEAD", "POST", "DELETE"}) {
    if (!has_method(method)) continue;
    allow += method;
    allow += ", ";
  }
  return allow + "OPTIONS";
}

}  // namespace quire::server
