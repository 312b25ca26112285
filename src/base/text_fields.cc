#include "base/text_fields.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <fstream>

namespace quire {
namespace {

Result<std::string> read_gzip(const std::string& file, size_t max_bytes) {
  gzFile in = gzopen(file.c_str(), "rb");
  if (in == nullptr) return not_found("{}: cannot be read", file);
  std::string text;
  char buffer[1 << 16];
  int n = 0;
  while ((n = gzread(in, buffer, sizeof buffer)) > 0 && text.size() <= max_bytes) {
    text.append(buffer, static_cast<size_t>(n));
  }
  const int closed = gzclose(in);  // Z_BUF_ERROR: the file ends within a stream
  if (n < 0 || closed != Z_OK) return data_loss("{}: is not whole gzip data", file);
  return text;
}

// Returns the days from 1970-01-01 to a day of the Gregorian calendar (Howard Hinnant,
// "chrono-Compatible Low-Level Date Algorithms").
int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

}  // namespace

Result<std::string> gunzip(std::span<const std::byte> packed, size_t max_bytes) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) return internal_error("gzip: no memory");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 1 << 16> buffer;
  int state = Z_OK;
  while (state == Z_OK && text.size() <= max_bytes) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(buffer.data(), buffer.size() - stream.avail_out);
    if (state == Z_OK && stream.avail_in == 0 && stream.avail_out > 0) state = Z_BUF_ERROR;
  }
  inflateEnd(&stream);
  if (text.size() > max_bytes) {
    return too_large("gzip: expected at most {} bytes when unpacked", max_bytes);
  }
  if (state != Z_STREAM_END) return data_loss("gzip: expected whole gzip data");
  return text;
}

Result<std::string> read_text(const std::string& file, size_t max_bytes) {
  Result<std::string> text = [&]() -> Result<std::string> {
    if (file.ends_with(".gz")) return read_gzip(file, max_bytes);
    std::ifstream in(file, std::ios::binary);
    if (!in) return not_found("{}: cannot be read", file);
    std::string all;
    char buffer[1 << 16];
    while (all.size() <= max_bytes && (in.read(buffer, sizeof buffer), in.gcount() > 0)) {
      all.append(buffer, static_cast<size_t>(in.gcount()));
    }
    if (in.bad()) return not_found("{}: cannot be read", file);
    return all;
  }();
  if (text.ok() && text->size() > max_bytes) {
    return too_large("{}: expected at most {} bytes", file, max_bytes);
  }
  return text;
}

std::optional<std::string_view> LineReader::next() {
  if (text_.empty()) return std::nullopt;
  ++number_;
  const size_t end = text_.find('\n');
  std::string_view line = text_.substr(0, end);
  text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

std::string LineReader::where() const { return fmt::format("{}:{}", name_, number_); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

Result<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high,
                              const std::string& where) {
  const std::string_view digits = trim(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < low || value > high) {
    return invalid_argument("{}: expected an integer in [{}, {}], got '{}'", where, low, high,
                            text.substr(0, 40));
  }
  return value;
}

Result<double> parse_number(std::string_view text, double low, double high,
                            const std::string& where) {
  const std::string_view digits = trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !(value >= low) ||
      !(value <= high)) {
    return invalid_argument("{}: expected a number in [{}, {}], got '{}'", where, low, high,
                            text.substr(0, 40));
  }
  return value;
}

Result<int64_t> parse_date_time_ns(std::string_view text, const std::string& where) {
  const Status bad = invalid_argument(
      "{}: expected a time such as 2023-11-16 18:17:03.979, got '{}'", where, text.substr(0, 40));
  const std::string_view t = trim(text);
  if (t.size() < 19 || t[4] != '-' || t[7] != '-' || (t[10] != ' ' && t[10] != 'T') ||
      t[13] != ':' || t[16] != ':') {
    return bad;
  }
  const auto number = [&](size_t begin, size_t size, int64_t low, int64_t high) -> int64_t {
    const auto value = parse_integer(t.substr(begin, size), low, high, where);
    return value.ok() ? *value : -1;
  };
  const int64_t year = number(0, 4, 1970, 2200), month = number(5, 2, 1, 12),
                day = number(8, 2, 1, 31), hour = number(11, 2, 0, 23),
                minute = number(14, 2, 0, 59), second = number(17, 2, 0, 60);
  if (year < 0 || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0) return bad;
  int64_t ns = 0;
  size_t at = 19;
  if (at < t.size() && t[at] == '.') {
    int64_t unit = 100'000'000;
    for (++at; at < t.size() && t[at] >= '0' && t[at] <= '9'; ++at, unit /= 10) {
      ns += (t[at] - '0') * unit;
    }
  }
  int64_t offset_minutes = 0;  // the clock's offset from UTC: Z, +HH:MM or -HH:MM
  if (t.size() == at + 6 && (t[at] == '+' || t[at] == '-') && t[at + 3] == ':') {
    const int64_t hours = number(at + 1, 2, 0, 23), minutes = number(at + 4, 2, 0, 59);
    if (hours < 0 || minutes < 0) return bad;
    offset_minutes = (t[at] == '-' ? -1 : 1) * (hours * 60 + minutes);
  } else if (at < t.size() && t.substr(at) != "Z") {
    return bad;
  }
  const int64_t minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute;
  return ((minutes - offset_minutes) * 60 + second) * 1'000'000'000 + ns;
}

}  // namespace quire
