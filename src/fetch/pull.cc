#include "fetch/pull.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "base/text_fields.h"
#include "fetch/checksum_file.h"
#include "fetch/origin.h"
#include "fetch/source.h"
#include "fetch/staging.h"

namespace quire::fetch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGguf = "GGUF";  // the first bytes of such a file
constexpr size_t kMaxChecksumBytes = size_t{16} << 20;
constexpr std::string_view kChecksumsExpected =
    "expected a checksum of what a URL holds: --sha256 HEX, --checksums FILE, or --no-checksum to "
    "take what comes";

// Returns the files of a folder and of the folders below it, without hidden ones.
Result<std::vector<ListedFile>> files_of_folder(const std::string& folder) {
  std::vector<ListedFile> files;
  std::error_code ec;
  fs::recursive_directory_iterator entries(folder, ec);
  for (const fs::recursive_directory_iterator end; !ec && entries != end; entries.increment(ec)) {
    const fs::path& path = entries->path();
    const bool is_hidden = path.filename().string().starts_with('.');
    const fs::file_type type = entries->symlink_status(ec).type();
    if (type == fs::file_type::directory && is_hidden) entries.disable_recursion_pending();
    if (is_hidden || type == fs::file_type::directory) continue;
    if (type != fs::file_type::regular)
      return invalid_argument("{}: expected a file, got a {}", path.string(),
                              type == fs::file_type::symlink
                                  ? "symbolic link, which is not followed"
                                  : "thing that is none");
    files.push_back({path.lexically_relative(folder).generic_string(), {}});
  }
  if (ec) return unavailable("{}: {}", folder, ec.message());
  std::sort(files.begin(), files.end(),
            [](const ListedFile& a, const ListedFile& b) { return a.name < b.name; });
  return files;
}

// A Pull runs one pull, from reading the options to moving the model into its place.
class Pull {
 public:
  Pull(const PullOptions& options, Source source) : options_(options), source_(std::move(source)) {}

  Result<PulledModel> run();

 private:
  Status open_origin();
  Status read_list();
  Result<std::string> checksum_text() const;
  Status list_file();
  Status list_folder();
  Status add_sizes();
  std::string target() const;
  Result<bool> is_there();
  Status get(const ListedFile& file);
  Status check_kind(const ListedFile& file, PartialFile& part) const;
  Status add(const std::string& name, const FileHash& hash);
  Status check_room(uint64_t bytes) const;
  void report(uint64_t this_file_bytes);

  const PullOptions& options_;
  const Source source_;
  std::string name_;
  std::unique_ptr<Origin> origin_;
  std::string checksum_text_;  // of the folder, if it has one; it is copied too
  std::vector<ListedFile> files_;
  std::optional<Staging> staging_;
  std::vector<PulledFile> pulled_;
  uint64_t done_bytes_ = 0;       // of complete files
  uint64_t this_file_bytes_ = 0;  // of the file in transfer
  uint64_t total_bytes_ = 0;      // 0: not known
};

Result<PulledModel> Pull::run() {
  name_ = options_.name.empty() ? source_.model : options_.name;
  QUIRE_RETURN_IF_ERROR(check_model_name(name_));
  QUIRE_RETURN_IF_ERROR(open_origin());
  QUIRE_RETURN_IF_ERROR(read_list());
  QUIRE_ASSIGN_OR_RETURN(const bool was_there, is_there());
  if (was_there) return PulledModel{name_, target(), std::move(pulled_), true};
  QUIRE_ASSIGN_OR_RETURN(Staging staging, Staging::open(options_.directory, name_));
  staging_.emplace(std::move(staging));
  QUIRE_RETURN_IF_ERROR(add_sizes());
  for (const ListedFile& file : files_) QUIRE_RETURN_IF_ERROR(get(file));
  if (source_.is_folder) {
    if (!checksum_text_.empty() &&
        !(std::ofstream(staging_->folder() + "/" + std::string(kChecksumFile), std::ios::binary)
          << checksum_text_ << std::flush)) {
      return resource_exhausted("{}: cannot be written", staging_->folder());
    }
    QUIRE_RETURN_IF_ERROR(staging_->publish_folder(target()));
  } else {
    QUIRE_RETURN_IF_ERROR(staging_->publish_file(files_.front().name, target()));
  }
  return PulledModel{name_, target(), std::move(pulled_), false};
}

Status Pull::open_origin() {
  if (!source_.is_remote) {
    origin_ = local_origin(source_.path, options_.is_stopped);
    return {};
  }
  RemoteOptions remote;
  remote.max_redirects = options_.max_redirects;
  remote.max_retries = options_.max_retries;
  remote.on_retry = options_.on_note;
  remote.check_room = [this](uint64_t bytes) {
    if (files_.size() == 1) total_bytes_ = this_file_bytes_ + bytes;
    return check_room(bytes);
  };
  remote.exchange.connect_timeout_ms = options_.connect_timeout_ms;
  remote.exchange.quiet_timeout_ms = options_.quiet_timeout_ms;
  remote.exchange.is_stopped = options_.is_stopped;
  QUIRE_ASSIGN_OR_RETURN(remote.exchange.trust, net::load_trust(options_.ca_file));
  origin_ = remote_origin(source_.url, std::move(remote));
  return {};
}

Status Pull::read_list() {
  if (!options_.sha256.empty() && !options_.checksums_file.empty())
    return invalid_argument("expected one of --sha256 and --checksums, got both");
  return source_.is_folder ? list_folder() : list_file();
}

Status Pull::list_file() {
  ListedFile file{source_.file, {}};
  QUIRE_RETURN_IF_ERROR(check_file_name(file.name));
  if (!options_.sha256.empty()) {
    QUIRE_ASSIGN_OR_RETURN(file.sha256, parse_sha256(options_.sha256));
  } else if (!options_.checksums_file.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string text, checksum_text());
    QUIRE_ASSIGN_OR_RETURN(const std::vector<ListedFile> listed,
                           parse_checksums(text, options_.checksums_file));
    const auto found = std::find_if(listed.begin(), listed.end(), [&](const ListedFile& other) {
      return other.name == file.name || other.name.ends_with("/" + file.name);
    });
    if (found == listed.end())
      return invalid_argument("{}: expected a line for {}", options_.checksums_file, file.name);
    file.sha256 = found->sha256;
  } else if (source_.is_url && options_.needs_checksum) {
    return invalid_argument("{}: {}", options_.source, kChecksumsExpected);
  }
  files_ = {std::move(file)};
  return {};
}

// Returns the text of --checksums, or the folder's own; empty: the folder has none.
Result<std::string> Pull::checksum_text() const {
  if (!options_.checksums_file.empty())
    return read_text(options_.checksums_file, kMaxChecksumBytes);
  Result<std::string> text = origin_->text(std::string(kChecksumFile), kMaxChecksumBytes);
  if (text.status().code() == StatusCode::kNotFound && !source_.is_remote) return std::string();
  if (text.status().code() == StatusCode::kNotFound)
    return not_found("{}: expected {}, which lists the files of the folder, there is none",
                     options_.source, kChecksumFile);
  return text;
}

Status Pull::list_folder() {
  QUIRE_ASSIGN_OR_RETURN(checksum_text_, checksum_text());
  if (!options_.sha256.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string wanted, parse_sha256(options_.sha256));
    Sha256 hash;
    hash.add(checksum_text_);
    if (hash.hex() != wanted)
      return data_loss("{} of {}: expected a SHA-256 of {}, got {}", kChecksumFile, options_.source,
                       wanted, hash.hex());
  }
  if (!checksum_text_.empty()) {
    QUIRE_ASSIGN_OR_RETURN(
        files_, parse_checksums(checksum_text_, options_.checksums_file.empty()
                                                    ? origin_->place_of(std::string(kChecksumFile))
                                                    : options_.checksums_file));
  } else if (source_.is_url && options_.needs_checksum) {
    return invalid_argument("{}: {}", options_.source, kChecksumsExpected);
  } else {
    QUIRE_ASSIGN_OR_RETURN(files_, files_of_folder(source_.path));
  }
  const bool is_model = std::any_of(files_.begin(), files_.end(), [](const ListedFile& file) {
    return file.name == "config.json" ||
           (file.name.ends_with(".gguf") && file.name.find('/') == file.name.npos);
  });
  if (is_model) return {};
  return invalid_argument("{}: expected config.json or a .gguf file among its files",
                          options_.source);
}

// Asks for the sizes before anything large is copied. When a size is not known, the answer with the
// file will tell it.
Status Pull::add_sizes() {
  if (source_.is_remote && files_.size() == 1) return {};
  uint64_t sum = 0, there = 0;
  for (const ListedFile& file : files_) {
    if (options_.is_stopped && options_.is_stopped()) return cancelled("stopped");
    const std::optional<uint64_t> size = origin_->size_of(file.name);
    if (!size) return {};
    if (*size > UINT64_MAX - sum)
      return data_loss("{}: expected the size of {}, got {} bytes", options_.source, file.name,
                       *size);
    sum += *size;
    there += std::min(*size, staging_->size_of(file));
  }
  total_bytes_ = sum;
  return check_room(sum - there);
}

Status Pull::check_room(uint64_t bytes) const {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t free, staging_->free_bytes());
  if (bytes <= free) return {};
  return resource_exhausted("{}: expected {} MiB of free disk, there are {} MiB",
                            options_.directory, bytes >> 20, free >> 20);
}

std::string Pull::target() const {
  return options_.directory + "/" + name_ + (source_.is_folder ? "" : ".gguf");
}

// Returns true when exactly these files are there. Anything else at that place is an error.
Result<bool> Pull::is_there() {
  std::error_code ec;
  if (!fs::exists(fs::symlink_status(target(), ec))) return false;
  for (const ListedFile& file : files_) {
    const Result<FileHash> there =
        sha256_of_file(source_.is_folder ? target() + "/" + file.name : target());
    if (!there.ok() || there->sha256 != file.sha256)
      return invalid_argument(
          "{}: there is something else already; remove it, or give this model another --name",
          target());
    pulled_.push_back({file.name, there->sha256, there->size_bytes});
  }
  return true;
}

Status Pull::get(const ListedFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, staging_->file_path(file.name));
  const Result<FileHash> there = sha256_of_file(path);
  if (there.ok() && there->sha256 == file.sha256) return add(file.name, *there);
  QUIRE_ASSIGN_OR_RETURN(PartialFile part,
                         PartialFile::open(staging_->part_path(file),
                                           [this](uint64_t size_bytes) { report(size_bytes); }));
  // Without a version and a checksum, nothing shows whether the rest fits the bytes that are here.
  if (file.sha256.empty() && part.version().empty()) QUIRE_RETURN_IF_ERROR(part.begin({}));
  if (file.sha256.empty() || part.sha256() != file.sha256)
    QUIRE_RETURN_IF_ERROR(origin_->fetch(file.name, part));
  const FileHash got{part.sha256(), part.size_bytes()};
  if (!file.sha256.empty() && got.sha256 != file.sha256) {
    part.remove();
    return data_loss("{}: expected a SHA-256 of {}, got {}; what came was deleted",
                     origin_->place_of(file.name), file.sha256, got.sha256);
  }
  QUIRE_RETURN_IF_ERROR(check_kind(file, part));
  QUIRE_RETURN_IF_ERROR(part.finish(path));
  return add(file.name, got);
}

// A server may answer with status 200 and an error page.
Status Pull::check_kind(const ListedFile& file, PartialFile& part) const {
  if (!file.name.ends_with(".gguf")) return {};
  std::string beginning(kGguf.size(), '\0');
  std::ifstream(staging_->part_path(file), std::ios::binary)
      .read(beginning.data(), std::ssize(beginning));
  if (beginning == kGguf) return {};
  part.remove();
  return data_loss("{}: expected a GGUF file, got something else, which was deleted",
                   origin_->place_of(file.name));
}

Status Pull::add(const std::string& name, const FileHash& hash) {
  pulled_.push_back({name, hash.sha256, hash.size_bytes});
  done_bytes_ += hash.size_bytes;
  report(0);
  return {};
}

void Pull::report(uint64_t this_file_bytes) {
  this_file_bytes_ = this_file_bytes;
  if (options_.on_progress) options_.on_progress(done_bytes_ + this_file_bytes, total_bytes_);
}

}  // namespace

Result<PulledModel> pull(const PullOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(Source source, parse_source(options.source));
  return Pull(options, std::move(source)).run();
}

}  // namespace quire::fetch
