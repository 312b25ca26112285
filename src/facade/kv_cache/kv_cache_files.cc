#include "facade/kv_cache/kv_cache_files.h"

#include <link.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/hash/checksum.h"
#include "device/isa.h"
#include "facade/files/kept_text.h"
#include "roofline/model/cost_model.h"
#include "transfer/kv_directory.h"
#include "transfer/kv_file_store.h"

namespace quire {
namespace {

// Must be increased when the meaning of KV changes although nothing below does.
constexpr int kKvVersion = 2;
constexpr int64_t kRunBytes = int64_t{8} << 20;  // of a file, approximately
constexpr int64_t kMostRunBlocks = 64;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A digest of all that was added, in order.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    // It is small, so that the second sum reads from the CPU's cache.
    constexpr size_t kChunk = size_t{1} << 20;
    do {
      const auto chunk = bytes.first(std::min(kChunk, bytes.size()));
      value_ = mix64(value_, checksum(chunk, 1));
      bytes = bytes.subspan(chunk.size());
    } while (!bytes.empty());
  }
  void add(std::string_view text) { add(bytes_of(text)); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 1;
};

bool has_weights_or_config(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".gguf") || name.ends_with(".json");
}

Result<uint64_t> digest_of_contents(const ModelFiles& files) {
  Digest digest;
  for (const std::string& name : files.names()) {
    if (!has_weights_or_config(name)) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(name));
    digest.add(name);
    digest.add(bytes);
  }
  return digest.value();
}

// Returns the digest that a file holds; nullopt if there is no file, or if it does not hold all 16
// digits.
std::optional<uint64_t> read_digest(const std::string& path) {
  constexpr size_t kDigits = 16;
  std::ifstream file(path);
  std::string line;
  uint64_t digest = 0;
  if (!std::getline(file, line) || line.size() != kDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(line.data(), line.data() + kDigits, digest, 16);
  if (error != std::errc() || end != line.data() + kDigits) return std::nullopt;
  return digest;
}

// Returns the digest of a model's files. Reading all weights takes a while, so the digest is kept
// beside the KV, and is valid as long as sizes and times of the files stay the same.
Result<uint64_t> digest_of(const ModelFiles& files, const std::string& dir) {
  Digest identity;
  for (const ModelFiles::Identity& file : files.identities())
    identity.add(fmt::format("{} {} {}", file.path, file.size_bytes, file.modified_ns));
  const std::string kept = fmt::format("{}/model-{:016x}", dir, identity.value());
  if (const std::optional<uint64_t> digest = read_digest(kept)) return *digest;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t digest, digest_of_contents(files));
  // This comes before KvDirectory::open(), which makes the folder for its owner alone.
  std::error_code ec;
  if (std::filesystem::create_directories(dir, ec))
    std::filesystem::permissions(dir, std::filesystem::perms::owner_all, ec);
  // If this fails, the next start reads the model again.
  (void)keep_text(fmt::format("{:016x}\n", digest), kept);
  return digest;
}

// Returns a digest of the program's code and constants, which include all of its kernels. They are
// read where they are mapped: the program may be started by a loader of its own, and is then not
// /proc/self/exe.
uint64_t digest_of_program() {
  const auto add_segments = [](dl_phdr_info* object, size_t, void* out) {
    auto& digest = *static_cast<Digest*>(out);
    for (ElfW(Half) i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = object->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
      const auto* const begin =
          reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);
      digest.add(std::span(begin, segment.p_memsz));
    }
    return 1;  // the first object is the program; the others are not read
  };
  Digest digest;
  dl_iterate_phdr(add_segments, &digest);
  return digest.value();
}

// Describes what each layer keeps, and of which tokens, however blocks, ranks and stages divide it.
std::string layers_of(const ModelPlan& plan) {
  std::string text;
  for (const KvGroupSpec& group : plan.kv.spec.groups) {
    text += fmt::format(";{} {}", static_cast<int>(group.kind), group.sliding_window);
    for (const int32_t layer : group.layers) {
      const KvLayerPlace& place = plan.kv.layers[static_cast<size_t>(layer)];
      text +=
          fmt::format(",{} {} {} {}", layer, place.num_kv_heads, place.head_dim, place.latent_dim);
    }
  }
  return text;
}

std::function<double(int32_t, int32_t)> compute_us(std::shared_ptr<const CostModel> cost) {
  if (cost == nullptr) return nullptr;
  return [=, shape = StepShape()](int32_t num_cached_tokens, int32_t num_tokens) mutable {
    shape.clear();
    shape.add(num_cached_tokens, num_tokens, false, cost->windows());
    return cost->predict_us(shape);
  };
}

}  // namespace

Result<KvFingerprint> kv_fingerprint(const KvCacheFiles& cache, const ModelPlan& plan) {
  std::string machine = cache.gpus;
  if (machine.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(cache.isa));
    machine = fmt::format("{}", static_cast<int>(isa));
  }
  Digest model, types, program;
  model.add(cache.shape + ";" + cache.shape_weights);
  if (cache.files != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t contents, digest_of(*cache.files, cache.dir));
    model.add(std::as_bytes(std::span(&contents, 1)));
  }
  model.add(layers_of(plan));
  types.add(fmt::format("{} {} {}", static_cast<int>(plan.dtype), static_cast<int>(plan.kv.dtype),
                        static_cast<int>(plan.compute)));
  program.add(fmt::format("KV {} {:016x} {}", kKvVersion, digest_of_program(), machine));
  return KvFingerprint{.model = model.value(), .types = types.value(), .program = program.value()};
}

Status add_kv_cache_files(const KvCacheFiles& cache, const ModelPlan& plan,
                          EngineOptions& options) {
  if (cache.dir.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(const KvFingerprint fingerprint, kv_fingerprint(cache, plan));
  Result<KvDirectory> directory = KvDirectory::open(cache.dir, fingerprint);
  if (!directory.ok()) return directory.status().with_context("--kv-cache-dir");
  const KvSpec& spec = plan.kv.spec;
  const int64_t block_bytes =
      std::max<int64_t>(1, spec.num_groups(KvPool::kAttention) * spec.block_bytes);
  options.kv_offload_bytes = cache.host_bytes / (cache.num_engines * cache.num_ranks);
  options.kv.hash_seed = directory->hash_seed();
  options.kv.files.capacity_bytes = cache.capacity_bytes;
  options.kv.files.run_blocks =
      static_cast<int32_t>(std::clamp<int64_t>(kRunBytes / block_bytes, 1, kMostRunBlocks));
  options.kv.files.compute_us = compute_us(options.cost_model);
  options.open_kv_files =
      [directory = *std::move(directory), block_size = spec.block_size,
       bytes = cache.host_bytes](const KvHostMemory& memory) -> Result<std::unique_ptr<KvFiles>> {
    if (memory.at(KvPool::kAttention).empty() && memory.at(KvPool::kState).empty()) {
      return invalid_argument(
          "--kv-offload-memory: expected room for a block of each kind with --kv-cache-dir, got "
          "{} bytes",
          bytes);
    }
    return make_kv_file_store(directory, memory, block_size);
  };
  return {};
}

}  // namespace quire
