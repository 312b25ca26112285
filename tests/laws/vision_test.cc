// These tests run images over the real scheduler, KV manager and model. The results must be those
// of transformers (tools/make_vision_goldens.py), and law L4 must hold: whatever is in the batch,
// cut, cached, evicted or preempted, a request with images gets the bits that it gets alone.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/base64.h"
#include "exec/media/vision_tower.h"
#include "media/decode/decode_image.h"
#include "media/image_layout.h"
#include "models/vision/vision_config.h"
#include "ranks/ranked_executor.h"
#include "tests/laws/media_goldens.h"
#include "tests/laws/model_system.h"
#include "tests/laws/retyped_gguf.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::floats_of;

constexpr double kF32Budget = 1e-4;  // share of the norm of a row

struct Golden {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  std::vector<std::shared_ptr<const MediaItem>> items;
  std::vector<std::vector<float>> embeddings;  // per item
  TokenId placeholder = -1;
  boost::json::array pictures;  // image files, with transformers' results
};

// "mmproj_llava" is llama.cpp's form of "llava": the same model in two GGUF files.
constexpr std::string_view kMmproj = "mmproj_";

std::filesystem::path golden_dir(const std::string& name) {
  const std::string family = name.starts_with(kMmproj) ? name.substr(kMmproj.size()) : name;
  return test::source_dir() / "tests" / "goldens" / "vision" / family;
}

std::filesystem::path mmproj_dir(const std::string& family) {
  return test::source_dir() / "tests" / "goldens" / "mmproj" / family;
}

std::shared_ptr<const ModelFiles> open_files(const std::string& name) {
  const bool is_mmproj = name.starts_with(kMmproj);
  return test::open_model_files(is_mmproj ? mmproj_dir(name.substr(kMmproj.size()))
                                          : golden_dir(name));
}

VisionSpec vision_of(const ModelFiles& files) {
  auto vision = read_vision(files, 32);
  QUIRE_CHECK(vision.ok() && vision->has_value(), "{}", vision.status().message());
  return std::move(**vision);
}

std::shared_ptr<MediaItem> make_item(std::string key, std::string_view rgb, int32_t width,
                                     int32_t height, int32_t num_embeddings) {
  auto item = std::make_shared<MediaItem>();
  item->key = std::move(key);
  item->num_embeddings = num_embeddings;
  item->width = width;
  item->height = height;
  item->rgb.assign(rgb.begin(), rgb.end());
  return item;
}

Golden read_golden(const std::string& name) {
  const boost::json::value json =
      boost::json::parse(test::read_file(golden_dir(name) / "golden.json"));
  const VisionSpec vision = vision_of(*open_files(name));
  Golden golden;
  golden.prompt = boost::json::value_to<std::vector<TokenId>>(json.at("prompt"));
  golden.tokens = boost::json::value_to<std::vector<TokenId>>(json.at("tokens"));
  golden.placeholder = vision.placeholder;
  for (const boost::json::value& image : json.at("images").as_array()) {
    const std::string rgb = *base64_decode(std::string(image.at("rgb_base64").as_string()));
    const auto width = image.at("width").to_number<int32_t>();
    const auto height = image.at("height").to_number<int32_t>();
    const int32_t num_cells = width / vision.cell_size() * (height / vision.cell_size());
    const auto item = make_item(std::string(1, static_cast<char>('a' + golden.items.size())), rgb,
                                width, height, vision.num_embeddings(num_cells));
    if (const boost::json::value* order = image.as_object().if_contains("order")) {
      item->order = boost::json::value_to<std::vector<int32_t>>(*order);
      item->num_embeddings = static_cast<int32_t>(item->order.size());
    }
    golden.items.push_back(item);
  }
  for (const boost::json::value& rows : json.at("embeddings_f32_base64").as_array())
    golden.embeddings.push_back(floats_of(rows));
  if (const boost::json::value* pictures = json.as_object().if_contains("pictures"))
    golden.pictures = pictures->as_array();
  return golden;
}

// Returns the runs of placeholders in `prompt`, which other tokens separate, with these items.
std::vector<MediaSpan> spans_of(const std::vector<TokenId>& prompt, TokenId placeholder,
                                const std::vector<std::shared_ptr<const MediaItem>>& items) {
  std::vector<MediaSpan> spans;
  size_t index = 0;
  int32_t first = 0;  // the first of the item's embeddings that has no place yet
  for (int32_t i = 0; i < std::ssize(prompt) && index < items.size(); ++i) {
    if (prompt[static_cast<size_t>(i)] != placeholder) continue;
    const auto& item = items[index];
    int32_t end = i;
    while (prompt[static_cast<size_t>(end)] == placeholder &&
           end - i < item->num_embeddings - first)
      ++end;
    spans.push_back({.begin = i, .end = end, .item = item, .first = first});
    first += end - i;
    i = end - 1;
    if (first < item->num_embeddings) continue;
    first = 0;
    ++index;
  }
  return spans;
}

Request make_request(uint64_t id, const Golden& golden,
                     std::vector<std::shared_ptr<const MediaItem>> items, int32_t max_tokens,
                     double temperature = 0.0) {
  auto params = test::law_params(id, max_tokens, static_cast<float>(temperature));
  Request request;
  request.id = RequestId(id);
  request.token_ids = golden.prompt;
  request.params = std::move(params);
  request.media = spans_of(golden.prompt, golden.placeholder, items);
  request.arrival_us = static_cast<int64_t>(id);
  return request;
}

class Vision : public ::testing::TestWithParam<std::string> {};
class WholePictures : public Vision {};  // families whose goldens contain whole pictures
class Mmproj : public Vision {};         // families that llama.cpp supports

// A Tower is a model's vision tower alone, in float32.
class Tower {
 public:
  explicit Tower(const std::string& name) : Tower(open_files(name)) {}
  explicit Tower(std::shared_ptr<const ModelFiles> model) : place_(std::move(model)) {
    const VisionSpec vision = vision_of(files());
    auto tower = VisionTower::open(vision, place_.options,
                                   tower_tensors(vision, files(), place_.source).value(),
                                   place_.packing, place_.stream);
    QUIRE_CHECK(tower.ok(), "{}", tower.status().message());
    tower_ = std::move(*tower);
    QUIRE_CHECK(tower_->load({}).ok());
  }

  const ModelFiles& files() const { return *place_.files; }
  const VisionSpec& spec() const { return tower_->spec(); }

  void encode(const MediaItem& item, std::vector<float>& out) {
    std::vector<float> rows(
        static_cast<size_t>(item.num_embeddings * tower_->spec().embedding_size()));
    const Status status = tower_->encode(item, rows.data());
    ASSERT_TRUE(status.ok()) << status.message();
    out.insert(out.end(), rows.begin(), rows.end());
  }

 private:
  test::TowerPlace place_;
  std::unique_ptr<VisionTower> tower_;
};

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  EXPECT_LE(test::relative_error(got, expected), kF32Budget);
}

TEST_P(Vision, TowerMakesTheOraclesEmbeddings) {
  const Golden golden = read_golden(GetParam());
  Tower tower(GetParam());
  for (size_t i = 0; i < golden.items.size(); ++i) {
    std::vector<float> out;
    tower.encode(*golden.items[i], out);
    expect_near(out, golden.embeddings[i]);
  }
}

// Returns the embeddings of the goldens' pictures, computed with an mmproj file of these bytes.
std::vector<float> encode_all(const std::string& name, const std::string& mmproj) {
  const test::TempFolder folder;
  std::filesystem::copy_file(mmproj_dir(name) / "model.gguf", folder.path() / "model.gguf");
  std::ofstream(folder.path() / "mmproj-model.gguf", std::ios::binary) << mmproj;
  Tower tower(test::open_model_files(folder.path()));
  std::vector<float> out;
  for (const auto& item : read_golden(std::string(kMmproj) + name).items) tower.encode(*item, out);
  return out;
}

// A tower in a type of fewer bits, as in downloaded files, gives the embeddings of its decoded
// values.
TEST_P(Mmproj, AnyTypeMakesTheEmbeddingsOfItsValues) {
  const std::string file = test::read_file(mmproj_dir(GetParam()) / "mmproj-model.gguf");
  for (const auto type : {test::StoredAs::kF16, test::StoredAs::kBF16, test::StoredAs::kQ8_0}) {
    SCOPED_TRACE(static_cast<uint32_t>(type));
    const test::RetypedGguf retyped = test::retyped_gguf(file, type);
    EXPECT_LT(retyped.stored.size(), file.size());
    const std::vector<float> expected = encode_all(GetParam(), retyped.decoded);
    expect_near(encode_all(GetParam(), retyped.stored), expected);
  }
}

// Compares an image file's pixels, cut as the family does, with their embeddings and the prompt's
// text.
TEST_P(WholePictures, AreTheOracles) {
  const Golden golden = read_golden(GetParam());
  ASSERT_FALSE(golden.pictures.empty());
  Tower tower(GetParam());
  const auto preprocessor = read_preprocessor(tower.files());
  ASSERT_TRUE(preprocessor.ok()) << preprocessor.status().message();
  const auto spec = parse_image_processor(*preprocessor, tower.spec().shape());
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  for (const boost::json::value& picture : golden.pictures) {
    const std::string name(picture.at("image").as_string());
    SCOPED_TRACE(name);
    const std::string file = test::read_file(golden_dir("images") / name);
    const auto image = decode_image(std::as_bytes(std::span(file)), {});
    ASSERT_TRUE(image.ok());
    const auto input = lay_out_image(*image, *spec, tower.spec().text);
    ASSERT_TRUE(input.ok()) << input.status().message();
    // Without a marker, the placeholder itself stands for the image.
    if (!tower.spec().text.marker.empty()) {
      EXPECT_EQ(input->text, picture.at("text").as_string());
    }
    std::vector<float> out;
    for (const ImagePlace& place : input->places) tower.encode(*place.item, out);
    expect_near(out, floats_of(picture.at("embeddings_f32_base64")));
  }
}

TEST_P(Vision, GreedyTokensAreTheOracles) {
  const Golden golden = read_golden(GetParam());
  test::ModelSystem system(open_files(GetParam()));
  const auto num_tokens = static_cast<int32_t>(golden.tokens.size());
  for (const int32_t step_tokens : {256, 19, 7}) {
    // Prompts are not cut inside this family's pictures.
    const MediaInfo media = system.runner().info().media;
    if (media.is_bidirectional && step_tokens < media.max_item_embeddings) continue;
    const auto outputs =
        system.run({make_request(1, golden, golden.items, num_tokens)},
                   {.max_num_batched_tokens = step_tokens, .max_num_seqs = 1}, 100, true);
    EXPECT_EQ(outputs.at(1).token_ids, golden.tokens) << step_tokens << " tokens in a step";
  }
}

// Returns the same prompts with different images, repeated ones, and text alone: no request may get
// another request's image.
std::vector<Request> make_load(const Golden& golden) {
  const auto& a = golden.items[0];
  const auto& b = golden.items[1];
  std::vector<Request> requests;
  for (uint64_t id = 1; id <= 12; ++id) {
    const auto items = id % 4 == 0   ? std::vector{a, b}
                       : id % 4 == 1 ? std::vector{b, a}
                       : id % 4 == 2 ? std::vector{a, a}
                                     : std::vector<std::shared_ptr<const MediaItem>>{};
    requests.push_back(make_request(id, golden, items, 8, id % 3 == 0 ? 0.8 : 0.0));
  }
  return requests;
}

void expect_same_bits(const std::string& name, const std::string& dtype) {
  const Golden golden = read_golden(name);
  const std::vector<Request> requests = make_load(golden);
  const int32_t one = requests[0].media[0].item->num_embeddings;
  const test::LawLoad load{.requests = requests, .chunk_tokens = 23, .few_encoder_tokens = one};
  test::ModelSystem system(open_files(name), dtype);
  const auto alone = test::run_alone(system, load.requests);
  EXPECT_NE(alone.at(4).token_ids, alone.at(5).token_ids) << "the images make no difference";
  const test::LawStats stats = test::expect_same_bits(system, load, alone);
  // States are stored at the ends of their blocks, which are longer.
  const bool has_states = system.runner().kv_spec().uses(KvPool::kState);
  EXPECT_GT(stats.chunks.prefix_hits, (has_states ? 5 : 7) * std::ssize(golden.prompt))
      << "the same prompts with the same images";
  EXPECT_EQ(stats.chunks.num_encoded, 2) << "each image is encoded once";
  EXPECT_GT(stats.pressed.num_encoded, 2) << "room for one image: it comes and goes";
  test::ModelSystem threads(open_files(name), dtype, 3);
  test::expect_same_of_threads(threads, load, alone);
}

TEST_P(Vision, SameBitsWhateverElseRuns) { expect_same_bits(GetParam(), "float32"); }
TEST_P(Vision, SameBitsInBfloat16) { expect_same_bits(GetParam(), "bfloat16"); }

// Each rank encodes every image. The models have rows that are added behind layers, matrices split
// by rows and columns, tokens that see each other, and tiles.
TEST(VisionRanks, SameBitsAsOfOneRank) {
  for (const std::string name : {"qwen3_vl", "gemma3", "llava_next"}) {
    const std::vector<Request> requests = make_load(read_golden(name));
    const SchedulerConfig config{.max_num_batched_tokens = 256, .max_num_seqs = 16};
    test::ModelSystem one(open_files(name), "bfloat16");
    const auto alone = one.run(requests, config, 200, false);
    const ModelRunnerOptions options =
        test::ModelSystem::options_of(open_files(name), "bfloat16", 2);
    auto ranks = RankedExecutor::create(options, 2);
    ASSERT_TRUE(ranks.ok()) << name << ": " << ranks.status().message();
    EXPECT_GT((*ranks)->plan().memory.vision, one.runner().plan().memory.vision);
    test::ModelSystem of_ranks(std::move(*ranks));
    test::expect_same(of_ranks.run(requests, config, 200, true), alone);
  }
}

TEST_P(Vision, PicturesOfAnotherSizeFailTheirRequestAlone) {
  const Golden golden = read_golden(GetParam());
  test::ModelSystem system(open_files(GetParam()));
  const int32_t size = golden.items[0]->num_embeddings;
  const auto wrong = make_item("wrong", std::string(12, 'x'), 2, 2, size);
  StepPlan plan;
  plan.media_inputs = {wrong, golden.items[0]};
  for (uint64_t id = 1; id <= 2; ++id) {
    const std::shared_ptr<const MediaItem> item = id == 1 ? wrong : golden.items[0];
    const Request request = make_request(id, golden, {item, item}, 1);
    plan.new_requests.push_back({.id = request.id,
                                 .token_ids = request.token_ids,
                                 .num_prompt_tokens = request.num_tokens(),
                                 .params = request.params,
                                 .media = request.media});
    plan.scheduled.push_back(
        {.id = request.id, .num_computed_tokens = 0, .num_scheduled_tokens = request.num_tokens()});
    const std::vector<KvGroupSpec>& groups = system.runner().kv_spec().groups;
    for (int32_t group = 0; group < std::ssize(groups); ++group) {
      const int32_t size = groups[static_cast<size_t>(group)].pool() == KvPool::kState ? 16 : 8;
      for (int32_t block = 0; block * size < request.num_tokens(); ++block) {
        plan.block_updates.push_back({.request_index = static_cast<int32_t>(id) - 1,
                                      .group = group,
                                      .logical_index = block,
                                      .block = BlockId(static_cast<int32_t>(id) * 20 + block)});
      }
    }
    plan.total_num_scheduled_tokens += request.num_tokens();
  }
  const auto result = system.runner().execute(plan);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const std::string_view message = result->requests[0].status.message();
  EXPECT_TRUE(message.starts_with("image: expected ") &&
              message.ends_with(fmt::format("got 2 x 2 and {}", size)))
      << message;
  EXPECT_TRUE(result->requests[1].status.ok());
}

const std::vector<std::string> kFamilies = {
    "llava",  "qwen2_vl",   "qwen2_5_vl", "qwen3_vl", "qwen3_5", "mistral3",  "pixtral",
    "gemma3", "llava_next", "smolvlm",    "internvl", "gemma4",  "gemma4_moe"};

// Returns the names of `families` in the forms of transformers and llama.cpp.
std::vector<std::string> all_names(std::vector<std::string> families) {
  const size_t count = families.size();
  for (size_t i = 0; i < count; ++i) families.push_back(std::string(kMmproj) + families[i]);
  return families;
}

INSTANTIATE_TEST_SUITE_P(All, Vision, ::testing::ValuesIn(all_names(kFamilies)),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, Mmproj, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Some, WholePictures,
                         ::testing::ValuesIn(all_names({"gemma3", "llava_next", "smolvlm",
                                                        "internvl", "gemma4", "gemma4_moe"})),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace quire
