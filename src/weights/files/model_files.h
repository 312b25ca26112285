// ModelFiles are the files of one model, by name: a Hugging Face directory, one .gguf file, or
// blobs that are already in memory.
//
//   QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open("/models/llama"));
//   QUIRE_ASSIGN_OR_RETURN(std::string_view config, files.text("config.json"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire {

// ModelFiles owns the read-only mappings. A file is mapped (private, read-only) when it is first
// asked for and stays mapped until the ModelFiles goes; every span and view handed out lives
// exactly that long and survives a move. Any thread may call const members.
class ModelFiles {
 public:
  // The size up to which text() accepts files: config.json, tokenizer.json and the like.
  static constexpr int64_t kMaxTextBytes = int64_t{512} << 20;

  // Opens `path`, which is a directory that holds config.json or a single .gguf file, or a .gguf
  // file itself. Only the directory is listed here. Returns kNotFound if nothing is there or the
  // directory holds neither, kInvalidArgument if `path` is neither a directory nor a .gguf file.
  static Result<ModelFiles> open(const std::string& path);
  // Opens all files of a folder, whatever they are.
  static Result<ModelFiles> open_folder(const std::string& path);

  // Serves blobs in memory, such as the built-in model in the program's binary. The caller keeps
  // the blobs alive longer than the ModelFiles.
  static ModelFiles from_memory(
      std::vector<std::pair<std::string, std::span<const std::byte>>> blobs);

  ModelFiles(ModelFiles&&) noexcept;
  ModelFiles& operator=(ModelFiles&&) noexcept;
  ~ModelFiles();

  // Returns what the model was opened from, for messages: the path, or "<memory>".
  const std::string& source() const;

  // Returns the name of the .gguf file when that is what was opened (or the only blob in memory),
  // else nullopt.
  std::optional<std::string> gguf_name() const;

  // Returns the name of the file with the vision tower and projector for a model whose language
  // model is a .gguf file: the one given to use_mmproj(), otherwise the .gguf file beside it whose
  // name has "mmproj" in it, if there is exactly one.
  std::optional<std::string> mmproj_name() const;
  // Makes `path` the file that mmproj_name() returns; an empty path means none. Returns
  // kInvalidArgument if the model is not a .gguf file, or if `path` is not one with another name
  // than the model's.
  Status use_mmproj(const std::string& path);

  // Returns file names, sorted. Files in subfolders are left out, except those of the folders in
  // which sentence-transformers keeps its modules, such as "1_Pooling/config.json".
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;

  // Returns the whole file. Returns kNotFound if there is no such file, kDataLoss if it is empty or
  // not readable.
  Result<std::span<const std::byte>> bytes(std::string_view name) const;

  // Returns the whole file, or nullopt if it is absent or cannot be read; for files that a model
  // may lack.
  std::optional<std::span<const std::byte>> find(std::string_view name) const;

  // An Identity tells whether a file has changed. identities() is empty for blobs in memory.
  struct Identity {
    std::string path;
    int64_t size_bytes = 0;
    int64_t modified_ns = 0;  // since the epoch
  };
  std::vector<Identity> identities() const;

  // Returns the file as characters, or kTooLarge above kMaxTextBytes. UTF-8 is not checked.
  Result<std::string_view> text(std::string_view name) const;

 private:
  struct State;
  explicit ModelFiles(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quire
