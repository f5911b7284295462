// An Api behind a server on loopback with a template of the test's own and a backend that plays scripts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/http/api.h"
#include "gateway/http/server.h"
#include "telemetry/registry.h"
#include "tests/gateway/http/raw_client.h"
#include "tests/gateway/http/scripted_backend.h"
#include "tests/gateway/http/tiny_vocabulary.h"

namespace spillway::gateway::test {

using Json = nlohmann::ordered_json;

// Prints tools, calls and answers of tools, and names the markers of the Hermes style and of reasoning.
inline constexpr char kToolTemplate[] =
    "{%- for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{%- for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{%- if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function.name }} {{ call.function.arguments | "
    "tojson }}"
    "</tool_call>{% endfor %}{{ '\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}[assistant]{% if enable_thinking is defined and enable_thinking "
    "%}<think>\n"
    "{% endif %}{% endif %}";

class ApiFixture : public ::testing::Test {
 protected:
  void Serve(const std::string& chat_template) {
    auto parsed = ChatTemplate::Parse(chat_template);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    template_ = *std::move(parsed);
    ServedModel model = MakeServedModel(tokenizer_.get(), template_.get());
    model.ReadTemplate(chat_template);
    model.facts.architecture = "llama";
    model.facts.quantization = "Q4_1";
    model.facts.identity = "abc";
    model.facts.parameters = 134'500'000;
    model.facts.metadata = {{"general.architecture", "llama"}};
    model.memory = [] { return MemoryUse{1000, 0}; };
    server_.reset();  // asks the old one
    api_ = std::make_unique<Api>(std::move(model), backend_, metrics_);
    HttpOptions options;
    options.address = "127.0.0.1:0";
    auto server = HttpServer::Start(options, *api_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Say(const std::string& text, FinishReason finish = FinishReason::kStop) {
    backend_.SetScript(ScriptedBackend::Script{Bytes(text), finish, {}});
  }
  RawResponse Post(const std::string& path, const Json& body) {
    return RawClient(server_->port()).Post(path, body.dump());
  }
  Json PostJson(const std::string& path, const Json& body) {
    const RawResponse response = Post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body, nullptr, false);
  }
  Json Get(const std::string& path) {
    return Json::parse(RawClient(server_->port()).Get(path).body, nullptr, false);
  }
  // The objects of a stream: of server-sent events without [DONE], or of lines.
  static std::vector<Json> Objects(const std::string& stream) {
    std::vector<Json> objects;
    for (size_t begin = 0; begin < stream.size();) {
      const size_t end = std::min(stream.find('\n', begin), stream.size());
      std::string line = stream.substr(begin, end - begin);
      begin = end + 1;
      if (line.rfind("data: ", 0) == 0) line.erase(0, 6);
      if (line.empty() || line == "[DONE]") continue;
      objects.push_back(Json::parse(line, nullptr, false));
      EXPECT_FALSE(objects.back().is_discarded()) << line;
    }
    return objects;
  }
  std::string Prompt(RequestId id) { return tokenizer_->Decode(backend_.request(id).prompt, true); }

  telemetry::Registry registry_{"gateway"};
  telemetry::GatewayMetrics metrics_{registry_, "tiny"};
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTokenizer();
  std::unique_ptr<ChatTemplate> template_;
  ScriptedBackend backend_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace spillway::gateway::test
