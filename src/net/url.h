// Url is a parsed http or https URL.
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

  // Returns the value of the Host header: without the port when it is the scheme's default.
  std::string authority() const;
  std::string text() const {
    return (is_encrypted ? "https://" : "http://") + authority() + target;
  }
  // Returns the target without its query.
  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
};

struct UrlDefaults {
  std::string_view port = {};     // empty: 80 for http, 443 for https
  std::string_view target = "/";  // used when the URL has no path, or only a slash
};

// Reads http://HOST[:PORT][/PATH], and the same with https. A # and what follows it are dropped.
// kInvalidArgument: the text has another form, or names a user.
Result<Url> parse_url(std::string_view text, const UrlDefaults& defaults = {});

// Returns the URL that `reference` stands for in an answer from `base` (RFC 3986, section 5.2).
Result<Url> resolve(const Url& base, std::string_view reference);

// Encodes a text as a part of a path: special characters become %XX, but slashes stay.
std::string percent_encoded(std::string_view path);
// Decodes %XX. kInvalidArgument: a % is not followed by two hex digits.
Result<std::string> percent_decoded(std::string_view text);

}  // namespace quire::net
