// These tests run pictures that a language model attends to instead of reading them as tokens
// (Llama 3.2 Vision), over the real scheduler, KV manager and model. The results must be those of
// transformers (tools/make_vision_goldens.py), and law L4 must hold: whatever is in the batch, cut,
// cached, evicted or preempted, a request gets the bits that it gets alone.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <optional>

#include "exec/sources/canvas_encoder.h"
#include "media/decode/decode_image.h"
#include "media/image_layout.h"
#include "models/vision/vision_config.h"
#include "tests/laws/media_goldens.h"
#include "tests/laws/model_system.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::floats_of;
using test::ids_of;

constexpr double kF32Budget = 1e-4;  // share of the norm of all rows
constexpr int32_t kWidth = 32;       // of the language model's hidden states
constexpr TokenId kPicture = 152;    // the placeholder of a picture

std::filesystem::path golden_dir() {
  return test::source_dir() / "tests" / "goldens" / "vision" / "mllama";
}

std::shared_ptr<const ModelFiles> open_files() { return test::open_model_files(golden_dir()); }

VisionSpec vision_of(const ModelFiles& files) {
  auto vision = read_vision(files, kWidth);
  QUIRE_CHECK(vision.ok() && vision->has_value(), "{}", vision.status().message());
  return std::move(**vision);
}

// A Picture is a canvas and the rows that the encoder makes of it.
struct Picture {
  std::shared_ptr<MediaItem> item;
  std::vector<float> rows;
};

Picture picture_of(const boost::json::value& json, std::string key, const VisionSpec& vision) {
  const std::string rgb = *base64_decode(std::string(json.at("rgb_base64").as_string()));
  auto item = std::make_shared<MediaItem>();
  item->key = std::move(key);
  item->num_embeddings = vision.source_rows();
  item->width = json.at("width").to_number<int32_t>();
  item->height = json.at("height").to_number<int32_t>();
  item->rgb.assign(rgb.begin(), rgb.end());
  return {std::move(item), floats_of(json.at("rows_f32_base64"))};
}

struct Case {
  std::vector<TokenId> prompt, tokens;
  std::shared_ptr<const MediaItem> picture;  // null for text alone
};

struct Golden {
  std::vector<Picture> pictures;
  std::vector<Case> cases;
  boost::json::array files;  // image files, with transformers' results
};

Golden read_golden() {
  const boost::json::value json = boost::json::parse(test::read_file(golden_dir() / "golden.json"));
  const VisionSpec vision = vision_of(*open_files());
  Golden golden;
  for (const boost::json::value& image : json.at("images").as_array()) {
    const auto key = std::string(1, static_cast<char>('a' + golden.pictures.size()));
    golden.pictures.push_back(picture_of(image, key, vision));
  }
  for (const boost::json::value& request : json.at("requests").as_array()) {
    Case one{.prompt = ids_of(request.at("prompt")), .tokens = ids_of(request.at("tokens"))};
    if (!request.at("image").is_null())
      one.picture = golden.pictures[request.at("image").to_number<size_t>()].item;
    golden.cases.push_back(std::move(one));
  }
  golden.files = json.at("pictures").as_array();
  return golden;
}

Request make_request(uint64_t id, const Case& one, int32_t max_tokens, float temperature = 0.0f) {
  Request request;
  request.id = RequestId(id);
  request.token_ids = one.prompt;
  request.num_prompt_tokens = request.num_tokens();
  request.params = test::law_params(id, max_tokens, temperature);
  if (one.picture != nullptr) {
    const auto at = std::find(one.prompt.begin(), one.prompt.end(), kPicture);
    request.media = {
        MediaSpan::of_source(one.picture, static_cast<int32_t>(at - one.prompt.begin()))};
  }
  request.arrival_us = static_cast<int64_t>(id);
  return request;
}

// A Tower is a model's vision tower alone, in float32.
class Tower {
 public:
  Tower() : place_(open_files()) {
    const VisionSpec vision = vision_of(files());
    auto encoder = CanvasEncoder::open(vision, place_.options,
                                       tower_tensors(vision, files(), place_.source).value(),
                                       place_.packing, place_.stream);
    QUIRE_CHECK(encoder.ok(), "{}", encoder.status().message());
    encoder_ = std::move(*encoder);
    QUIRE_CHECK(encoder_->load({}).ok());
  }

  const ModelFiles& files() const { return *place_.files; }
  SourceEncoder& encoder() { return *encoder_; }

  void expect_rows(const MediaItem& item, const std::vector<float>& expected) {
    const auto rows = encoder_->encode(item);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    const std::span got(rows->rows, static_cast<size_t>(rows->count * kWidth));
    ASSERT_EQ(got.size(), expected.size());
    EXPECT_LE(test::relative_error(got, expected), kF32Budget);
  }

 private:
  test::TowerPlace place_;
  std::unique_ptr<CanvasEncoder> encoder_;
};

TEST(Canvas, TowerMakesTheOraclesRows) {
  Tower tower;
  for (const Picture& picture : read_golden().pictures)
    tower.expect_rows(*picture.item, picture.rows);
}

TEST(Canvas, PicturesOfAnotherSizeAreRefused) {
  Tower tower;
  const MediaItem right = *read_golden().pictures[0].item;
  MediaItem wrong = right;
  wrong.width = 13;
  EXPECT_EQ(tower.encoder().encode(wrong).status().code(), StatusCode::kInvalidArgument);
  wrong = right;
  wrong.width = 12 * 5;
  wrong.rgb.resize(static_cast<size_t>(3 * wrong.width * wrong.height));
  EXPECT_EQ(tower.encoder().encode(wrong).status().code(), StatusCode::kInvalidArgument);
  wrong = right;
  wrong.num_embeddings = 1;
  EXPECT_EQ(tower.encoder().encode(wrong).status().code(), StatusCode::kInvalidArgument);
}

// Compares canvases of image files, within one step of 8 bits, and then the rows.
TEST(Canvas, FilesBecomeTheOraclesCanvases) {
  Tower tower;
  const VisionSpec vision = vision_of(tower.files());
  const auto preprocessor = read_preprocessor(tower.files());
  ASSERT_TRUE(preprocessor.ok()) << preprocessor.status().message();
  const auto spec = parse_image_processor(*preprocessor, vision.shape());
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  for (const boost::json::value& json : read_golden().files) {
    const std::string name(json.at("image").as_string());
    SCOPED_TRACE(name);
    const std::string file = test::read_file(golden_dir().parent_path() / "images" / name);
    const auto image = decode_image(std::as_bytes(std::span(file)), {});
    ASSERT_TRUE(image.ok());
    const auto input = lay_out_image(*image, *spec, vision.text);
    ASSERT_TRUE(input.ok()) << input.status().message();
    ASSERT_EQ(input->places.size(), 1u);
    EXPECT_EQ(input->places[0].count, 1);
    const MediaItem& got = *input->places[0].item;
    const Picture expected = picture_of(json, "x", vision);
    ASSERT_EQ(got.width, expected.item->width);
    ASSERT_EQ(got.height, expected.item->height);
    int worst = 0;
    for (size_t i = 0; i < got.rgb.size(); ++i)
      worst = std::max(worst, std::abs(int{got.rgb[i]} - int{expected.item->rgb[i]}));
    EXPECT_LE(worst, 1);
    tower.expect_rows(*expected.item, expected.rows);
  }
}

TEST(Canvas, GreedyTokensAreTheOracles) {
  test::ModelSystem system(open_files());
  for (const Case& one : read_golden().cases) {
    const auto num_tokens = static_cast<int32_t>(one.tokens.size());
    for (const int32_t step_tokens : {256, 3}) {
      const auto outputs =
          system.run({make_request(1, one, num_tokens)},
                     {.max_num_batched_tokens = step_tokens, .max_num_seqs = 1}, 100, true);
      EXPECT_EQ(outputs.at(1).token_ids, one.tokens) << step_tokens << " tokens in a step";
    }
  }
}

// Returns the same prompts with different pictures, repeated ones, and text alone: no request may
// get another request's picture.
std::vector<Request> make_load() {
  const std::vector<Case> cases = read_golden().cases;
  std::vector<Request> requests;
  for (uint64_t id = 1; id <= 15; ++id) {
    Case one = cases[id % cases.size()];
    // This prompt is longer than a source has rows.
    if (id % 4 == 0) one.prompt.insert(one.prompt.end(), 60, TokenId{45});
    requests.push_back(make_request(id, one, 12, id % 3 == 0 ? 0.8f : 0.0f));
  }
  return requests;
}

void expect_same_bits(const std::string& dtype) {
  const test::LawLoad load{.requests = make_load(), .few_encoder_tokens = 40};
  test::ModelSystem system(open_files(), dtype);
  const auto alone = test::run_alone(system, load.requests);
  EXPECT_NE(alone.at(5).token_ids, alone.at(1).token_ids) << "the pictures make no difference";
  const test::LawStats stats = test::expect_same_bits(system, load, alone);
  EXPECT_EQ(stats.crowd.num_encoded, 3) << "each picture is encoded once";
  EXPECT_GT(test::expect_same_in_turn(system, load, alone), 3)
      << "room for one picture: it comes and goes";
  test::ModelSystem threads(open_files(), dtype, 3);
  test::expect_same_of_threads(threads, load, alone);
}

TEST(Canvas, SameBitsWhateverElseRuns) { expect_same_bits("float32"); }
TEST(Canvas, SameBitsInBfloat16) { expect_same_bits("bfloat16"); }

}  // namespace
}  // namespace quire
