// Addresses on the network: http and https URLs.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::net {

struct Url {
  bool is_encrypted = false;  // https
  std::string host;           // without the brackets of an IPv6 address
  std::string port;
  std::string target = "/";  // path and query

  // As the Host header has it: without the port that the scheme implies.
  std::string authority() const;
  std::string text() const {
    return (is_encrypted ? "https://" : "http://") + authority() + target;
  }
  // The part of the target before a query.
  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
};

struct UrlDefaults {
  std::string_view port = {};     // empty: 80 and 443
  std::string_view target = "/";  // where there is no path, or only a slash
};

// Of http://HOST[:PORT][/PATH] and https likewise; what follows a # is left out. kInvalidArgument: it
// is written otherwise, or names a user.
Result<Url> parse_url(std::string_view text, const UrlDefaults& defaults = {});

// The address that `reference` means in an answer of `base` (RFC 3986, section 5.2).
Result<Url> resolve(const Url& base, std::string_view reference);

// A text as a part of a path: what is not plain is written %XX; slashes stay.
std::string percent_encoded(std::string_view path);
// kInvalidArgument: a % is not followed by two hex digits.
Result<std::string> percent_decoded(std::string_view text);

}  // namespace quire::net
