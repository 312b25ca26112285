#include "weights/files/model_files.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

#include "base/files/file_descriptor.h"
#include "base/nearest_name.h"

namespace quire {
namespace {

constexpr size_t kMaxDirectoryEntries = 100'000;

// A Mapping is a private read-only mapping of a whole file.
class Mapping {
 public:
  Mapping(void* address, size_t size) : address_(address), size_(size) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(address_, size_); }

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address_), size_};
  }

 private:
  void* address_;
  size_t size_;
};

std::string errno_text(int error) { return std::generic_category().message(error); }

Result<std::unique_ptr<Mapping>> map_file(const std::string& path) {
  // With O_NONBLOCK, opening a pipe that was put into the directory does not wait for a writer.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open()) return data_loss("{}: cannot open: {}", path, errno_text(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return data_loss("{}: {}", path, errno_text(errno));
  if (!S_ISREG(info.st_mode)) return data_loss("{}: expected a regular file", path);
  if (info.st_size <= 0) return data_loss("{}: the file is empty", path);
  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return data_loss("{}: cannot map: {}", path, errno_text(errno));
  return std::make_unique<Mapping>(address, size);
}

// Git leaves such a pointer file in place of a large file that Git LFS has not fetched.
bool is_git_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  constexpr size_t kMostBytes = 1024;
  return bytes.size() < kMostBytes && bytes.size() >= kBegin.size() &&
         std::memcmp(bytes.data(), kBegin.data(), kBegin.size()) == 0;
}

// Returns true for "Qwen/Qwen3-0.6B", which is a name on a model hub rather than a path.
bool looks_like_hub_name(std::string_view path) {
  const size_t slash = path.find('/');
  return slash != path.npos && slash > 0 && slash + 1 < path.size() && path[0] != '.' &&
         path[0] != '~' && path.find('/', slash + 1) == path.npos && !path.ends_with(".gguf");
}

// Returns "; did you mean PATH?" if there is a file or folder with a similar name.
std::string path_beside(const std::string& path) {
  constexpr size_t kMostNames = 1000;
  std::filesystem::path typed(path);
  if (!typed.has_filename()) typed = typed.parent_path();  // the path ends with a slash
  const std::filesystem::path folder = typed.parent_path();
  std::vector<std::string> names;
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder.empty() ? "." : folder, error);
  if (error) return {};
  for (auto it = begin(entries); it != end(entries) && names.size() < kMostNames && !error;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::optional<std::string> meant = nearest_name(typed.filename().string(), names);
  return meant ? "; did you mean " + (folder / *meant).string() + "?" : std::string();
}

Status no_such_path(const std::string& path) {
  const std::string meant = path_beside(path);
  if (!meant.empty() || !looks_like_hub_name(path))
    return not_found("{}: no such file or directory{}", path, meant);
  return not_found(
      "{0}: no such folder; if that is a model's name on a hub, fetch it first, for example with "
      "`hf download {0} --local-dir {1}`, and name the folder {1}",
      path, path.substr(path.find('/') + 1));
}

Status not_a_model_file(const std::filesystem::path& file) {
  const std::string path = file.string();
  if (file.extension() != ".safetensors") {
    return invalid_argument("{}: expected a Hugging Face model directory or a .gguf file", path);
  }
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  return invalid_argument(
      "{}: these are weights alone; expected the folder that holds them with config.json and the "
      "tokenizer, such as {}",
      path, folder);
}

// Returns the error for a folder that has no config.json and not exactly one .gguf file.
Status no_config(const std::string& path, const std::vector<std::string>& ggufs) {
  if (ggufs.empty()) {
    return not_found("{}: no config.json here, so this is not a Hugging Face model directory",
                     path);
  }
  if (ggufs.front().find("-00001-of-") != std::string::npos) {
    return not_found(
        "{}: {} begins a model in {} parts; expected one file: join them, for example with "
        "`llama-gguf-split --merge`",
        path, ggufs.front(), ggufs.size());
  }
  return not_found("{}: expected one .gguf file or config.json; name one of {}", path,
                   fmt::join(ggufs, ", "));
}

// Returns whether a folder has a name that sentence-transformers gives its modules: "1_Pooling",
// "2_Dense".
bool is_module_folder(std::string_view name) {
  const size_t end = name.find_first_not_of("0123456789");
  return end != name.npos && end > 0 && name[end] == '_';
}

// Returns whether llama.cpp's converters give such a name to files with a vision tower.
bool is_mmproj_name(std::string_view name) {
  return name.ends_with(".gguf") && name.find("mmproj") != name.npos;
}

// Returns the file with such a name beside `model`, if there is exactly one.
std::optional<std::filesystem::path> mmproj_beside(const std::filesystem::path& model) {
  namespace fs = std::filesystem;
  if (is_mmproj_name(model.filename().string())) return std::nullopt;
  std::optional<fs::path> found;
  std::error_code error;
  size_t num_entries = 0;
  const fs::path folder = model.has_parent_path() ? model.parent_path() : ".";
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator() && ++num_entries <= kMaxDirectoryEntries;
       entry.increment(error)) {
    std::error_code entry_error;
    if (!is_mmproj_name(entry->path().filename().string())) continue;
    if (!entry->is_regular_file(entry_error)) continue;
    if (found) return std::nullopt;
    found = entry->path();
  }
  return found;
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

}  // namespace

struct ModelFiles::State {
  struct File {
    std::string path;                  // empty for a blob in memory
    std::unique_ptr<Mapping> mapping;  // set when the file is first asked for
    std::span<const std::byte> bytes;
  };

  std::string source;
  std::optional<std::string> gguf;
  std::optional<std::string> mmproj;
  std::mutex mutex;                                // guards `mapping` and `bytes` of every file
  std::map<std::string, File, std::less<>> files;  // only use_mmproj() changes the names
};

ModelFiles::ModelFiles(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelFiles::ModelFiles(ModelFiles&&) noexcept = default;
ModelFiles& ModelFiles::operator=(ModelFiles&&) noexcept = default;
ModelFiles::~ModelFiles() = default;

Result<ModelFiles> ModelFiles::open(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path file(path);
  std::error_code error;
  if (fs::is_regular_file(file, error)) {
    if (file.extension() != ".gguf") return not_a_model_file(file);
    auto state = std::make_unique<State>();
    state->source = path;
    state->gguf = file.filename().string();
    state->files[*state->gguf].path = path;
    ModelFiles files(std::move(state));
    if (const auto mmproj = mmproj_beside(file))
      QUIRE_RETURN_IF_ERROR(files.use_mmproj(mmproj->string()));
    return files;
  }
  if (fs::exists(file, error) && !fs::is_directory(file, error)) {
    return invalid_argument("{}: expected a Hugging Face model directory or a .gguf file", path);
  }
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files, open_folder(path));
  if (files.contains("config.json")) return files;
  std::vector<std::string> ggufs;
  for (const auto& [name, one] : files.state_->files) {
    if (name.ends_with(".gguf") && !is_mmproj_name(name)) ggufs.push_back(name);
  }
  if (ggufs.size() != 1) return no_config(path, ggufs);
  return open(files.state_->files.at(ggufs.front()).path);
}

Result<ModelFiles> ModelFiles::open_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return no_such_path(path);
  if (error) return not_found("{}: {}", path, error.message());
  if (!fs::is_directory(status)) return invalid_argument("{}: expected a folder", path);
  auto state = std::make_unique<State>();
  state->source = path;
  // Symbolic links are followed: the Hugging Face cache is made of them.
  for (auto entry = fs::directory_iterator(path, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code entry_error;
    const std::string name = entry->path().filename().string();
    if (is_module_folder(name) && entry->is_directory(entry_error)) {
      for (const char* file : {"config.json", "model.safetensors"}) {
        const fs::path inner = entry->path() / file;
        if (fs::is_regular_file(inner, entry_error))
          state->files[name + "/" + file].path = inner.string();
      }
    }
    if (!entry->is_regular_file(entry_error) || entry_error) continue;
    state->files[name].path = entry->path().string();
    if (state->files.size() > kMaxDirectoryEntries) {
      return too_large("{}: expected at most {} files", path, kMaxDirectoryEntries);
    }
  }
  if (error) return data_loss("{}: cannot list: {}", path, error.message());
  return ModelFiles(std::move(state));
}

ModelFiles ModelFiles::from_memory(
    std::vector<std::pair<std::string, std::span<const std::byte>>> blobs) {
  auto state = std::make_unique<State>();
  state->source = "<memory>";
  for (auto& [name, bytes] : blobs) {
    QUIRE_CHECK(is_plain_name(name), "blob name '{}'", name);
    if (blobs.size() == 1 && name.ends_with(".gguf")) state->gguf = name;
    state->files[name].bytes = bytes;
  }
  return ModelFiles(std::move(state));
}

const std::string& ModelFiles::source() const { return state_->source; }

std::optional<std::string> ModelFiles::gguf_name() const { return state_->gguf; }

std::optional<std::string> ModelFiles::mmproj_name() const { return state_->mmproj; }

Status ModelFiles::use_mmproj(const std::string& path) {
  if (state_->mmproj) state_->files.erase(*state_->mmproj);
  state_->mmproj.reset();
  if (path.empty()) return {};
  const std::filesystem::path file(path);
  std::error_code error;
  if (!state_->gguf) {
    return invalid_argument("{}: expected a .gguf file as the model beside {}", state_->source,
                            path);
  }
  if (!std::filesystem::is_regular_file(file, error) || file.extension() != ".gguf")
    return invalid_argument("{}: expected a .gguf file", path);
  const std::string name = file.filename().string();
  if (name == *state_->gguf)
    return invalid_argument("{}: expected another name than that of the model", path);
  state_->mmproj = name;
  state_->files[name].path = path;
  return {};
}

std::vector<std::string> ModelFiles::names() const {
  std::vector<std::string> names;
  names.reserve(state_->files.size());
  for (const auto& [name, file] : state_->files) names.push_back(name);
  return names;
}

bool ModelFiles::contains(std::string_view name) const {
  return state_->files.find(name) != state_->files.end();
}

Result<std::span<const std::byte>> ModelFiles::bytes(std::string_view name) const {
  const auto it = state_->files.find(name);
  if (it == state_->files.end()) return not_found("{}: no file {}", state_->source, name);
  State::File& file = it->second;
  const std::lock_guard lock(state_->mutex);
  if (file.bytes.empty()) {
    if (file.path.empty()) return data_loss("{}: {} is empty", state_->source, name);
    QUIRE_ASSIGN_OR_RETURN(file.mapping, map_file(file.path));
    if (is_git_lfs_pointer(file.mapping->bytes())) {
      return data_loss("{}: only Git LFS's pointer to the file is here: run `git lfs pull` in {}",
                       file.path, std::filesystem::path(file.path).parent_path().string());
    }
    file.bytes = file.mapping->bytes();
  }
  return file.bytes;
}

std::optional<std::span<const std::byte>> ModelFiles::find(std::string_view name) const {
  Result<std::span<const std::byte>> found = bytes(name);
  if (!found.ok()) return std::nullopt;
  return *found;
}

std::vector<ModelFiles::Identity> ModelFiles::identities() const {
  std::vector<Identity> identities;
  for (const auto& [name, file] : state_->files) {
    struct stat info {};
    if (file.path.empty() || ::stat(file.path.c_str(), &info) != 0) continue;
    constexpr int64_t kNs = 1'000'000'000;
    identities.push_back({std::filesystem::absolute(file.path).string(), info.st_size,
                          info.st_mtim.tv_sec * kNs + info.st_mtim.tv_nsec});
  }
  return identities;
}

Result<std::string_view> ModelFiles::text(std::string_view name) const {
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> all, bytes(name));
  if (all.size() > static_cast<size_t>(kMaxTextBytes)) {
    return too_large("{}: {} has {} bytes, expected at most {}", state_->source, name, all.size(),
                     kMaxTextBytes);
  }
  return std::string_view(reinterpret_cast<const char*>(all.data()), all.size());
}

}  // namespace quire
