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
  // text() accepts files up to this size: config.json, tokenizer.json and their kind.
  static constexpr int64_t kMaxTextBytes = int64_t{512} << 20;

  // `path` is a directory that holds config.json or a single .gguf file, or that file. Only the
  // listing is read here. kNotFound: nothing is there, or neither is in the directory.
  // kInvalidArgument: it is neither of the two kinds.
  static Result<ModelFiles> open(const std::string& path);
  // Opens all files of a folder, whatever they are.
  static Result<ModelFiles> open_folder(const std::string& path);

  // The caller keeps these blobs alive longer than the ModelFiles (the built-in model lives in the
  // binary).
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

  // Returns the file with the tower and projector of a model whose language model lies in a .gguf
  // file: the .gguf file beside it whose name has "mmproj" in it, where there is exactly one, or
  // what use_mmproj() says.
  std::optional<std::string> mmproj_name() const;
  // Takes `path` for it; empty: none. kInvalidArgument: the model is no .gguf file, or `path` is
  // none.
  Status use_mmproj(const std::string& path);

  // Returns file names, sorted: plain ones, and "1_Pooling/config.json" and its kind, of the
  // folders in which sentence-transformers keeps its modules.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;

  // Returns the whole file. kNotFound: no such file. kDataLoss: it is empty or not readable.
  Result<std::span<const std::byte>> bytes(std::string_view name) const;

  // Does the same as bytes(), with nullopt when the file is absent or cannot be read, for files
  // that a model may lack.
  std::optional<std::span<const std::byte>> find(std::string_view name) const;

  // An Identity is a file with what tells whether it has changed; identities() is empty for blobs
  // in memory.
  struct Identity {
    std::string path;
    int64_t size_bytes = 0;
    int64_t modified_ns = 0;  // since the epoch
  };
  std::vector<Identity> identities() const;

  // Returns bytes() as characters; kTooLarge above kMaxTextBytes. UTF-8 is not checked.
  Result<std::string_view> text(std::string_view name) const;

 private:
  struct State;
  explicit ModelFiles(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quire
