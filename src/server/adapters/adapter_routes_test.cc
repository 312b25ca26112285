#include "server/adapters/adapter_routes.h"

#include <boost/json/serialize.hpp>
#include <filesystem>
#include <fstream>

#include "server/testing/server_fixture.h"
#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

namespace fs = std::filesystem;

// The tests have folders of adapters in a directory of their own. An adapter is the content of its
// configuration file.
class AdapterRoutes : public ServerTest {
 protected:
  void SetUp() override {
    fs::create_directories(base_ / "adapters");
    make("adapters/sql", "one");
    make("adapters/team/chat", "two");
    make("private", "secret");
  }

  void make(const fs::path& folder, const std::string& content) {
    fs::create_directories(base_ / folder);
    std::ofstream(base_ / folder / "adapter_config.json") << content;
    std::ofstream(base_ / folder / "adapter_model.safetensors") << content;
  }

  static Result<std::shared_ptr<const Adapter>> read(const std::string& name,
                                                     const std::string& path) {
    std::ifstream file(fs::path(path) / "adapter_config.json");
    auto adapter = std::make_shared<Adapter>();
    adapter->name = name;
    if (!std::getline(file, adapter->content_key))
      return not_found("{}: no adapter_config.json here", name);
    if (adapter->content_key == "broken") return data_loss("{}: broken", name);
    return std::shared_ptr<const Adapter>(std::move(adapter));
  }

  // Starts a server whose answers are the content of the requested adapter, or "none".
  void start_with_adapters(int32_t max_loaded = 2, bool with_routes = true) {
    adapters = std::make_shared<AdapterRegistry>(read, max_loaded);
    ServerOptions options;
    if (with_routes) options.lora_dir = (base_ / "adapters").string();
    start({.script =
               [](const GenerationRequest& request) {
                 const std::string text = request.adapter ? request.adapter->content_key : "none";
                 return say(text)(request);
               }},
          std::move(options));
  }

  ClientResponse load(const std::string& name, const std::string& path, bool replaces = false) {
    const boost::json::object body{
        {"lora_name", name}, {"lora_path", path}, {"load_inplace", replaces}};
    return post("/v1/load_lora_adapter", boost::json::serialize(body));
  }
  ClientResponse unload(const std::string& name) {
    return post("/v1/unload_lora_adapter",
                boost::json::serialize(boost::json::object{{"lora_name", name}}));
  }
  std::string answer_of(const std::string& model) {
    const ClientResponse r =
        post("/v1/completions", boost::json::serialize(boost::json::object{
                                    {"model", model}, {"prompt", "x"}, {"max_tokens", 50}}));
    if (r.status != 200) return std::to_string(r.status);
    const boost::json::value body = parse(r.body);
    EXPECT_EQ(body.at("model").as_string(), model);
    return std::string(body.at("choices").at(0).at("text").as_string());
  }

  const test::TempFolder base_;
};

TEST_F(AdapterRoutes, LoadReplaceAndUnloadAsVllmAnswers) {
  start_with_adapters();
  EXPECT_EQ(answer_of("sql"), "404");
  ClientResponse r = load("sql", "sql");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body, "Success: LoRA adapter 'sql' added successfully.");
  EXPECT_EQ(answer_of("sql"), "one");
  EXPECT_EQ(answer_of("tiny"), "none");

  r = load("sql", (base_ / "adapters/sql").string());
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(error_type(r), "InvalidUserInput");
  EXPECT_NE(error_message(r).find("has already been loaded"), std::string::npos);

  make("adapters/sql", "newer");
  EXPECT_EQ(answer_of("sql"), "one");
  EXPECT_EQ(load("sql", "sql", /*replaces=*/true).status, 200);
  EXPECT_EQ(answer_of("sql"), "newer");

  r = unload("sql");
  EXPECT_EQ(r.body, "Success: LoRA adapter 'sql' removed successfully.");
  EXPECT_EQ(answer_of("sql"), "404");
  r = unload("sql");
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(error_type(r), "NotFoundError");
}

TEST_F(AdapterRoutes, WrongBodiesAreRefused) {
  start_with_adapters();
  for (const char* const body :
       {"{}", R"({"lora_name":"a"})", R"({"lora_path":"sql"})",
        R"({"lora_name":1,"lora_path":"sql"})", R"({"lora_name":"a","lora_path":["sql"]})",
        R"({"lora_name":"","lora_path":"sql"})", R"({"lora_name":"a,b","lora_path":"sql"})",
        R"({"lora_name":"tiny","lora_path":"sql"})",
        R"({"lora_name":"a","lora_path":"sql","load_inplace":"yes"})"}) {
    const ClientResponse r = post("/v1/load_lora_adapter", body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(error_type(r), "InvalidUserInput") << body;
  }
  EXPECT_EQ(post("/v1/unload_lora_adapter", "{}").status, 400);
  EXPECT_EQ(post("/v1/load_lora_adapter", "[1").status, 400);
  EXPECT_EQ(post("/v1/load_lora_adapter",
                 R"({"lora_name":"a","lora_path":"sql","is_3d_lora_weight":true})")
                .status,
            501);
  EXPECT_EQ(adapters->num_loaded(), 0);
}

// Nothing outside the folder is read, and the answer does not reveal what is there.
TEST_F(AdapterRoutes, PathsThatLeaveTheFolderAreRefused) {
  start_with_adapters();
  fs::create_directory_symlink(base_ / "private", base_ / "adapters/link");
  fs::create_directories(base_ / "adapters/files");
  for (const char* const file : {"adapter_config.json", "adapter_model.safetensors"})
    fs::create_symlink(base_ / "private" / file, base_ / "adapters/files" / file);
  fs::create_directory_symlink(base_ / "adapters/team", base_ / "adapters/inside");
  fs::create_directories(base_ / "adapters-of-others");
  make("adapters-of-others/x", "secret");
  std::string refusal;
  for (const std::string& path :
       {std::string("../private"), std::string("sql/../../private"), (base_ / "private").string(),
        (base_ / "nowhere").string(), std::string("/etc"), std::string("link"),
        std::string("files"), std::string("."), std::string(".."), std::string("/"),
        std::string("sql/.."), (base_ / "adapters-of-others/x").string(),
        std::string("sql\0", 4)}) {
    const ClientResponse r = load("a", path);
    EXPECT_EQ(r.status, 400) << path;
    EXPECT_EQ(error_param(r), "lora_path") << path;
    if (refusal.empty()) refusal = r.body;
    EXPECT_EQ(r.body, refusal) << path;
  }
  EXPECT_EQ(adapters->num_loaded(), 0);
  EXPECT_EQ(load("a", "team/../sql").status, 200);
  EXPECT_EQ(load("b", "inside/chat").status, 200);
  EXPECT_EQ(answer_of("b"), "two");
}

TEST_F(AdapterRoutes, WhatCannotBeReadIsAnError) {
  start_with_adapters();
  EXPECT_EQ(load("a", "nowhere").status, 404);
  EXPECT_EQ(load("a", "team").status, 404);
  make("adapters/bad", "broken");
  EXPECT_EQ(load("a", "bad").status, 400);
  EXPECT_EQ(load("a", "sql").status, 200);
  EXPECT_EQ(load("b", "team/chat").status, 200);
  EXPECT_EQ(load("c", "sql").status, 429);  // only two fit
  EXPECT_EQ(load("a", "bad", true).status, 400);
  EXPECT_EQ(answer_of("a"), "one");
}

TEST_F(AdapterRoutes, ModelsListsThemWithTheirParent) {
  start_with_adapters();
  ASSERT_EQ(load("team/chat", "team/chat").status, 200);
  const boost::json::value models = parse(get("/v1/models").body);
  ASSERT_EQ(models.at("data").as_array().size(), 3u);
  EXPECT_TRUE(models.at("data").at(0).at("parent").is_null());
  const boost::json::value& card = models.at("data").at(2);
  EXPECT_EQ(card.at("id").as_string(), "team/chat");
  EXPECT_EQ(card.at("parent").as_string(), "tiny");
  EXPECT_EQ(card.at("root").as_string(), fs::canonical(base_ / "adapters/team/chat").string());
  EXPECT_EQ(parse(get("/v1/models/team/chat").body), card);
  EXPECT_EQ(get("/v1/models/other").status, 404);
  const std::string metrics = get("/metrics").body;
  EXPECT_NE(metrics.find("quire:lora_adapters_loaded{model_name=\"tiny\"} 1"), std::string::npos);
  EXPECT_NE(metrics.find("vllm:lora_requests_info{max_lora="), std::string::npos);
}

TEST_F(AdapterRoutes, ChatsStreamsAndTokenizesUnderTheirName) {
  start_with_adapters();
  ASSERT_EQ(load("sql", "sql").status, 200);
  const ClientResponse chat = post(
      "/v1/chat/completions",
      R"({"model":"sql","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":50})");
  EXPECT_EQ(chat.status, 200);
  EXPECT_NE(chat.body.find(R"("model":"sql")"), std::string::npos) << chat.body;
  EXPECT_EQ(post("/tokenize", R"({"model":"sql","prompt":"a"})").status, 200);
  EXPECT_EQ(post("/tokenize", R"({"model":"other","prompt":"a"})").status, 404);
}

TEST_F(AdapterRoutes, AreNotThereWithoutAFolder) {
  start_with_adapters(2, /*with_routes=*/false);
  EXPECT_EQ(load("sql", "sql").status, 404);
  EXPECT_EQ(unload("sql").status, 404);
  ASSERT_TRUE(adapters->load({"sql", (base_ / "adapters/sql").string()}).ok());
  EXPECT_EQ(answer_of("sql"), "one");
}

TEST_F(AdapterRoutes, ServersDoNotStartWithWhatCannotBe) {
  ServedModel model = scripted_model(std::make_shared<ScriptedEngine>(ScriptedEngine::Options{}));
  model.adapters = std::make_shared<AdapterRegistry>(read, 2);
  ServerOptions options;
  options.lora_dir = (base_ / "nowhere").string();
  EXPECT_FALSE(HttpServer::create(options, model).ok());
  options.lora_dir.clear();
  ASSERT_TRUE(model.adapters->load({"tiny-alias", (base_ / "adapters/sql").string()}).ok());
  EXPECT_FALSE(HttpServer::create(options, model).ok());
}

}  // namespace
}  // namespace quire::server
