#include "facade/kv_cache/kv_cache_files.h"

#include <link.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/hash/checksum.h"
#include "device/isa.h"
#include "roofline/model/cost_model.h"
#include "transfer/kv_directory.h"
#include "transfer/kv_file_store.h"

namespace quire {
namespace {

// Raise when KV changes its meaning without anything below changing.
constexpr int kKvVersion = 2;
constexpr int64_t kRunBytes = int64_t{8} << 20;  // of a file, about
constexpr int64_t kMostRunBlocks = 64;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// 128 bits of all that was added, in order.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    constexpr size_t kChunk = size_t{1} << 20;  // so that the second sum reads out of the cache
    do {
      const auto chunk = bytes.first(std::min(kChunk, bytes.size()));
      value_.low = mix64(value_.low, checksum(chunk, 1));
      value_.high = mix64(value_.high, checksum(chunk, 2));
      bytes = bytes.subspan(chunk.size());
    } while (!bytes.empty());
  }
  void add(std::string_view text) { add(bytes_of(text)); }
  const KvFingerprint& value() const { return value_; }

 private:
  KvFingerprint value_{1, 2};
};

bool has_weights_or_config(std::string_view name) {
  return name.ends_with(".safetensors") || name.ends_with(".gguf") || name.ends_with(".json");
}

Result<KvFingerprint> digest_of_contents(const ModelFiles& files) {
  Digest digest;
  for (const std::string& name : files.names()) {
    if (!has_weights_or_config(name)) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(name));
    digest.add(name);
    digest.add(bytes);
  }
  return digest.value();
}

// Reading all weights takes a while: what came of it is kept beside the KV, and believed as long as
// sizes and times of the files stay.
Result<KvFingerprint> digest_of(const ModelFiles& files, const std::string& dir) {
  Digest identity;
  for (const ModelFiles::Identity& file : files.identities())
    identity.add(fmt::format("{} {} {}", file.path, file.size_bytes, file.modified_ns));
  const std::string kept =
      fmt::format("{}/model-{:016x}{:016x}", dir, identity.value().high, identity.value().low);
  KvFingerprint digest;
  if (std::ifstream file(kept); file >> std::hex >> digest.low >> digest.high) return digest;
  QUIRE_ASSIGN_OR_RETURN(digest, digest_of_contents(files));
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  const std::string temporary = kept + ".writing";
  std::ofstream(temporary) << std::hex << digest.low << ' ' << digest.high << '\n';
  std::filesystem::rename(temporary, kept, ec);  // without it the next start reads the model again
  return digest;
}

// The program's own code and constants stand for all of its kernels. They are read where they are
// mapped: the file may be started by a loader of its own, and is then not /proc/self/exe.
KvFingerprint digest_of_program() {
  const auto add_segments = [](dl_phdr_info* object, size_t, void* out) {
    auto& digest = *static_cast<Digest*>(out);
    for (ElfW(Half) i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = object->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
      const auto* const begin =
          reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);
      digest.add(std::span(begin, segment.p_memsz));
    }
    return 1;  // the first object is the program; no others
  };
  Digest digest;
  dl_iterate_phdr(add_segments, &digest);
  return digest.value();
}

std::string layout_of(const ModelPlan& plan) {
  const KvSpec& spec = plan.kv.spec;
  std::string text = fmt::format("{} x {} bytes, {} {} {}", spec.block_size, spec.block_bytes,
                                 static_cast<int>(plan.dtype), static_cast<int>(plan.kv.dtype),
                                 static_cast<int>(plan.compute));
  for (const KvGroupSpec& group : spec.groups) {
    text += fmt::format(";{} {}", static_cast<int>(group.kind), group.sliding_window);
    for (const int32_t layer : group.layers) text += fmt::format(",{}", layer);
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
  Digest digest;
  digest.add(fmt::format("KV {}", kKvVersion));
  const KvFingerprint program = digest_of_program();
  digest.add(std::as_bytes(std::span(&program, 1)));
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(cache.isa));
  digest.add(fmt::format("{}", static_cast<int>(isa)));
  digest.add(cache.shape + ";" + cache.shape_weights);
  if (cache.files != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const KvFingerprint model, digest_of(*cache.files, cache.dir));
    digest.add(std::as_bytes(std::span(&model, 1)));
  }
  digest.add(layout_of(plan));
  return digest.value();
}

Status add_kv_cache_files(const KvCacheFiles& cache, const ModelPlan& plan,
                          EngineOptions& options) {
  if (cache.dir.empty()) return {};
  if (plan.spec.has_states()) {
    return unimplemented(
        "--kv-cache-dir: expected a model of attention layers alone; states stay in memory");
  }
  QUIRE_ASSIGN_OR_RETURN(const KvFingerprint fingerprint, kv_fingerprint(cache, plan));
  Result<KvDirectory> directory = KvDirectory::open(cache.dir, fingerprint);
  if (!directory.ok()) return directory.status().with_context("--kv-cache-dir");
  const KvSpec& spec = plan.kv.spec;
  const auto num_groups = static_cast<int32_t>(spec.groups.size());
  options.kv_offload_bytes = cache.host_bytes;
  options.kv.hash_seed = directory->hash_seed();
  options.kv.files.capacity_bytes = cache.capacity_bytes;
  options.kv.files.run_blocks = static_cast<int32_t>(
      std::clamp<int64_t>(kRunBytes / (num_groups * spec.block_bytes), 1, kMostRunBlocks));
  options.kv.files.compute_us = compute_us(options.cost_model);
  options.open_kv_files = [directory = *std::move(directory),
                           shape = KvBlockShape{spec.block_size, num_groups, spec.block_bytes}](
                              const HostBlocks& host) -> Result<std::unique_ptr<KvFiles>> {
    if (host.num_blocks < 2) {
      return invalid_argument(
          "--kv-offload-memory: expected room for a block of {} bytes with --kv-cache-dir",
          shape.block_bytes);
    }
    return make_kv_file_store(directory, shape, host);
  };
  return {};
}

}  // namespace quire
