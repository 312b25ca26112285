#include "net/url.h"

#include <iterator>
#include <utility>
#include <vector>

namespace quire::net {
namespace {

constexpr std::string_view kPlain = "http://", kEncrypted = "https://";

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == text.npos &&
         std::stoi(std::string(text)) < 65536;
}

// Returns whether all characters are printable ASCII. Blanks and control characters would end a
// line of a request.
bool is_visible(std::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

Status not_a_url(std::string_view text) {
  return invalid_argument("expected http://HOST[:PORT][/PATH], or https likewise, got {}", text);
}

// Returns the path without the parts "." and ".." (RFC 3986, section 5.2.4).
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  bool ends_open = false;  // the last part ends with a slash
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    ends_open = part.empty() || part == "." || part == "..";
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (part != "." && part != ".." && (!part.empty() || end < path.size())) parts.push_back(part);
    at = end + 1;
  }
  std::string joined;
  for (const std::string_view part : parts) joined.append("/").append(part);
  return ends_open || joined.empty() ? joined + "/" : joined;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == host.npos ? host : "[" + host + "]";
  return port == (is_encrypted ? "443" : "80") ? name : name + ":" + port;
}

Result<Url> parse_url(std::string_view text, const UrlDefaults& defaults) {
  Url url{.is_encrypted = text.starts_with(kEncrypted), .host = {}, .port = {}};
  if (!url.is_encrypted && !text.starts_with(kPlain)) return not_a_url(text);
  std::string_view rest = text.substr((url.is_encrypted ? kEncrypted : kPlain).size());
  rest = rest.substr(0, rest.find('#'));
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  const std::string_view target = rest.substr(authority.size());
  url.target = target.empty() || target == "/" ? std::string(defaults.target)
               : target[0] == '?'              ? "/" + std::string(target)
                                               : std::string(target);
  // A colon within brackets belongs to the address.
  const size_t colon = authority.rfind(':');
  const bool has_port = colon != authority.npos && authority.find(']', colon) == authority.npos;
  url.host = authority.substr(0, has_port ? colon : authority.size());
  url.port = has_port                 ? authority.substr(colon + 1)
             : !defaults.port.empty() ? defaults.port
             : url.is_encrypted       ? "443"
                                      : "80";
  const bool has_brackets = url.host.starts_with('[') && url.host.ends_with(']');
  if (has_brackets) url.host = url.host.substr(1, url.host.size() - 2);
  const bool is_plain = is_visible(url.host) && is_visible(url.target) &&
                        url.host.find_first_of("@[]\\") == std::string::npos &&
                        (has_brackets || url.host.find(':') == std::string::npos);
  if (url.host.empty() || !is_port(url.port) || !is_plain) return not_a_url(text);
  return url;
}

Result<Url> resolve(const Url& base, std::string_view reference) {
  const size_t scheme_end = reference.find("://");
  if (scheme_end != reference.npos && scheme_end < reference.find_first_of("/?#"))
    return parse_url(reference);
  const std::string scheme(base.is_encrypted ? kEncrypted : kPlain);
  if (reference.starts_with("//")) return parse_url(scheme + std::string(reference.substr(2)));
  const std::string root = scheme + base.authority();
  reference = reference.substr(0, reference.find('#'));
  if (reference.empty()) return base;
  if (reference[0] == '?')
    return parse_url(root + std::string(base.path()) + std::string(reference));
  const size_t query = std::min(reference.find('?'), reference.size());
  std::string path(reference.substr(0, query));
  if (path[0] != '/') path = std::string(base.path().substr(0, base.path().rfind('/') + 1)) + path;
  return parse_url(root + without_dots(path) + std::string(reference.substr(query)));
}

std::string percent_encoded(std::string_view path) {
  constexpr std::string_view kMarks = "/-._~";
  std::string text;
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || kMarks.find(c) != kMarks.npos;
    if (is_plain) {
      text += c;
    } else {
      fmt::format_to(std::back_inserter(text), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0)
      return invalid_argument("expected two hex digits behind each %, got {}", text);
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

}  // namespace quire::net
