#include "weights/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace quire {
namespace {

constexpr NameMapEntry kNames[] = {
    {TensorRole::kTokenEmbedding, "embed"},
    {TensorRole::kQ, "layers.{}.q"},
    {TensorRole::kK, "layers.{}.k"},
    {TensorRole::kInputNorm, "layers.{}.norm"},
};
constexpr NamePrefix kPrefixes[] = {{"model.", ""}, {"", ""}};
constexpr std::string_view kIgnored[] = {"inv_freq"};
constexpr NameMap kMap{kNames, kPrefixes, kIgnored, 1.0f};

// A safetensors file in memory; the data of tensor i is 0, 1, 2, … as float32.
class File {
 public:
  File& add(const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    std::string dims;
    for (const int64_t extent : shape) {
      count *= extent;
      dims += fmt::format("{}{}", dims.empty() ? "" : ",", extent);
    }
    const size_t begin = data_.size();
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(i);
      data_.append(reinterpret_cast<const char*>(&value), 4);
    }
    header_ += fmt::format("{}\"{}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                           header_.empty() ? "" : ",", name, dims, begin, data_.size());
    return *this;
  }

  ModelFiles open() {
    std::string header = "{" + header_ + "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    const uint64_t size = header.size();
    bytes_.assign(reinterpret_cast<const char*>(&size), 8);
    bytes_ += header + data_;
    return ModelFiles::from_memory({{"model.safetensors", std::as_bytes(std::span(bytes_))},
                                    {"config.json", std::as_bytes(std::span(bytes_))}});
  }

 private:
  std::string header_, data_, bytes_;
};

struct Model {
  TableWeight embedding{.data = nullptr, .dtype = DType::kF32};
  const float* norm = nullptr;
  MatrixWeight qk{.n = 12, .k = 16, .parts = {{.spec = {.n = 12, .k = 16, .dtype = DType::kF32}}}};
  std::vector<WeightSlot> slots;

  Model() {
    WeightSlot table;
    table.parts = {{TensorRole::kTokenEmbedding, 5}};
    table.table = &embedding;
    table.table_columns = 16;
    WeightSlot vector;
    vector.layer = 0;
    vector.parts = {{TensorRole::kInputNorm, 16}};
    vector.vector = &norm;
    WeightSlot matrix;
    matrix.layer = 0;
    matrix.parts = {{TensorRole::kQ, 8}, {TensorRole::kK, 4}};
    matrix.matrix = &qk;
    slots = {table, vector, matrix};
  }
};

File good_file(const std::string& prefix) {
  File file;
  file.add(prefix + "embed.weight", {5, 16}).add(prefix + "layers.0.k.weight", {4, 16});
  file.add(prefix + "layers.0.norm.weight", {16}).add(prefix + "layers.0.q.weight", {8, 16});
  return file;
}

std::string resolve_error(File file) {
  const ModelFiles files = file.open();
  const auto source = TensorSource::open(files);
  if (!source.ok()) return source.status().message();
  const Model model;
  ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
  HostStream stream(team, Isa::kPortable);
  HostPacking packing(stream);
  const auto plan = resolve_checkpoint(model.slots, kMap, QuantConfig(), *source, packing);
  return plan.ok() ? "" : plan.status().message();
}

// Returns, for each row of the model, the row of the tensor that holds queries, keys and values.
std::vector<int> fused_rows(QkvOrder order, int query_rows, int kv_rows) {
  const NameMapEntry fused[] = {{TensorRole::kTokenEmbedding, "embed"},
                                {TensorRole::kQkv, "qkv", false, order}};
  const NameMap map{.entries = fused, .prefixes = kPrefixes};
  const int64_t all = query_rows + 2 * kv_rows;
  File file;
  file.add("model.embed.weight", {5, 16}).add("model.qkv.weight", {all, 16});
  const ModelFiles files = file.open();
  const auto source = TensorSource::open(files);
  QUIRE_CHECK(source.ok(), "{}", source.status().message());
  Model model;
  MatrixWeight qkv{
      .n = all, .k = 16, .parts = {{.spec = {.n = all, .k = 16, .dtype = DType::kF32}}}};
  WeightSlot matrix;
  matrix.parts = {
      {TensorRole::kQ, query_rows}, {TensorRole::kK, kv_rows}, {TensorRole::kV, kv_rows}};
  matrix.fused_role = TensorRole::kQkv;
  matrix.head_rows = 2;
  matrix.matrix = &qkv;
  const std::vector<WeightSlot> slots = {model.slots[0], matrix};
  ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
  HostStream stream(team, Isa::kPortable);
  HostPacking packing(stream);
  const auto plan = resolve_checkpoint(slots, map, QuantConfig(), *source, packing);
  QUIRE_CHECK(plan.ok(), "{}", plan.status().message());
  std::vector<int> rows;
  for (const ResolvedSlot::Part& part : plan->slots[1].parts) {
    float first;
    std::memcpy(&first, part.data.data(), sizeof first);
    for (int i = 0; i < part.rows; ++i) rows.push_back(static_cast<int>(first) / 16 + i);
  }
  return rows;
}

// Queries, keys and values that are stored KV head by KV head are read as q, k and v, biases too.
TEST(Checkpoint, RegroupsFusedHeads) {
  // Two KV heads of three query heads of two rows each.
  EXPECT_EQ(fused_rows(QkvOrder::kPerKvHead, 12, 4),
            (std::vector<int>{0, 1, 2,  3,  4, 5, 10, 11, 12, 13, 14, 15,  // q
                              6, 7, 16, 17, 8, 9, 18, 19}));
  // Four heads, one in each quarter.
  EXPECT_EQ(fused_rows(QkvOrder::kQueryValueKey, 8, 8),
            (std::vector<int>{0, 1, 6,  7,  12, 13, 18, 19,  // q
                              4, 5, 10, 11, 16, 17, 22, 23,  // k
                              2, 3, 8,  9,  14, 15, 20, 21}));
}

// A vector that no file holds is filled with its constant times the scale of its slot.
TEST(Checkpoint, FillsConstants) {
  constexpr NameMapEntry kConstants[] = {
      {TensorRole::kTokenEmbedding, "embed"},
      {TensorRole::kQ, "layers.{}.q"},
      {TensorRole::kK, "layers.{}.k"},
      {.role = TensorRole::kInputNorm, .pattern = "", .constant = 1.5f}};
  const NameMap map{.entries = kConstants, .prefixes = kPrefixes};
  File file;
  file.add("model.embed.weight", {5, 16}).add("model.layers.0.k.weight", {4, 16});
  file.add("model.layers.0.q.weight", {8, 16});
  const ModelFiles files = file.open();
  const auto source = TensorSource::open(files);
  ASSERT_TRUE(source.ok()) << source.status().message();
  Model model;
  model.slots[1].scale = 2.0f;
  ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
  HostStream stream(team, Isa::kPortable);
  HostPacking packing(stream);
  const auto plan = resolve_checkpoint(model.slots, map, QuantConfig(), *source, packing);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto arena = Arena::create(plan->arena_bytes());
  ASSERT_TRUE(arena.ok());
  ASSERT_TRUE(load_checkpoint(*plan, *arena, {}).ok());
  for (int i = 0; i < 16; ++i) EXPECT_EQ(model.norm[i], 3.0f);
}

// Parts that share a tensor follow each other in it, whole or group by group.
TEST(Checkpoint, FindsRunsOfRows) {
  const auto rows_by = [](RowRuns runs) {
    const NameMapEntry entries[] = {
        {TensorRole::kTokenEmbedding, "embed"},
        {.role = TensorRole::kQ, .pattern = "both", .runs = runs},
        {.role = TensorRole::kQueryGate, .pattern = "both", .runs = runs},
        {TensorRole::kK, "k"}};
    const NameMap map{.entries = entries, .prefixes = kPrefixes};
    File file;
    file.add("model.both.weight", {6, 16}).add("model.embed.weight", {5, 16});
    file.add("model.k.weight", {2, 16});
    const ModelFiles files = file.open();
    const auto source = TensorSource::open(files);
    QUIRE_CHECK(source.ok(), "{}", source.status().message());
    Model model;
    MatrixWeight matrix{.n = 8, .k = 16, .parts = {{.spec = {.n = 8, .k = 16}}}};
    WeightSlot slot;
    slot.parts = {{TensorRole::kQ, 4}, {TensorRole::kK, 2}, {TensorRole::kQueryGate, 2}};
    slot.row_groups = 2;
    slot.matrix = &matrix;
    const std::vector<WeightSlot> slots = {model.slots[0], slot};
    ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
    HostStream stream(team, Isa::kPortable);
    HostPacking packing(stream);
    const auto plan = resolve_checkpoint(slots, map, QuantConfig(), *source, packing);
    QUIRE_CHECK(plan.ok(), "{}", plan.status().message());
    std::vector<std::string> rows;  // by tensor, in the order of the model
    for (const ResolvedSlot::Part& part : plan->slots[1].parts) {
      const int64_t first = (part.data.data() - part.tensor->data.data()) / 64;
      for (int64_t i = 0; i < part.rows; ++i)
        rows.push_back(fmt::format("{} {}", part.tensor->name, first + i));
    }
    return rows;
  };
  EXPECT_EQ(
      rows_by(RowRuns::kStacked),
      (std::vector<std::string>{"model.both.weight 0", "model.both.weight 1", "model.both.weight 2",
                                "model.both.weight 3", "model.k.weight 0", "model.k.weight 1",
                                "model.both.weight 4", "model.both.weight 5"}));
  EXPECT_EQ(
      rows_by(RowRuns::kPerGroup),
      (std::vector<std::string>{"model.both.weight 0", "model.both.weight 1", "model.both.weight 3",
                                "model.both.weight 4", "model.k.weight 0", "model.k.weight 1",
                                "model.both.weight 2", "model.both.weight 5"}));
}

TEST(Checkpoint, FillsEverySlot) {
  for (const char* prefix : {"model.", ""}) {
    File file = good_file(prefix);
    const ModelFiles files = file.open();
    const auto source = TensorSource::open(files);
    ASSERT_TRUE(source.ok()) << source.status().message();
    Model model;
    ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
    HostStream stream(team, Isa::kPortable);
    HostPacking packing(stream);
    const auto plan = resolve_checkpoint(model.slots, kMap, QuantConfig(), *source, packing);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->checkpoint_bytes() + plan->borrowed_bytes(), source->total_bytes());
    auto arena = Arena::create(plan->arena_bytes());
    ASSERT_TRUE(arena.ok());
    int64_t last = 0;
    LoadOptions options;
    options.on_progress = [&](int64_t done, int64_t total) {
      EXPECT_LE(done, total);
      EXPECT_GE(done, last);
      last = done;
    };
    ASSERT_TRUE(load_checkpoint(*plan, *arena, options).ok());
    EXPECT_EQ(last, plan->checkpoint_bytes());
    EXPECT_EQ(arena->used_bytes(), plan->arena_bytes()) << "the plan is exact";
    EXPECT_EQ(model.norm[3], 3.0f + 1.0f);  // with the offset of norms
    EXPECT_EQ(static_cast<const float*>(model.embedding.data)[17], 17.0f);

    // Checks the packed matrix by what it computes: its row 9 is row 1 of k.
    std::vector<float> x(16, 0.0f), y(12, -1.0f);
    x[2] = 1.0f;
    std::vector<std::byte> workspace(
        static_cast<size_t>(linear_workspace_bytes(stream, 1, model.qk.parts[0].spec)) + 64);
    linear(stream, {.x = x.data(),
                    .x_stride = 16,
                    .weight = &model.qk.parts[0],
                    .bias = nullptr,
                    .y = y.data(),
                    .y_stride = 12,
                    .accumulate = false,
                    .num_rows = 1,
                    .workspace = workspace.data()});
    EXPECT_EQ(y[1], 18.0f);
    EXPECT_EQ(y[9], 18.0f);
  }
}

TEST(Checkpoint, NamesWhatDoesNotFit) {
  EXPECT_EQ(resolve_error(good_file("model.")), "");
  File missing;
  missing.add("model.embed.weight", {5, 16}).add("model.layers.0.q.weight", {8, 16});
  missing.add("model.layers.0.norm.weight", {16});
  EXPECT_NE(resolve_error(missing).find("no tensor 'model.layers.0.k.weight'"), std::string::npos);

  File shape;
  shape.add("model.embed.weight", {5, 8});
  EXPECT_NE(resolve_error(shape).find("'model.embed.weight': expected shape [5, 16], got [5, 8]"),
            std::string::npos)
      << resolve_error(shape);

  File extra = good_file("model.");
  extra.add("model.layers.0.q.bias", {8});
  EXPECT_NE(resolve_error(extra).find("'model.layers.0.q.bias' [8]"), std::string::npos)
      << resolve_error(extra);

  File tolerated = good_file("model.");
  tolerated.add("model.layers.0.rotary.inv_freq", {4});
  EXPECT_EQ(resolve_error(tolerated), "");
}

TEST(Checkpoint, RandomFillTakesThePlannedMemory) {
  Model model;
  ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
  HostStream stream(team, Isa::kPortable);
  HostPacking packing(stream);
  const int64_t bytes = slots_arena_bytes(model.slots, packing);
  auto arena = Arena::create(bytes);
  ASSERT_TRUE(arena.ok());
  ASSERT_TRUE(fill_random(packing, model.slots, *arena).ok());
  EXPECT_EQ(arena->used_bytes(), bytes);
  EXPECT_EQ(model.norm[0], 1.0f);
  const auto* table = static_cast<const float*>(model.embedding.data);
  EXPECT_NE(table[0], table[1]);
  for (int i = 0; i < 80; ++i) EXPECT_LE(std::abs(table[i]), 0.0401f);
}

}  // namespace
}  // namespace quire
