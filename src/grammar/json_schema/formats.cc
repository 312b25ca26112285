#include "grammar/json_schema/formats.h"

#include <string>

namespace quire::grammar {
namespace {

// RFC 3339. A leap second cannot be distinguished from second 60 of another minute, so none is
// allowed.
#define QUIRE_LEAP_YEAR \
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define QUIRE_DATE                                                      \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"        \
  "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))" \
  "|" QUIRE_LEAP_YEAR "-02-29)"
#define QUIRE_TIME                                           \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" \
  "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define QUIRE_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define QUIRE_HOSTNAME "(?=.{1,253}$)" QUIRE_LABEL "(?:\\." QUIRE_LABEL ")*"
#define QUIRE_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define QUIRE_IPV4 QUIRE_OCTET "(?:\\." QUIRE_OCTET "){3}"
#define QUIRE_H "[0-9A-Fa-f]{1,4}"
#define QUIRE_LS32 "(?:" QUIRE_H ":" QUIRE_H "|" QUIRE_IPV4 ")"
// RFC 4291 as RFC 3986 writes it.
#define QUIRE_IPV6                                                                            \
  "(?:(?:" QUIRE_H ":){6}" QUIRE_LS32 "|::(?:" QUIRE_H ":){5}" QUIRE_LS32 "|(?:" QUIRE_H      \
  ")?::(?:" QUIRE_H ":){4}" QUIRE_LS32 "|(?:(?:" QUIRE_H ":){0,1}" QUIRE_H ")?::(?:" QUIRE_H  \
  ":){3}" QUIRE_LS32 "|(?:(?:" QUIRE_H ":){0,2}" QUIRE_H ")?::(?:" QUIRE_H ":){2}" QUIRE_LS32 \
  "|(?:(?:" QUIRE_H ":){0,3}" QUIRE_H ")?::" QUIRE_H ":" QUIRE_LS32 "|(?:(?:" QUIRE_H         \
  ":){0,4}" QUIRE_H ")?::" QUIRE_LS32 "|(?:(?:" QUIRE_H ":){0,5}" QUIRE_H ")?::" QUIRE_H      \
  "|(?:(?:" QUIRE_H ":){0,6}" QUIRE_H ")?::)"
// RFC 3986. Characters of a path segment, with percent escapes.
#define QUIRE_PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define QUIRE_AUTHORITY                                    \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?" \
  "(?:\\[" QUIRE_IPV6 "\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
#define QUIRE_QUERY "(?:\\?(?:" QUIRE_PCHAR "|[/?])*)?(?:#(?:" QUIRE_PCHAR "|[/?])*)?"
#define QUIRE_HIER \
  "(?://" QUIRE_AUTHORITY "(?:/" QUIRE_PCHAR "*)*|/(?:" QUIRE_PCHAR "+(?:/" QUIRE_PCHAR "*)*)?"
#define QUIRE_URI \
  "[A-Za-z][A-Za-z0-9+.-]*:" QUIRE_HIER "|" QUIRE_PCHAR "+(?:/" QUIRE_PCHAR "*)*|)" QUIRE_QUERY
#define QUIRE_SEGMENT_NC "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})"
#define QUIRE_RELATIVE_URI QUIRE_HIER "|" QUIRE_SEGMENT_NC "+(?:/" QUIRE_PCHAR "*)*|)" QUIRE_QUERY
// RFC 5321 without quoted local parts and address literals.
#define QUIRE_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define QUIRE_EMAIL QUIRE_ATOM "(?:\\." QUIRE_ATOM ")*@" QUIRE_LABEL "(?:\\." QUIRE_LABEL ")*"
#define QUIRE_POINTER "(?:/(?:[^~/]|~[01])*)*"
// RFC 3339, appendix A.
#define QUIRE_DURATION                                                          \
  "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)" \
  "(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?"       \
  "|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"

// RFC 6570. Literals exclude blanks, quotes and the characters of expressions.
#define QUIRE_VARCHAR "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
#define QUIRE_VARSPEC QUIRE_VARCHAR "(?:\\.?" QUIRE_VARCHAR ")*(?::[1-9][0-9]{0,3}|\\*)?"
#define QUIRE_URI_TEMPLATE                                                                 \
  "(?:[^\\x00-\\x20\\x7f\"'%<>\\\\^`{|}]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" QUIRE_VARSPEC \
  "(?:," QUIRE_VARSPEC ")*\\})*"

struct Format {
  std::string_view name, pattern;
};
constexpr Format kFormats[] = {
    {"date", QUIRE_DATE},
    {"time", QUIRE_TIME},
    {"date-time", QUIRE_DATE "[Tt]" QUIRE_TIME},
    {"duration", QUIRE_DURATION},
    {"email", QUIRE_EMAIL},
    {"hostname", QUIRE_HOSTNAME},
    {"ipv4", QUIRE_IPV4},
    {"ipv6", QUIRE_IPV6},
    {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    {"uri", QUIRE_URI},
    {"uri-reference", "(?:" QUIRE_URI "|" QUIRE_RELATIVE_URI ")"},
    {"uri-template", QUIRE_URI_TEMPLATE},
    {"json-pointer", QUIRE_POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" QUIRE_POINTER ")"},
};

// Returns the ranges c-d that a class may contain: both ends are of one kind and in order.
std::string class_ranges() {
  std::string out;
  for (const std::string_view kind : {"09", "az", "AZ"}) {
    for (char c = kind[0]; c <= kind[1]; ++c) {
      out.append(1, c).append("-[").append(1, c).append("-").append(1, kind[1]).append("]|");
    }
  }
  return out;
}

// Returns an expression for {m}, {m,} and {m,n} with m <= n.
std::string counted_quantifier() {
  std::string out = "\\{(?:[0-9]{1,3},?|[0-9],[1-9][0-9]{1,2}|[1-9][0-9],[1-9][0-9]{2}";
  for (char c = '0'; c <= '9'; ++c)
    out.append("|").append(1, c).append(",[").append(1, c).append("-9]");
  return out + ")\\}";
}

// Returns an expression for regular expressions that readers of both ECMA-262 and Python accept:
// groups nested up to `depth`, without references, look-behind and escapes that only some readers
// know. Alternatives may be empty.
std::string regex_format(int depth) {
  const std::string escape =
      "\\\\(?:[\\^$\\\\.*+?()\\[\\]{}|/dDwWsStnrfv-]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})";
  const std::string item = "(?:" + class_ranges() + escape + "|[^\\]\\[\\\\^-])";
  std::string atom = "[^\\^$\\\\.*+?()\\[\\]{}|]|\\.|" + escape + "|\\[\\^?-?" + item + "+-?\\]";
  if (depth > 0) atom += "|\\((?:\\?[:=!])?" + regex_format(depth - 1) + "\\)";
  return "(?:(?:" + atom + ")(?:(?:[*+?]|" + counted_quantifier() + ")[?]?)?|[\\^$|]|\\\\[bB])*";
}

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view format) {
  constexpr int kMaxGroupDepth = 3;
  static const std::string regex = regex_format(kMaxGroupDepth);
  if (format == "regex") return regex;
  for (const Format& known : kFormats) {
    if (known.name == format) return known.pattern;
  }
  return std::nullopt;
}

}  // namespace quire::grammar
